"""A short busy day on a real Slurm with accounting, and what Slurm's accounting says about it afterwards.

Run it as `python -m tests.slurm.support.busy_day [CHROOT]` whenever the export changes: it writes
`tests/adapters/slurm/accounting/recorded/RELEASE/`.
"""

import re
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from bench.fight.accounting import Accounting, user_name

from makeway.adapters.devcluster.cluster import DevCluster
from makeway.adapters.devcluster.conf import CLUSTER_NAME, DevSpec
from makeway.adapters.slurm import build
from makeway.adapters.slurm.accounting.machine import machine_commands
from makeway.adapters.slurm.accounting.rows import export_command
from tests.paths import ROOT
from tests.slurm.support.accounted import accounted_cluster
from tests.slurm.support.world import slurm_settings
from tests.waiting import await_that

RECORDED = ROOT / "tests" / "adapters" / "slurm" / "accounting" / "recorded"
REQUEUE_DELAY_S = 10
ACCOUNTS = ("urgent", "batch", "saving")
SPEC = DevSpec(
    node_count=6,
    memory_counts=True,
    gpus={"n6": "a100:2"},
    partitions=(
        "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
        "PartitionName=gpu Nodes=n6 MaxTime=1:00:00 State=UP",
    ),
)
_MACHINES_OWN = (
    *("Arch", "BootTime", "CPULoad", "FreeMem", "LastBusyTime", "NodeAddr", "NodeHostName", "OS", "Port"),
    "SlurmdStartTime",
)
_WORK = """
state=work-$SLURM_JOB_ID
done=$(cat "$state" 2>/dev/null || echo 0)
save() {
    echo "$done" >"$state"
    scontrol update JobId="$SLURM_JOB_ID" Comment="makeway:ckpt=$(date +%s)"
}
trap save USR1
while [ "$done" -lt TOTAL ]; do
    sleep 1 &
    wait $!
    done=$((done + 1))
done
"""
"""Works for so many seconds in all, whatever interrupts it; saves its work at the signal."""
_LASTS_S = 180.0
"""A day is over after less than that if nothing takes time but its jobs."""


@contextmanager
def busy_cluster(root: str | None) -> Generator[DevCluster, None, None]:
    """The cluster of the day, for a `with` block."""
    settings = slurm_settings(AccountingStorageTRES="gres/gpu,gres/gpu:a100")
    spec = replace(SPEC, root=root, settings=settings)
    with accounted_cluster(spec, _associate, requeue_delay_s=REQUEUE_DELAY_S) as cluster:
        yield cluster


def _associate(accounting: Accounting) -> None:
    for account in ACCOUNTS:
        accounting.manage("add", "account", account, f"cluster={CLUSTER_NAME}")
        accounting.manage("add", "user", user_name(), f"account={account}", f"cluster={CLUSTER_NAME}")


def begin_day(cluster: DevCluster) -> list[str]:
    """Submit the jobs of the day, the urgent ones when they come and the others before. Returns their ids.

    Full nodes, of jobs that can save their work and of jobs that cannot; an array that has to wait;
    two urgent jobs, that without makeway wait for more than half a minute.
    """
    ids: list[str] = []
    began_s = time.monotonic()

    def comes(at_s: int, account: str, script: str, *options: str) -> None:
        begin = f"--begin=now+{at_s}"
        ids.append(cluster.submit(script, f"--account={account}", "--time=5", begin, "--no-kill", *options))

    def passed(at_s: int) -> bool:
        return time.monotonic() >= began_s + at_s

    whole = "--ntasks-per-node=2"
    comes(1, "saving", _WORK.replace("TOTAL", "85"), "-N2", whole)
    comes(1, "batch", "exec sleep 95", "-N2", whole)
    # Younger than the two on the other node, and so cheaper to evict: else a second would decide.
    comes(5, "batch", "exec sleep 80", "-N1", whole)
    comes(1, "batch", "exec sleep 85", "-n1", "--partition=gpu", "--gres=gpu:1")
    comes(1, "batch", "exec sleep 80", "-n1", "--partition=gpu", "--gres=gpu:a100:1")
    comes(8, "batch", "exec sleep 10", "-n1", "--array=0-2")
    # With makeway the first one has ended before the second comes, also if it starts late.
    for at_s, nodes in ((20, 2), (45, 1)):
        await_that(f"{at_s} s have passed", partial(passed, at_s))
        comes(0, "urgent", "exec sleep 8", f"-N{nodes}", whole)
    return ids


