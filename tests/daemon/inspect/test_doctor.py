"""The checks of `makeway doctor`: values, made of what was read."""

import json
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from makeway.adapters.protocol import LeaseKeeper, Unavailable
from makeway.adapters.registry import Connection
from makeway.adapters.site.checks import Level
from makeway.daemon.cli.main import run_cli
from makeway.daemon.config.load import Config, load
from makeway.daemon.config.mode import Mode
from makeway.daemon.config.schema import HookSettings, MetricsSettings
from makeway.daemon.inspect import doctor
from makeway.daemon.inspect.doctor import (
    check_hooks,
    check_jobs,
    check_journal,
    check_leader,
    check_metrics,
    check_own_lease,
    check_planner,
    check_policy,
    check_snapshot,
    check_socket,
    check_user,
    examine,
)
from makeway.daemon.journal.store import Journal
from makeway.daemon.service.metrics import Metrics
from makeway.policies.contract import Policy
from makeway.policies.eviction.policy import EVICTION
from makeway.policies.horizon.policy import HORIZON
from makeway.policies.model import CheckpointSpec, JobKind, LeaderLease, Placement, Resources
from makeway.policies.wcjs.policy import WCJS
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from tests.builders import cluster, node_names, pending, running, urgent
from tests.fakes import FakeAdapter

PATHS = "journal: j.sqlite\nsocket: s.sock\nmetrics: {port: 0}\n"


def config(folder: Path, text: str = "") -> Config:
    path = folder / "makeway.yaml"
    classes = "classes: [{name: rt, partitions: [rt], kind: on_demand}, {name: batch, preemptible: true}]"
    path.write_text(f"adapter: {{type: slurm, {classes}}}\n{PATHS}{text}")
    return load(path)


# The folders


def test_a_journal_that_is_not_there_will_be_made(tmp_path: Path) -> None:
    check = check_journal(tmp_path / "j.sqlite")
    assert (check.level, check.text) == (Level.OK, f"{tmp_path}/j.sqlite: will be created")
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_is_there_is_told_with_what_is_open(tmp_path: Path) -> None:
    Journal(tmp_path / "j").close()
    assert check_journal(tmp_path / "j").text.endswith("writable, 0 operations open")


def test_a_journal_in_use_names_who_has_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    try:
        check = check_journal(tmp_path / "j")
    finally:
        journal.close()
    assert check.level is Level.WARNING
    assert f"in use by the daemon with pid {os.getpid()}" in check.text
    assert check_journal(tmp_path / "j").level is Level.OK


def test_something_else_is_no_journal(tmp_path: Path) -> None:
    (tmp_path / "j").write_text("x" * 5000)
    check = check_journal(tmp_path / "j")
    assert check.level is Level.PROBLEM
    assert "not a journal of makeway" in check.text


@pytest.mark.parametrize("look", [check_journal, check_socket])
def test_a_folder_that_is_not_there(tmp_path: Path, look: Any) -> None:
    (tmp_path / "file").touch()
    for folder in ("no\x1bwhere", "file", "file/below"):
        check = look(tmp_path / folder / "file")
        shown = f"{tmp_path}/{folder}".replace("\x1b", r"\x1b")
        assert (check.level, f"there is no folder {shown}: create it" in check.text) == (Level.PROBLEM, True)


def test_the_folders_of_the_unit_are_made_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "stat", lambda path, **_: os.stat(f"/no{path}"))
    check = check_socket(Path("/run/makeway/makeway.sock"))
    assert check.level is Level.WARNING
    assert "makeway.service creates it" in check.text


def test_a_folder_in_which_we_may_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    check = check_journal(tmp_path / "j")
    assert check.level is Level.PROBLEM
    assert "may not write in its folder: give it to the daemon's user" in check.text


@pytest.mark.parametrize("look", [check_journal, check_socket])
def test_a_folder_that_cannot_be_looked_at(tmp_path: Path, look: Any) -> None:
    """Its name is too long, which is an error for every user, root too."""
    check = look(tmp_path / ("x" * 300) / "file")
    assert check.level is Level.PROBLEM
    assert "cannot look at its folder (File name too long): give it to the daemon's user" in check.text


