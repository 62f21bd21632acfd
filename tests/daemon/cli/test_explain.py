"""`makeway explain`: candidates, costs and outcomes of a stored decision."""

from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path

import pytest

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.metric_table import RATIONALE_METRICS
from makeway.daemon.journal.store import Journal
from makeway.policies.model import Checkpoint, Decision, Notice
from makeway.policies.registry import POLICIES, find
from makeway.policies.safety.prices import hours_text
from tests.builders import cluster, node_names, running, urgent
from tests.daemon.cli.program import HOSTILE, Program, decide
from tests.fakes import FakeAdapter
from tests.paths import EXAMPLE_POLICY


def test_explain_shows_candidates_costs_and_outcomes(
    program: Program, config: Path, adapter: FakeAdapter, tmp_path: Path
) -> None:
    decide(adapter, tmp_path / "j.sqlite", Mode.ACT)
    listed = program("explain", "--config", config)
    assert "eviction" in listed
    text = program("explain", 1, "--config", config)
    assert text.startswith("Decision 1 of policy eviction at 1000 s")
    assert "Urgent job u: 4 nodes, 0 free, on time for another 9:50" in text
    assert "→  j\\x1b[2J\\n[red]x" in text
    assert "\x1b" not in text
    assert "saved by 1210 s" in text
    values = program.json("explain", "last", "--config", config)
    assert values["decision"] == 1
    (why,) = values["rationale"]
    assert why["numbers"].keys() == {metric.name for metric in RATIONALE_METRICS}
    assert all(f"{metric.title}: {why['numbers'][metric.name]:g}" in text for metric in RATIONALE_METRICS)
    chosen = [entry for entry in why["candidates"] if entry["chosen"]]
    assert [(entry["job_ids"], entry["method"], entry["loss_node_s"]) for entry in chosen] == [
        ([HOSTILE], "system", 0)
    ]
    assert [(entry["action"]["verb"], entry["verdict"], entry["outcome"]) for entry in values["actions"]] == [
        ("reserve", "allowed", "accepted"),
        ("checkpoint", "allowed", "accepted"),
        ("requeue", "allowed", "not sent"),
    ]


def test_a_protected_job_stays_for_a_reason_in_words(
    program: Program, adapter: FakeAdapter, config: Path, tmp_path: Path
) -> None:
    adapter.view = cluster(
        4, urgent("u", 4, submit_s=990.0), running("old", node_names(4), preemptible=False)
    )
    decide(adapter, tmp_path / "j.sqlite", Mode.OBSERVE)
    said = "not_preemptible: it is of no class that may be asked to leave, or would not run again"
    assert said in program("explain", "last", "--config", config)
    assert said in program("whatif", "--nodes", 4, "--config", config)


def test_an_announced_job_is_called_so(program: Program, tmp_path: Path) -> None:
    notice = Notice(
        notice_id="n-1", user="beam", node_count=4, walltime_s=600.0, announced_s=990.0, expected_s=1600.0
    )
    view = replace(cluster(4, running("old", node_names(4))), notices=(notice,))
    policy = find("cup-paa")
    with closing(Journal(tmp_path / "j.sqlite")) as journal:
        journal.add_decision(view.now_s, policy.decide(view, policy.config_type()), view)
    assert "Announced job n-1: 4 nodes" in program("explain", "last", "--journal", tmp_path / "j.sqlite")


def test_the_price_is_shown_where_the_policy_compares_by_it(
    program: Program, adapter: FakeAdapter, tmp_path: Path
) -> None:
    for policy in ("eviction", "least-price"):
        journal = tmp_path / f"{policy}.sqlite"
        decide(adapter, journal, Mode.OBSERVE, policy=policy)
        text = program("explain", "last", "--journal", journal)
        assert ("price (node-hours)" in text) == (policy == "least-price")
    chosen = next(line for line in text.splitlines() if line.startswith("→"))
    (candidate,) = [
        one
        for one in program.json("explain", "last", "--journal", journal)["rationale"][0]["candidates"]
        if one["chosen"]
    ]
    assert hours_text(candidate["price_node_s"]) in chosen.split()
    (signalled,) = [line.split() for line in text.splitlines() if "after a signal" in line]
    assert signalled[-4:-1] == ["4", "0", "0.22"], (
        "no work is lost, and 200 s of four nodes for the checkpoint"
    )


def test_what_happened_to_a_job_is_in_words(
    program: Program, config: Path, adapter: FakeAdapter, tmp_path: Path
) -> None:
    decide(adapter, tmp_path / "j.sqlite", Mode.ACT)
    text = " ".join(program("explain", "--job", HOSTILE, "--config", config).split())
    assert "run since" in text
    assert "{" not in text


def test_a_signal_that_was_sent_late_is_the_one_that_was_decided_on(
    program: Program, adapter: FakeAdapter, tmp_path: Path
) -> None:
    """Its grace was shortened at sending."""
    decide(adapter, tmp_path / "j.sqlite", Mode.ACT, late_s=20.0)
    values = program.json("explain", "last", "--journal", tmp_path / "j.sqlite")
    (decided,) = (entry["action"] for entry in values["actions"] if entry["action"]["verb"] == "checkpoint")
    (sent,) = (action for action in adapter.actions if isinstance(action, Checkpoint))
    assert sent.grace_s < decided["grace_s"]
    assert [entry["outcome"] for entry in values["actions"]] == ["accepted", "accepted", "not sent"]


