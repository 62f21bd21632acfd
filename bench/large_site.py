"""A site of 20,000 nodes with 20,000 jobs that run and 100,000 that wait, as Slurm's commands print it.

`python -m bench.large_site write FOLDER` writes what the commands print into a folder, with commands that
print it. `python -m bench.large_site measure FOLDER` runs cycles on that site in a process of its own, and
prints what they cost, without the commands themselves, as JSON.
"""

import gc
import json
import resource
import sys
import time
from pathlib import Path
from random import Random

from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm import build
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.adapters.slurm.settings import SlurmSettings
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.journal.store import Journal
from makeway.daemon.service.pacing import COLLECT_AFTER
from makeway.policies.model import JobKind
from makeway.policies.registry import find

NODES = 20_000
RUNNING = 20_000
WAITING = 100_000
CYCLES = 5
CHANGED = 0.02
"""The share of the jobs of which anything changes between two snapshots."""
_NOW_S = 1_795_250_000
_NODE = (
    "NodeName={name} Arch=x86_64 CoresPerSocket=32  CPUAlloc=64 CPUEfctv=64 CPUTot=64 CPULoad=60.1 "
    "AvailableFeatures=cpu,hdr ActiveFeatures=cpu,hdr Gres=gpu:a100:4(S:0-1) GresDrain=N/A "
    "GresUsed=gpu:a100:4(IDX:0-3) NodeAddr={name} NodeHostName={name} Version=24.11.5 OS=Linux 6.1.0 "
    "RealMemory=257000 AllocMem=250000 FreeMem=21065 Sockets=2 Boards=1 State=ALLOCATED ThreadsPerCore=1 "
    "TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=batch,urgent  BootTime=1795323071 "
    "SlurmdStartTime=1795336825 LastBusyTime=1795336825 ResumeAfterTime=None "
    "CfgTRES=cpu=64,mem=257000M,billing=64,gres/gpu=4 AllocTRES=cpu=64,mem=250000M,gres/gpu=4 "
    "CurrentWatts=0 AveWatts=0 "
)
_PARTITIONS = "\n".join(
    f"PartitionName={name} AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=NO QoS=N/A State=UP "
    "OverSubscribe=EXCLUSIVE TotalCPUs=1280000 TotalNodes=20000"
    for name in ("batch", "urgent")
)
_CONFIG = (
    "ClusterName = large\nSLURM_VERSION = 24.11.5\nSchedulerParameters = bf_interval=30\n"
    "SelectType = select/linear\nSelectTypeParameters = (null)\n"
    "PriorityType = priority/multifactor\n"
)


_SQUEUE = """#!/bin/sh
token=${{SQUEUE_FORMAT2%%,*}}
token=${{token#*:0}}
number=$(cat {folder}/number)
echo $(((number + 1) % {versions})) >{folder}/number
exec sed "s/@/$token/g" {folder}/squeue-$number
"""
_SCONTROL = """#!/bin/sh
[ "$1 $2" != "show config" ] || exec cat {folder}/config
while read -r _ what name; do
    case $what in
    hostnames) echo "$name" ;;
    *) cat "{folder}/$what" ;;
    esac
done
"""
"""Each cell is followed by @, in which the token is put."""


def write(folder: Path, nodes: int = NODES, running: int = RUNNING, waiting: int = WAITING) -> None:
    """Write the site into a folder: what the commands print, and the commands."""
    random = Random("large site")
    names = [f"n{number:05d}" for number in range(1, nodes + 1)]
    rows = [
        _row(random, number, names[number % nodes] if number < running else None)
        for number in range(running + waiting)
    ]
    fields = build.job_fields((24, 11))
    for version in range(CYCLES + 1):
        with (folder / f"squeue-{version}").open("w") as file:
            file.writelines("@".join([row[field] for field in fields]) + "@\n" for row in rows)
        _change(random, rows)
    (folder / "number").write_text("0\n")
    (folder / "config").write_text(_CONFIG)
    (folder / "nodes").write_text("".join(_NODE.format(name=name) + "\n" for name in names))
    (folder / "partitions").write_text(_PARTITIONS + "\n")
    (folder / "reservations").write_text("No reservations in the system\n")
    for name, text in (("squeue", _SQUEUE), ("scontrol", _SCONTROL)):
        (folder / name).write_text(text.format(folder=folder, versions=CYCLES + 1))
        (folder / name).chmod(0o755)


