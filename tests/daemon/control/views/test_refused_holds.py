"""Holds that the cluster refuses: the next decision comes at once, then without these nodes, then later."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from makeway.adapters.protocol import Rejected
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import CycleReport, LoopSettings
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.observation import Timeouts
from makeway.policies.model import (
    CPU,
    Action,
    JobState,
    Limits,
    Node,
    NodeState,
    Release,
    Reservation,
    Reserve,
    Resources,
)
from makeway.policies.registry import find
from tests.builders import node_names, running, urgent
from tests.daemon.control.arrays.array_cluster import ArrayCluster

WORDS = "Requested reservation overlaps with another reservation"
POLICIES = ("eviction", "least-price", "n-paa", "cua-spaa")


class RefusingCluster(ArrayCluster):
    """Some nodes, each with a job that may leave, the later ones at a higher price. An urgent job `u` wants
    one of them. The cluster refuses each hold with one of the nodes `bad`.
    """

    def __init__(self, *bad: str, wants: int = 1, count: int = 4) -> None:
        names = node_names(count)
        jobs = [running(f"v{name[1:]}", (name,), start_s=990.0 - 10 * int(name[1:])) for name in names]
        waits = replace(urgent("u", wants, submit_s=995.0), start_within_s=3600.0)
        self.bad, self.shown = frozenset(bad), False
        self.sent_s: list[float] = []
        super().__init__(*jobs, waits, tasks=())
        self.view = replace(self.view, nodes=tuple(Node(name=name) for name in names))

    def apply(self, action: Action) -> None:
        if isinstance(action, Reserve):
            self.sent_s.append(self.view.now_s)
            if self.bad.intersection(action.nodes):
                self.calls.append(("refused", ",".join(action.nodes)))
                raise Rejected(WORDS)
        super().apply(action)

    @property
    def refused(self) -> list[str]:
        """The nodes of each hold that was refused."""
        return [nodes for verb, nodes in self.calls if verb == "refused"]

    @property
    def left(self) -> list[str]:
        """The jobs that had to leave, in order."""
        return [job_id for verb, job_id in self.calls if verb == "requeue"]


def daemon(
    slurm: RefusingCluster, journal: Journal, policy: str = "eviction", refused_s: float = 60.0
) -> Reconciler:
    found = find(policy)
    limits = Limits(min_runtime_s=0.0, min_progress_s=0.0, breaker_failures=None)
    settings = LoopSettings(mode=Mode.ACT, limits=limits, timeouts=Timeouts(refused_s=refused_s))
    return Reconciler(slurm, journal, found, found.config_type(), settings, now=lambda: slurm.view.now_s)


def at_one_instant(loop: Reconciler) -> list[CycleReport]:
    """The cycles that follow each other at once."""
    reports = [loop.reconcile()]
    while reports[-1].again:
        assert len(reports) < 20, "without end"
        reports.append(loop.reconcile())
    return reports


def goes_on(slurm: RefusingCluster, loop: Reconciler, for_s: float, step_s: float = 10.0) -> list[str]:
    """What the log says of that time."""
    said: list[str] = []
    end_s = slurm.view.now_s + for_s
    while slurm.view.now_s < end_s:
        said += [report.sentence for report in at_one_instant(loop)]
        slurm.settle(step_s)
    return said


@pytest.mark.parametrize("policy", POLICIES)
def test_after_two_refusals_another_node_serves_at_once(policy: str) -> None:
    slurm = RefusingCluster("n1", "n4")
    loop = daemon(slurm, Journal(None), policy)
    at_one_instant(loop)
    assert len(set(slurm.refused)) == 1, "only one node was tried, and that twice"
    assert len(slurm.refused) == 2
    assert len(set(slurm.sent_s)) == 1
    goes_on(slurm, loop, 60.0)
    assert slurm.job("u").state is JobState.RUNNING
    assert not slurm.bad.intersection(slurm.job("u").nodes)
    assert len(slurm.left) == 1


def test_nobody_leaves_before_a_hold_stands() -> None:
    slurm = RefusingCluster(*node_names(4))
    goes_on(slurm, daemon(slurm, Journal(None)), 3600.0)
    assert slurm.left == []
    assert slurm.view.reservations == ()


def test_the_reason_that_the_next_snapshot_shows_is_heeded_at_once() -> None:
    """The site has reserved the node between the look and the command."""
    slurm = RefusingCluster("n1")
    loop = daemon(slurm, Journal(None))
    loop.reconcile()
    assert slurm.refused == ["n1"]
    site = Reservation(name="site", nodes=("n1",), start_s=0.0, end_s=90_000.0)
    slurm.view = replace(slurm.view, reservations=(site,))
    at_one_instant(loop)
    assert slurm.refused == ["n1"]
    assert [action.nodes for action in slurm.actions if isinstance(action, Reserve)] == [("n2",)]


def test_a_refusal_of_all_nodes_is_answered_by_longer_and_longer_pauses() -> None:
    slurm = RefusingCluster(*node_names(4))
    goes_on(slurm, daemon(slurm, Journal(None)), 3600.0, step_s=5.0)
    first_s = slurm.sent_s[0]
    after_s = [sent_s - first_s for sent_s in slurm.sent_s]
    assert after_s[:8] == [0.0, 0.0, 0.0, 60.0, 120.0, 180.0, 240.0, 360.0]
    assert max(later - before for before, later in pairwise(after_s)) == 600.0


def test_there_is_a_pause_also_if_the_site_sets_none() -> None:
    slurm = RefusingCluster(*node_names(4))
    goes_on(slurm, daemon(slurm, Journal(None), refused_s=0.0), 60.0, step_s=5.0)
    assert [sent_s - slurm.sent_s[0] for sent_s in slurm.sent_s] == [0.0, 0.0, 0.0, 10.0, 20.0, 30.0, 40.0]


def test_the_log_and_the_decision_have_the_words_of_the_cluster() -> None:
    slurm, journal = RefusingCluster("n1"), Journal(None)
    said = goes_on(slurm, daemon(slurm, journal), 5.0)
    assert len([text for text in said if f"job u does without n1 ({WORDS})" in text]) == 1
    told = [why.summary for one in journal.decisions(9) for why in one.decision.rationale]
    assert any(f"The cluster refuses to hold n1 ({WORDS})" in text for text in told)


def test_a_pause_is_explained_once() -> None:
    slurm, journal = RefusingCluster(*node_names(4)), Journal(None)
    said = goes_on(slurm, daemon(slurm, journal), 30.0)
    lacks = "its hold, which the cluster has refused 3 times"
    assert len([text for text in said if f"job u waits for {lacks}" in text]) == 1
    told = [why.summary for one in journal.decisions(9) for why in one.decision.rationale]
    assert any(lacks in text and WORDS in text for text in told)


def test_the_cycle_after_a_pause_is_due_by_itself() -> None:
    slurm = RefusingCluster(*node_names(4))
    loop = daemon(slurm, Journal(None))
    at_one_instant(loop)
    now_s = slurm.view.now_s
    assert loop.wakeup_s(now_s, 1000.0) == now_s + 60.0


def test_a_daemon_that_starts_again_knows_it(tmp_path: Path) -> None:
    slurm, path = RefusingCluster(*node_names(4)), tmp_path / "journal.sqlite"
    journal = Journal(path)
    at_one_instant(daemon(slurm, journal))
    count = len(slurm.refused)
    journal.close()
    for _ in range(5):
        journal = Journal(path)
        at_one_instant(daemon(slurm, journal))
        journal.close()
        slurm.settle(5.0)
    assert len(slurm.refused) == count == 3


def test_each_restart_after_one_refusal_goes_on_from_there(tmp_path: Path) -> None:
    slurm, path = RefusingCluster("n1"), tmp_path / "journal.sqlite"
    for _ in range(12):
        journal = Journal(path)
        daemon(slurm, journal).reconcile()
        journal.close()
        slurm.settle(2.0)
    assert slurm.refused == ["n1", "n1"]
    assert slurm.job("u").nodes == ("n2",)


def test_a_job_that_needs_all_nodes_does_without_none() -> None:
    slurm = RefusingCluster("n3", wants=4)
    loop = daemon(slurm, Journal(None))
    goes_on(slurm, loop, 300.0)
    assert len(slurm.refused) == 5
    slurm.bad = frozenset()
    goes_on(slurm, loop, 600.0)
    assert slurm.job("u").state is JobState.RUNNING


def test_of_several_refused_nodes_the_bad_one_is_found() -> None:
    slurm = RefusingCluster("n2", wants=3)
    goes_on(slurm, daemon(slurm, Journal(None)), 900.0)
    assert slurm.job("u").state is JobState.RUNNING
    assert len(slurm.left) == 3


def test_nodes_of_jobs_that_stay_are_no_others() -> None:
    slurm = RefusingCluster("n1")
    for number in (2, 3, 4):
        slurm.put(replace(slurm.job(f"v{number}"), preemptible=False))
    loop = daemon(slurm, Journal(None))
    goes_on(slurm, loop, 20.0)
    assert slurm.refused == ["n1"] * 3
    slurm.bad = frozenset()
    goes_on(slurm, loop, 120.0)
    assert slurm.job("u").nodes == ("n1",)


def test_a_hold_that_stands_keeps_its_nodes_when_a_change_of_it_is_refused() -> None:
    """One node of it goes down, and the first choice in its place is refused."""
    slurm = RefusingCluster("n3", wants=2)
    loop = daemon(slurm, Journal(None))
    loop.reconcile()
    assert [action.nodes for action in slurm.actions if isinstance(action, Reserve)] == [("n1", "n2")]
    nodes = tuple(replace(one, state=NodeState.DOWN) if one.name == "n2" else one for one in slurm.view.nodes)
    slurm.view = replace(slurm.view, nodes=nodes)
    goes_on(slurm, loop, 60.0)
    assert set(slurm.refused) == frozenset({"n1,n3"})
    assert len(slurm.refused) == 2
    assert set(slurm.job("u").nodes) == frozenset({"n1", "n4"})
    assert not any(isinstance(action, Release) for action in slurm.actions[:3]), "nothing went back meanwhile"
    assert sorted(slurm.left) == ["v1", "v4"]


def test_a_request_to_try_again_is_no_reason_for_other_nodes_at_once() -> None:
    slurm = RefusingCluster()
    loop = daemon(slurm, Journal(None))
    slurm.errors["reserve"] = Rejected("try again", retryable=True)
    goes_on(slurm, loop, 20.0, step_s=5.0)
    assert {action.nodes for action in slurm.actions if isinstance(action, Reserve)} == {("n1",)}
    goes_on(slurm, loop, 60.0, step_s=5.0)
    assert ("n2",) in {action.nodes for action in slurm.actions if isinstance(action, Reserve)}


@pytest.mark.parametrize("wants", [1, 3])
def test_a_reservation_of_many_nodes_that_makeway_is_not_shown_is_got_round(wants: int) -> None:
    """It has the nodes that would cost least."""
    slurm = RefusingCluster(*node_names(7), wants=wants, count=12)
    goes_on(slurm, daemon(slurm, Journal(None)), 600.0)
    assert slurm.job("u").state is JobState.RUNNING
    assert len(slurm.refused) == 2 + -(-7 // wants) - 1
    assert len(slurm.left) == wants


def test_the_pause_grows_slowly_while_other_nodes_are_tried() -> None:
    slurm = RefusingCluster(*node_names(40), count=40)
    goes_on(slurm, daemon(slurm, Journal(None)), 3600.0)
    after_s = [later - before for before, later in pairwise(slurm.sent_s)]
    assert after_s[:17] == [0.0, 0.0, *([60.0] * 14), 120.0]
    assert after_s == sorted(after_s)
    assert max(after_s) > 60.0


def shared(slurm: RefusingCluster, eligible: frozenset[str] | None = None) -> None:
    """Each node has a job on its other half that stays, and `u` wants half a node."""
    half, whole = Resources.of({CPU: 4}), Resources.of({CPU: 8})
    stay = [running(f"p{name[1:]}", (name,), preemptible=False) for name in slurm.view.up_nodes()]
    jobs = (*(job for job in slurm.view.jobs if job.nodes), *stay)
    on_half = (replace(job, allocation=(half,), node_equivalents=0.5) for job in jobs)
    waits = replace(slurm.job("u"), demand=half, eligible_nodes=eligible)
    nodes = tuple(replace(node, capacity=whole) for node in slurm.view.nodes)
    slurm.view = replace(slurm.view, nodes=nodes, jobs=(*on_half, waits))


@pytest.mark.parametrize("wants", [1, 4])
def test_on_shared_nodes_a_job_without_other_nodes_asks_for_the_same_ones(wants: int) -> None:
    slurm = RefusingCluster("n1", wants=wants)
    shared(slurm, frozenset({"n1"}) if wants == 1 else None)
    goes_on(slurm, daemon(slurm, Journal(None), "least-price"), 300.0)
    assert [sent_s - slurm.sent_s[0] for sent_s in slurm.sent_s] == [0.0, 0.0, 0.0, 60.0, 180.0]


def test_on_shared_nodes_others_are_those_with_room_beside_the_jobs_that_stay() -> None:
    slurm = RefusingCluster("n1")
    shared(slurm)
    at_one_instant(daemon(slurm, Journal(None), "least-price"))
    assert slurm.refused == ["n1", "n1"]
    assert [hold.nodes for hold in slurm.view.reservations] == [("n2",)]
