"""The hold of an urgent job that has ended lasts until the jobs that left for it can start."""

from dataclasses import replace

import pytest

from makeway.daemon.operation.transitions import advance
from makeway.policies.model import Action, Prioritise, Release
from tests.builders import pending
from tests.daemon.acting import PATIENCE, after_view, due, issue_all, lent_operation, requeue


@pytest.mark.parametrize(
    ("prioritised", "eligible_s", "now_s", "verbs"),
    [
        (True, None, 2002.0, [Release]),
        (True, 2003.0, 2002.0, []),
        (True, 2003.0, 2003.0, [Release]),
        (False, None, 2002.0, []),
        (True, 4e9, 2029.0, []),
        (True, 4e9, 2030.0, [Release]),
        (False, None, 2030.0, [Prioritise]),
    ],
)
def test_the_hold_lasts_until_the_lender_can_start(
    prioritised: bool, eligible_s: float | None, now_s: float, verbs: list[type[Action]]
) -> None:
    """A waiting job would be on the nodes before a lender that may start only some seconds after it was put
    first.
    """
    operation = lent_operation(requeue("v"))
    view = after_view(pending("v", 4, requeue_count=1), now_s=2000.0)
    operation, _ = issue_all(advance(operation, view, PATIENCE), view)
    lender = replace(pending("v", 4, requeue_count=1, prioritised=prioritised), eligible_s=eligible_s)
    later = after_view(lender, now_s=now_s)

    operation, issued = issue_all(advance(operation, later, PATIENCE), later)
    assert [type(action) for action in issued] == verbs
    if verbs == [Prioritise]:
        still = replace(later, now_s=now_s + 1.0)
        assert [type(action) for action in due(advance(operation, still, PATIENCE), still)] == [Release]


def test_the_hold_lasts_until_the_lender_can_start_also_if_it_was_put_first_late() -> None:
    """The daemon had to wait for its lease when the urgent job ended."""
    operation = lent_operation(requeue("v"))
    lender = replace(pending("v", 4, requeue_count=1), eligible_s=2120.0)
    operation = advance(operation, after_view(lender, now_s=2000.0), PATIENCE)
    view = after_view(lender, now_s=2100.0)
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert [type(action) for action in issued] == [Prioritise]
    assert due(operation, view) == []

    first = replace(pending("v", 4, requeue_count=1, prioritised=True), eligible_s=2103.0)
    verbs = {
        now_s: [type(action) for action in due(advance(operation, later, PATIENCE), later)]
        for now_s in (2102.0, 2103.0)
        for later in [after_view(first, now_s=now_s)]
    }
    assert verbs == {2102.0: [], 2103.0: [Release]}
