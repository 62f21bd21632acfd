"""A cluster on which a user submits an urgent job, cancels it, and submits it again."""

from dataclasses import replace

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.permission import Permission
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.journal.store import Journal
from makeway.daemon.leader.pause import Pause
from makeway.policies.model import (
    CheckpointSpec,
    Job,
    JobKind,
    Limits,
)
from makeway.policies.registry import find
from tests.builders import node_names, pending, running
from tests.daemon.control.arrays.array_cluster import ArrayCluster

FIRST, SECOND = "11", "12"
SPEC = CheckpointSpec(system_s=20.0, grace_s=60.0)
ACTS = LoopSettings(mode=Mode.ACT, limits=Limits(min_runtime_s=0.0, min_progress_s=0.0))


def lender(job_id: str, nodes: tuple[str, ...], start_s: float) -> Job:
    return running(job_id, nodes, start_s=start_s, checkpoint=SPEC)


class FourNodes(ArrayCluster):
    """Two jobs of two nodes, which save their work at a signal. Of the two, `v` costs less."""

    def __init__(self) -> None:
        super().__init__(
            lender("v", node_names(2), 500.0), lender("w", node_names(2, first=3), 400.0), tasks=()
        )

    def submit(self, job_id: str, node_count: int = 2) -> None:
        """A user submits an urgent job."""
        job = pending(job_id, node_count, kind=JobKind.ON_DEMAND, submit_s=self.view.now_s)
        self.view = replace(self.view, jobs=(*self.view.jobs, replace(job, start_within_s=300.0)))

    def cancel(self, job_id: str) -> None:
        self.view = replace(self.view, jobs=tuple(one for one in self.view.jobs if one.job_id != job_id))

    def saves(self, job_id: str) -> None:
        """The job has saved its work now."""
        self.put(replace(self.job(job_id), last_checkpoint_s=self.view.now_s))

    def sent(self, *verbs: str) -> list[tuple[str, str, str]]:
        """The commands of these kinds: each with its job, and the urgent job."""
        actions = [action for action in self.actions if action.verb in verbs]
        return [(action.verb, action.job_id, action.for_job_id) for action in actions]


def daemon(
    slurm: FourNodes, journal: Journal, settings: LoopSettings = ACTS, policy: str = "eviction"
) -> Reconciler:
    found = find(policy)
    return Reconciler(
        slurm,
        journal,
        found,
        found.config_type(),
        settings,
        now=lambda: slurm.view.now_s,
        permission=Permission(pause=Pause(journal)),
    )


def signalled(
    settings: LoopSettings = ACTS, *, node_count: int = 2, journal: Journal | None = None
) -> tuple[FourNodes, Journal, Reconciler]:
    """The first urgent job waits in its hold, and `v` was asked to save its work for it."""
    slurm, journal = FourNodes(), journal or Journal(None)
    loop = daemon(slurm, journal, settings)
    slurm.submit(FIRST, node_count)
    for _ in range(3):
        loop.reconcile()
        slurm.settle(2.0)
    assert ("checkpoint", "v", FIRST) in slurm.sent("checkpoint")
    return slurm, journal, loop


def goes_on(slurm: FourNodes, loop: Reconciler, cycles: int = 4) -> None:
    for _ in range(cycles):
        loop.reconcile()
        slurm.settle(2.0)
