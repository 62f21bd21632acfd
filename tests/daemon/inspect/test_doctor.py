"""The checks of `makeway doctor`: values, made of what was read."""

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from makeway.adapters.protocol import Unavailable
from makeway.adapters.slurm import parse as slurm_parse
from makeway.adapters.slurm.settings import JobClass
from makeway.adapters.slurm.survey import ClassCount, Privilege, Survey
from makeway.daemon.cli.main import run_cli
from makeway.daemon.config.load import Config, Connection, Mode, load
from makeway.daemon.inspect import doctor_slurm
from makeway.daemon.inspect.doctor import (
    Level,
    check_jobs,
    check_journal,
    check_snapshot,
    check_socket,
    examine,
)
from makeway.daemon.journal.store import Journal
from makeway.policies.model import CheckpointSpec, JobKind
from tests.adapters.slurm.test_parse import RELEASES, captured
from tests.builders import cluster, node_names, running, urgent
from tests.fakes import FakeAdapter

URGENT = JobClass(name="rt", partitions=frozenset({"rt"}), kind=JobKind.ON_DEMAND)
BATCH = JobClass(name="batch", partitions=frozenset({"batch"}), preemptible=True)
ELASTIC = replace(BATCH, name="elastic", kind=JobKind.MALLEABLE)
PARTITIONS = {"rt": False, "batch": True}


def slurm(settings: Mapping[str, str] | None = None, **changes: Any) -> Survey:
    """A Slurm that is as it should be, but for the changes."""
    return replace(
        Survey(
            settings=settings or {},
            version="24.11.5",
            release=(24, 11),
            user="makeway",
            privilege=Privilege.OPERATOR,
            clock_ahead_s=0.0,
            partitions=PARTITIONS,
            counts=(
                ClassCount(name="rt", pending=1),
                ClassCount(name="batch", running=3, nodes=8),
                ClassCount(name=None),
            ),
        ),
        **changes,
    )


def config(folder: Path, text: str = "") -> Config:
    path = folder / "makeway.yaml"
    classes = "classes: [{name: rt, partitions: [rt], kind: on_demand}, {name: batch, preemptible: true}]"
    path.write_text(f"adapter: {{type: slurm, {classes}}}\njournal: j.sqlite\nsocket: s.sock\n{text}")
    return load(path)


# The folders


def test_a_journal_that_is_not_there_will_be_made(tmp_path: Path) -> None:
    check = check_journal(tmp_path / "j.sqlite")
    assert (check.level, check.text) == (Level.OK, f"{tmp_path}/j.sqlite: will be made")
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
    check = look(tmp_path / "no\x1bwhere" / "file")
    assert check.level is Level.PROBLEM
    assert f"there is no folder {tmp_path}/no\\x1bwhere: make it" in check.text


def test_the_folders_of_the_unit_are_made_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_dir", lambda _: False)
    check = check_socket(Path("/run/makeway/makeway.sock"))
    assert check.level is Level.WARNING
    assert "makeway.service makes it" in check.text


def test_a_folder_in_which_we_may_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    check = check_journal(tmp_path / "j")
    assert check.level is Level.PROBLEM
    assert "may not write in its folder: give it to the daemon's user" in check.text


def test_a_socket_that_nobody_answers_on_will_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    assert check_socket(path).text.endswith("will be made")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert check_socket(path).text.endswith("left by a daemon that is gone, will be replaced")
    path.unlink()
    path.touch()
    assert check_socket(path).level is Level.PROBLEM


# The cluster


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


# Slurm


@pytest.mark.parametrize(
    ("release", "level", "words"),
    [
        ((21, 8), Level.PROBLEM, "is older than makeway supports: the oldest that was tried is 22.05"),
        ((22, 5), Level.OK, "is one of those that makeway is tested on (22.05, 24.11, 26.05)"),
        ((23, 2), Level.WARNING, "was not tried"),
        ((26, 5), Level.OK, "is one of those"),
        ((26, 11), Level.WARNING, "was not tried"),
    ],
)
def test_releases(release: tuple[int, int], level: Level, words: str) -> None:
    check = doctor_slurm.check_release(slurm(release=release))
    assert check.level is level
    assert words in check.text


@pytest.mark.parametrize(
    ("privilege", "mode", "private", "level", "words"),
    [
        (Privilege.ROOT, Mode.ACT, "none", Level.OK, "both modes need (root)"),
        (Privilege.OPERATOR, Mode.ACT, "jobs", Level.OK, "both modes need (operator)"),
        (
            Privilege.NONE,
            Mode.ACT,
            "none",
            Level.PROBLEM,
            "sacctmgr modify user makeway set adminlevel=operator",
        ),
        (Privilege.NONE, Mode.OBSERVE, "none", Level.OK, "may look, which is all that observe mode needs"),
        (
            Privilege.NONE,
            Mode.OBSERVE,
            "jobs,nodes,users",
            Level.PROBLEM,
            "PrivateData hides the jobs and nodes of",
        ),
        (Privilege.UNKNOWN, Mode.OBSERVE, "none", Level.WARNING, "what makeway may do is unknown"),
        (Privilege.UNKNOWN, Mode.ACT, "none", Level.WARNING, "act an operator"),
    ],
)
def test_privileges(privilege: Privilege, mode: Mode, private: str, level: Level, words: str) -> None:
    check = doctor_slurm.check_privilege(slurm({"PrivateData": private}, privilege=privilege), mode)
    assert check.level is level
    assert words in check.text