def test_explain_of_an_observed_decision(program: Program, adapter: FakeAdapter, tmp_path: Path) -> None:
    decide(adapter, tmp_path / "j.sqlite", Mode.OBSERVE)
    values = program.json("explain", "1", "--journal", tmp_path / "j.sqlite")
    assert {entry["outcome"] for entry in values["actions"]} == {"not sent"}


def test_explain_while_a_daemon_runs(program: Program, adapter: FakeAdapter, tmp_path: Path) -> None:
    decide(adapter, tmp_path / "j.sqlite", Mode.OBSERVE)
    daemon = Journal(tmp_path / "j.sqlite")
    try:
        assert program.json("explain", "--journal", tmp_path / "j.sqlite")[0]["decision"] == 1
    finally:
        daemon.close()


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        ("7", "there is no decision 7"),
        ("0", "there is no decision 0"),
        ("last", "no decision is stored"),
        ("seven", "'seven' is not a decision: write its number in the log, or `last`"),
        ("9" * 30, "is not a decision: write its number in the log"),
    ],
)
def test_decisions_that_are_not_there(program: Program, tmp_path: Path, decision: str, expected: str) -> None:
    Journal(tmp_path / "j.sqlite").close()
    assert expected in program.refused("explain", decision, "--journal", tmp_path / "j.sqlite")
    assert "No decision is stored." in program("explain", "--journal", tmp_path / "j.sqlite")


def test_a_decision_that_is_no_longer_kept(program: Program, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.sqlite")
    for at_s in (1.0, 2.0, 3.0):
        journal.add_decision(at_s, Decision(policy="test"), None)
    journal.prune(2.5)
    journal.close()
    said = program.refused("explain", "1", "--journal", tmp_path / "j.sqlite")
    assert "decision 1 is no longer kept (journal_keep_days); the oldest one kept is 3" in said
    assert "there is no decision 4" in program.refused("explain", "4", "--journal", tmp_path / "j.sqlite")


def test_of_an_array_the_tasks_are_named(program: Program, tmp_path: Path) -> None:
    policy = find("eviction")
    tasks = [urgent(f"7_{number}", 1) for number in (10, 9)]
    view = cluster(1, *tasks, urgent("70", 1), urgent("5+1", 1))
    with closing(Journal(tmp_path / "j.sqlite")) as journal:
        journal.add_decision(view.now_s, policy.decide(view, policy.config_type()), view)
    for asked, named in (("7", "7_9, 7_10"), ("5", "5+1")):
        said = program.refused("explain", "--job", asked, "--journal", tmp_path / "j.sqlite")
        assert said.endswith(f"nothing is stored about job {asked}; accepted: {named}")


def test_what_happened_to_a_job(program: Program, adapter: FakeAdapter, tmp_path: Path) -> None:
    decide(adapter, tmp_path / "j.sqlite", Mode.ACT)
    text = program("explain", "--job", HOSTILE, "--journal", tmp_path / "j.sqlite")
    assert "\x1b" not in text
    events = program.json("explain", "--job", HOSTILE, "--journal", tmp_path / "j.sqlite")
    assert [(event["what"], event["for_job_id"], event["decision_id"]) for event in events] == [
        ("decision", "u", 1),
        ("checkpoint", "u", None),
    ]
    assert events[1]["outcome"] == "accepted"
    served = program.json("explain", "--job", "u", "--journal", tmp_path / "j.sqlite")
    assert [event["what"] for event in served] == ["decision", "reserve"]
    said = program.refused("explain", "--job", "x", "--journal", tmp_path / "j.sqlite")
    assert said.endswith("j.sqlite: nothing is stored about job x")
    both = program.refused("explain", "1", "--job", "u", "--journal", tmp_path / "j.sqlite")
    assert "a DECISION or --job, not both" in both


def test_actions_are_shown_in_words(program: Program, adapter: FakeAdapter, tmp_path: Path) -> None:
    decide(adapter, tmp_path / "j.sqlite", Mode.ACT)
    text = program("explain", "1", "--journal", tmp_path / "j.sqlite")
    assert "None" not in text
    assert "duration_s" not in text
    assert "duration 1:" in text


def test_policies_and_their_settings_are_listed(program: Program) -> None:
    listed = program.json("policies")
    assert [one["policy"] for one in listed] == list(POLICIES)
    for name, policy in POLICIES.items():
        settings = program.json("policies", name) if fields(policy.config_type) else []
        assert [one["name"] for one in settings] == [field.name for field in fields(policy.config_type)]
        assert any(one["meaning"] for one in settings) or not settings, name
    late = {one["name"]: one for one in program.json("policies", "eviction")}["late"]
    assert (late["type"], late["default"]) == ("queue or evict", "queue")
    types = {one["name"]: (one["type"], one["default"]) for one in program.json("policies", "least-price")}
    assert types["vital_users"] == ("list", "[]")
    assert types["budget_machine_hours"] == ("number or null", "null")
    types = {one["name"]: (one["type"], one["default"]) for one in program.json("policies", "ckpt-backfill")}
    assert types["p"] == ("number or learned", "0.2")
    assert types["p_by_user"] == ("mapping from names to: number", "{}")
    assert "It has no settings." in program("policies", "none")
    assert "how long after it became eligible" in program("policies", EXAMPLE_POLICY).lower()