def _change(random: Random, rows: list[dict[str, str]]) -> None:
    """Time passes: some jobs get another priority and another expected start."""
    for row in random.sample(rows, int(CHANGED * len(rows))):
        row["PriorityLong"] = str(random.randint(1000, 90_000))
        if row["State"] == "PENDING":
            row["StartTime"] = str(_NOW_S + random.randint(60, 80_000))


def _row(random: Random, number: int, node: str | None) -> dict[str, str]:
    user = random.randint(1, 2000)
    submit_s = _NOW_S - random.randint(60, 800_000)
    size = 1 if node is not None else random.choice((1, 1, 1, 2, 4, 8, 64))
    return {
        "ExcNodes": "",
        "JobArrayID": str(1_000_000 + number),
        "State": "PENDING" if node is None else "RUNNING",
        "Reason": "Priority" if node is None else "None",
        "NumNodes": str(size),
        "NumCPUs": str(64 * size),
        "MinCpus": "1",
        "MinMemory": random.choice(("4000M", "250000M", "100G")),
        "tres-alloc": f"cpu={64 * size},mem={250 * size}G,node={size},billing={64 * size}",
        "tres-per-node": "N/A",
        "tres-per-job": "N/A",
        "tres-per-task": "N/A",
        "tres-per-socket": "N/A",
        "mem-per-tres": "N/A",
        "cpus-per-tres": "N/A",
        "numtasks": str(64 * size),
        "cpus-per-task": "1",
        "ntpernode": "0",
        "Licenses": "(null)",
        "TimeLimit": random.choice(("1:00:00", "12:00:00", "1-00:00:00", "2-00:00:00")),
        "SubmitTime": str(submit_s),
        "StartTime": "N/A" if node is None else str(submit_s + 30),
        "EligibleTime": str(submit_s),
        "Deadline": "N/A",
        "UserID": str(10_000 + user),
        "GroupID": str(5_000 + user % 300),
        "UserName": f"user{user}",
        "Account": f"project{user % 300}",
        "QOS": "normal",
        "Partition": "batch",
        "Feature": random.choice(("(null)", "(null)", "hdr")),
        "ReqNodes": "",
        "NodeList": node or "",
        "BatchHost": node or "n/a",
        "OverSubscribe": "NO",
        "Requeue": "1",
        "BatchFlag": "1",
        "RestartCnt": "0",
        "HetJobID": "N/A",
        "Reservation": "(null)",
        "PriorityLong": str(random.randint(1000, 90_000)),
        "admin_comment": "(null)",
        "Name": f"run_{random.randint(1, 10**6)}.sh",
        "Comment": "(null)" if random.random() < 0.7 else f"makeway:ckpt={submit_s + 40}",
    }


def measure(folder: Path, policy_name: str) -> dict[str, object]:
    """The CPU seconds of the first cycle and of idle ones, and the most memory that the process used."""
    settings = SlurmSettings(
        bin_dir=str(folder),
        classes=(
            JobClass(name="urgent", partitions=frozenset({"urgent"}), kind=JobKind.ON_DEMAND),
            JobClass(name="batch", preemptible=True),
        ),
    )
    policy = find(policy_name)
    daemon = Reconciler(
        SlurmCliAdapter(settings, now=lambda: float(_NOW_S)),
        Journal(None),
        policy,
        policy.config_type(),
        LoopSettings(mode=Mode.ACT),
        now=lambda: float(_NOW_S),
    )
    gc.set_threshold(*COLLECT_AFTER)  # as the daemon does
    bare_mb = _memory_mb()
    cycles_s: list[float] = []
    for _ in range(CYCLES + 1):
        began_s = time.process_time()
        report = daemon.reconcile()
        cycles_s.append(time.process_time() - began_s)
        assert report.error is None, report.error
    return {"first_s": cycles_s[0], "idle_s": cycles_s[1:], "peak_mb": _memory_mb(), "bare_mb": bare_mb}


def _memory_mb() -> float:
    """The most memory that this process has used so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    task, place = sys.argv[1], Path(sys.argv[2])
    if task == "write":
        write(place)
    else:
        print(json.dumps(measure(place, *sys.argv[3:4] or ["eviction"])))
