"""A scripted PBS: `qstat` and `pbsnodes` that print what a test wrote down."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from makeway.adapters.command import CompletedCommand
from makeway.adapters.pbs.adapter import LIST_JOBS, LIST_NODES, PbsAdapter
from makeway.adapters.pbs.settings import PbsAdapterSettings
from makeway.adapters.site.class_sections import CheckpointSettings, JobClassSettings
from makeway.policies.model import JobKind

CAPTURED = Path(__file__).parent / "captured"
SECTION = PbsAdapterSettings(
    type="pbs",
    classes=(
        JobClassSettings(name="urgent", partitions=frozenset({"urgentq"}), kind=JobKind.ON_DEMAND),
        JobClassSettings(
            name="elastic",
            partitions=frozenset({"elasticq"}),
            kind=JobKind.MALLEABLE,
            preemptible=True,
        ),
        JobClassSettings(
            name="batch", preemptible=True, checkpoint=CheckpointSettings(system_s=60.0, application_s=30.0)
        ),
    ),
)


def captured(name: str) -> str:
    """One of the samples."""
    return (CAPTURED / f"{name}.json").read_text()


@dataclass
class FakePbs:
    """Runs the two commands; anything else fails the test."""

    jobs: str = field(default_factory=lambda: captured("qstat"))
    nodes: str = field(default_factory=lambda: captured("pbsnodes"))
    refusal: str = ""
    """What both commands print, with status 1. Empty: they work."""
    calls: list[tuple[str, ...]] = field(default_factory=list)

    def run(
        self,
        argv: tuple[str, ...],
        *,
        timeout_s: float | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str] = MappingProxyType({}),
        take: Callable[[bytes], object] | None = None,
        until: str = "",
    ) -> CompletedCommand:
        self.calls.append(argv)
        if self.refusal:
            return CompletedCommand(argv=argv, returncode=1, stdout="", stderr=self.refusal)
        return CompletedCommand(
            argv=argv, returncode=0, stdout={LIST_JOBS: self.jobs, LIST_NODES: self.nodes}[argv], stderr=""
        )


def adapter_of(pbs: FakePbs) -> PbsAdapter:
    """An adapter on it, with three classes of jobs."""
    return PbsAdapter(SECTION, runner=pbs)


def changed(text: str, place: tuple[str, ...], value: Any) -> str:
    """A sample in which the value at that place is another one. None: it is left out."""
    whole = json.loads(text)
    inner = whole
    for key in place[:-1]:
        inner = inner[key]
    if value is None:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return json.dumps(whole)
