"""Urgent jobs of a user that wait for each other, on the nodes of one lender."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.control.sentence import outcome_text
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.observation import Timeouts
from makeway.policies.model import ANOTHER_JOB, CPU, Job, JobKind, Limits, NodeState, Reserve, Resources
from makeway.policies.registry import find
from tests.builders import pending, running
from tests.daemon.control.arrays.array_cluster import LENDER, ArrayCluster
from tests.daemon.control.loops import daemon

CHAIN = ("11", "12", "13")
FIRST, SECOND, _ = CHAIN
SETTLE_S = 30.0


class ChainCluster(ArrayCluster):
    """Jobs of two nodes, each of which waits for the end of the one before it."""

    def __init__(self, *others: Job) -> None:
        super().__init__(*others, tasks=())
        jobs = [pending(name, 2, kind=JobKind.ON_DEMAND, submit_s=990.0) for name in CHAIN]
        waiting = [replace(job, blocked_by=f"{ANOTHER_JOB} (Dependency)") for job in jobs[1:]]
        self.view = replace(self.view, jobs=(*self.view.jobs, jobs[0], *waiting))

    def look(self) -> None:
        """The cluster looks at the dependencies, some time after a job has gone."""
        chain = [job.job_id for job in self.view.jobs if job.kind is JobKind.ON_DEMAND]
        if chain and self.job(chain[0]).blocked_by:
            self.change(chain[0], blocked_by="", eligible_since_s=self.view.now_s)

    def change(self, job_id: str, **to: Any) -> None:
        self.put(replace(self.job(job_id), **to))


def goes_on(slurm: ChainCluster, loop: Reconciler, cycles: int = 6) -> None:
    for _ in range(cycles):
        loop.reconcile()
        slurm.settle()


def counted(slurm: ChainCluster, verb: str) -> int:
    return sum(called == verb for called, _ in slurm.calls)


def first_has_ended() -> tuple[ChainCluster, Journal, Reconciler]:
    """The first job has run in its hold and is gone. Nothing has looked at the dependencies yet."""
    slurm, journal = ChainCluster(), Journal(None)
    loop = daemon(slurm, journal)
    goes_on(slurm, loop)
    assert slurm.runs(FIRST)
    slurm.end(FIRST)
    return slurm, journal, loop


@pytest.mark.parametrize("at_once", [False, True], ids=["makeway sees the end first", "Slurm has looked"])
@pytest.mark.parametrize("restarts", [False, True], ids=["one daemon", "a new daemon for each job"])
def test_a_chain_costs_one_eviction(at_once: bool, restarts: bool) -> None:
    slurm, journal = ChainCluster(), Journal(None)
    loop = daemon(slurm, journal)
    for job_id in CHAIN:
        goes_on(slurm, loop)
        assert slurm.runs(job_id)
        assert not slurm.runs("v")
        slurm.end(job_id)
        loop = daemon(slurm, journal) if restarts else loop
        if not at_once:
            loop.reconcile()
            slurm.settle(1.0)
        slurm.look()
    goes_on(slurm, loop)
    assert slurm.runs("v")
    assert [counted(slurm, verb) for verb in ("requeue", "prioritise", "release")] == [1, 1, 1]
    assert slurm.view.reservations == ()
    assert journal.open_operations() == ()


def test_makeway_looks_again_in_a_second() -> None:
    slurm, journal, loop = first_has_ended()
    loop.reconcile()
    assert loop.wakeup_s(slurm.view.now_s, 60.0) == slurm.view.now_s + 1.0
    slurm.look()
    (over,) = loop.reconcile().closed
    assert outcome_text(over).endswith("; the next job of its user has its nodes")
    (operation,) = journal.open_operations()
    assert (operation.for_job_id, operation.reservation) == (SECOND, "mw_11")
    hold = slurm.actions[-1]
    assert isinstance(hold, Reserve)
    assert (hold.job_id, hold.reservation) == (SECOND, "mw_11")


def test_what_the_first_job_cost_counts_for_the_one_that_has_its_nodes() -> None:
    """The first has paid 2 nodes x 510 s. A node that is lost has to be made up for."""
    spare = running("x", ("n3",), start_s=0.0)
    slurm = ChainCluster(LENDER, spare, running("y", ("n4",), preemptible=False))
    journal = Journal(None)
    limits = Limits(max_loss_node_hours=1200.0 / 3600.0, max_loss_machine_share=0.0)
    loop = daemon(slurm, journal, limits=limits)
    goes_on(slurm, loop)
    slurm.end(FIRST)
    slurm.look()
    loop.reconcile()
    nodes = tuple(
        replace(node, state=NodeState.DOWN) if node.name == "n1" else node for node in slurm.view.nodes
    )
    slurm.view = replace(slurm.view, nodes=nodes)
    summaries = [why.summary for why in loop.reconcile().stored_rationale]
    assert any("the limit is" in text for text in summaries), summaries
    assert counted(slurm, "requeue") == 1


def test_the_nodes_go_back_if_the_next_job_waits_on() -> None:
    slurm, _, loop = first_has_ended()
    loop.reconcile()
    slurm.settle(SETTLE_S - 1.0)
    loop.reconcile()
    assert counted(slurm, "prioritise") == 0
    slurm.settle(1.0)
    loop.reconcile()
    assert counted(slurm, "prioritise") == 1
    goes_on(slurm, loop)
    assert slurm.runs("v")


def test_the_nodes_go_back_at_once_if_everything_does() -> None:
    slurm, _, loop = first_has_ended()
    policy = find("none")
    loop.reconfigure(policy, policy.config_type(), LoopSettings(mode=Mode.ACT, restoring=True))
    loop.reconcile()
    assert ("prioritise", "v") in slurm.calls


def is_smaller(slurm: ChainCluster) -> None:
    slurm.change(SECOND, node_count=1)


def is_larger(slurm: ChainCluster) -> None:
    slurm.change(SECOND, node_count=3)


def is_of_another_user(slurm: ChainCluster) -> None:
    slurm.change(SECOND, user="other")


def is_not_urgent(slurm: ChainCluster) -> None:
    slurm.change(SECOND, kind=JobKind.RIGID)


def lacks_a_licence(slurm: ChainCluster) -> None:
    slurm.change(SECOND, blocked_by="a licence")


def is_a_component(slurm: ChainCluster) -> None:
    slurm.change(SECOND, het_job_id="12")


def needs_parts_of_nodes(slurm: ChainCluster) -> None:
    slurm.change(SECOND, demand=Resources.of({CPU: 1}))


@pytest.mark.parametrize("looked", [False, True], ids=["makeway sees the end first", "Slurm has looked"])
@pytest.mark.parametrize(
    "changes",
    [
        is_smaller,
        is_larger,
        is_of_another_user,
        is_not_urgent,
        lacks_a_licence,
        is_a_component,
        needs_parts_of_nodes,
    ],
)
def test_the_nodes_go_back_at_once_if_the_next_job_cannot_have_them(
    changes: Callable[[ChainCluster], None], looked: bool
) -> None:
    slurm, _, loop = first_has_ended()
    slurm.end(CHAIN[2])
    if looked:
        slurm.look()
    changes(slurm)
    loop.reconcile()
    assert ("prioritise", "v") in slurm.calls


def test_the_nodes_go_back_at_once_if_the_site_wants_it() -> None:
    slurm, _, loop = first_has_ended()
    policy = find("eviction")
    timeouts = Timeouts(pass_on_s=0.0)
    loop.reconfigure(policy, policy.config_type(), LoopSettings(mode=Mode.ACT, timeouts=timeouts))
    loop.reconcile()
    assert ("prioritise", "v") in slurm.calls


def test_a_job_that_accepts_as_many_nodes_gets_all_of_them() -> None:
    slurm, journal, loop = first_has_ended()
    slurm.change(SECOND, node_count=1, node_count_max=4)
    slurm.look()
    loop.reconcile()
    (operation,) = journal.open_operations()
    assert (operation.for_job_id, operation.nodes) == (SECOND, ("n1", "n2"))


def test_a_job_that_could_have_run_before_does_not_follow() -> None:
    """It waited while the first one ran. makeway decided then whether jobs leave for it."""
    slurm, _, loop = first_has_ended()
    slurm.end(CHAIN[2])
    slurm.change(SECOND, blocked_by="", eligible_since_s=990.0)
    loop.reconcile()
    assert ("prioritise", "v") in slurm.calls
