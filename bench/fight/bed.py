"""The cluster of a fight: a real Slurm with accounting, QOS, GPUs, prolog and epilog, on loopback."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.fight.accounting import Accounting, user_name
from bench.fight.arms import Arm
from bench.fight.workload import CORES_PER_NODE, GPU_NODES, GPU_TYPE, GPUS_PER_NODE, MEMORY_MB, NODES, Quality

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from makeway.adapters.devcluster.ports import claimed_ports

ACCOUNT = "fight"
CLUSTER = "makeway-dev"
_REQUEUE_DELAY_S = 10
"""Slurm starts a requeued job again after the life of a credential: two minutes by default."""
_HOOK = """#!/bin/sh
# The {name} of each node: a short check, and a line about it.
sleep 0.3
echo "$(date +%s%3N) {name} $SLURM_JOB_ID $SLURMD_NODENAME" >>"{log}"
"""


@contextmanager
def bed(arm: Arm, folder: Path) -> Generator[DevCluster, None, None]:
    """The cluster for an arm, for a `with` block. Everything that it started is stopped at the block's end.

    Raises:
        NotServing, DevClusterError: a part of it is not installed, or did not start.
    """
    folder.chmod(0o755)
    state = folder / "slurm"
    with ExitStack() as stack, claimed_ports(1) as (port,):
        accounting = Accounting(state=state, port=port)
        spec = _spec(arm, folder, port)

        def before_controller() -> None:
            accounting.start(stack)
            _add_associations(arm, accounting)

        with dev_cluster(spec, state, before_controller) as cluster:
            yield cluster


def _spec(arm: Arm, folder: Path, accounting_port: int) -> DevSpec:
    first_gpu_node = NODES - GPU_NODES + 1
    return DevSpec(
        node_count=NODES,
        cpus_per_node=CORES_PER_NODE,
        memory_mb=MEMORY_MB,
        memory_counts=True,
        gpus={f"n{number}": f"{GPU_TYPE}:{GPUS_PER_NODE}" for number in range(first_gpu_node, NODES + 1)},
        settings={
            "AuthInfo": f"socket={folder}/slurm/munge.socket,cred_expire={_REQUEUE_DELAY_S}",
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "127.0.0.1",
            "AccountingStoragePort": str(accounting_port),
            "AccountingStoragePass": f"{folder}/slurm/munge.socket",
            "AccountingStorageTRES": "gres/gpu",
            "AccountingStorageEnforce": "qos,limits",
            "AccountingStoreFlags": "job_comment",
            "PriorityType": "priority/multifactor",
            "PriorityWeightQOS": "100000",
            "PriorityWeightAge": "1000",
            "Prolog": str(_hook(folder, "prolog")),
            "Epilog": str(_hook(folder, "epilog")),
            **arm.settings,
        },
    )


def _hook(folder: Path, name: str) -> Path:
    """Write the prolog or epilog of the nodes. Returns its path."""
    path = folder / f"{name}.sh"
    path.write_text(_HOOK.format(name=name, log=folder / "hooks.log"))
    path.chmod(0o755)
    return path


def _add_associations(arm: Arm, accounting: Accounting) -> None:
    """Tell accounting about the cluster, the QOS, and this user."""
    qos = ",".join(Quality)
    accounting.manage("add", "cluster", CLUSTER)
    for quality in Quality:
        if quality is not Quality.NORMAL:  # slurmdbd has made that one
            accounting.manage("add", "qos", quality)
    for quality in Quality:
        if settings := arm.qos_settings(quality):
            accounting.manage("modify", "qos", quality, "set", *settings)
    accounting.manage("add", "account", ACCOUNT, f"cluster={CLUSTER}", f"qos={qos}")
    accounting.manage(
        "add",
        "user",
        user_name(),
        f"account={ACCOUNT}",
        f"cluster={CLUSTER}",
        f"qos={qos}",
        "defaultqos=normal",
    )
