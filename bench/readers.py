"""Snapshots of a real Slurm by each reader: wall time, and CPU time of makeway and of what reads for it.

    python -m bench.readers CHROOT [JOBS TASKS ...]

CHROOT is the folder of Slurm 24.11 with the pyslurm that `make pyslurm-24.11` builds. First JOBS single jobs
wait, then also an array of TASKS tasks, and so on. pyslurm tells the waiting tasks of an array in one record.
"""

import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import median

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.adapters.slurm.settings import Reader
from tests.slurm.support.crowd import crowd_spec
from tests.slurm.support.world import SETTINGS

ROUNDS = 7
NODES = 64
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s() -> tuple[float, float]:
    """CPU seconds of this process, and of those that it has started, ended or not."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    running = sum(_ticks(pid) for pid in children) / _TICKS
    return time.process_time(), ended.ru_utime + ended.ru_stime + running


def _ticks(pid: str) -> int:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(words[11]) + int(words[12])


def measured(read: Callable[[], object]) -> str:
    """The medians of a few reads, after one that fills the caches."""
    read()
    walls: list[float] = []
    began = cpu_s()
    for _ in range(ROUNDS):
        start_s = time.perf_counter()
        read()
        walls.append(time.perf_counter() - start_s)
    own, others = ((end - start) / ROUNDS for start, end in zip(began, cpu_s(), strict=True))
    wall = f"wall {median(walls):.3f} s (least {min(walls):.3f} s)"
    return f"{wall}; CPU: makeway {own:.3f} s, readers {others:.3f} s"


def compare(cluster: DevCluster) -> None:
    """Print a line for each reader."""
    for reader in (Reader.CLI, Reader.PYSLURM):
        settings = replace(SETTINGS, reader=reader, pyslurm_python="python3")
        adapter = SlurmCliAdapter(settings, runner=cluster.runner, starter=cluster.runner)
        with closing(adapter):
            print(
                f"{len(adapter.snapshot().jobs):6} jobs, {reader:8} {measured(adapter.snapshot)}", flush=True
            )


def main() -> None:
    root, *counts = sys.argv[1:]
    single, *tasks = map(int, counts or ["500", "1000", "9000"])
    waits = ("--nodes=1", "--hold", "--account=batch")
    with dev_cluster(replace(crowd_spec(root), node_count=NODES)) as cluster:
        for _ in range(single):
            cluster.submit("exec sleep 3600", *waits)
        compare(cluster)
        for count in tasks:
            cluster.submit("exec sleep 3600", f"--array=1-{count}", *waits)
            compare(cluster)


if __name__ == "__main__":
    main()
