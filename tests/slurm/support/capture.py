"""Writes what a real Slurm prints into `tests/adapters/slurm/captured/RELEASE/`, for the tests of the
parsers.

Run it as `python -m tests.slurm.support.capture [CHROOT]` whenever the adapter asks Slurm for something else.
It replaces this machine's name and kernel in the output.
"""

import re
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from makeway.adapters.slurm import build
from tests.paths import CAPTURED
from tests.slurm.support.sharing import PARTS_SPEC, SHARED_SPEC, share, share_parts

TOKEN = "mwcaptured"
FOLDER = CAPTURED
SPEC = DevSpec(
    partitions=(
        "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
        "PartitionName=urgent Nodes=n[3-8] MaxTime=1:00:00 PriorityTier=10 State=UP",
        "PartitionName=closed Nodes=n[1-2] State=DOWN",
    ),
    node_options={
        **{f"n{number}": "Gres=fpga:2 Feature=small" for number in range(1, 5)},
        **{f"n{number}": "Gres=fpga:large:1 Feature=big,fast" for number in range(5, 9)},
    },
    gres=("NodeName=n[1-4] Name=fpga Count=2", "NodeName=n[5-8] Name=fpga Type=large Count=1"),
    settings={"GresTypes": "fpga"},
)
TOPOLOGIES = {
    "tree": ("SwitchName=s1 Nodes=n[1-4]", "SwitchName=s2 Nodes=n[5-8]", "SwitchName=top Switches=s[1-2]"),
    "block": ("BlockName=b1 Nodes=n[1-4]", "BlockName=b2 Nodes=n[5-8]", "BlockSizes=4"),
}
KNOWS_BLOCKS = (23, 11)
SLEEP = "exec sleep 1000"
HOSTILE_NAME = "a\nb|c\t\x1b[31m JobState=RUNNING ExcNodeList=n1 NodeList=\udcff\udcfe"
HOSTILE_COMMENT = "first\nmakeway:ckpt=1795247730\n2|PENDING|\udcc3( makeway:ckpt=x %s ~T~ é"
LONG_COMMENT = "makeway:min-nodes=2 ".ljust(1024, "x")


def fill(cluster: DevCluster) -> None:
    """Submit one job of every sort that the parsers have to tell apart, and change some nodes."""
    cluster.run("scontrol", "update", "NodeName=n8", "State=DRAIN", "Reason=a bad disk | State=IDLE")
    cluster.run("scontrol", "update", "NodeName=n7", "State=DOWN", "Reason=gone")
    submit = cluster.submit
    submit(SLEEP, "-N2", f"--job-name={HOSTILE_NAME}", f"--comment={HOSTILE_COMMENT}", "--time=1-12:30:00")
    submit(SLEEP, "-N1", "-n1", "--array=0-2%2", "--constraint=big", "--job-name=array", "--time=90")
    submit(
        SLEEP, "-N2-3", "--exclusive", f"--comment={LONG_COMMENT}", "--job-name=long-comment", "--exclude=n1"
    )
    time.sleep(2)
    first = cluster.run("squeue", "-h", "-o", "%A", "-n", "long-comment").strip()
    cluster.run("scontrol", "requeue", "Incomplete", first)
    submit(
        SLEEP,
        "-N2",
        "-p",
        "urgent",
        "--job-name=urgent",
        "--exclude=n[3-4]",
        "--account=a b=c",
        "--gres=fpga:1",
    )
    submit(
        SLEEP, "-N4", "--job-name=asks", "--nodelist=n1,n5", "--mem=100", "--cpus-per-task=2", "--no-requeue"
    )
    submit(SLEEP, "-n7", "--mem-per-cpu=200", "--job-name=by-tasks", "--time=UNLIMITED")
    submit(SLEEP, "-N1", "--hold", "--job-name=held")
    submit(SLEEP, "-N1", "--begin=now+1hour", "--job-name=later")
    submit(SLEEP, "-N1", f"--dependency=afterok:{first}", "--job-name=dependent")
    submit(SLEEP, "-N1", "--partition=urgent,batch", "--job-name=two-partitions", "--constraint=[small|big]")
    het = "#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N2\n" + SLEEP
    submit(het, "--job-name=heterogeneous")
    _reserve(cluster)
    time.sleep(4)


