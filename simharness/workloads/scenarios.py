"""P2's three scenarios, rebuilt from Theta's trace of 2023: 12, 16 and 24 jobs that nearly fill it.

The paper took instants of 2019 at which that many jobs, none of them expendable (shorter than half an hour),
held 4352 nodes. `scenario` looks for the instants of the recorded schedule at which that many such jobs ran,
takes those whose jobs come nearest to 4352 nodes, and chooses among them, and the second within, by the seed.
In this trace they are exact for 12 and 16 jobs. 24 such jobs ran at few instants, on 4139 nodes at the most,
next to a short job of 128. Expendable jobs, and with them the idle nodes, are left out, so that all nodes
that are wanted must come from the jobs.

Reference:
    CoSim (P2), section IV-A (scenarios), IV-B (checkpoints) and eq. 1 (their duration).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from makeway.policies.model import CheckpointSpec, Cluster, Job, JobKind, JobState, Node
from makeway.simharness.workloads.job import WorkloadError
from makeway.simharness.workloads.swf import SwfReader, TraceError
from makeway.simharness.workloads.synthesis import checkpoint_duration_s

TRACE = "ANL-Theta-2023.swf.gz"
SCENARIO_JOBS = (12, 16, 24)
"""Jobs of scenarios 1, 2 and 3."""
WANTED_NODES = (512, 1024, 2048)
"""The K of the paper."""

_MACHINE_NODES = 4360
_BUSY_NODES = 4352
_EXPENDABLE_S = 1800.0
_INTERVAL_S = 3600.0
_MEMORY_GB = 192.0 + 16.0
_SYSTEM_SHARE = (0.4, 0.9)
_APPLICATION_SHARE = (0.2, 0.6)
_GRACE_S = 300.0

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    """The schedule as recorded, one entry a job."""

    job_id: list[str]
    user: list[str]
    submit_s: _Floats
    start_s: _Floats
    end_s: _Floats
    walltime_s: _Floats
    nodes: _Floats


def scenario(
    number: int,
    traces_dir: Path,
    seed: int,
    *,
    node_gb_per_s: float = 20.0,
    aggregate_gb_per_s: float = 250.0,
) -> Cluster:
    """One of P2's scenarios, as a snapshot at its t0.

    Application checkpoints are hourly from the start of a job; `last_checkpoint_s` neglects their duration,
    as the paper does. Every job may be evicted.

    Args:
        number: 1, 2 or 3: 12, 16 or 24 jobs.
        traces_dir: where `ANL-Theta-2023.swf.gz` is.
        seed: of the instant and of the checkpoint sizes; 0 or more.
        node_gb_per_s: what a node writes; the paper gives 20 (memory) and 0.7 (its SSD).
        aggregate_gb_per_s: what the file system takes.

    Raises:
        WorkloadError: another number, or a seed below 0.
        TraceError: the trace cannot be read, or has no such instant.
    """
    if number not in (1, 2, 3) or seed < 0:
        raise WorkloadError(
            f"scenario {number}, seed {seed}; accepted: scenario 1, 2 or 3, and a seed from 0"
        )
    recorded = _read(traces_dir / TRACE)
    rng = np.random.default_rng([seed, number])
    now_s = _instant(recorded, SCENARIO_JOBS[number - 1], rng)
    jobs: list[Job] = []
    taken = 0
    for place in _running(recorded, now_s):
        count = int(recorded.nodes[place])
        nodes = tuple(_node(i) for i in range(taken, taken + count))
        taken += count
        system_gb = _MEMORY_GB * float(rng.uniform(*_SYSTEM_SHARE))
        application_gb = system_gb * float(rng.uniform(*_APPLICATION_SHARE))
        system_s, application_s = (
            checkpoint_duration_s(
                count, gb, aggregate_gb_per_s=aggregate_gb_per_s, node_gb_per_s=node_gb_per_s
            )
            for gb in (system_gb, application_gb)
        )
        checkpoint = _checkpoint(system_s, application_s)
        jobs.append(_job(recorded, place, now_s, nodes, checkpoint))
    return Cluster(now_s=now_s, nodes=tuple(Node(name=_node(i)) for i in range(taken)), jobs=tuple(jobs))


def _checkpoint(system_s: float, application_s: float) -> CheckpointSpec:
    return CheckpointSpec(
        interval_s=_INTERVAL_S,
        application_s=application_s,
        system_s=system_s,
        grace_s=max(_GRACE_S, system_s),
    )


def _job(
    recorded: _Recorded, place: int, now_s: float, nodes: tuple[str, ...], checkpoint: CheckpointSpec
) -> Job:
    start_s = float(recorded.start_s[place])
    hours = (now_s - start_s) // _INTERVAL_S
    return Job(
        job_id=recorded.job_id[place],
        kind=JobKind.RIGID,
        state=JobState.RUNNING,
        node_count=len(nodes),
        walltime_s=float(recorded.walltime_s[place]),
        submit_s=float(recorded.submit_s[place]),
        user=recorded.user[place],
        nodes=nodes,
        start_s=start_s,
        checkpoint=checkpoint,
        last_checkpoint_s=start_s + hours * _INTERVAL_S if hours else None,
        preemptible=True,
    )


def _read(path: Path) -> _Recorded:
    blocks = list(SwfReader(path=path).blocks())
    if not blocks:
        raise TraceError(f"{path}: has no jobs; accepted: Theta's trace of 2023")
    submit_s = _joined(block.submit_s for block in blocks)
    run_s = _joined(block.run_s for block in blocks)
    start_s = submit_s + _joined(block.wait_s for block in blocks)
    return _Recorded(
        job_id=[text for block in blocks for text in block.job_id],
        user=[text for block in blocks for text in block.user],
        submit_s=submit_s,
        start_s=start_s,
        end_s=start_s + run_s,
        walltime_s=np.maximum(_joined(block.requested_s for block in blocks), run_s),
        nodes=_joined(block.allocated for block in blocks),
    )


def _joined(parts: Iterable[list[float]]) -> _Floats:
    return np.concatenate([np.array(part, dtype=np.float64) for part in parts])


def _instant(recorded: _Recorded, job_count: int, rng: np.random.Generator) -> float:
    """An instant at which exactly `job_count` jobs that are not expendable ran.

    It is a whole second, and they held nearly `_BUSY_NODES` nodes.

    Instants at which the record has more nodes in use than there were are passed over.
    """
    long = recorded.end_s - recorded.start_s >= _EXPENDABLE_S
    instants, places = np.unique(np.concatenate([recorded.start_s, recorded.end_s]), return_inverse=True)

    def level(weights: _Floats) -> _Floats:
        changes = np.bincount(places, np.concatenate([weights, -weights])).astype(np.float64)
        return np.cumsum(changes)[:-1]

    used, count, nodes = level(recorded.nodes), level(long.astype(float)), level(recorded.nodes * long)
    fits = np.flatnonzero((count == job_count) & (used <= _MACHINE_NODES))
    if not fits.size:
        raise TraceError(
            f"{TRACE}: never were {job_count} long jobs running; accepted: Theta's trace of 2023"
        )
    distance = np.abs(nodes[fits] - _BUSY_NODES)
    best = fits[distance == distance.min()]
    place = int(best[rng.integers(len(best))])
    return float(rng.integers(int(instants[place]), int(instants[place + 1])))


def _running(recorded: _Recorded, now_s: float) -> list[int]:
    """The jobs that run at `now_s` and are not expendable, oldest first."""
    running = (
        (recorded.start_s <= now_s)
        & (now_s < recorded.end_s)
        & (recorded.end_s - recorded.start_s >= _EXPENDABLE_S)
    )
    places: list[int] = np.flatnonzero(running).tolist()
    return sorted(places, key=lambda place: (recorded.start_s[place], recorded.job_id[place]))


def _node(number: int) -> str:
    return f"nid{number:05d}"