def test_a_socket_without_a_daemon_will_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    assert check_socket(path).text.endswith("will be created")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert check_socket(path).text.endswith("left by a daemon that has ended, will be replaced")
    path.unlink()
    path.touch()
    assert check_socket(path).level is Level.PROBLEM


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_in_which_others_may_write_is_refused_as_at_the_start(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    check = check_journal(folder / "j")
    assert check.level is Level.PROBLEM
    assert check.text.endswith("other users can write into this folder of the journal: chmod go-w it")
    folder.chmod(0o700)
    assert check_journal(folder / "j").level is Level.OK


def test_root_is_told_that_the_daemon_is_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(check_user(tmp_path / "j")) == []
    assert list(check_user(tmp_path / "nowhere" / "j")) == []
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(Path, "stat", lambda _: SimpleNamespace(st_uid=4_242_424))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (check,) = check_user(tmp_path / "j")
    assert (check.level, check.name) == (Level.WARNING, "user")
    assert f"{tmp_path} belongs to #4242424" in check.text
    assert check.text.endswith("run `sudo -u '#4242424' makeway doctor`")
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert list(check_user(tmp_path / "j")) == [], "its rights are those that count, or it says so"


# The metrics


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port on which another program listens."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def metrics_at(port: int, **changes: Any) -> MetricsSettings:
    return MetricsSettings(port=port, **changes)


@pytest.mark.parametrize("is_running", [False, True])
def test_a_port_that_another_program_has_is_a_problem(
    taken_port: int, is_running: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_METRICS_WAIT_S", 0.1)
    (check,) = check_metrics(metrics_at(taken_port), running=is_running)
    assert (check.level, check.name) == (Level.PROBLEM, "metrics")
    assert check.text.startswith(f"cannot listen on 127.0.0.1 port {taken_port}: Address already in use;")
    assert list(check_metrics(metrics_at(taken_port, enabled=False), running=is_running)) == []


def test_the_port_of_the_running_daemon_is_its_own() -> None:
    metrics = Metrics(version="1", policy="none", adapter="fake")
    with metrics.serve("127.0.0.1", 0) as port:
        assert list(check_metrics(metrics_at(port), running=True)) == []
        (check,) = check_metrics(metrics_at(port), running=False)
        assert check.level is Level.PROBLEM, "it is another makeway's"
    assert list(check_metrics(metrics_at(port), running=False)) == []
    assert list(check_metrics(metrics_at(0), running=False)) == []


# The cluster


def test_what_a_policy_needs_for_its_plans_and_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    (check,) = check_planner(HORIZON)
    assert (check.level, check.name) == (Level.PROBLEM, "policy")
    assert check.text.startswith("horizon: planning needs OR-Tools: pip install 'makeway[solver]'")
    assert list(check_planner(EVICTION)) == []


@pytest.mark.parametrize(
    ("status", "levels"),
    [
        (None, []),
        ({"pid": 7, "leader": "leads (term 3)", "leader_problem": None}, []),
        ({"pid": 7, "leader": "leads (term 3)", "leader_problem": "x"}, [Level.WARNING]),
        ({"pid": 7, "leader": "waits", "leader_problem": "scontrol: Invalid\x1b account"}, [Level.PROBLEM]),
    ],
)
def test_a_daemon_that_could_not_write_its_lease_is_told(
    status: dict[str, Any] | None, levels: list[Level]
) -> None:
    found = list(check_own_lease(status))
    assert [check.level for check in found] == levels
    if levels == [Level.PROBLEM]:
        assert found[0].text.startswith("the daemon with pid 7 could not write its lease: scontrol: Invalid")
        assert found[0].text.isprintable()


def test_the_commands_of_events_are_looked_for(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    hooks = HookSettings(evicted=["/bin/true"], resumed=["/no/where"], given_up=[f"{tmp_path}/text", "x"])
    first, second = check_hooks(hooks)
    assert (first.level, first.name) == (Level.WARNING, "hooks")
    assert first.text.startswith("hooks.resumed: /no/where is not a program that")
    assert second.text.startswith(f"hooks.given_up: {tmp_path}/text is not a program that")


def test_a_snapshot_that_takes_long_is_told() -> None:
    adapter = FakeAdapter(cluster(4, running("a", ("n1",))))
    quick = check_snapshot(adapter.view, adapter.capabilities, 0.5, 30.0)
    assert (quick.level, quick.text) == (Level.OK, "fake: 4 nodes (4 up), 1 job, read in 0.50 s")
    slow = check_snapshot(adapter.view, adapter.capabilities, 16.0, 30.0)
    assert slow.level is Level.WARNING
    assert "raise it" in slow.text


def test_the_jobs_are_counted() -> None:
    view = cluster(
        8,
        urgent("u", 2),
        running("a", node_names(2), checkpoint=CheckpointSpec(system_s=1.0)),
        running("b", node_names(2, 3), kind=JobKind.MALLEABLE),
        running("c", node_names(2, 5), preemptible=False),
    )
    check = check_jobs(view, Mode.ACT)
    assert check.level is Level.OK
    assert check.text == (
        "1 urgent, 2 that may be asked to leave (1 malleable, 1 with a checkpoint), 1 that are left alone"
    )
    alone = check_jobs(cluster(8, running("c", node_names(2), preemptible=False)), Mode.ACT)
    assert alone.level is Level.WARNING
    assert check_jobs(cluster(8), Mode.ACT).level is Level.OK


def test_what_a_second_daemon_would_do() -> None:
    machine = SimCluster(1, [], scheduler=SchedulerSettings(), storage=StorageSettings())
    keeper, view = SimAdapter(machine), cluster(1)
    assert isinstance(keeper, LeaseKeeper)
    check = check_leader(True, keeper, view)
    assert (check.level, check.text) == (Level.OK, "no daemon has a lease yet: of several daemons one acts")
    leases = tuple(LeaderLease(term=term, mark=7, lasts_s=120.0) for term in (3, 4))
    led = check_leader(True, keeper, replace(view, leader_leases=leases))
    assert (led.level, led.text) == (Level.OK, "the newest lease has term 4: of several daemons one acts")

    off = check_leader(False, keeper, view)
    assert off.level is Level.WARNING
    assert "run only one" in off.text
    alone = check_leader(True, FakeAdapter(view), view)
    assert alone.level is Level.OK
    assert "run only one" in alone.text


# The command


@pytest.fixture
def simulated(tmp_path: Path) -> Path:
    path = tmp_path / "makeway.yaml"
    path.write_text(f"adapter: {{type: simulated}}\n{PATHS}")
    return path


def run(path: Path, adapter: FakeAdapter, *options: str) -> int:
    factories = {"simulated": lambda _: Connection(adapter=adapter)}
    return run_cli(["doctor", "--config", str(path), *options], factories=factories)


def test_without_problems_the_status_is_0(simulated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adapter = FakeAdapter(cluster(4, running("a", node_names(4))))
    assert run(simulated, adapter) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert [line.split()[:2] for line in printed.out.splitlines()[:5]] == [
        ["ok", "configuration"],
        ["ok", "journal"],
        ["ok", "socket"],
        ["ok", "cluster"],
        ["ok", "jobs"],
    ]
    assert printed.out.rstrip().endswith("all is well.")
    assert adapter.calls == [("close", "")]
    assert [path.name for path in simulated.parent.iterdir()] == ["makeway.yaml"]


def test_doctor_finds_what_keeps_the_daemon_from_its_start(
    simulated: Path, taken_port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    said = simulated.read_text().replace("port: 0", f"port: {taken_port}")
    simulated.write_text(said + "policy: {name: horizon}\n")
    simulated.parent.chmod(0o770)
    assert run(simulated, FakeAdapter(cluster(4, running("a", node_names(4)))), "--json") == 1
    found = json.loads(capsys.readouterr().out)["checks"]
    problems = [check["name"] for check in found if check["level"] == "problem"]
    assert problems == ["journal", "metrics", "policy"]


@pytest.mark.parametrize("policy", ["wcjs", "eviction"])
def test_a_policy_that_counts_whole_nodes_is_warned_of_where_jobs_share_them(
    simulated: Path, capsys: pytest.CaptureFixture[str], policy: str
) -> None:
    simulated.write_text(simulated.read_text() + f"policy: {{name: {policy}}}\n")
    whole = cluster(4, running("a", node_names(4)))
    nodes = tuple(replace(node, capacity=Resources.of({"cpu": 8})) for node in whole.nodes)
    run(simulated, FakeAdapter(replace(whole, nodes=nodes)))
    assert ("counts whole nodes" in capsys.readouterr().out) == (policy == "wcjs")
    run(simulated, FakeAdapter(whole))
    assert "counts whole nodes" not in capsys.readouterr().out


@pytest.mark.parametrize("policy", [WCJS, EVICTION])
def test_a_policy_that_serves_no_components_is_warned_of_where_an_urgent_job_has_some(
    policy: Policy[Any],
) -> None:
    job = replace(urgent("7+0", 1), het_job_id="7")
    said = [one.text for one in check_policy(policy, cluster(4, job))]
    assert any("heterogeneous" in text for text in said) == (policy is WCJS)
    assert not list(check_policy(policy, cluster(4, urgent("7", 1))))
    batch = replace(pending("8+0", 1), het_job_id="8")
    assert not list(check_policy(policy, cluster(4, batch)))


@pytest.mark.parametrize("policy", ["n-spaa", "least-price"])
def test_a_policy_that_does_not_know_placements_is_warned_of_where_there_are_some(
    simulated: Path, capsys: pytest.CaptureFixture[str], policy: str
) -> None:
    simulated.write_text(simulated.read_text() + f"policy: {{name: {policy}}}\n")
    anywhere = cluster(4, running("a", node_names(4)))
    placements = (Placement(name="switch", nodes=node_names(2)),)
    run(simulated, FakeAdapter(replace(anywhere, placements=placements)))
    assert ("takes nodes wherever they are" in capsys.readouterr().out) == (policy == "n-spaa")
    run(simulated, FakeAdapter(anywhere))
    assert "takes nodes wherever they are" not in capsys.readouterr().out


def test_with_a_problem_the_status_is_1(simulated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adapter = FakeAdapter(cluster(4))
    adapter.errors["snapshot"] = Unavailable("squeue: Unable to \x1b[2J contact\nslurm controller")
    assert run(simulated, adapter, "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["problems"], told["warnings"], told["configuration"]) == (1, 0, str(simulated))
    assert told["checks"][-1] == {
        "name": "cluster",
        "level": "problem",
        "text": "no snapshot: squeue: Unable to \\x1b[2J contact slurm controller; "
        "is the cluster up, and is the section `adapter` right?",
    }
    assert run(simulated, adapter) == 1
    assert "1 problem." in capsys.readouterr().out


def test_bad_input_is_2(simulated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simulated.write_text("adapter: {type: simulated}\nmode: fast\n")
    assert run(simulated, FakeAdapter(cluster(4))) == 2
    assert 'mode: "fast" is not accepted' in capsys.readouterr().err


def test_a_slurm_that_does_not_answer_is_a_problem(tmp_path: Path) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\necho Unable to contact slurm controller >&2\nexit 1\n")
    scontrol.chmod(0o755)
    said = config(tmp_path)
    assert said.settings.adapter.adapter_name == "slurm"
    nowhere = said.settings.adapter.model_copy(update={"bin_dir": tmp_path})
    found = examine(replace(said, settings=said.settings.model_copy(update={"adapter": nowhere})), {})
    assert [(check.name, check.level) for check in found[-2:]] == [
        ("socket", Level.OK),
        ("cluster", Level.PROBLEM),
    ]
    assert "no snapshot: scontrol: Unable to contact slurm controller; is slurmctld up" in found[-1].text