def _reserve(cluster: DevCluster) -> None:
    """Create one reservation with makeway's prefix, and one without."""
    create = ("scontrol", "create", "reservation", "Users=root")
    flags = "Flags=IGNORE_JOBS,NO_HOLD_JOBS_AFTER,PURGE_COMP=1"
    now = ("StartTime=now", "EndTime=now+600seconds")
    cluster.run(*create, "ReservationName=mw_7", *now, "Nodes=n[1-2]", flags)
    tomorrow = ("StartTime=now+1day", "Duration=60")
    cluster.run(*create, "ReservationName=their own", *tomorrow, "Nodes=n[4,6]")


def written(cluster: DevCluster, prefix: str, ids: tuple[str, ...], *, everything: bool) -> None:
    """Write what the adapter reads of the cluster. `ids`: the jobs to show one by one."""
    fields = build.job_fields(cluster.version)
    runner = cluster.runner
    jobs = runner.run(build.squeue(), environment=build.squeue_environment(fields, TOKEN))
    script = build.show_script(TOKEN, ids, all_jobs=everything, licenses=everything)
    times = {"SLURM_TIME_FORMAT": "%s"}
    shown = runner.run(build.show_cluster(), stdin=script, environment=times)
    config = runner.run(build.show_config())
    folder = folder_of(cluster)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("squeue", jobs.stdout), ("scontrol", shown.stdout), ("config", config.stdout)):
        text = re.sub(r"OS=Linux .*? (?= RealMemory)", "OS=Linux 6.1.0 ", text)
        text = re.sub(rf"\b{re.escape(socket.gethostname())}\b", "host", text)
        text = text.replace(f"{cluster.inner_folder}/work", "/srv/slurm/jobs")
        text = text.replace(str(cluster.inner_folder), "/srv/slurm")
        (folder / f"{prefix}{name}.txt").write_bytes(text.encode("utf-8", "surrogateescape"))
    print(folder, jobs.stderr, shown.stderr)


def folder_of(cluster: DevCluster) -> Path:
    """The folder of a release."""
    return FOLDER / "{}.{:02}".format(*cluster.version)


def main() -> None:
    """Capture the Slurm of this machine, or of the chroot that is the first argument."""
    root = sys.argv[1] if len(sys.argv) > 1 else None
    with dev_cluster(replace(SPEC, root=root)) as cluster:
        fill(cluster)
        ids = tuple(cluster.run("squeue", "-h", "-o", "%i", "-n", "urgent,asks").split())
        written(cluster, "", ids, everything=False)
    with dev_cluster(replace(SHARED_SPEC, root=root)) as cluster:
        share(cluster)
        ids = tuple(cluster.run("squeue", "-h", "-a", "-r", "-o", "%i").split())
        written(cluster, "shared-", ids, everything=True)
    with dev_cluster(replace(PARTS_SPEC, root=root)) as cluster:
        share_parts(cluster)
        ids = tuple(cluster.run("squeue", "-h", "-a", "-r", "-o", "%i").split())
        written(cluster, "parts-", ids, everything=True)
    for plugin, lines in TOPOLOGIES.items():
        if plugin != "block" or cluster.version >= KNOWS_BLOCKS:
            spec = DevSpec(root=root, switches=lines, settings={"TopologyPlugin": f"topology/{plugin}"})
            with dev_cluster(spec) as switched:
                topology = switched.run(*build.show_topology())
                (folder_of(switched) / f"topology-{plugin}.txt").write_text(topology)


if __name__ == "__main__":
    main()
