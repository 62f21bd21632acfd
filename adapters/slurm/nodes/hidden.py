"""Cloud nodes that slurmctld hides while they sleep: before 24.11, unless PrivateData has `cloud`.

A job may have hidden nodes: it gets them before Slurm begins to wake them, and ResumeRate says how long that
takes. A hold may have them, too: nodes can fall asleep in it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from makeway.adapters.slurm.holds import HoldNames
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import RawNode, RawReservation
from makeway.policies.model import Node, NodeState

_CLOUD = "CLOUD"
_SHOWS_ALL = (24, 11)
_ASLEEP = frozenset({"IDLE", _CLOUD, "POWERED_DOWN"})


def hides_nodes(settings: Mapping[str, str], release: tuple[int, int]) -> bool:
    """Whether cloud nodes may sleep, and are hidden then.

    Args:
        settings: what `scontrol show config` says.
        release: the year and month of the release. 22.05 hides them, 24.11 does not (both tried).
    """
    if release >= _SHOWS_ALL:
        return False
    wakes = settings.get("ResumeProgram", "") not in {"", "(null)"}
    return wakes and "cloud" not in settings.get("PrivateData", "").lower().split(",")


class Shown(Protocol):
    """What scontrol shows of a cluster."""

    @property
    def nodes(self) -> tuple[RawNode, ...]:
        """Its nodes."""
        ...

    @property
    def reservations(self) -> tuple[RawReservation, ...]:
        """Its reservations."""
        ...


class HiddenNodes:
    """The cloud nodes that have been shown, as they were at the last time."""

    def __init__(self) -> None:
        self._seen: dict[str, RawNode] = {}

    def added_to(
        self, shown: Shown, jobs: Iterable[RawJob], holds: HoldNames, *, hides: bool
    ) -> tuple[tuple[RawNode, ...], tuple[Node, ...]]:
        """The nodes with those hidden ones that jobs or makeway's holds have and that have been shown before:
        they sleep now. And the hidden nodes of jobs of which nothing but the name is known.

        Args:
            shown: what scontrol shows.
            jobs: all jobs that are not over.
            holds: which of the reservations are makeway's.
            hides: see `hides_nodes`.
        """
        if not hides:
            return shown.nodes, ()
        self._seen.update((one.name, one) for one in shown.nodes if _CLOUD in one.states)
        names = {one.name for one in shown.nodes}
        of_jobs = {name for job in jobs for name in job.nodes if name not in names}
        held = {name for one in shown.reservations if holds.has(one.name) for name in one.nodes} - names
        known = sorted((of_jobs | held) & self._seen.keys())
        asleep = tuple(replace(self._seen[name], states=_ASLEEP) for name in known)
        unknown = sorted(of_jobs - self._seen.keys())
        silent = tuple(Node(name=name, state=NodeState.SILENT) for name in unknown)
        return (*shown.nodes, *asleep) if asleep else shown.nodes, silent
