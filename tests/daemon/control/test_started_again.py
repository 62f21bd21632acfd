"""An urgent job that runs is put back into the queue: a node failed under it, or its user requeued it."""

from dataclasses import replace

import pytest

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.journal.store import Journal
from makeway.policies.model import Job, JobKind, JobState, NodeState
from makeway.policies.registry import find
from tests.builders import pending, running
from tests.daemon.control.arrays.array_cluster import LENDER, ArrayCluster

DELAY_S = 120.0
"""How long Slurm delays the next start of a job that was requeued."""


class DelayingCluster(ArrayCluster):
    """One urgent job of two nodes. A job that was requeued starts only after a delay."""

    def __init__(self, *others: Job) -> None:
        super().__init__(*others, tasks=())
        job = pending("u", 2, kind=JobKind.ON_DEMAND, submit_s=self.view.now_s)
        self.view = replace(self.view, jobs=(*self.view.jobs, job))

    def requeue(self, job_id: str) -> None:
        """As Slurm does it: the requeue counts as a new submission. The job stays bound to its hold."""
        job, now_s = self.job(job_id), self.view.now_s
        waits = replace(job, state=JobState.PENDING, nodes=(), start_s=None, submit_s=now_s)
        eligible_s = now_s + DELAY_S
        count = job.requeue_count + 1
        self.put(replace(waits, requeue_count=count, eligible_s=eligible_s, eligible_since_s=eligible_s))

    def _start(self, job: Job) -> None:
        if job.eligible_s is None or job.eligible_s <= self.view.now_s:
            super()._start(job)

    def evictions(self) -> list[str]:
        return [job_id for verb, job_id in self.calls if verb == "requeue"]


class Story:
    """A daemon at work on such a cluster, on which the urgent job runs."""

    def __init__(self, policy: str, *others: Job) -> None:
        self.slurm, self.journal, found = DelayingCluster(*others), Journal(None), find(policy)
        self.loop = Reconciler(
            self.slurm,
            self.journal,
            found,
            found.config_type(),
            LoopSettings(mode=Mode.ACT),
            now=lambda: self.slurm.view.now_s,
        )
        self.goes_on(6)
        assert (self.slurm.runs("u"), self.slurm.evictions()) == (True, ["v"])

    def goes_on(self, cycles: int) -> None:
        for _ in range(cycles):
            self.loop.reconcile()
            self.slurm.settle()


@pytest.mark.parametrize("policy", ["eviction", "least-price"])
@pytest.mark.parametrize("ran_s", [60.0, 7200.0])
def test_it_keeps_its_nodes_until_it_may_start_again(policy: str, ran_s: float) -> None:
    """Else its lender would start on them, and could not be made to leave again for half an hour."""
    story = Story(policy)
    slurm = story.slurm
    slurm.settle(ran_s)
    slurm.requeue("u")
    story.goes_on(18)
    assert (slurm.runs("u"), slurm.runs("v"), slurm.evictions()) == (True, False, ["v"])
    slurm.end("u")
    story.goes_on(6)
    assert (slurm.runs("v"), story.journal.open_operations()) == (True, ())


def test_a_node_that_has_failed_is_made_up_for() -> None:
    story = Story("eviction", LENDER, running("w", ("n3", "n4"), start_s=500.0))
    slurm = story.slurm
    slurm.settle(7200.0)
    slurm.requeue("u")
    slurm.view = replace(
        slurm.view,
        nodes=tuple(
            replace(node, state=NodeState.DOWN) if node.name == "n1" else node for node in slurm.view.nodes
        ),
    )
    story.goes_on(18)
    assert slurm.runs("u")
    assert (slurm.job("u").nodes[0], slurm.evictions()) == ("n2", ["v", "w"])


def test_it_is_not_waited_for_longer_than_at_first() -> None:
    story = Story("eviction")
    slurm = story.slurm
    slurm.settle(7200.0)
    slurm.requeue("u")
    slurm.put(replace(slurm.job("u"), eligible_s=None, eligible_since_s=None, node_count=3))  # no room
    story.goes_on(1)
    (operation,) = [one for one in story.journal.open_operations() if one.reservation]
    begins_s = slurm.job("u").submit_s
    assert (operation.deadline_s, operation.give_up_s) == (begins_s + 600.0, begins_s + 1200.0)
    slurm.settle(1200.0)
    story.goes_on(6)
    assert slurm.runs("v")