@pytest.mark.parametrize(
    ("ahead_s", "level", "words"),
    [
        (0.0, Level.OK, "agrees with ours"),
        (0.9, Level.OK, "agrees with ours"),
        (3.25, Level.PROBLEM, "is 3.2 s ahead of ours"),
        (-60.0, Level.PROBLEM, "is 60.0 s behind ours"),
        (None, Level.WARNING, "cannot be told"),
    ],
)
def test_clocks(ahead_s: float | None, level: Level, words: str) -> None:
    check = doctor_slurm.check_clock(slurm(clock_ahead_s=ahead_s))
    assert check is not None
    assert check.level is level
    assert words in check.text


def test_classes_are_counted_and_looked_through() -> None:
    (counts,) = doctor_slurm.check_classes(slurm(), (URGENT, BATCH))
    assert counts.level is Level.OK
    assert counts.text == (
        "rt: 0 running on 0 nodes and 1 pending; batch: 3 running on 8 nodes and 0 pending; "
        "of no class: 0 running on 0 nodes and 0 pending"
    )
    assert [check.level for check in doctor_slurm.check_classes(slurm(), ())] == [Level.PROBLEM]


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        ((BATCH,), "no class is of the kind on_demand"),
        ((URGENT,), "no class is preemptible"),
        (
            (URGENT, replace(BATCH, partitions=frozenset({"batch", "btach"}))),
            "no such partitions (batch: btach)",
        ),
        (
            (URGENT, replace(BATCH, qos=frozenset({"low"}))),
            "without accounting no job has a QOS, so that none is ever of",
        ),
    ],
)
def test_classes_that_cannot_be_meant_so(classes: tuple[JobClass, ...], words: str) -> None:
    found = [check for check in doctor_slurm.check_classes(slurm(), classes) if check.level is Level.WARNING]
    assert [words in check.text for check in found] == [True]


@pytest.mark.parametrize(
    ("condition", "enforced", "level"),
    [
        ({"partitions": {"rt"}}, "none", Level.OK),
        ({"partitions": {"rt", "batch"}}, "none", Level.WARNING),
        ({"users": {"ann"}}, "none", Level.OK),
        ({"qos": {"rt"}}, "associations,limits,qos", Level.OK),
        ({"qos": {"rt"}}, "associations", Level.WARNING),
        ({"accounts": {"a"}}, "associations", Level.OK),
        ({"accounts": {"a"}}, "none", Level.WARNING),
        ({"words": {"urgent"}}, "associations,qos", Level.WARNING),
        ({"features": {"big"}}, "associations,qos", Level.WARNING),
        ({"words": {"urgent"}, "users": {"ann"}}, "none", Level.OK),
    ],
)
def test_who_can_make_a_job_urgent(condition: dict[str, set[str]], enforced: str, level: Level) -> None:
    conditions: dict[str, Any] = {name: frozenset(names) for name, names in condition.items()}
    one = JobClass(name="rt", kind=JobKind.ON_DEMAND, **conditions)
    check = doctor_slurm.check_open_door(slurm({"AccountingStorageEnforce": enforced}), (BATCH, one))
    assert check is not None
    assert check.level is level
    assert doctor_slurm.check_open_door(slurm(), (BATCH,)) is None


@pytest.mark.parametrize(
    ("survey", "can_expand", "level", "words"),
    [
        (slurm(), True, Level.OK, "grows back"),
        (slurm(release=(22, 5)), False, Level.WARNING, "this release loses the nodes"),
        (slurm(), False, Level.WARNING, "add permit_job_expansion to SchedulerParameters"),
        (
            slurm({"SchedulerParameters": "bf_continue,permit_job_expansion"}),
            False,
            Level.WARNING,
            "to run as root",
        ),
    ],
)
def test_growth(survey: Survey, can_expand: bool, level: Level, words: str) -> None:
    check = doctor_slurm.check_growth(survey, (URGENT, ELASTIC), can_expand=can_expand)
    assert check is not None
    assert check.level is level
    assert words in check.text
    assert doctor_slurm.check_growth(survey, (URGENT, BATCH), can_expand=can_expand) is None


