"""What a decision remembers changes nothing: each policy decides as if it remembered nothing."""

from collections.abc import Callable, Hashable
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

import pytest

from makeway.policies.model import CPU, CheckpointSpec, Cluster, Job, JobKind, Memo, Node, Requeue, Resources
from makeway.policies.registry import find
from tests.builders import node_names, running, urgent

NOW_S = 50_000.0
NODES = node_names(16)
CORES = 4
CASES: list[tuple[str, dict[str, Any]]] = [
    ("eviction", {}),
    ("eviction", {"kills": "at_once", "shrink": True}),
    ("eviction", {"late": "evict", "checkpoints": "concurrent"}),
    ("least-price", {}),
    ("wcjs", {}),
    ("n-paa", {}),
    ("n-paa", {"victims": "exact"}),
    ("n-spaa", {}),
]
SEEDS = (*range(25), 51, 1256)
"""With the last two a mistake showed: what was worked out with other checkpoints ahead was remembered."""
_Result = TypeVar("_Result")


def saves(draw: Random) -> CheckpointSpec | None:
    """A way to save work, in many different times."""
    if draw.random() < 0.3:
        return None
    seconds = [float(draw.randint(10, 300)) for _ in range(2)]
    if draw.random() < 0.5:
        return CheckpointSpec(system_s=seconds[0], grace_s=300.0)
    return CheckpointSpec(interval_s=900.0, application_s=seconds[0], system_s=seconds[1], grace_s=300.0)


def job(draw: Random, job_id: str, nodes: tuple[str, ...], cores: int | None) -> Job:
    """A running job. `cores`: how many it holds of each node. None: the whole node."""
    malleable = draw.random() < 0.3
    found = running(
        job_id,
        nodes,
        kind=JobKind.MALLEABLE if malleable else JobKind.RIGID,
        node_count_min=1 if malleable else None,
        start_s=NOW_S - draw.randint(60, 9000),
        checkpoint=saves(draw),
        setup_s=draw.choice([0.0, 60.0]),
        requeue_count=draw.choice([0, 0, 2]),
        preemptible=draw.random() < 0.9,
    )
    held = None if cores is None else (Resources.of({CPU: cores}),) * len(nodes)
    return found if held is None else replace(found, allocation=held, node_equivalents=len(nodes) / CORES)


def several(draw: Random, *, parts: bool) -> Cluster:
    """A full cluster and urgent jobs of different sizes and deadlines. `parts`: whether jobs hold parts of
    nodes.
    """
    jobs: list[Job] = []
    if parts:
        for name in NODES[:8]:
            jobs += [job(draw, f"r{name}-{core}", (name,), 1) for core in range(CORES)]
    else:
        jobs += [job(draw, f"r{name}", (name,), None) for name in NODES[:10]]
        jobs += [job(draw, f"r{first}", NODES[first : first + 2], None) for first in (10, 12, 14)]
        if draw.random() < 0.3:  # two jobs share a node
            jobs.append(job(draw, "both", NODES[14:], None))
    for number in range(draw.randint(2, 4)):
        asked = replace(
            urgent(f"u{number}", draw.randint(1, 3), submit_s=NOW_S - draw.choice([0.0, 5.0, 700.0])),
            start_within_s=draw.choice([60.0, 150.0, 300.0, 600.0]),
        )
        jobs.append(replace(asked, demand=Resources.of({CPU: draw.randint(1, 3)})) if parts else asked)
    capacity = Resources.of({CPU: CORES}) if parts else None
    nodes = tuple(Node(name=name, capacity=capacity) for name in (NODES[:8] if parts else NODES))
    return Cluster(now_s=NOW_S, nodes=nodes, jobs=tuple(jobs))


def anew(self: Memo, key: Hashable, work_out: Callable[[], _Result]) -> _Result:
    """`Memo.once` that remembers nothing."""
    return work_out()


@pytest.mark.parametrize("parts", [False, True], ids=["whole nodes", "parts"])
@pytest.mark.parametrize(("name", "settings"), CASES)
def test_decisions_are_those_that_remember_nothing(
    monkeypatch: pytest.MonkeyPatch, name: str, settings: dict[str, Any], parts: bool
) -> None:
    policy, leaving = find(name), 0
    config = policy.config_type(**settings)
    for seed in SEEDS:
        view = several(Random(seed), parts=parts)
        decision = policy.decision(view, config)
        leaving += sum(isinstance(action, Requeue) for action in decision.actions)
        with monkeypatch.context() as patch:
            patch.setattr(Memo, "once", anew)
            assert policy.decision(view, config) == decision, seed
    assert leaving > 12 or (parts and name == "wcjs")
