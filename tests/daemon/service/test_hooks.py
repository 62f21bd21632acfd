"""The site's commands at events: which events a cycle has, and that no command can block or inject."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
import structlog

from makeway.adapters.command import CommandRunner, CompletedCommand
from makeway.daemon.config.load import load
from makeway.daemon.config.mode import Mode
from makeway.daemon.config.schema import HookSettings
from makeway.daemon.config.yaml_file import ConfigError
from makeway.daemon.control.report import CycleReport
from makeway.daemon.journal.store import Journal
from makeway.daemon.service import hooks
from makeway.daemon.service.hooks import HookKind, Hooks, events_of
from makeway.daemon.service.service import SignalMessage
from makeway.policies.model import JobKind
from tests.builders import cluster, pending, running, urgent
from tests.daemon.control.loops import FOUR, busy, daemon
from tests.daemon.service.site import SELDOM, Site, entries
from tests.fakes import FakeAdapter
from tests.waiting import await_that, limit_s

LOG = structlog.get_logger()


def kinds(report: CycleReport) -> list[tuple[str, str, str]]:
    return [(one.kind.value, one.job_id, one.for_job_id) for one in events_of(report, "eviction")]


def test_the_events_of_an_eviction_in_their_order() -> None:
    adapter = FakeAdapter(busy())
    loop = daemon(adapter, Journal(None))
    seen = [kinds(loop.reconcile()) for _ in range(2)]
    assert [event for found in seen for event in found] == [("evicted", "v", "u")]
    hold = adapter.view.reservations
    started = running("u", FOUR[:2], kind=JobKind.ON_DEMAND, start_s=1010.0)
    waits = replace(pending("v", 4), requeue_count=1)
    adapter.view = replace(cluster(4, started, waits, now_s=1010.0), reservations=hold)
    assert kinds(loop.reconcile()) == [("urgent_started", "u", "")]
    again = running("v", FOUR, start_s=2000.0, requeue_count=1)
    adapter.view = cluster(4, again, now_s=2000.0)
    assert kinds(loop.reconcile()) == [("resumed", "v", "")]
    assert kinds(loop.reconcile()) == []


def test_an_urgent_job_that_is_gone_was_given_up() -> None:
    adapter = FakeAdapter(cluster(4, urgent("u", 2, submit_s=990.0), running("v", FOUR, preemptible=False)))
    adapter.view = busy()
    loop = daemon(adapter, Journal(None))
    loop.reconcile()
    adapter.view = cluster(4, now_s=1010.0)
    found = [event for _ in range(3) for event in kinds(loop.reconcile())]
    assert ("given_up", "u", "") in found


def test_observe_mode_has_no_events() -> None:
    adapter = FakeAdapter(busy())
    loop = daemon(adapter, Journal(None), mode=Mode.OBSERVE)
    found = [kinds(loop.reconcile()) for _ in range(3)]
    adapter.view = cluster(4, now_s=1010.0)
    assert [*found, kinds(loop.reconcile())] == [[], [], [], []]


def evicted(job_id: str = "v") -> CycleReport:
    """The report of a cycle that evicted a job."""
    loop = daemon(
        FakeAdapter(cluster(4, urgent("u", 2, submit_s=990.0), running(job_id, FOUR, start_s=500.0)))
    )
    return next(report for report in (loop.reconcile() for _ in range(3)) if events_of(report, "p"))


def test_a_command_gets_what_happened_in_its_environment(tmp_path: Path) -> None:
    """Also where the text is hostile; and none of it is read by a shell."""
    hostile = "17;touch $(echo x)`id`"
    program, out = tmp_path / "hook", tmp_path / "out"
    program.write_text(f'#!/bin/sh\nenv > {out}.new; echo "$#" >> {out}.new; mv {out}.new {out}\n')
    program.chmod(0o755)
    found = Hooks(HookSettings(evicted=[str(program), "one word"]), LOG)
    with found.running():
        found.add(evicted(hostile), "eviction")
        await_that("the command has run", out.exists)
    lines = out.read_text().splitlines()
    assert f"MAKEWAY_JOB_ID={hostile}" in lines
    assert {"MAKEWAY_EVENT=evicted", "MAKEWAY_FOR_JOB_ID=u", "MAKEWAY_POLICY=eviction"} <= set(lines)
    assert "MAKEWAY_AT=1000" in lines
    assert lines[-1] == "1"


class Slow:
    """A runner whose commands last until a test lets them end."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.limits_s: list[float | None] = []

    def run(
        self,
        argv: tuple[str, ...],
        *,
        timeout_s: float | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str] = MappingProxyType({}),
        take: Callable[[bytes], object] | None = None,
        until: str = "",
    ) -> CompletedCommand:
        self.limits_s.append(timeout_s)
        assert self.may_end.wait(limit_s())
        return CompletedCommand(argv=argv, returncode=3, stdout="", stderr="no mail today")


