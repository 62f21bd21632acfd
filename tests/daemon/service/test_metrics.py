"""The metrics for Prometheus, and that dashboard and alerts name only what is exported."""

import json
import re
import urllib.request
from dataclasses import replace
from math import inf

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.executor import ActionReport
from makeway.daemon.control.metric_table import RATIONALE_METRICS, RationaleMetric
from makeway.daemon.control.report import CycleReport
from makeway.daemon.errors import UserError
from makeway.daemon.estimate.actual_losses import HeldAmounts, LeavingRun, RunLoss
from makeway.daemon.estimate.checkpoint_times import Measurement
from makeway.daemon.journal.command_log import Outcome
from makeway.daemon.service.metrics import Metrics
from makeway.policies.model import Acknowledgement, Method, Rationale, Reason, Requeue
from makeway.policies.safety.prices import Spending
from makeway.policies.safety.protection import Refusal
from tests.paths import ROOT
from tests.waiting import limit_s

HOSTILE = 'x"} 1\nmakeway_forged_total 7\x1b[2J'


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def metrics(clock: Clock | None = None) -> Metrics:
    return Metrics(version="1.2", policy="eviction", adapter="simulated", clock=clock or Clock())


def requeue(outcome: Outcome, refusal: Refusal | None = None) -> ActionReport:
    action = Requeue(
        job_id=HOSTILE,
        for_job_id=HOSTILE,
        policy="eviction",
        reason=Reason.URGENT_ARRIVAL,
        method=Method.KILL,
        not_after_s=0.0,
    )
    return ActionReport(action=action, outcome=outcome, refusal=refusal, detail=HOSTILE)


def value(made: Metrics, name: str, **labels: str) -> float | None:
    return made.registry.get_sample_value(name, labels)


def test_a_cycle_is_counted() -> None:
    made = metrics()
    made.observe_cycle(
        CycleReport(
            at_s=1.0,
            mode=Mode.ACT,
            sentence=HOSTILE,
            snapshot_s=0.2,
            decision_s=0.004,
            snapshot_age_s=0.0,
            actions=(
                requeue(Outcome.ACCEPTED),
                requeue(Outcome.ACCEPTED),
                requeue(Outcome.REFUSED, Refusal.PROTECTED_USER),
            ),
            operations_open=2,
            urgent_waiting=3,
            urgent_started=(4.0, 700.0),
            lost_node_s=7200.0,
            checkpoints=(
                Measurement(duration_s=20.0, acknowledged=True),
                Measurement(duration_s=90.0, acknowledged=False),
            ),
        ),
        cycle_s=0.3,
    )
    taken = {"verb": "requeue", "reason": "urgent_arrival", "outcome": "accepted"}
    assert value(made, "makeway_cycles_total") == 1
    assert value(made, "makeway_cycles_failed_total") == 0
    assert value(made, "makeway_actions_total", **taken) == 2
    assert value(made, "makeway_actions_total", **{**taken, "outcome": "refused"}) == 1
    assert value(made, "makeway_refusals_total", refusal="protected_user") == 1
    assert value(made, "makeway_operations_open") == 2
    assert value(made, "makeway_urgent_waiting") == 3
    assert value(made, "makeway_urgent_start_delay_seconds_bucket", le="600.0") == 1
    assert value(made, "makeway_urgent_start_delay_seconds_count") == 2
    assert value(made, "makeway_lost_node_hours_total") == 2.0
    assert value(made, "makeway_checkpoint_seconds_sum", acknowledged="yes") == 20.0
    assert value(made, "makeway_checkpoint_seconds_sum", acknowledged="no") == 90.0
    assert value(made, "makeway_cycle_duration_seconds_sum") == 0.3
    assert value(made, "makeway_snapshot_duration_seconds_sum") == 0.2
    assert value(made, "makeway_decision_duration_seconds_sum") == 0.004


def test_losses_are_counted_where_they_are_known() -> None:
    def run(cpus: int | None, gpus: int | None) -> LeavingRun:
        return LeavingRun(
            for_job_id=HOSTILE,
            decided_s=0.0,
            method=Method.KILL,
            acknowledgement=Acknowledgement.COMMENT,
            held=HeldAmounts(nodes=2.0, cpus=cpus, gpus=gpus),
            expected_s=1800.0,
            start_s=0.0,
            setup_s=0.0,
        )

    runs = (run(64, 8), run(None, None))
    losses = tuple(
        RunLoss(run=one, left_s=9000.0, lost_s=7200.0, overhead_s=3600.0, evicted=True) for one in runs
    )
    made = metrics()
    made.observe_cycle(CycleReport(at_s=1.0, mode=Mode.ACT, sentence="", leaving=runs), 0.1)
    made.observe_cycle(CycleReport(at_s=2.0, mode=Mode.ACT, sentence="", losses=losses), 0.1)
    assert value(made, "makeway_lost_core_hours_total") == 32.0
    assert value(made, "makeway_lost_gpu_hours_total") == 4.0
    assert value(made, "makeway_actual_loss_node_hours_total", kind="work") == 8.0
    assert value(made, "makeway_actual_loss_node_hours_total", kind="overhead") == 4.0
    assert value(made, "makeway_actual_loss_core_hours_total", kind="work") == 128.0
    assert value(made, "makeway_actual_loss_core_hours_total", kind="overhead") == 64.0
    assert value(made, "makeway_actual_loss_gpu_hours_total", kind="work") == 16.0
    assert value(made, "makeway_actual_loss_gpu_hours_total", kind="overhead") == 8.0


