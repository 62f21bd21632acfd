"""What `summary` says of holds that wait, of limits that refuse, and of operations that are older than its
window.
"""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from makeway.adapters.protocol import AdapterError, Rejected, Unavailable
from makeway.daemon.cli.main import run_cli
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.inspect.explain import NOT_BEGUN, explain
from makeway.daemon.inspect.summary import summarise
from makeway.daemon.inspect.summary_values import DecisionSummary, UrgentAnswer
from makeway.daemon.journal.store import Journal
from makeway.policies.eviction.policy import EVICTION, EvictionConfig
from makeway.policies.model import Cluster, Job, JobKind, JobState, Limits, Method
from tests.fakes import FakeAdapter
from tests.policies.sharing import NOW_S, amounts, part, shared

VICTIM = part("v", "n0", amounts(8), account="physics")
URGENT = Job(
    job_id="u",
    kind=JobKind.ON_DEMAND,
    state=JobState.PENDING,
    node_count=1,
    walltime_s=600.0,
    submit_s=NOW_S,
    user="beamline",
    demand=amounts(4),
)
FULL = shared(URGENT, VICTIM, node_count=1)
LAST_S = 510.0
"""How long the kill waits: the deadline of 600 s without the margin of 30 s and the 60 s of a kill."""


def decided(
    path: Path,
    view: Cluster,
    mode: Mode,
    *after_s: float,
    errors: Mapping[str, AdapterError] = MappingProxyType({}),
    first_s: float = 0.0,
    **limits: Any,
) -> None:
    """Cycles at `first_s` after 10,000 s and so many seconds after 10,000 s. `errors`: what the cluster
    answers, by verb.
    """
    adapter = FakeAdapter(view)
    adapter.errors.update(errors)
    with closing(Journal(path)) as journal:
        loop = Reconciler(
            adapter,
            journal,
            EVICTION,
            EvictionConfig(),
            LoopSettings(mode=mode, limits=Limits(**limits)),
            now=lambda: adapter.view.now_s,
        )
        for seconds in (first_s, *after_s):
            adapter.view = replace(adapter.view, now_s=NOW_S + seconds)
            loop.reconcile()


def summed_up(path: Path, since_s: float | None = None) -> DecisionSummary:
    with closing(Journal(path, read_only=True)) as journal:
        found = summarise(journal, since_s)
    assert found is not None
    return found


