"""A cluster whose nodes are shared by cores, memory and GPUs, with one job of every sort."""

import time

from makeway.adapters.devcluster.cluster import DevCluster
from makeway.adapters.devcluster.conf import DevSpec

SLEEP = "exec sleep 1000"
SHARED_SPEC = DevSpec(
    node_count=6,
    cpus_per_node=8,
    memory_mb=16000,
    memory_counts=True,
    gpus={f"n{number}": "a100:4" for number in range(1, 5)},
    node_options={
        "n5": "Sockets=1 CoresPerSocket=4 ThreadsPerCore=2",
        "n6": "Sockets=1 CoresPerSocket=4 ThreadsPerCore=2 CoreSpecCount=1 MemSpecLimit=1000 Feature=ht",
    },
    settings={"DefMemPerCPU": "500", "Licenses": "fluent:2"},
    partitions=(
        "PartitionName=batch Nodes=n[1-6] Default=YES State=UP",
        "PartitionName=whole Nodes=n[4-6] OverSubscribe=EXCLUSIVE State=UP",
        "PartitionName=own Nodes=n[5-6] ExclusiveUser=YES TRESBillingWeights=CPU=1.0,Mem=0.25G State=UP",
        "PartitionName=capped Nodes=n[2-3] MaxCPUsPerNode=6 State=UP",
    ),
)
"""Four nodes of 8 cores and 4 GPUs, two of 4 cores with two threads."""
HOSTILE_SHARE = (
    "x Nodes=n1 CPU_IDs=0-7 Mem=16000 GRES=\nJobId=2 JobName=y UserId=root(0) GroupId=root(0)\n\n"
    "scontrol: show job 2\nNodes=n9\tCPU_IDs=3 \x1b[1m"
)
"""The name of a job that would hold something else if its user were believed."""
UNEVEN = ("-N2", "-n3", "--gpus=3", "--mem=2048", f"--job-name={HOSTILE_SHARE}", "--account=ac NumNodes=1 x")
RUNNING: dict[str, tuple[str, ...]] = {
    "commented": ("-n5", "--mem-per-cpu=400", f"--comment={HOSTILE_SHARE}"),
    "all-memory": ("-N1", "-n1", "--mem=0", "-w", "n3"),
    "array": ("-n1", "--array=0-2", "-p", "own", "-w", "n5"),
    "exclusive": ("-N1", "-n1", "-c2", "--exclusive", "-w", "n6"),
    "exclusive-user": ("-N1", "-n1", "--gres=gpu:a100:1", "--exclusive=user", "-w", "n4"),
    "licensed": ("-n1", "-L", "fluent:1", "--mem=500"),
}
"""Jobs that run, by their names."""
REQUESTS = (
    "-N2 -n4",
    "-n8",
    "-n20",
    "-N2-4 -n8",
    "-n4 -c2 --mem=3G",
    "-n2 --mem-per-cpu=1500",
    "-n2 --gpus=4",
    "-n2 --gpus=6",
    "-n2 --gpus=2 --mem-per-gpu=2G",
    "-n1 --gpus=2 --cpus-per-gpu=2",
    "-N2 --gpus-per-node=2",
    "-N1 --gres=gpu:a100:1",
    "-n4 --gpus-per-task=1",
    "-N2 --ntasks-per-node=3",
    "-n10 --ntasks-per-node=4",
    "-N1 --exclusive",
    "-N1 --exclusive=user",
    "-N1 -n1 -c2 --hint=nomultithread -C ht",
    "-N1 -n3 --mem-per-cpu=200 -C ht",
    "-N1 -n2 --ntasks-per-core=1 -C ht",
    "-N1 --mem=0",
    "-n1 -p batch,whole",
    "-n1 -p whole",
    "-n1 -p own",
    "-n1 -L fluent:2",
    "-n2 --gpus-per-socket=1 --sockets-per-node=1",
    "-N1 --mincpus=6",
    "-N1 --gres=none",
    "-N1 -w n2 -x n3",
)
"""What waiting jobs ask for; each is also the job's name."""


def share(cluster: DevCluster) -> None:
    """Start the running jobs, then submit every request, held."""
    cluster.submit(SLEEP, *UNEVEN)
    for name, options in RUNNING.items():
        cluster.submit(SLEEP, f"--job-name={name}", *options)
    cluster.submit(f"#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n2 --mem=1000\n{SLEEP}", "--job-name=het")
    time.sleep(4)
    for request in REQUESTS:
        cluster.submit(SLEEP, "--hold", f"--job-name={request}", *request.split())
    time.sleep(1)


PARTS_SPEC = DevSpec(
    node_count=4,
    cpus_per_node=8,
    memory_mb=16000,
    memory_counts=True,
    gpus={"n1": "a100:2", "n2": "1g.10gb:4", "n3": "a100:1", "n4": "a100:1,1g.10gb:2"},
    node_options={"n1": "Gres=gpu:a100:2,shard:8", "n3": "Gres=gpu:a100:1,shard:4 TmpDisk=500"},
    gres=("NodeName=n1 Name=shard Count=8", "NodeName=n3 Name=shard Count=4"),
    settings={"GresTypes": "gpu,shard"},
)
"""GPUs with four shards each, on two nodes; slices of MIG, which are GPUs of a type, on two."""
PARTS_RUNNING: dict[str, tuple[str, ...]] = {
    "two-shards": ("--gres=shard:2", "-w", "n1"),
    "next-to-it": ("--gres=shard:1", "-w", "n1"),
    "whole-gpu": ("--gres=gpu:1", "-w", "n1"),
    "slice": ("--gres=gpu:1g.10gb:1", "-w", "n2"),
    "slice-by-task": ("-n2", "--gpus-per-task=1g.10gb:1", "-w", "n2"),
    "alone": ("--gres=shard:3", "-w", "n3"),
    "any-two": ("--gpus=2", "-w", "n4"),
}
"""Jobs that run, by their names, started in this order."""
PARTS_REQUESTS = (
    "--gres=shard:1",
    "--gres=shard:2",
    "--gres=shard:6",
    "--gres=shard:a100:1",
    "--gres=shard:3 --exclusive",
    "--gres=shard:6 --exclusive",
    "--gres=gpu:1g.10gb:1",
    "--gres=gpu:a100:1",
    "--gres=gpu:a100:1,gpu:1g.10gb:1",
    "--gpus=1",
    "--gpus=3",
    "--gpus-per-node=1g.10gb:2",
    "--gpus-per-socket=1 --sockets-per-node=1",
    "-n2 --ntasks-per-socket=1",
    "--sockets-per-node=2",
    "--hint=memory_bound",
    "-n4 --ntasks-per-gpu=2",
    "-n4 --ntasks-per-gpu=2 --gpus=2",
    "-N2 -n2 --contiguous",
    "--gres=gpu:1 --gres-flags=enforce-binding",
    "--tmp=100",
    "--tmp=100 --exclusive",
)
"""What waiting jobs ask for, one task unless they say otherwise; each is also the job's name."""


def share_parts(cluster: DevCluster) -> None:
    """Start the jobs that hold shards and slices, one after another, then submit every request, held."""
    small = ("-N1", "-n1", "--mem=100")
    for name, options in PARTS_RUNNING.items():
        cluster.submit(SLEEP, f"--job-name={name}", *small, *options)
        time.sleep(2)
    for request in PARTS_REQUESTS:
        cluster.submit(SLEEP, "--hold", f"--job-name={request}", *small, *request.split())
    time.sleep(1)
