"""A real Slurm with accounting: slurmdbd and MariaDB in its state folder."""

import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from bench.fight.accounting import Accounting

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import CLUSTER_NAME, DevSpec
from makeway.adapters.devcluster.ports import claimed_ports


@contextmanager
def accounted_cluster(
    spec: DevSpec, associate: Callable[[Accounting], None], *, requeue_delay_s: int | None = None
) -> Generator[DevCluster, None, None]:
    """The cluster of a spec with accounting, for a `with` block. All of it is stopped at the block's end.

    Args:
        spec: the cluster; the settings of accounting are added to its own.
        associate: adds accounts, users and QOS; the cluster is known by then.
        requeue_delay_s: after how long a requeued job may start again. None: Slurm's two minutes.
    """
    with ExitStack() as stack, claimed_ports(1) as (port,):
        base = Path(spec.root or "/") / "tmp"
        state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mw-accounted-", dir=base)))
        accounting = Accounting(state=state, port=port, root=spec.root)
        inner = Path("/") / state.relative_to(spec.root or "/")
        settings = {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "127.0.0.1",
            "AccountingStoragePort": str(port),
            "AccountingStoragePass": f"{inner}/munge.socket",
            "AccountingStorageEnforce": "qos,limits",
            "AccountingStoreFlags": "job_comment",
        }

        if requeue_delay_s is not None:
            settings["AuthInfo"] = f"socket={inner}/munge.socket,cred_expire={requeue_delay_s}"

        def before_controller() -> None:
            accounting.start(stack)
            accounting.manage("add", "cluster", CLUSTER_NAME)
            associate(accounting)

        whole = replace(spec, settings=settings | dict(spec.settings))
        with dev_cluster(whole, state, before_controller) as cluster:
            yield cluster
