"""Grids: which cells they have, and what is refused before anything runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from makeway.daemon.config.schema import LimitsSettings
from makeway.daemon.config.yaml_file import ConfigError
from makeway.daemon.errors import UserError
from makeway.simharness.run.replay import UNPRICED
from makeway.simharness.sweep.cell import SweepCell, experiment_of, run_cell
from makeway.simharness.sweep.check import deadline_remarks, trace_remarks
from makeway.simharness.sweep.grid import read_grid
from tests.paths import EXAMPLE_POLICY, SLURM_PREEMPTION

WHOLE = """
policies:
- none
- {name: eviction, label: late, settings: {kills: late}}
seeds: 2
settings:
  max_loss_node_hours: [null, 5]
  order: [fcfs, wfp]
"""


def cells(folder: Path, text: str) -> tuple[SweepCell, ...]:
    path = folder / "grid.yaml"
    path.write_text(text)
    return read_grid(path)


def test_every_combination_once(tmp_path: Path) -> None:
    found = cells(tmp_path, WHOLE)
    assert len({tuple(cell.columns.items()) for cell in found}) == len(found) == 2 * 2 * (1 + 2)
    assert {(cell.label, cell.max_loss_node_hours) for cell in found} == {
        ("none", None),
        ("late", None),
        ("late", 5.0),
    }, "a policy that takes nothing has no ceiling"
    assert [cell.seed for cell in found[:4]] == [0, 1, 0, 1]
    late = next(cell for cell in found if cell.label == "late")
    assert (late.policy, late.policy_settings) == ("eviction", {"kills": "late"})


def test_every_kind_of_limits(tmp_path: Path) -> None:
    text = "policies: [none, eviction]\nsettings: {limits: [none, default], max_loss_node_hours: [null, 5]}"
    found = cells(tmp_path, text)
    assert [(cell.label, cell.limits.value, cell.max_loss_node_hours) for cell in found] == [
        ("none", "none", None),
        ("eviction", "none", None),
        ("eviction", "default", None),
        ("eviction", "none", 5.0),
        ("eviction", "default", 5.0),
    ]
    found_limits = [experiment_of(cell).limits for cell in found[1:]]
    daemons, unpriced = LimitsSettings().to_limits(), replace(UNPRICED, max_loss_machine_share=0.0)
    assert found_limits == [
        unpriced,
        daemons,
        replace(unpriced, max_loss_node_hours=5.0),
        replace(daemons, max_loss_node_hours=5.0, max_loss_machine_share=0.0),
    ]


def test_durations_are_seconds(tmp_path: Path) -> None:
    text = "policies: [none]\nsettings: {start_within_s: [5m, 90, 1h30m, null], poll_interval_s: [1m]}"
    found = cells(tmp_path, text)
    assert [(cell.start_within_s, cell.poll_interval_s) for cell in found] == [
        (300.0, 60.0),
        (90.0, 60.0),
        (5400.0, 60.0),
        (None, 60.0),
    ]


def test_a_policy_in_a_file_is_called_as_the_file(tmp_path: Path) -> None:
    text = f"policies: [none, {EXAMPLE_POLICY}, {SLURM_PREEMPTION}]"
    assert [cell.label for cell in cells(tmp_path, text)] == ["none", "youngest", "slurm_preemption"]


def test_a_trace_whose_few_users_have_no_urgent_jobs_is_named(tmp_path: Path) -> None:
    for name, users in (("few", 2), ("many", 5)):
        lines = (
            f"{one} {one} 0 60 1 -1 -1 1 90 -1 1 {one % users} 1 -1 -1 -1 -1 -1\n" for one in range(1, 21)
        )
        (tmp_path / f"{name}.swf").write_text("; MaxNodes: 8\n" + "".join(lines))
    text = "policies: [none, eviction]\ntraces: [few.swf, many.swf]\nworkloads: [null, W5]\nseeds: [4]\n"
    first, *others = trace_remarks(cells(tmp_path, text))
    assert first == (
        "few.swf: workload W5 makes no job urgent, because it needs jobs of 3 users, and there are 2 (seed 4)"
    )
    assert not any("W5 makes" in one for one in others)


def test_a_trace_is_described_once_and_a_grid_without_urgent_jobs_refused(tmp_path: Path) -> None:
    lines = [
        f"{number} {number} 0 60 {size} -1 -1 {size} 90 -1 1 {number} 1 -1 -1 -1 -1 -1"
        for number, size in enumerate((1, 2, 8, 1), 1)
    ]
    (tmp_path / "a.swf").write_text("; MaxNodes: 8\n; MaxProcs: 8\n" + "\n".join(lines) + "\n")
    text = "policies: [none, eviction]\ntraces: [a.swf]\nseeds: 3\n"
    text += "settings: {node_count: [4], urgent_share: [%s]}"
    assert list(trace_remarks(cells(tmp_path, text % "1"))) == [
        "a.swf: 1 job larger than the machine of 4 nodes left out: 3 (8 nodes)"
    ]
    *_, last = trace_remarks(cells(tmp_path, text % "1, null"))
    assert last.startswith("a.swf: cells without urgent jobs, which `compare` leaves out: see workloads")
    for share in ("null", "0"):
        with pytest.raises(UserError, match=r"no cell .* workloads \(W1 to W5\) or settings.urgent_share"):
            list(trace_remarks(cells(tmp_path, text % share)))


def test_a_backfill_that_shared_nodes_do_not_have_is_refused_before_the_first_cell(tmp_path: Path) -> None:
    (tmp_path / "a.swf").write_text("; MaxNodes: 2\n; MaxProcs: 8\n1 0 0 9 2 -1 -1 2 9 -1 1 1" + 6 * " 1")
    text = "policies: [eviction]\ntraces: [a.swf]\n"
    text += "settings: {urgent_share: [1], unit: [packed], backfill: [easy, %s]}"
    assert list(trace_remarks(cells(tmp_path, text % "conservative")))
    with pytest.raises(UserError, match="backfill in a grid: a has nodes that jobs share; accepted: none"):
        list(trace_remarks(cells(tmp_path, text % "easy-cqsim")))


def test_paths_are_those_next_to_the_grid(tmp_path: Path) -> None:
    (tmp_path / "a.swf").write_text("; MaxNodes: 4\n")
    found = cells(tmp_path, "policies: [eviction]\ntraces: [a.swf]\nworkloads: [W1, null]\nseeds: [7]")
    assert [(cell.trace, cell.synthesis, cell.seed) for cell in found] == [
        (str(tmp_path / "a.swf"), "W1", 7),
        (str(tmp_path / "a.swf"), None, 7),
    ]


def test_every_problem_is_one_line_without_names_of_pydantic(tmp_path: Path) -> None:
    text = "policies: [{nam: x}, 7, {name: eviction, settings: 3}]\n"
    text += "seeds: [a, -1]\nworkloads: [W7]\nsettings: {order: q}"
    with pytest.raises(ConfigError) as caught:
        cells(tmp_path, text)
    assert [problem.split(": ")[1] for problem in caught.value.problems] == [
        "policies.0.name",
        "policies.0.nam",
        "policies.1",
        "policies.2.settings",
        "seeds.0",
        "seeds.1",
        "workloads.0",
        "settings.order",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seeds: 2", ":1: policies: this key is missing; accepted: a list of policies"),
        ("policies: []", ":1: policies: an empty list is not accepted; accepted: a list of policies"),
        (
            'policies:\n- {name: eviction, label: "a\\tb"}',
            r":2: policies.0.label: 'a\\tb' is not accepted; accepted: a text of at most 60",
        ),
        ("policies:\n- {name: eviction, label: ' '}", ":2: policies.0.label: ' ' is not accepted"),
        ('policies: [none]\ntraces: ["a\\nb.swf"]', r":2: traces.0: a\\nb.swf: no such file; accepted"),
        ("policies: [evction]", ":1: policies.0: .*evction"),
        ("policies:\n- {name: eviction, settings: {kill: late}}", ":2: policies.0.settings: kill: .*kills"),
        (
            "policies:\n- {name: eviction, settings: {kills: soon}}",
            ":2: policies.0.settings: kills=soon: accepted: late or at_once",
        ),
        ("policies: [none, '']", ":1: policies.1: unknown policy '' "),
        ("policies: [none, none]", "policies: two are called none; accepted: a label of its own"),
        ("policies: [none]\nseed: 3", ":2: seed: unknown key; did you mean seeds"),
        ("policies: [none]\nseeds: 0", ":2: seeds: 0 is not accepted; accepted: how many seeds, from 1 to"),
        (f"policies: [none]\nseeds: {10**9}", r":2: seeds: 1000000000 is not accepted; .* from 1 to 10,000"),
        (f"policies: [none]\nseeds: {10**30}", r":2: seeds: 10+ is not accepted; accepted: how many seeds"),
        ("policies: [none]\nseeds: []", r":2: seeds: .* is not accepted; .* or a list of 1 to 10,000"),
        (
            "policies: [eviction]\nworkloads: [null, W1, W2, W3, W4, W5]\nseeds: 10000\n" +
            "settings: {max_loss_node_hours: [null, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]}",
            ":3: seeds: 10,000 values make a grid of 1,020,000 cells; accepted: 1,000,000 at most",
        ),
        (
            f"policies: [none]\nsettings: {{node_count: [{10**9}]}}",
            ":2: settings.node_count.0: 1000000000 is not accepted; .* from 1 to 10,000,000",
        ),
        (
            "policies: [none]\nsettings: {start_within_s: [1e300]}",
            ":2: settings.start_within_s.0: .* is not accepted; .* up to a year",
        ),
        (
            "policies: [none]\nsettings: {poll_interval_s: [1e-300]}",
            ":2: settings.poll_interval_s.0: .* is not accepted; .* from 0.1 to 3600",
        ),
        ("policies: [none]\ntraces: [b.swf]", ":2: traces.0: b.swf: no such file; accepted: sample"),
        (
            "policies: [none]\nsettings: {node_count: [null, 4]}",
            ":2: settings.node_count.1: 4 does not go with the trace sample, which has its own machine",
        ),
        (
            "policies: [none]\ntraces: [a.swf]\nworkloads: [W5]\nsettings: {unit: [packed]}",
            ":3: workloads.0: W5 makes malleable jobs, .* with the unit packed do; accepted: null",
        ),
        (
            "policies: [none]\ntraces: [pods.csv]\nsettings: {unit: [processor]}",
            ":3: settings.unit.0: processor does not go with the trace pods.csv",
        ),
        (
            "policies: [none]\ntraces: [pods.csv]\nworkloads: [null, W1]",
            ":3: workloads.1: W1 makes malleable jobs, .* in the trace pods.csv do; accepted: null",
        ),
        (
            "policies: [none]\nsettings: {order: [lifo]}",
            ':2: settings.order.0: "lifo" is not accepted; accepted: a list of fcfs, wfp',
        ),
        ("policies: [none]\nsettings: {limits: [strict]}", "limits.0: .*accepted: a list of none, default"),
        ("policies: [none]\nsettings: {start_within_s: [soon]}", "_s.0.*: .*soon.* durations such as 5m"),
        ("policies: [none]\nsettings: {max_loss_node_hours: [-1]}", "node_hours: -1 is not accepted"),
        ("policies: [none]\nsettings: {urgent_share: [2]}", "settings.urgent_share.0.*: 2 is not accepted"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.swf").write_text("; MaxNodes: 4\n")
    (tmp_path / "pods.csv").write_text("name,cpu_milli,memory_mib\n")
    with pytest.raises(ConfigError, match=message) as refused:
        cells(tmp_path, text)
    assert all(one.startswith(str(tmp_path / "grid.yaml")) for one in refused.value.problems)


def test_traces_of_one_name_are_called_as_in_the_grid(tmp_path: Path) -> None:
    for name in ("week1", "week2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trace.swf").write_text("; MaxNodes: 4\n")
    (tmp_path / "week1" / "a.swf").write_text("; MaxNodes: 4\n")
    found = cells(tmp_path, "policies: [none]\ntraces: [week1/trace.swf, week2/trace.swf, week1/a.swf]")
    assert [cell.columns["trace"] for cell in found] == ["week1/trace.swf", "week2/trace.swf", "a.swf"]
    assert [cell.trace for cell in found[:2]] == [
        str(tmp_path / "week1/trace.swf"),
        str(tmp_path / "week2/trace.swf"),
    ]


def test_what_is_given_twice_runs_once(tmp_path: Path) -> None:
    (tmp_path / "a.swf").write_text("; MaxNodes: 4\n")
    text = "policies: [none]\ntraces: [a.swf, a.swf, ./a.swf]\nworkloads: [W1, W1]\nseeds: [3, 3]\n"
    text += "settings: {order: [fcfs, wfp, fcfs], poll_interval_s: [30, 30.0]}"
    found = cells(tmp_path, text)
    assert [(cell.columns["trace"], cell.seed, cell.order.value) for cell in found] == [
        ("a.swf", 3, "fcfs"),
        ("a.swf", 3, "wfp"),
    ]


def test_a_deadline_that_is_not_the_measured_one_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.swf").write_text("; MaxNodes: 4\n")
    hour = "{name: eviction, label: hour, settings: {start_within_s: 3600}}"
    text = f"policies: [none, eviction, {hour}]\ntraces: [a.swf]\nseeds: 2\n"
    assert deadline_remarks(cells(tmp_path, text)) == [], "no job is urgent"
    (remark,) = deadline_remarks(cells(tmp_path, f"{text}workloads: [W1]\n"))
    assert remark == (
        "policy hour works towards starts within 3600 s (start_within_s), but starts within 600 s count as "
        "on time: settings.start_within_s sets both"
    )
    assert (
        deadline_remarks(cells(tmp_path, f"{text}workloads: [W1]\nsettings: {{start_within_s: [3600]}}\n"))
        == []
    )
    (remark,) = deadline_remarks(cells(tmp_path, f"policies: [eviction, {hour}]\n"))
    assert "start_within_s=3600 of policy hour has no effect" in remark
    for drawn in ("settings: {urgent_share: [0.1]}", "workloads: [W5]"):
        (remark,) = deadline_remarks(cells(tmp_path, f"policies: [eviction, {hour}]\n{drawn}\n"))
        assert "policy hour works towards starts within 3600 s" in remark, "not the limit of the sample's own"
    none_urgent = f"policies: [eviction, {hour}]\nsettings: {{urgent_share: [0.0]}}\n"
    assert deadline_remarks(cells(tmp_path, none_urgent)) == []


@pytest.mark.parametrize(
    ("drawn", "urgent"), [("settings: {urgent_share: [0.1]}", 38), ("workloads: [W5]", 23), ("", 20)]
)
def test_the_sample_gets_the_urgent_jobs_that_the_grid_asks_for(
    tmp_path: Path, drawn: str, urgent: int
) -> None:
    (cell,) = cells(tmp_path, f"policies: [n-spaa]\n{drawn}\n")
    assert run_cell(cell).numbers["on_demand.jobs"] == urgent