def printed(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert run_cli(["summary", "--journal", str(path)], factories={}) == 0
    return " ".join(capsys.readouterr().out.split())


def test_kills_that_wait_in_observe_mode_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "j.sqlite"
    decided(path, FULL, Mode.OBSERVE, 200.0, LAST_S, LAST_S + 200.0)
    found = summed_up(path)
    (job,) = found.urgent
    assert (job.answer, job.ready_s, job.why) == (UrgentAnswer.WAIT, NOW_S + LAST_S, "")
    lenders = found.all_lenders
    assert (lenders.jobs, lenders.departures, lenders.postponed) == (1, {Method.KILL: 1}, 1)
    assert (lenders.loss_node_s, lenders.loss_core_s) == (1510, 1510.0 * 8)
    assert found.lenders == {"physics": lenders}
    text = printed(path, capsys)
    assert "other jobs leave at the last moment for 1 if there is no room before" in text
    assert "1 job would have had to leave, or to shrink, 1 time: a loss of 0.42 node-hours" in text
    assert "1 of these departures would have come at the last moment" in text
    assert "No job" not in text


def test_in_act_mode_the_later_decision_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    decided(path, FULL, Mode.ACT, LAST_S, LAST_S + 1.0)
    found = summed_up(path)
    (job,) = found.urgent
    assert (job.answer, job.decided_s, job.ready_s) == (UrgentAnswer.ROOM, NOW_S, NOW_S + LAST_S)
    assert (found.all_lenders.departures, found.all_lenders.postponed) == ({Method.KILL: 1}, 0)
    assert found.all_lenders.loss_node_s == 1510


def test_in_act_mode_nothing_is_counted_before_jobs_leave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "j.sqlite"
    decided(path, FULL, Mode.ACT)
    assert [job.answer for job in summed_up(path).urgent] == [UrgentAnswer.WAIT]
    assert "No job had to leave." in printed(path, capsys)


def test_what_was_begun_and_is_not_due_yet_is_not_called_so(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    decided(path, FULL, Mode.OBSERVE, LAST_S)
    with closing(Journal(path, read_only=True)) as journal:
        explained = explain(journal, "last")
    assert {one.outcome for one in explained.actions} == {"not sent"}


def test_a_job_that_runs_does_not_wait(tmp_path: Path) -> None:
    """Its operation goes on until it ends."""
    path = tmp_path / "j.sqlite"
    alone = shared(URGENT, node_count=1)
    decided(path, alone, Mode.ACT)
    assert [(job.started_s, job.still_waiting) for job in summed_up(path).urgent] == [(None, True)]
    runs = replace(URGENT, state=JobState.RUNNING, start_s=NOW_S + 1.0, nodes=("n0",))
    decided(path, replace(alone, jobs=(runs,)), Mode.ACT, first_s=2.0)
    assert [(job.started_s, job.still_waiting) for job in summed_up(path).urgent] == [(NOW_S + 1.0, False)]


def without_choice(path: Path) -> None:
    """The journal of a makeway that did not record the choice."""
    with closing(sqlite3.connect(path)) as file:
        for number, text in file.execute("SELECT decision_id, body FROM decisions").fetchall():
            stored = json.loads(text)
            for why in stored["body"]["rationale"]:
                del why["postponed"]
            file.execute("UPDATE decisions SET body = ? WHERE decision_id = ?", (json.dumps(stored), number))
        file.commit()


def test_an_older_journal_says_that_jobs_leave_but_not_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "j.sqlite"
    decided(path, FULL, Mode.OBSERVE, LAST_S)
    without_choice(path)
    found = summed_up(path)
    assert [job.answer for job in found.urgent] == [UrgentAnswer.WAIT]
    assert (found.unrecorded, found.all_lenders.jobs) == (1, 0)
    text = printed(path, capsys)
    assert "jobs would have had to leave for 1 of the urgent jobs" in text
    assert "The journal does not say which" in text
    assert "No job" not in text


def test_time_limits_that_make_the_room_count_as_free(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    ends = replace(VICTIM, preemptible=False, walltime_s=NOW_S - 9000.0 + 300.0)
    decided(path, shared(URGENT, ends, node_count=1), Mode.OBSERVE)
    found = summed_up(path)
    assert [job.answer for job in found.urgent] == [UrgentAnswer.FREE]
    assert (found.unrecorded, found.all_lenders.jobs) == (0, 0)


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"evictions_per_hour": 0}, "per_hour: 0 of 0 evictions in an hour are used"),
        (
            {"max_loss_node_hours": 0.1, "max_loss_machine_share": 0.0},
            "it would cost 0.28 node-hours, the limit is 0.10 (max_loss_node_hours). No job is evicted.",
        ),
    ],
)
def test_a_limit_that_refuses_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], limits: dict[str, Any], why: str
) -> None:
    """One that the arbiter keeps, and one that the policy knows."""
    path = tmp_path / "j.sqlite"
    soon = replace(URGENT, start_within_s=60.0)
    decided(path, shared(soon, VICTIM, node_count=1), Mode.OBSERVE, 10.0, **limits)
    (job,) = summed_up(path).urgent
    assert (job.answer, job.ready_s) == (UrgentAnswer.LIMIT, None)
    assert job.why.endswith(why)
    text = printed(path, capsys)
    assert "a limit keeps other jobs from leaving for 1" in text
    assert f"u: {job.why}" in text


def test_where_no_choice_is_in_time_the_policy_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "j.sqlite"
    decided(path, shared(URGENT, replace(VICTIM, preemptible=False), node_count=1), Mode.OBSERVE)
    (job,) = summed_up(path).urgent
    assert job.answer is UrgentAnswer.NONE
    assert "no choice among 0 jobs on 1 node makes room" in job.why
    text = printed(path, capsys)
    assert "no job leaves for 1, see below why" in text
    assert f"Why no job leaves: u: {job.why}" in text


def test_a_decision_that_nothing_was_begun_by_is_no_refusal(tmp_path: Path) -> None:
    """As while makeway is paused."""
    path = tmp_path / "j.sqlite"
    with closing(Journal(path)) as journal:
        journal.add_decision(NOW_S, EVICTION.decide(FULL, EvictionConfig()), FULL)
    (job,) = summed_up(path).urgent
    assert (job.answer, job.ready_s) == (UrgentAnswer.NONE, None)
    assert job.why == NOT_BEGUN
    with closing(Journal(path, read_only=True)) as journal:
        explained = explain(journal, "last")
    assert {one.outcome for one in explained.actions} == {f"not sent ({NOT_BEGUN})"}