@pytest.mark.parametrize(
    ("survey", "expected"),
    [
        (slurm({"JobRequeue": "1"}), {}),
        (
            slurm({"JobRequeue": "0"}),
            {"requeue": "JobRequeue=0: jobs without `sbatch --requeue` are left alone"},
        ),
        (
            slurm(counts=(ClassCount(name="batch", unable=1),)),
            {"requeue": "1 job of preemptible classes left alone"},
        ),
        (slurm(counts=(ClassCount(name="rt", unable=1), ClassCount(name=None, unable=7))), {}),
        (slurm({"MaxBatchRequeue": "0"}), {"requeue limit": "MaxBatchRequeue=0"}),
        (slurm({"SchedulerParameters": "requeue_delay=3600"}), {"requeue delay": "waits 3600 s"}),
        (slurm({"AuthInfo": "socket=/x,cred_expire=1200"}), {"requeue delay": "waits 1200 s"}),
        (slurm({"SchedulerParameters": "requeue_delay=0", "AuthInfo": "cred_expire=1200"}), {}),
        (slurm({"SchedulerParameters": "requeue_delay=soon"}), {}),
    ],
)
def test_requeues(survey: Survey, expected: dict[str, str]) -> None:
    found = doctor_slurm.check_requeue(survey, (URGENT, BATCH))
    assert {check.name for check in found} == {"requeue", "requeue delay", "requeue limit"}
    warned = {check.name: check.text for check in found if check.level is not Level.OK}
    assert warned.keys() == expected.keys()
    assert all(words in warned[name] for name, words in expected.items())


@pytest.mark.parametrize(
    ("kind", "level"),
    [
        ("(null)", Level.OK),
        ("preempt/none", Level.OK),
        ("preempt/qos", Level.WARNING),
        ("preempt/x", Level.WARNING),
    ],
)
def test_preemption(kind: str, level: Level) -> None:
    assert (
        doctor_slurm.check_preemption(slurm({"PreemptType": kind, "PreemptMode": "REQUEUE"})).level is level
    )
    assert doctor_slurm.check_preemption(slurm()).level is Level.OK


def test_a_job_that_will_not_go_has_to_be_gone_within_the_margin(tmp_path: Path) -> None:
    said = config(tmp_path, "policy: {name: eviction, settings: {margin_s: 30}}\n")
    levels = {
        wait: getattr(doctor_slurm.check_kill_wait(slurm({"KillWait": wait}), said), "level", None)
        for wait in ("30 sec", "31 sec", "INFINITE", "")
    }
    assert levels == {"30 sec": Level.OK, "31 sec": Level.WARNING, "INFINITE": None, "": None}
    other = config(tmp_path, "policy: {name: none}\n")
    assert doctor_slurm.check_kill_wait(slurm({"KillWait": "31 sec"}), other) is None


@pytest.mark.parametrize(
    ("said", "privilege", "interval_s", "level"),
    [
        ("(null)", Privilege.OPERATOR, 0.1, Level.OK),
        ("rl_enable", Privilege.ROOT, 0.1, Level.OK),
        ("rl_enable", Privilege.SLURM_USER, 0.1, Level.OK),
        ("rl_enable", Privilege.OPERATOR, 6.9, Level.WARNING),
        ("rl_enable", Privilege.OPERATOR, 7.0, Level.OK),
        ("rl_enable,rl_refill_rate=14", Privilege.OPERATOR, 1.0, Level.OK),
        ("rl_enable,rl_refill_rate=14,rl_refill_period=10", Privilege.OPERATOR, 9.0, Level.WARNING),
        ("rl_enable,rl_refill_rate=0,rl_refill_period=x", Privilege.OPERATOR, 14.0, Level.OK),
    ],
)
def test_the_limit_on_requests(
    tmp_path: Path, said: str, privilege: Privilege, interval_s: float, level: Level
) -> None:
    settings = config(tmp_path, f"poll_interval_s: {interval_s}\n").settings
    survey = slurm({"SlurmctldParameters": said}, privilege=privilege)
    assert doctor_slurm.check_rate(survey, settings).level is level


@pytest.mark.parametrize("release", sorted(RELEASES))
def test_every_check_takes_what_slurm_really_prints(tmp_path: Path, release: str) -> None:
    survey = slurm(slurm_parse.config(captured(release, "config")), release=RELEASES[release])
    found = doctor_slurm.check_slurm(survey, config(tmp_path), can_expand=False)
    assert [check for check in found if check.level is not Level.OK] == []
    assert {check.name for check in found} == {
        "release", "privilege", "clock", "classes", "urgent", "requeue", "requeue delay", "requeue limit",
        "preemption", "kill wait", "request rate", "priority",
    }  # fmt: skip
    assert all(check.text.isprintable() for check in found)


# The command


@pytest.fixture
def simulated(tmp_path: Path) -> Path:
    path = tmp_path / "makeway.yaml"
    path.write_text("adapter: {type: simulated}\njournal: j.sqlite\nsocket: s.sock\n")
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
        "is slurmctld up, and is adapter.conf right?",
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
    assert said.settings.adapter.type == "slurm"
    nowhere = said.settings.adapter.model_copy(update={"bin_dir": tmp_path})
    found = examine(replace(said, settings=said.settings.model_copy(update={"adapter": nowhere})), {})
    assert [(check.name, check.level) for check in found[-2:]] == [
        ("socket", Level.OK),
        ("cluster", Level.PROBLEM),
    ]
    assert "no snapshot: scontrol: Unable to contact slurm controller; is slurmctld up" in found[-1].text