def end_day(cluster: DevCluster) -> None:
    """Wait until no job is left."""
    await_that(
        "every job has ended",
        lambda: not cluster.run("squeue", "-h").strip(),
        cluster.log_end,
        waits_s=_LASTS_S,
    )


def export_day(cluster: DevCluster, folder: Path) -> tuple[Path, Path]:
    """The export of accounting and the shape of the machine, by the commands that makeway prints."""
    today = datetime.now(UTC).date()
    command = export_command(str(today - timedelta(days=1)), str(today + timedelta(days=2)))
    jobs, machine = folder / "jobs.txt", folder / "machine.txt"

    def complete() -> bool:
        jobs.write_text(cluster.run("sh", "-c", command))
        return ";RUNNING;" not in jobs.read_text() and ";PENDING;" not in jobs.read_text()

    await_that("accounting has the ends of all jobs", complete, jobs.read_text)
    machine.write_text(cluster.run("sh", "-c", machine_commands()))
    return jobs, machine


def oddities(cluster: DevCluster) -> None:
    """More jobs: requeued, suspended, cancelled while it waits, heterogeneous, without a limit, shrunk."""

    def state(job_id: str) -> str:
        return cluster.run("squeue", "-h", "-j", job_id, "-o", "%T").strip()

    def runs(job_id: str) -> None:
        await_that(f"job {job_id} runs", lambda: state(job_id) == "RUNNING", cluster.log_end)

    def submit(script: str, *options: str) -> str:
        return cluster.submit(script, "--account=batch", *options)

    submit("exec sleep 5", "-N3", "--time=UNLIMITED")
    waits = submit("exec sleep 5", "-N6", "--exclusive", "--begin=now+1hour", "--account=urgent")
    cluster.run("scancel", waits)
    again = submit("exec sleep 8", "-n1", "--time=1-0")
    runs(again)
    cluster.run("scontrol", "requeue", again)
    stopped = submit("exec sleep 4", "-n1", "--time=1")
    runs(stopped)
    cluster.run("scontrol", "suspend", stopped)
    await_that("it is suspended", lambda: state(stopped) == "SUSPENDED", cluster.log_end)
    cluster.run("scontrol", "resume", stopped)
    shrinks = submit("exec sleep 12", "-N2", "--ntasks-per-node=1", "--no-kill", "--time=1")
    runs(shrinks)
    batch_host = cluster.run("squeue", "-h", "-j", shrinks, "-o", "%B").strip()
    cluster.run(*build.resize(shrinks, (batch_host,), None))
    parts = ("-n1", "--account=batch", "--wrap=sleep 3", ":", "-n1", "--account=batch")
    cluster.run("sbatch", "--parsable", f"--chdir={cluster.inner_folder}/work", *parts)


def main(arguments: Sequence[str]) -> None:
    """Record both files."""
    root = arguments[0] if arguments else None
    with busy_cluster(root) as cluster:
        begin_day(cluster)
        end_day(cluster)
        oddities(cluster)
        end_day(cluster)
        release = cluster.run("sinfo", "-V").split()[1].rpartition(".")[0]
        folder = RECORDED / release
        folder.mkdir(parents=True, exist_ok=True)
        jobs, machine = export_day(cluster, folder)
        kernel = machine.read_text()
        machine.write_text(_without_kernel(kernel))
        for path in (jobs, machine):
            path.write_text(path.read_text().replace(user_name(), "alice"))


def _without_kernel(text: str) -> str:
    """The text without this machine's name, kernel and clock."""
    return re.sub(rf" ({'|'.join(_MACHINES_OWN)})=.*?(?= [A-Za-z]+=)", "", text)


if __name__ == "__main__":
    main(sys.argv[1:])
