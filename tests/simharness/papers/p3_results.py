"""Outcomes of P3's replays made by hand."""

from makeway.simharness.papers.p3.cases import P3Result, P3Setting

NODES = 8


def made(setting: P3Setting) -> P3Result:
    """An outcome as the paper has it: half of the classical wait, 45% of its slowdown."""
    wait_s, slowdown, backfill_ratio = 1000.0, 20.0, 0.5
    if setting.p is None:
        wait_s, slowdown = wait_s * (0.8 + 0.2 * setting.alpha), slowdown * (0.44 + 0.56 * setting.alpha)
    elif setting.p < 1:
        wait_s, backfill_ratio = wait_s * (0.5 + setting.p / 4), 0.7
        # On HPC2N it is better than with the actual run times, else a bit worse.
        slowdown = 8.0 if setting.trace == "HPC2N" else 9.5
        slowdown *= 1 + setting.extend_s / 7200
    return P3Result(
        setting=setting,
        jobs=100,
        node_count=NODES,
        wait_s=wait_s,
        slowdown=slowdown,
        queue_length=wait_s / 100,
        backfill_ratio=backfill_ratio,
        preempted_ratio=0.04,
        checkpoints_per_node_day=0.4,
        wasted_ratio=0.01,
        utilisation=0.7,
        by_load=(),
    )
