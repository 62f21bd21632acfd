"""An urgent job whose starts fail: after two of them no further job leaves for it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.journal.holds import nodes_left
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.changed.failed_starts import COUNTS_S, FailedStarts
from makeway.policies.model import (
    CheckpointSpec,
    Cluster,
    Job,
    JobKind,
    JobState,
    Limits,
    Method,
    NodeState,
    Phase,
    Progress,
    Reason,
    Release,
    Requeue,
    Reserve,
)
from makeway.policies.registry import find
from tests.builders import cluster, node_names, pending, running
from tests.daemon.acting import NODES, held_operation, requeue, signal
from tests.daemon.control.arrays.array_cluster import ArrayCluster

FOUR = node_names(4)
LENDERS = tuple(f"v{number}" for number in range(1, 5))
ACTS = LoopSettings(mode=Mode.ACT, limits=Limits(min_runtime_s=0.0, min_progress_s=0.0))
LACKS = "its nodes to be mended (2 starts failed; n1, n2 are drained)"


class FailingCluster(ArrayCluster):
    """Four nodes, each with a job that may leave. As long as it `fails`, the urgent job `u` waits again after
    each start, and its node is drained, or not (`drains`).
    """

    def __init__(self, *, drains: bool = True) -> None:
        places = enumerate(zip(LENDERS, FOUR, strict=True))
        jobs = [running(lender, (node,), start_s=990.0 - place) for place, (lender, node) in places]
        urgent = replace(pending("u", 1, kind=JobKind.ON_DEMAND, submit_s=995.0), start_within_s=600.0)
        self.drains, self.fails = drains, True
        super().__init__(*jobs, urgent, tasks=())

    def settle(self, passed_s: float = 10.0) -> None:
        super().settle(passed_s)
        if self.fails and self.runs("u"):
            job = self.job("u")
            if self.drains:
                self.turn(NodeState.DRAINED, *job.nodes)
            again = replace(job, state=JobState.PENDING, nodes=(), start_s=None)
            self.put(replace(again, requeue_count=job.requeue_count + 1))

    def turn(self, state: NodeState, *names: str) -> None:
        """Set the state of nodes."""
        self.view = with_nodes(self.view, state, *names)

    def left(self) -> list[str]:
        """The jobs that had to leave, in order."""
        return [job_id for verb, job_id in self.calls if verb == "requeue"]


class DrainingCluster(FailingCluster):
    """Each node is drained when the job on it has left: its epilog fails."""

    def settle(self, passed_s: float = 10.0) -> None:
        if self.fails:
            self.turn(NodeState.DRAINED, *(FOUR[LENDERS.index(one)] for one in self.left()))
        super().settle(passed_s)


def with_nodes(view: Cluster, state: NodeState, *names: str) -> Cluster:
    nodes = tuple(replace(node, state=state) if node.name in names else node for node in view.nodes)
    return replace(view, nodes=nodes)


def daemon(slurm: FailingCluster, journal: Journal, policy: str = "eviction") -> Reconciler:
    found = find(policy)
    return Reconciler(slurm, journal, found, found.config_type(), ACTS, now=lambda: slurm.view.now_s)


def goes_on(slurm: FailingCluster, loop: Reconciler, cycles: int = 15) -> list[str]:
    """What the log says of these cycles."""
    said: list[str] = []
    for _ in range(cycles):
        said.append(loop.reconcile().sentence)
        slurm.settle(2.0)
    return said


def told(journal: Journal, job_id: str) -> str:
    """What the last decision says of a job."""
    (last,) = journal.decisions(1)
    return next(why.summary for why in last.decision.rationale if why.for_job_id == job_id)


@pytest.mark.parametrize("policy", ["eviction", "least-price", "n-paa", "cua-spaa"])
def test_after_two_failed_starts_all_goes_back_and_no_further_job_leaves(policy: str) -> None:
    slurm, journal = FailingCluster(), Journal(None)
    said = goes_on(slurm, daemon(slurm, journal, policy))
    assert (len(slurm.left()), slurm.job("u").requeue_count) == (2, 2)
    assert slurm.view.reservations == ()
    assert [one.reason for one in slurm.actions if isinstance(one, Release)] == [Reason.BLOCKED]
    assert {one.phase for one in journal.open_operations()} == {Phase.RETURNING}, "no node is up for lenders"
    assert [text for text in said if f"job u waits for {LACKS}" in text] == [
        text for text in said if "mended" in text
    ]


def test_the_log_and_the_decision_say_why_once() -> None:
    slurm, journal = FailingCluster(), Journal(None)
    said = goes_on(slurm, daemon(slurm, journal))
    assert len([text for text in said if f"job u waits for {LACKS}" in text]) == 1
    assert f"It waits for {LACKS}: no job is evicted for it." in told(journal, "u")


def test_a_daemon_that_starts_again_knows_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    slurm, journal = FailingCluster(), Journal(path)
    loop = daemon(slurm, journal)
    while slurm.job("u").requeue_count < 2:
        goes_on(slurm, loop, 1)
        journal.close()
        journal = Journal(path)
        loop = daemon(slurm, journal)
    goes_on(slurm, loop)
    assert (len(slurm.left()), slurm.view.reservations) == (2, ())
    journal.close()


def test_it_is_served_again_when_its_nodes_are_mended() -> None:
    slurm, journal = FailingCluster(), Journal(None)
    loop = daemon(slurm, journal)
    goes_on(slurm, loop)
    slurm.fails = False
    slurm.turn(NodeState.UP, *slurm.view.node_sets().names(slurm.view.node_sets().down))
    goes_on(slurm, loop)
    assert slurm.runs("u")
    assert journal.holds_since("u", 0.0)[-1].requeue_count == 2


def test_it_is_served_again_after_some_hours() -> None:
    slurm, journal = FailingCluster(), Journal(None)
    loop = daemon(slurm, journal)
    goes_on(slurm, loop)
    slurm.end("v3")
    slurm.end("v4")
    goes_on(slurm, loop)
    assert not slurm.runs("u")
    slurm.put(replace(slurm.job("u"), submit_s=1000.0 + COUNTS_S))
    slurm.settle(COUNTS_S)
    slurm.fails = False
    goes_on(slurm, loop)
    assert slurm.runs("u")
    assert len(slurm.left()) == 3


def test_a_job_that_its_user_puts_back_keeps_its_nodes() -> None:
    slurm, journal = FailingCluster(drains=False), Journal(None)
    loop = daemon(slurm, journal)
    goes_on(slurm, loop)
    assert slurm.job("u").requeue_count > 2
    assert len(slurm.left()) == 1
    assert [one.nodes for one in slurm.view.reservations] == [slurm.job(slurm.left()[0]).nodes or ("n1",)]


@pytest.mark.parametrize("policy", ["eviction", "least-price", "n-paa", "cua-spaa"])
def test_three_jobs_leave_at_most_where_each_node_is_drained_after_its_job(policy: str) -> None:
    slurm, journal = DrainingCluster(), Journal(None)
    loop = daemon(slurm, journal, policy)
    said = goes_on(slurm, loop)
    assert len(slurm.left()) == 3
    assert (slurm.runs("u"), slurm.view.reservations) == (False, ())
    lacking = f"its nodes to be mended (3 holds have lost nodes; {', '.join(FOUR[:3])} are drained)"
    assert len([text for text in said if f"job u waits for {lacking}" in text]) == 1
    slurm.fails = False
    slurm.turn(NodeState.UP, *FOUR)
    goes_on(slurm, loop)
    assert slurm.runs("u")


def test_a_daemon_that_starts_again_knows_the_nodes_that_jobs_have_left(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    slurm, journal = DrainingCluster(), Journal(path)
    goes_on(slurm, daemon(slurm, journal))
    journal.close()
    journal = Journal(path)
    loop = daemon(slurm, journal)
    assert journal.nodes_left_for("u", 0.0) == {"n1", "n2", "n3"}
    slurm.fails = False
    slurm.turn(NodeState.UP, *FOUR)
    goes_on(slurm, loop)
    slurm.end("u")
    goes_on(slurm, loop)
    assert journal.open_operations() == ()
    assert journal.nodes_left_for("u", 0.0) >= {"n1", "n2", "n3"}
    assert journal.nodes_left_for("u", slurm.view.now_s) == frozenset()
    journal.close()


class LargeCluster(FailingCluster):
    """Of twelve nodes, eight are idle, and the others have a job that may leave and takes long to save."""

    def __init__(self) -> None:
        super().__init__()
        spec = CheckpointSpec(system_s=300.0, grace_s=400.0)
        urgent = replace(self.job("u"), node_count=9)
        self.view = cluster(12, running("v", node_names(4), start_s=500.0, checkpoint=spec), urgent)
        self.calls.clear()
        self.actions.clear()
        self.fails = False


def test_nodes_that_no_job_has_left_may_be_drained() -> None:
    """Administrators drain idle nodes of the hold one after another."""
    slurm, journal = LargeCluster(), Journal(None)
    loop = daemon(slurm, journal)
    goes_on(slurm, loop, 3)
    for name in ("n5", "n6", "n7"):
        (held,) = slurm.view.reservations
        assert name in held.nodes
        slurm.turn(NodeState.DRAINED, name)
        goes_on(slurm, loop, 3)
    (held,) = slurm.view.reservations
    assert set(held.nodes) == {*node_names(4), *node_names(5, first=8)}
    assert journal.nodes_left_for("u", 0.0) == frozenset()


@pytest.mark.parametrize(
    ("progress", "left"),
    [
        (Progress.PLANNED, False),
        (Progress.REFUSED, False),
        (Progress.DROPPED, False),
        (Progress.ISSUING, True),
        (Progress.ACCEPTED, True),
        (Progress.DONE, True),
        (Progress.GONE, True),
    ],
)
def test_nodes_that_jobs_have_left_or_may_have(progress: Progress, left: bool) -> None:
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM))
    (eviction,) = (task for task in operation.tasks if isinstance(task.action, Requeue))
    signalled = replace(operation.tasks[1], nodes=NODES, progress=Progress.DONE)
    changed = replace(operation, tasks=(signalled, replace(eviction, nodes=NODES, progress=progress)))
    assert nodes_left([changed]) == frozenset(NODES if left else ())


# What counts


def waits(requeue_count: int, **changes: Any) -> Job:
    job = pending("u", 2, kind=JobKind.ON_DEMAND, submit_s=995.0, requeue_count=requeue_count)
    return replace(job, **changes)


def hold(requeue_count: int, *nodes: str) -> Reserve:
    return Reserve(
        job_id="u",
        for_job_id="u",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        reservation="mw_u",
        nodes=nodes,
        duration_s=600.0,
        requeue_count=requeue_count,
    )


def lacks(
    job: Job,
    holds: tuple[Reserve, ...],
    drained: tuple[str, ...],
    count: int = 6,
    left: tuple[str, ...] | None = None,
) -> str:
    """What the job lacks, if these nodes are drained. `left`: those that jobs have left for it; None: all."""
    view = with_nodes(cluster(count, job), NodeState.DRAINED, *drained)
    gone = frozenset(node_names(count) if left is None else left)
    seen = FailedStarts(lambda _job_id, _since_s: holds, lambda _job_id, _since_s: gone).counted(view)
    (found,) = seen.jobs
    assert (found == job) is (found.blocked_by == job.blocked_by)
    return found.blocked_by


TWICE = (hold(0, "n1", "n2"), hold(1, "n2", "n3"))


def test_the_nodes_of_two_starts_are_told_apart() -> None:
    """The second hold had a node of the first one."""
    assert lacks(waits(2), TWICE, ("n1", "n2")) == LACKS
    assert lacks(waits(2), TWICE, ("n1", "n3")) == LACKS.replace("n2", "n3")


@pytest.mark.parametrize(
    ("job", "holds", "drained"),
    [
        (waits(1), TWICE, ("n1", "n2")),
        (waits(2), TWICE, ("n1",)),
        (waits(2), TWICE, ("n2",)),
        (waits(2), (hold(0, "n1", "n2"), hold(0, "n2", "n3"), hold(1, "n3", "n4")), ("n1", "n3")),
        (waits(7), (hold(7, "n1", "n2"), hold(7, "n3", "n4")), ("n1", "n3")),
        (waits(2), (hold(0, "n1", "n2"), hold(2, "n3", "n4")), ("n1", "n2")),
        (waits(2), (), ("n1", "n2")),
        (waits(2, kind=JobKind.RIGID), TWICE, ("n1", "n2")),
    ],
    ids=[
        "it waits for its second start",
        "one start failed",
        "a node that was in both holds",
        "a node was drained before the first start",
        "both before its present start",
        "one start failed on two nodes",
        "it had no hold",
        "it is not urgent",
    ],
)
def test_what_is_no_second_failed_start(
    job: Job, holds: tuple[Reserve, ...], drained: tuple[str, ...]
) -> None:
    assert lacks(job, holds, drained) == ""


THREE = (hold(0, "n1", "n2"), hold(0, "n2", "n3"), hold(0, "n3", "n4"))


def test_what_three_holds_for_one_start_have_lost() -> None:
    found = "its nodes to be mended (3 holds have lost nodes; n1, n2, n4 are drained)"
    assert lacks(waits(0), THREE, ("n1", "n2", "n4")) == found
    assert lacks(waits(0), THREE, ("n1", "n2")) == ""
    assert lacks(waits(0), THREE, ("n1", "n3", "n4")) == ""
    assert lacks(waits(1), THREE, ("n1", "n2", "n4")) == "", "the next start has a hold of its own"


def test_of_what_holds_have_lost_the_nodes_count_that_jobs_have_left() -> None:
    drained = ("n1", "n2", "n4")
    assert lacks(waits(0), THREE, drained, left=("n1", "n2")) == ""
    assert lacks(waits(0), THREE, drained, left=("n1", "n2", "n3", "n4")).endswith("n1, n2, n4 are drained)")
    assert lacks(waits(2), TWICE, ("n1", "n2"), left=()) == LACKS, "a start has failed on any node"


def test_what_the_cluster_says_that_it_lacks_stays() -> None:
    held = waits(2, blocked_by="its release from a hold (JobHeldUser)")
    assert lacks(held, TWICE, ("n1", "n2")) == held.blocked_by


def test_of_many_nodes_the_first_are_named() -> None:
    names = node_names(12)
    found = lacks(waits(2), (hold(0, *names[:6]), hold(1, *names[6:])), names, 12)
    assert found.endswith("(2 starts failed; n1, n2, n3, n4, n5, n6, n7, n8, 4 more are drained)")