def test_an_operation_that_is_older_than_the_window_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    decided(path, FULL, Mode.ACT, LAST_S, LAST_S + 1.0)
    last = summed_up(path, 60.0)
    assert (last.decisions, last.acted, last.observed) == (1, 1, 0)
    assert [job.answer for job in last.urgent] == [UrgentAnswer.ROOM]
    assert last.all_lenders.departures == {Method.KILL: 1}
    assert {totals.verb: totals.decided for totals in last.actions}["requeue"] == 1
    others = replace(URGENT, job_id="w", submit_s=NOW_S + 4000.0)
    room = replace(shared(others, node_count=1), now_s=NOW_S + 4000.0)
    with closing(Journal(path)) as journal:
        journal.add_decision(room.now_s, EVICTION.decide(room, EvictionConfig()), room)
    assert summed_up(path, 60.0).acted == 0, "nothing of the last minute is about it"


SOON = shared(replace(URGENT, start_within_s=60.0), VICTIM, node_count=1)
"""The job has to leave at once."""


def test_a_departure_that_was_never_sent_is_counted_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The urgent job is gone before its hold is seen, so nothing is sent that makes a job leave."""
    path = tmp_path / "j.sqlite"
    decided(path, SOON, Mode.ACT)
    found = summed_up(path)
    assert (found.all_lenders.jobs, found.to_come, found.called_off) == (0, 1, 0)
    assert "Departures decided and still to come: 1 (not counted)." in printed(path, capsys)

    decided(path, replace(SOON, jobs=(VICTIM,)), Mode.ACT, 5.0)
    found = summed_up(path)
    assert (found.all_lenders.jobs, found.to_come, found.called_off) == (0, 0, 1)
    assert (found.all_lenders.loss_node_s, found.lenders, found.urgent_users) == (0, {}, {})
    text = printed(path, capsys)
    assert "No job had to leave." in text
    assert "Departures decided and not made: 1 (not counted; the command was never sent" in text


def test_a_departure_that_the_cluster_refused_is_counted_apart(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    decided(path, SOON, Mode.ACT, 5.0, errors={"requeue": Rejected("no")})
    found = summed_up(path)
    assert [(one.sent, one.refused) for one in found.actions if one.verb == "requeue"] == [(1, 1)]
    assert (found.all_lenders.jobs, found.all_lenders.loss_node_s, found.called_off) == (0, 0, 1)


def test_a_departure_without_an_answer_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    decided(path, SOON, Mode.ACT, 5.0, errors={"requeue": Unavailable("no answer", sent=True)})
    found = summed_up(path)
    assert (found.all_lenders.jobs, found.all_lenders.loss_node_s) == (1, 1000)
    assert (found.to_come, found.called_off) == (0, 0)


def test_in_observe_mode_a_departure_is_counted_although_its_operation_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    decided(path, SOON, Mode.OBSERVE)
    decided(path, replace(SOON, jobs=(VICTIM,)), Mode.OBSERVE, 5.0)
    found = summed_up(path)
    assert (found.all_lenders.jobs, found.all_lenders.loss_node_s) == (1, 1000)
    assert (found.to_come, found.called_off) == (0, 0)


def test_a_journal_whose_name_has_a_line_end_is_one_line_of_complaint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_cli(["summary", "--journal", "no\nfile"], factories={}) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("makeway: error: no\\nfile: cannot be opened as a journal")


def test_departures_of_observe_mode_are_told_from_those_that_were_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "j.sqlite"
    decided(path, SOON, Mode.OBSERVE)
    assert summed_up(path).only_observed == 1
    assert "that were only observed" not in printed(path, capsys), "all are: it would have had to leave"
    decided(path, SOON, Mode.ACT, 15.0, first_s=10.0)
    found = summed_up(path)
    assert (found.all_lenders.jobs, found.all_lenders.departures) == (1, {Method.KILL: 2})
    assert (found.observed, found.acted, found.only_observed) == (1, 1, 1)
    assert "Departures of these that were only observed: 1 (no job left)." in printed(path, capsys)
