"""What the page shows of a journal."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from makeway.daemon.errors import UserError
from makeway.daemon.inspect.now import latest_decisions, loans, now
from makeway.daemon.inspect.whatif import WhatIfAnswer, WhatIfQuestion, what_if
from makeway.daemon.journal.store import Journal
from makeway.daemon.page import views
from makeway.policies.model import Cluster, Decision, OperationOutcome, Phase, Prioritise, Progress, Reason
from tests.builders import cluster
from tests.daemon.page.browsing import HOSTILE, NOW_S


def test_now_without_a_daemon(journal: Journal, tmp_path: Path) -> None:
    found = now(journal, tmp_path / "s.sock")
    assert found["status"] is None
    assert "no daemon answers" in found["problem"]
    (operation,) = found["operations"]
    assert (operation["for_job"], operation["kind"], operation["nodes"]) == ("u", "make_way", 4)
    assert [(task["verb"], task["job"]) for task in operation["tasks"]] == [
        ("reserve", "u"),
        ("checkpoint", HOSTILE),
        ("requeue", HOSTILE),
    ]


def test_decisions_are_listed_with_their_sentences(journal: Journal) -> None:
    (listed,) = latest_decisions(journal, 5)
    assert (listed["decision"], listed["policy"], listed["actions"]) == (1, "eviction", 3)
    assert listed["summaries"][0].startswith("job u: 4 more nodes are needed")
    assert views.explanation(journal, "1").startswith("Decision 1 of policy eviction")
    with pytest.raises(UserError, match="there is no decision 9"):
        views.explanation(journal, "9")


def test_the_timeline_has_a_row_for_each_job(journal: Journal) -> None:
    found = views.timeline(journal, NOW_S)
    assert (found["from_s"], found["now_s"]) == (NOW_S - views.TIMELINE_S, NOW_S)
    rows = {row["job"]: row["bars"] for row in found["rows"]}
    assert [bar["what"] for bar in rows["u"]] == ["waits"]
    assert [(bar["what"], bar["until_s"]) for bar in rows[HOSTILE]] == [("saves", None)]


def test_the_timeline_of_an_operation_that_is_over(tmp_path: Path, decided: Path) -> None:
    journal = Journal(decided)
    (opened,) = journal.open_operations()
    requeued = replace(opened.tasks[2], issued_s=1200.0)
    over = replace(
        opened,
        phase=Phase.CLOSED,
        started_s=1210.0,
        ended_s=1500.0,
        outcome=OperationOutcome.STARTED,
        tasks=(*opened.tasks[:2], requeued),
    )
    found = [(bar.job_id, bar.what, bar.from_s, bar.until_s) for bar in views.bars(over)]
    assert found == [
        ("u", "waits", opened.opened_s, 1210.0),
        ("u", "runs", 1210.0, 1500.0),
        (HOSTILE, "saves", opened.tasks[1].issued_s, opened.tasks[1].ended_s),
        (HOSTILE, "lent", 1200.0, 1500.0),
    ]
    journal.close()


def test_the_timeline_of_a_replay_reaches_to_its_last_operation(decided: Path) -> None:
    with closing(Journal(decided)) as journal:
        (opened,) = journal.open_operations()
        held = replace(opened.tasks[0], progress=Progress.DONE, ended_s=1010.0)
        over = replace(opened, phase=Phase.CLOSED, started_s=1210.0, ended_s=1500.0, tasks=(held,))
        journal.save(replace(over, outcome=OperationOutcome.STARTED))
        found = views.timeline(journal, 9e9)
    assert (found["from_s"], found["now_s"]) == (1500.0 - views.TIMELINE_S, 1500.0)


def test_the_nodes_that_jobs_have_lent(decided: Path) -> None:
    journal = Journal(decided)
    (opened,) = journal.open_operations()
    journal.close()
    requeue = opened.tasks[2]
    assert list(loans(opened)) == []
    gone = replace(requeue, issued_s=1200.0, ended_s=1210.0, progress=Progress.DONE)
    (lent,) = loans(replace(opened, tasks=(*opened.tasks[:2], gone)))
    assert lent == {"lender": HOSTILE, "method": "system", "nodes": 4, "since_s": 1210.0, "returned": False}
    first = Prioritise(job_id=HOSTILE, for_job_id="u", policy="test", reason=Reason.BORROWER_ENDED)
    for progress, returned in ((Progress.ACCEPTED, False), (Progress.DONE, True)):
        given = replace(requeue, action=first, progress=progress)
        (lent,) = loans(replace(opened, tasks=(*opened.tasks[:2], gone, given)))
        assert lent["returned"] is returned
    assert list(loans(replace(opened, tasks=(*opened.tasks[:2], gone), observe=True))) == []


def test_what_if_is_computed_once_for_a_snapshot(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(cluster: Cluster, question: WhatIfQuestion) -> WhatIfAnswer:
        asked.append(question.node_count)
        return what_if(cluster, question)

    monkeypatch.setattr(views, "what_if", counted)
    shown = views.WhatIf()
    first = shown.view(journal, 4)
    assert first == shown.view(journal, 4)
    shown.view(journal, 8)
    assert asked == [4, 8]
    assert first["counts"] == [1, 2, 4, 8]
    assert (first["nodes"], first["free"]) == (4, 0)
    assert first["losses_node_s"][0] is not None


def test_what_if_needs_a_snapshot_and_a_number_that_is_offered(journal: Journal, tmp_path: Path) -> None:
    shown = views.WhatIf()
    with pytest.raises(UserError, match="nodes: one of 1, 2, 4, 8 is expected"):
        shown.view(journal, 3)
    empty = Journal(tmp_path / "empty.sqlite")
    with pytest.raises(UserError, match="no decision with its snapshot"):
        shown.view(empty, 1)
    empty.add_decision(1.0, Decision(policy="test"), None)
    with pytest.raises(UserError, match="no decision with its snapshot"):
        shown.view(empty, 1)
    empty.close()


@pytest.mark.parametrize(("nodes", "expected"), [(1, [1]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_the_node_counts_that_are_offered(nodes: int, expected: list[int]) -> None:
    assert views.node_counts(cluster(nodes)) == expected