@pytest.mark.parametrize("metric", RATIONALE_METRICS, ids=lambda metric: metric.name)
def test_a_number_of_a_rationale_is_counted_once_for_each_stored_decision(metric: RationaleMetric) -> None:
    made = metrics()
    why = Rationale(for_job_id=HOSTILE, node_count=5, free_node_count=2, deadline_s=9.0, summary=HOSTILE)
    made.observe_cycle(CycleReport(at_s=1.0, mode=Mode.ACT, sentence="", stored_rationale=(why, why)), 0.1)
    made.observe_cycle(CycleReport(at_s=2.0, mode=Mode.ACT, sentence=""), 0.1)
    assert value(made, f"{metric.name}_count") == 2
    assert value(made, f"{metric.name}_sum") == 2 * metric.read(why)


def test_the_shortage_is_what_the_free_nodes_lack() -> None:
    (shortage,) = (one for one in RATIONALE_METRICS if one.name == "makeway_decision_shortage_nodes")
    why = Rationale(for_job_id="u", node_count=5, free_node_count=2, deadline_s=9.0, summary="")
    assert shortage.read(why) == 3
    assert shortage.read(replace(why, free_node_count=7)) == 0


def test_the_age_of_the_snapshot_grows_while_there_is_none() -> None:
    clock = Clock()
    made = metrics(clock)
    clock.now_s += 5
    assert value(made, "makeway_snapshot_age_seconds") == 5
    made.observe_cycle(CycleReport(at_s=1.0, mode=Mode.ACT, sentence="fine"), 0.1)
    assert value(made, "makeway_snapshot_age_seconds") == 0
    clock.now_s += 30
    blind = CycleReport(at_s=2.0, mode=Mode.ACT, sentence="no", error="unavailable: no answer")
    made.observe_cycle(blind, 0.1)
    made.count_crash(0.1)
    clock.now_s += 30
    assert value(made, "makeway_snapshot_age_seconds") == 60
    assert made.snapshot_age_s == 60
    assert value(made, "makeway_cycles_total") == 3
    assert value(made, "makeway_cycles_failed_total") == 2
    assert value(made, "makeway_snapshot_duration_seconds_count") == 1


def test_a_plan_that_fails_is_shown_until_one_is_made() -> None:
    made = metrics()
    fine = CycleReport(at_s=1.0, mode=Mode.ACT, sentence="fine")
    made.observe_cycle(replace(fine, planning_failure="ZeroDivisionError: no plan"), 0.1)
    assert value(made, "makeway_planning_failed") == 1
    made.observe_cycle(replace(fine, error="unavailable: no answer"), 0.1)
    assert value(made, "makeway_planning_failed") == 1, "a cycle without a snapshot plans nothing"
    made.observe_cycle(fine, 0.1)
    assert value(made, "makeway_planning_failed") == 0


def test_urgent_jobs_wait_on_while_the_cluster_is_not_read() -> None:
    made = metrics()
    fine = CycleReport(at_s=1.0, mode=Mode.ACT, sentence="", urgent_waiting=3)
    made.observe_cycle(fine, 0.1)
    made.observe_cycle(replace(fine, urgent_waiting=0, error="unavailable: no answer"), 0.1)
    assert value(made, "makeway_urgent_waiting") == 3
    made.observe_cycle(replace(fine, urgent_waiting=0), 0.1)
    assert value(made, "makeway_urgent_waiting") == 0


def test_the_limit_of_a_day_is_shown_as_it_is_now() -> None:
    made = metrics()
    limit = "makeway_lost_in_a_day_limit_node_hours"
    assert value(made, limit) == inf, "not read yet"
    fine = CycleReport(at_s=1.0, mode=Mode.ACT, sentence="")
    for hours in (10.0, 0.0):
        spent = (Spending("", 7200.0, hours * 3600.0), Spending("user a", 3600.0, 3600.0))
        made.observe_cycle(replace(fine, lost_in_a_day=spent), 0.1)
        assert value(made, limit) == hours
        made.observe_cycle(replace(fine, error="unavailable: no answer"), 0.1)
        assert value(made, limit) == hours
    made.observe_cycle(replace(fine, lost_in_a_day=(Spending("", 7200.0, None),)), 0.1)
    assert value(made, limit) == inf, "a reload has taken the limit away"
    assert value(made, "makeway_lost_in_a_day_node_hours") == 2.0
    with made.serve("127.0.0.1", 0) as port:
        assert f"{limit} +Inf\n" in scrape(port)