@pytest.fixture
def logged() -> Iterator[list[dict[str, object]]]:
    with structlog.testing.capture_logs() as found:
        yield found  # type: ignore[misc]


def test_slow_commands_hold_up_no_cycle_and_too_many_are_dropped(
    monkeypatch: pytest.MonkeyPatch, logged: list[dict[str, object]]
) -> None:
    monkeypatch.setattr(hooks, "QUEUE_LIMIT", 2)
    slow, report = Slow(), evicted()
    found = Hooks(HookSettings(evicted=["/bin/true"], timeout_s=7.0), LOG, runner=slow)
    with found.running():
        found.add(report, "p")
        await_that("the first command runs", lambda: slow.limits_s == [7.0])
        for _ in range(4):
            found.add(report, "p")
        assert [entry["event"] for entry in logged] == ["a hook was dropped: too many wait"] * 2
        slow.may_end.set()
        await_that("the others have run", lambda: len(slow.limits_s) == 3)
        await_that("their failures are logged", lambda: len(logged) == 5)
    assert {(entry.get("status"), entry.get("said")) for entry in logged[2:]} == {(3, "no mail today")}


def test_a_program_that_hangs_is_killed(tmp_path: Path, logged: list[dict[str, object]]) -> None:
    program = tmp_path / "hook"
    program.write_text("#!/bin/sh\nsleep 600\n")
    program.chmod(0o755)
    found = Hooks(HookSettings(evicted=[str(program)], timeout_s=0.1), LOG, runner=CommandRunner())
    with found.running():
        found.add(evicted(), "p")
        await_that("its end is logged", lambda: bool(logged))
    assert "gave no answer within 0.1 s" in str(logged[0]["problem"])


def test_an_event_without_a_command_is_nothing() -> None:
    slow = Slow()
    found = Hooks(HookSettings(resumed=["/bin/true"]), LOG, runner=slow)
    with found.running():
        found.add(evicted(), "p")
    assert slow.limits_s == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{evicted: mail}", "hooks.evicted"),
        (
            f"{{evicted: [/tmp/{'x' * 300}]}}",
            f"hooks.evicted: /tmp/{'x' * 300} cannot be looked at: File name too l",
        ),
        ("{evicted: []}", "absolute path"),
        ("{evicted: [mail]}", "absolute path"),
        ("{evictd: [/bin/true]}", "evictd"),
        ("{timeout_s: 0}", "hooks.timeout_s"),
    ],
)
def test_what_is_no_command_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "makeway.yaml"
    path.write_text(f"adapter: {{type: simulated}}\nhooks: {text}\n")
    with pytest.raises(ConfigError, match=words):
        load(path)


def test_a_program_that_others_can_change_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "hook"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o777)
    with pytest.raises(ValueError, match="is run by the daemon"):
        HookSettings(evicted=[str(program)])


def test_the_service_runs_hooks_and_reloads_them(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = site.folder / "first", site.folder / "second"
    for name in (first, second):
        program = name.with_suffix(".sh")
        program.write_text(f"#!/bin/sh\ntouch {name}\n")
        program.chmod(0o755)
    command = json.dumps([str(first.with_suffix(".sh"))])
    site.write(f"mode: act\nhooks: {{evicted: {command}}}\n" + SELDOM)
    site.adapter.view = cluster(4)
    with site.up():
        site.listener.wait_for("STATUS=act")
        command = json.dumps([str(second.with_suffix(".sh"))])
        site.write(f"mode: act\nhooks: {{evicted: {command}}}\n" + SELDOM)
        site.inbox.put(SignalMessage.RELOAD)
        site.listener.wait_for("READY=1")
        site.adapter.view = busy()
        site.cycle()
        await_that("the new command has run", second.exists, lambda: str(entries(capsys)))
    assert not first.exists()


def test_every_event_has_a_key_in_the_configuration() -> None:
    every = HookSettings.model_validate({kind.value: ["/bin/true"] for kind in HookKind})
    assert every.wanted.keys() == {kind.value for kind in HookKind}
