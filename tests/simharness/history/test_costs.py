"""Who pays in a replay of a history: jobs that ran when the period began, and jobs with hidden names."""

from pathlib import Path

import pytest

from makeway.adapters.slurm.accounting.rows import NEEDED
from makeway.policies.model import JobKind
from makeway.simharness.history.source import HistorySource
from makeway.simharness.history.study import (
    HistoryTrial,
    from_the_beginning,
    measured,
    recommended,
    record_of,
    replay_history,
    replay_remarks,
)
from makeway.simharness.results.measures import ALL
from makeway.simharness.workloads.classes import parse_class
from tests.simharness.history.test_loading import BASE_S, row

HOUR_S = 3600
BUSY = {"NNodes": "4", "AllocTRES": "", "TimelimitRaw": "6000"}
VITAL = """
adapter:
  type: slurm
  classes:
  - {name: urgent, qos: [urgent], kind: on_demand}
  - {name: rest, qos: [normal], preemptible: true}
limits: {protected_accounts: [safe]}
policy: {name: least-price, settings: {ceiling_machine_hours: 0.0, vital_users: [alice]}}
"""


@pytest.fixture
def source(tmp_path: Path) -> HistorySource:
    """An urgent job meets a machine of four nodes that one job has had for 20 hours before the period."""
    rows = (
        row(1, eligible=-20 * HOUR_S, start=-20 * HOUR_S, end=20 * HOUR_S, User="long", **BUSY),
        row(2, eligible=2 * HOUR_S, start=20 * HOUR_S, end=20 * HOUR_S + 60, User="alice", QOS="urgent"),
    )
    (tmp_path / "jobs.txt").write_text("\n".join((";".join(NEEDED), *rows)) + "\n")
    return HistorySource(
        exports=(tmp_path / "jobs.txt",),
        node_count=4,
        classes=(parse_class("urgent:queue=urgent"),),
        from_s=float(BASE_S),
    )


def with_config(source: HistorySource, text: str, salt: str | None) -> HistorySource:
    config = source.exports[0].parent / f"{abs(hash(text))}.yaml"  # a source is read once
    config.write_text(text)
    return HistorySource(exports=source.exports, node_count=4, config=config, from_s=source.from_s, salt=salt)


def test_a_job_that_ran_when_the_period_began_pays_for_its_whole_run(source: HistorySource) -> None:
    trials = [HistoryTrial(source=source, policy=name, check=True) for name in ("none", "eviction")]
    without, served = map(replay_history, trials)
    total = served.measures.group(ALL)
    assert (without.on_time, served.on_time) == (0, 1)
    # It loses the 20 hours before the period, too.
    assert total.evictions == 1
    assert total.lost_node_hours == pytest.approx(4 * 22.0, abs=0.1)
    assert served.cost_node_hours == pytest.approx(sum(one.cost_node_hours for one in served.owners))
    assert served.measures.group(JobKind.RIGID).evictions == 1
    assert served.measures.group(JobKind.RIGID).jobs == 0, "only its costs are measured"
    assert (without.cost_node_hours, without.measures.group(ALL).evictions) == (0.0, 0)
    assert recommended([without, served]) is served
    useful = served.measures.useful_utilisation
    assert useful is not None
    assert useful * served.measures.held_node_hours == pytest.approx(
        (served.measures.utilisation or 0.0) * (served.measures.held_node_hours - served.cost_node_hours)
    )


def test_what_a_job_did_before_the_period_counts_for_the_ceiling(source: HistorySource) -> None:
    trial = HistoryTrial(source=source, policy="eviction", max_loss_node_hours=4 * 21.5)
    assert replay_history(trial).on_time == 0


def test_pictures_begin_with_the_period(source: HistorySource) -> None:
    record = record_of(HistoryTrial(source=source, policy="eviction"))
    assert record.segments[0].start_s == -20.0 * HOUR_S
    cut = from_the_beginning(record)
    assert min(entry.job.submit_s for entry in cut.jobs) == -1.0
    assert min(one.start_s for one in cut.segments) == -1.0
    assert [entry.start_s for entry in cut.jobs] == [-1.0, record.jobs[1].start_s]
    assert measured(cut, source) == measured(record, source)
    said = replay_remarks([cut])
    assert said[0] == "The curves of waits and slowdowns have the jobs from before the period, too."
    assert said[1].endswith("jobs from before the period paid under eviction: 88.0 node-hours.")


@pytest.mark.parametrize("salt", [None, "pepper"])
def test_policies_and_limits_see_names_that_are_hidden_later(source: HistorySource, salt: str | None) -> None:
    vital = replay_history(HistoryTrial(source=with_config(source, VITAL, salt), policy="eviction"))
    assert vital.on_time == 1
    safe = with_config(source, VITAL.replace("[safe]", "[physics]"), salt)
    assert replay_history(HistoryTrial(source=safe, policy="eviction")).on_time == 0
    settings = {"ceiling_machine_hours": 0.0, "vital_users": ["alice"]}
    outcomes = [
        replay_history(
            HistoryTrial(source=with_config(source, VITAL, salt), policy="least-price", policy_settings=one)
        )
        for one in (settings, settings | {"vital_users": ["long"]})
    ]
    assert [one.on_time for one in outcomes] == [1, 0]


def test_hidden_names_are_the_same_for_the_same_salt(source: HistorySource) -> None:
    def owners(salt: str | None) -> list[tuple[str, str]]:
        trial = HistoryTrial(source=with_config(source, VITAL, salt), policy="eviction")
        return [(one.user, one.account) for one in replay_history(trial).owners]

    assert owners(None) == [("long", "physics"), ("alice", "physics")]
    assert owners("pepper") == owners("pepper") != owners("salt")
    assert all(
        user.startswith("user-") and account.startswith("account-") for user, account in owners("salt")
    )
    assert len({account for _, account in owners("salt")}) == 1