def test_states_are_shown_as_they_are_now() -> None:
    made = metrics()
    made.set_mode(Mode.OBSERVE)
    made.set_mode(Mode.ACT)
    made.set_breaker(True)
    made.count_reload(False)
    made.count_poke()
    made.set_policy("n-paa")
    assert value(made, "makeway_mode", mode="act") == 1
    assert value(made, "makeway_mode", mode="observe") == 0
    assert value(made, "makeway_breaker_open") == 1
    assert value(made, "makeway_config_reload_ok") == 0
    assert value(made, "makeway_pokes_total") == 1
    build = {"version": "1.2", "adapter": "simulated"}
    assert value(made, "makeway_build_info", policy="n-paa", **build) == 1
    assert value(made, "makeway_build_info", policy="eviction", **build) is None


def scrape(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=limit_s()) as answer:
        text: str = answer.read().decode()
    return text


def test_a_scrape_has_no_text_of_users() -> None:
    made = metrics()
    report = CycleReport(at_s=1.0, mode=Mode.ACT, sentence=HOSTILE, actions=(requeue(Outcome.GONE),))
    made.observe_cycle(report, 0.1)
    with made.serve("127.0.0.1", 0) as port:
        text = scrape(port)
    assert "forged" not in text
    assert "\x1b" not in text
    names = {family.name for family in text_string_to_metric_families(text)}
    assert {"makeway_cycles", "makeway_actions", "process_resident_memory_bytes"} <= names


def test_the_port_is_free_again_afterwards_and_refused_while_it_is_not() -> None:
    made = metrics()
    with made.serve("127.0.0.1", 0) as port:
        with (
            pytest.raises(UserError, match=f"cannot listen on 127.0.0.1 port {port}: .*another metrics.port"),
            metrics().serve("127.0.0.1", port),
        ):
            pass
        assert "makeway_cycles_total" in scrape(port)
    with metrics().serve("127.0.0.1", port) as again:
        assert again == port


def exported() -> set[str]:
    """The names that a query may use: of every declared metric, whether or not it has a sample yet."""
    suffixes = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
    return {
        family.name + suffix for family in metrics().registry.collect() for suffix in suffixes[family.type]
    }


def named(expressions: list[str]) -> set[str]:
    return {name for text in expressions for name in re.findall(r"\b(?:makeway|process)_[a-z_]+\b", text)}


def test_the_dashboard_names_only_what_is_exported() -> None:
    board = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    assert len(expressions) > 15
    assert named(expressions) <= exported()
    identities = [panel["id"] for panel in board["panels"]]
    assert len(set(identities)) == len(identities)


def test_the_dashboard_shows_every_metric_of_makeway() -> None:
    text = (ROOT / "deploy" / "grafana-dashboard.json").read_text()
    of_makeway = {name for name in exported() if name.startswith("makeway_")}
    derived = re.compile(r"_(sum|count)$")
    assert {name for name in of_makeway if not derived.search(name)} <= named([text])


def test_the_alerts_name_only_what_is_exported() -> None:
    groups = yaml.safe_load((ROOT / "deploy" / "alerts.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) >= 8
    for rule in rules:
        names = named([rule["expr"]])
        assert names <= exported()
        assert names or rule["expr"].startswith("up{")
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]


def test_what_an_alert_counts_exists_before_it_happens_the_first_time() -> None:
    """`increase` sees nothing in a series whose first value is 1."""
    fresh = [sample for family in metrics().registry.collect() for sample in family.samples]
    groups = yaml.safe_load((ROOT / "deploy" / "alerts.yaml").read_text())["groups"]
    counted = [
        found
        for rule in (rule for group in groups for rule in group["rules"])
        for found in re.findall(r"\b(makeway_\w+)(?:\{([^}]*)\})?\[", rule["expr"])
    ]
    assert len(counted) > 6
    for name, selector in counted:
        wanted = dict(re.findall(r'(\w+)="([^"]*)"', selector))
        assert len(wanted) == selector.count("="), f"{selector}: the test reads only `=`"
        found = [one for one in fresh if one.name == name and wanted.items() <= one.labels.items()]
        assert found, f"{name} {wanted}"
        assert all(one.value == 0 for one in found)


def test_the_failures_of_all_outcomes_are_counted() -> None:
    made = metrics()
    failed = (Outcome.REJECTED, Outcome.IN_DOUBT, Outcome.UNSENT)
    assert [value(made, "makeway_actions_failed_total", outcome=one.value) for one in failed] == [0, 0, 0]
    actions = tuple(requeue(outcome) for outcome in Outcome)
    made.observe_cycle(CycleReport(at_s=1.0, mode=Mode.ACT, sentence="", actions=actions), 0.1)
    assert [value(made, "makeway_actions_failed_total", outcome=one.value) for one in failed] == [1, 1, 1]
    others = set(Outcome) - set(failed)
    assert [value(made, "makeway_actions_failed_total", outcome=one.value) for one in others] == [None] * 4


def test_the_bucket_of_the_late_starts_is_one_that_is_exported() -> None:
    text = (ROOT / "deploy" / "alerts.yaml").read_text()
    (bound,) = re.findall(r'le="([^"]+)"', text)
    assert value(metrics(), "makeway_urgent_start_delay_seconds_bucket", le=bound) == 0
