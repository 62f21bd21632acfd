"""Small replays, each stopped amid its operations: for journals that older versions of makeway left behind.

Plain values only: the code of every version can read them.
"""

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A workload on eight nodes, and when the daemon is stopped."""

    policy: str
    jobs: tuple[dict[str, Any], ...]
    stop_s: float
    config: tuple[tuple[str, int], ...] = ()
    """The policy's settings that are not the usual ones."""


def job(job_id: str, submit_s: float, node_count: int, runtime_s: float, **more: Any) -> dict[str, Any]:
    """What a simulated job is made of."""
    values = {"job_id": job_id, "submit_s": submit_s, "node_count": node_count, "runtime_s": runtime_s}
    return {"walltime_s": 2 * runtime_s, "user": "batch", **values, **more}


def urgent(job_id: str, submit_s: float, node_count: int, **more: Any) -> dict[str, Any]:
    """An urgent job."""
    return job(job_id, submit_s, node_count, 900.0, kind="on_demand", start_within_s=600.0, **more)


_LENDERS: Final = (
    job("1", 0.0, 3, 9000.0, save_s=60.0),
    job("2", 0.0, 2, 9000.0, checkpoint_interval_s=600.0, checkpoint_cost_s=30.0, setup_s=20.0),
    job("3", 0.0, 3, 9000.0, user="m", kind="malleable", node_count_min=1, save_s=120.0),
)
SCENES: Final = {
    "evictions": Scene(
        policy="eviction",
        jobs=(*_LENDERS, job("4", 100.0, 4, 3000.0), urgent("u1", 1800.0, 4), urgent("u2", 1815.0, 2)),
        stop_s=1865.0,
    ),
    "shrunk": Scene(
        policy="n-spaa", jobs=(*_LENDERS, urgent("u1", 1800.0, 2), job("9", 2000.0, 8, 60.0)), stop_s=2000.0
    ),
    "announced": Scene(
        policy="cup-spaa",
        jobs=(
            *_LENDERS,
            urgent("u1", 3600.0, 4, announced_s=1800.0, expected_s=3300.0),
            urgent("u2", 3000.0, 2, announced_s=2000.0, expected_s=3500.0),
        ),
        stop_s=3020.0,
    ),
    "early": Scene(
        policy="ckpt-backfill",
        jobs=(
            job("0", 0.0, 6, 900.0, save_s=60.0),
            job("1", 30.0, 8, 600.0, save_s=60.0),
            job("2", 40.0, 1, 4000.0, save_s=60.0, setup_s=20.0),
            job("3", 50.0, 1, 3000.0, save_s=30.0),
        ),
        stop_s=600.0,
    ),
    "planned": Scene(
        policy="horizon",
        jobs=(
            job("0", 0.0, 8, 900.0, walltime_s=1000.0),
            job("1", 30.0, 8, 9000.0),
            job("2", 40.0, 5, 600.0),
            job("3", 40.0, 5, 300.0),
            job("4", 40.0, 3, 300.0),
            job("5", 41.0, 1, 9000.0),
            job("6", 42.0, 4, 400.0),
            job("7", 43.0, 4, 60.0),
            job("8", 44.0, 1, 60.0),
            job("9", 5000.0, 1, 60.0),
        ),
        stop_s=50.0,
        config=(("moves_per_cycle", 2),),
    ),
}
