"""A large cluster with a long queue: 256 real nodes, jobs on all of them, and ten thousand that wait."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from makeway.adapters.command import CommandRunner, CompletedCommand
from makeway.adapters.devcluster.cluster import DevCluster
from makeway.adapters.devcluster.conf import DevSpec
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.journal.store import Journal
from makeway.policies.registry import find
from tests.slurm.support.world import SETTINGS
from tests.waiting import limit_s

NODES = 256
RUNNING = 64
WAITING = 10_000
SLEEP = "exec sleep 3600"
WHOLE = ("--ntasks-per-node=2", "--time=60")


def crowd_spec(root: str | None) -> DevSpec:
    """The cluster; slurmctld takes more jobs than by default, and looks at its queue every half a minute
    only.
    """
    settings = {
        "MaxJobCount": str(3 * WAITING),
        "MaxArraySize": str(WAITING + 1),
        "SlurmctldDebug": "error",
        "SchedulerParameters": "defer,bf_interval=300,sched_interval=30",
        "MessageTimeout": str(round(limit_s(30.0))),
    }
    return DevSpec(node_count=NODES, root=root, settings=settings)


def fill(cluster: DevCluster) -> None:
    """Jobs on every node, which may be asked to leave."""
    for _ in range(RUNNING):
        cluster.submit(SLEEP, f"--nodes={len(cluster.spec.nodes) // RUNNING}", "--account=saving", *WHOLE)


@dataclass
class CountingRunner:
    """Runs commands and remembers them."""

    runner: CommandRunner
    calls: list[tuple[str, ...]] = field(default_factory=list)

    def run(
        self,
        argv: tuple[str, ...],
        *,
        timeout_s: float | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str] = MappingProxyType({}),
        take: Callable[[bytes], object] | None = None,
        until: str = "",
    ) -> CompletedCommand:
        self.calls.append(argv)
        return self.runner.run(
            argv, timeout_s=timeout_s, stdin=stdin, environment=environment, take=take, until=until
        )


def daemon_on(runner: CountingRunner, journal: Path) -> Reconciler:
    """The daemon in act mode, in this process."""
    policy = find("eviction")
    return Reconciler(
        SlurmCliAdapter(SETTINGS, runner=runner),
        Journal(journal),
        policy,
        policy.config_type(kills="at_once"),
        LoopSettings(mode=Mode.ACT),
    )
