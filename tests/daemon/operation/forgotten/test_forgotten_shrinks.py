"""A controller that crashed has forgotten that it took nodes from a job, or that it ended one."""

from dataclasses import replace

import pytest

from makeway.daemon.operation.transitions import advance
from makeway.policies.model import (
    Action,
    Cancel,
    Cluster,
    Ending,
    Job,
    JobState,
    Method,
    Operation,
    Phase,
    Progress,
    Reason,
    Release,
)
from tests.builders import cluster, held, running, urgent
from tests.daemon.acting import DEADLINE_S, NODES, PATIENCE, begun, issue_all, reserve, shrink

LENDER = running("v", NODES, node_count_min=1)
SHRINK = shrink("v", NODES[:1])
CANCEL = Cancel(
    job_id="v",
    for_job_id="u",
    policy="test",
    reason=Reason.URGENT_ARRIVAL,
    method=Method.KILL,
    not_after_s=DEADLINE_S,
)
SENT_S = 1010.0


def at(now_s: float, *jobs: Job) -> Cluster:
    """The urgent job waits in its hold."""
    return gone_at(now_s, urgent("u", 3, reservation="mw_u"), *jobs)


def gone_at(now_s: float, *jobs: Job) -> Cluster:
    """As it is when the urgent job was cancelled."""
    return cluster(4, *jobs, now_s=now_s, reservations=(held("u", NODES),))


def accepted(action: Action) -> Operation:
    """The operation whose eviction the cluster has accepted at `SENT_S`."""
    view = cluster(4, urgent("u", 3), LENDER)
    operation, _ = issue_all(begun(view, reserve(), action), view)
    view = at(SENT_S, LENDER)
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert issued == [action]
    return operation


@pytest.mark.parametrize("action", [SHRINK, CANCEL], ids=["shrink", "cancel"])
def test_it_is_repeated_while_it_still_fits(action: Action) -> None:
    operation, sent = accepted(action), list[float]()
    for now_s in (1020.0, 1039.0, 1040.0, 1069.0, 1070.0, 1130.0, 1160.0, 1190.0):
        view = at(now_s, LENDER)
        operation, issued = issue_all(advance(operation, view, PATIENCE), view)
        sent += [now_s for one in issued if one == action]
    # Two minutes after the decision it does not fit any more: the policy decides again.
    assert sent == [1040.0, 1070.0]
    ended = [task.ending for task in operation.tasks if task.action == action]
    assert ended == [Ending.OUTDATED]


@pytest.mark.parametrize("action", [SHRINK, CANCEL], ids=["shrink", "cancel"])
def test_it_keeps_no_hold_for_which_there_is_no_job(action: Action) -> None:
    """Until now the hold stayed until the lender ended."""
    operation = accepted(action)
    view = gone_at(1020.0, LENDER)
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert (operation.phase, issued) == (Phase.RETURNING, [])
    view = gone_at(SENT_S + PATIENCE.settle_s, LENDER)
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert [type(one) for one in issued] == [Release]
    assert advance(operation, replace(view, reservations=()), PATIENCE).phase is Phase.CLOSED


@pytest.mark.parametrize(
    "lender",
    [
        replace(LENDER, state=JobState.COMPLETING),
        replace(LENDER, requeue_count=1),
        replace(LENDER, start_s=5.0),
        replace(LENDER, state=JobState.SUSPENDED),
    ],
    ids=["completing", "next run", "another run of that number", "suspended"],
)
def test_a_cancellation_is_not_repeated_of_a_job_that_does_not_run_on(lender: Job) -> None:
    operation = accepted(CANCEL)
    operation = advance(operation, at(1100.0, lender), PATIENCE)
    assert operation.tasks[-1].progress is Progress.ACCEPTED


def test_a_shrink_that_shows_late_is_done() -> None:
    operation = advance(accepted(SHRINK), at(1040.0, LENDER), PATIENCE)
    operation = advance(operation, at(1041.0, running("v", NODES[:1])), PATIENCE)
    assert operation.tasks[-1].ending is Ending.SEEN
