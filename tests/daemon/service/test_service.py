"""The service: it polls, reacts, backs off, reloads, survives, stops, and reports all of it to systemd."""

import os
import socket
import sqlite3
import threading
import urllib.request
from contextlib import closing
from queue import SimpleQueue
from unittest.mock import patch

import pytest

from makeway.adapters.protocol import AdapterError, Unavailable, Unreadable
from makeway.adapters.site.entitlement import ClassEntitlements
from makeway.adapters.site.job_class import JobClass
from makeway.daemon.cli.main import run_cli
from makeway.daemon.config.load import load
from makeway.daemon.control.planner import Planning
from makeway.daemon.errors import CANNOT_GO_ON, TRY_AGAIN, UserError
from makeway.daemon.journal.errors import JournalInUse
from makeway.daemon.journal.store import Journal
from makeway.daemon.service.service import Service
from makeway.daemon.service.systemd import Notifier
from makeway.daemon.service.ticker import Ticker
from makeway.policies.model import CheckpointSpec, Cluster, Decision, JobKind
from tests.builders import cluster, node_names, running, urgent
from tests.daemon.service.site import IDLE, SELDOM, Site, busy, entries
from tests.fakes import FakeAdapter, LeasedAdapter
from tests.waiting import await_that, limit_s


def test_the_first_cycle_comes_by_itself_and_a_poke_brings_another(site: Site) -> None:
    with site.up():
        assert site.listener.wait_for("STATUS=") == f"STATUS=observe: {IDLE}"
        assert site.cycle() == f"observe: {IDLE}"
        values = site.status()
    assert values["cycles"] >= 2
    assert (values["mode"], values["policy"], values["adapter"]) == ("observe", "least-price", "simulated")
    assert (values["failures"], values["breaker_open"], values["reload_problem"]) == (0, False, None)
    assert values["planning_failure"] is None
    assert values["pid"] == os.getpid()


def test_a_journal_that_is_deleted_is_put_back_and_nothing_is_sent(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next start finds what was taken, and gives it back."""
    site.write(f"mode: act\n{SELDOM}")
    with site.up(ends_with=TRY_AGAIN):
        site.listener.wait_for("STATUS=")
        site.adapter.view = busy()
        site.cycle()
        site.listener.wait_for("1 urgent waiting; 1 operation open")  # nothing is left to be sent
        sent = list(site.adapter.calls)
        assert sent
        site.journal.unlink()
        site.ask(command="poke")
        assert "it was deleted" in site.listener.wait_for("STATUS=makeway stops")
    assert site.adapter.calls == [*sent, ("close", "")]
    with closing(Journal(site.journal)) as journal:
        (operation,) = journal.open_operations()
        assert operation.for_job_id == "u"
    problems = [entry.get("problem", "") for entry in entries(capsys)]
    assert any("it was deleted while the daemon was running" in problem for problem in problems)


@pytest.mark.parametrize(
    ("journal", "status"),
    [("not-mounted/j.sqlite", TRY_AGAIN), (".", CANNOT_GO_ON), ("open/j.sqlite", CANNOT_GO_ON)],
)
def test_a_start_says_whether_another_start_may_succeed(
    site: Site, capsys: pytest.CaptureFixture[str], journal: str, status: int
) -> None:
    (site.folder / "open").mkdir()
    (site.folder / "open").chmod(0o777)
    site.write(SELDOM)
    site.config.write_text(site.config.read_text().replace("j.sqlite", journal))
    assert run_cli(["run", "--config", str(site.config)], factories=site.factories) == status
    assert capsys.readouterr().err.startswith(f"makeway: error: {site.folder}")


@pytest.mark.parametrize(("keep", "first"), [("30", 3), ("null", 1)])
def test_the_journal_is_pruned(site: Site, keep: str, first: int) -> None:
    """The time is 1000 s; the decisions are 35 days older, and the newest is always kept."""
    journal = Journal(site.journal)
    for at_s in (-3e6, -3e6 + 1, -3e6 + 2):
        journal.add_decision(at_s, Decision(policy="test"), None)
    journal.close()
    site.write(f"{SELDOM}journal_keep_days: {keep}\n")
    with site.up(), closing(Journal(site.journal, read_only=True)) as kept:
        await_that(f"decision {first} is the oldest", lambda: kept.first_decision_id() == first)
    with closing(Journal(site.journal, read_only=True)) as kept:
        assert kept.first_decision_id() == first


def test_a_start_reports_what_it_cannot_read_of_the_journal(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    Journal(site.journal).close()
    with closing(sqlite3.connect(site.journal)) as database, database:
        database.execute("INSERT INTO operations VALUES ('u@0', 0, 1.0, 'no JSON')")
    with site.up():
        assert site.listener.wait_for("STATUS=") == f"STATUS=observe: {IDLE}"
    (told,) = [entry for entry in entries(capsys) if "set aside" in entry["event"]]
    assert told["level"] == "warning"
    assert "operations, row operation_id = 'u@0': cannot be read: it is not JSON" in told["row"]


def test_polling_needs_no_request(site: Site) -> None:
    site.write("poll_interval_s: 0.1\npoke_gap_s: 0\n")
    with site.up():
        for _ in range(3):
            site.listener.wait_for("STATUS=observe")


def test_the_end_closes_everything(site: Site) -> None:
    with site.up():
        site.listener.wait_for("STATUS=")
    assert site.listener.wait_for("STOPPING=1")
    assert site.adapter.calls == [("close", "")]
    assert not site.socket.exists()
    Journal(site.journal).close()


def test_observe_touches_nothing_and_logs_what_it_would_do(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.adapter.view = busy()
    with site.up():
        site.listener.wait_for("observed requeue")
    actions = [entry for entry in entries(capsys) if entry["event"] == "action"]
    assert [(entry["verb"], entry["outcome"]) for entry in actions] == [
        ("reserve", "observed"),
        ("requeue", "observed"),
    ]
    assert actions[1]["job_id"] == "v\x1b[2J"
    assert (actions[1]["policy"], actions[1]["reason"]) == ("least-price", "urgent_arrival")
    assert site.adapter.calls == [("close", "")]


def test_act_does_it_and_looks_again_at_once(site: Site) -> None:
    site.write("mode: act\n" + SELDOM)
    site.adapter.view = busy()
    with site.up():
        site.listener.wait_for("accepted requeue")
    assert site.adapter.calls[:2] == [("reserve", "mw_u"), ("requeue", "v\x1b[2J")]


@pytest.mark.parametrize(
    "error",
    [Unavailable("no answer"), Unreadable("cut off", command=("squeue",), text="JOBID\x1b[2J")],
)
def test_a_cluster_that_does_not_answer_is_tried_again(
    site: Site, error: AdapterError, capsys: pytest.CaptureFixture[str]
) -> None:
    site.write("poll_interval_s: 0.1\npoke_gap_s: 0\nbackoff_max_s: 1\n", metrics="{port: 0}")
    site.adapter.errors["snapshot"] = error
    with site.up():
        for _ in range(3):
            assert "no decision: the cluster is un" in site.listener.wait_for("STATUS=")
        assert site.status()["failures"] >= 3
        port = next(entry["port"] for entry in entries(capsys) if entry["event"] == "metrics are served")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=limit_s()) as answer:
            text = answer.read().decode()
        assert sample(text, "makeway_cycles_failed_total") >= 3
        assert sample(text, "makeway_snapshot_age_seconds") > 0
        del site.adapter.errors["snapshot"]
        site.listener.wait_for(IDLE)
        assert site.status()["failures"] == 0


def test_a_cluster_that_has_just_started_is_asked_again_at_the_usual_interval(site: Site) -> None:
    """While it was away, makeway has asked less and less often."""
    site.write("poll_interval_s: 0.1\npoke_gap_s: 0\nbackoff_max_s: 1\n")
    site.adapter.errors["snapshot"] = Unavailable("no answer")
    with site.up():
        site.listener.wait_for("no decision: the cluster is unavailable: no answer")
        await_that("it has failed several times", lambda: site.status()["failures"] > 2)
        site.adapter.errors["snapshot"] = Unavailable("it has just started", starting=True)
        for _ in range(3):
            site.listener.wait_for("it has just started")
        assert site.status()["failures"] == 1


def test_urgent_jobs_wait_on_while_the_cluster_does_not_answer(site: Site) -> None:
    site.adapter.view = cluster(1, urgent("u", 2, submit_s=990.0))
    with site.up():
        site.listener.wait_for("STATUS=observe: 1 urgent waiting")
        assert site.status()["urgent_waiting"] == 1
        site.adapter.errors["snapshot"] = Unavailable("no answer")
        assert "no answer" in site.cycle()
        assert site.status()["urgent_waiting"] == 1, "as far as is known"


def sample(text: str, name: str) -> float:
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + " "))


def test_a_defect_ends_the_cycle_and_not_the_process(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.write("poll_interval_s: 0.1\npoke_gap_s: 0\n")
    lucky = threading.Event()

    class Unlucky(FakeAdapter):
        def snapshot(self) -> Cluster:
            if not lucky.is_set():
                raise ZeroDivisionError("bad\nluck")
            return super().snapshot()

    site.adapter = Unlucky(cluster(4))
    with site.up():
        assert site.listener.wait_for("failed") == (
            "STATUS=the last cycle failed: ZeroDivisionError: bad\\nluck"
        )
        site.listener.wait_for("failed")
        lucky.set()
        site.listener.wait_for(IDLE)
    failed = [entry for entry in entries(capsys) if entry["event"] == "a cycle failed"]
    assert len(failed) >= 2
    assert "ZeroDivisionError" in failed[0]["exception"]
    assert [entry["failures"] for entry in failed[:2]] == [1, 2]


def test_a_journal_that_cannot_be_written_now_is_one_line_of_the_log(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on a full disk: it is no defect of makeway's."""
    site.write(SELDOM)
    full = sqlite3.OperationalError("database or disk is full")
    with patch.object(Journal, "verify", side_effect=full), site.up():
        site.listener.wait_for("the last cycle failed: OperationalError: database or disk is full")
    failed = [entry for entry in entries(capsys) if entry["event"] == "a cycle failed"]
    assert failed[0]["problem"] == f"{site.journal}: database or disk is full"
    assert "exception" not in failed[0]


def test_the_breaker_is_shown(site: Site) -> None:
    site.write("mode: act\nlimits: {breaker_failures: 1}\n" + SELDOM)
    site.adapter.view = busy()
    site.adapter.errors["reserve"] = Unavailable("no answer")
    with site.up():
        site.listener.wait_for("in doubt reserve")
        assert site.status()["breaker_open"] is True


def test_a_plan_that_fails_is_shown(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Planning, "failure", property(lambda _: "ZeroDivisionError: no plan"))
    with site.up():
        site.listener.wait_for("no new plan")
        assert site.status()["planning_failure"] == "ZeroDivisionError: no plan"


def test_an_acknowledgement_starts_a_cycle_only_if_the_job_is_awaited(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = 0
    request = Ticker.request

    def counted(ticker: Ticker, *, at_once: bool = False) -> None:
        nonlocal requests
        requests += 1
        request(ticker, at_once=at_once)

    monkeypatch.setattr(Ticker, "request", counted)
    site.write("mode: act\npolicy: {settings: {margin_s: 0}}\n" + SELDOM)
    spec = CheckpointSpec(system_s=5, grace_s=300, signal="USR1")
    site.adapter.view = cluster(
        4, urgent("u", 2, submit_s=990.0), running("v", node_names(4), start_s=500.0, checkpoint=spec)
    )
    with site.up():
        site.listener.wait_for("accepted checkpoint")
        assert site.ask(command="ack", job_id="w")["awaited"] is False
        assert requests == 0
        assert site.ask(command="ack", job_id="v")["awaited"] is True
        assert requests == 1
    said = [entry for entry in entries(capsys) if entry["event"] == "acknowledgement"]
    assert [(entry["job_id"], entry["awaited"]) for entry in said] == [("w", False), ("v", True)]


def test_an_announcement_reaches_the_next_view(site: Site) -> None:
    with site.up():
        site.listener.wait_for("STATUS=")
        notice_id = site.ask(command="notice", nodes=3, walltime_s=600, in_s=60)["notice_id"]
        site.listener.wait_for("STATUS=")
    journal = Journal(site.journal)
    (kept,) = journal.notices()
    journal.close()
    assert kept.notice_id == notice_id
    assert (kept.node_count, kept.walltime_s, kept.announced_s, kept.expected_s) == (3, 600, 1000, 1060)


def test_announcements_are_limited(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("makeway.daemon.service.announcing.NOTICE_LIMIT_PER_USER", 2)
    with site.up():
        for _ in range(2):
            site.ask(command="notice", nodes=3, walltime_s=600, in_s=60)
        with pytest.raises(UserError, match="too many announcements are kept already"):
            site.ask(command="notice", nodes=3, walltime_s=600, in_s=60)


def test_an_announcement_of_who_may_not_submit_urgent_jobs_is_refused(site: Site) -> None:
    nobody = JobClass(name="beam", users=frozenset({"nobody-else"}), kind=JobKind.ON_DEMAND)
    site.entitlements = ClassEntitlements((nobody,))
    refusal = r"may not submit urgent jobs, which are: class beam \(certain users\)$"
    with site.up(), pytest.raises(UserError, match=refusal):
        site.ask(command="notice", nodes=3, walltime_s=600, in_s=60)
    journal = Journal(site.journal)
    assert journal.notices() == ()
    journal.close()


def test_the_configuration_limits_what_one_user_announces(site: Site) -> None:
    """Each announcement keeps 3 nodes for 1,200 s: one node-hour."""
    site.write(SELDOM + "notices: {node_hours_per_user_per_day: 1.5}\n")
    with site.up():
        site.ask(command="notice", nodes=3, walltime_s=600, in_s=600)
        refusal = r"has used 1 of the 1.5 of a day \(notices.node_hours_per_user_per_day\)$"
        with pytest.raises(UserError, match=refusal):
            site.ask(command="notice", nodes=3, walltime_s=600, in_s=600)


def test_the_watchdog_is_fed_while_cycles_end(site: Site) -> None:
    with site.up(watchdog_s=0.1):
        site.listener.wait_for("WATCHDOG=1")
        site.listener.wait_for("WATCHDOG=1")


def test_the_watchdog_is_not_fed_by_a_cycle_that_hangs(site: Site) -> None:
    site.write("cycle_limit_s: 1\n" + SELDOM)
    hang = threading.Event()
    begun = threading.Event()

    class Hanging(FakeAdapter):
        def snapshot(self) -> Cluster:
            begun.set()
            assert hang.wait(limit_s())
            return super().snapshot()

    site.adapter = Hanging(cluster(4))
    with site.up(watchdog_s=0.1):
        assert begun.wait(limit_s())
        quiet = site.listener.falls_silent(1.0)
        hang.set()
        site.listener.wait_for("WATCHDOG=1")
    assert quiet


def test_a_second_daemon_on_the_journal_is_refused_and_harms_nothing(site: Site) -> None:
    with site.up():
        site.listener.wait_for("STATUS=")
        second = Service(load(site.config), Notifier(), SimpleQueue())
        with pytest.raises(JournalInUse, match=rf"in use by the daemon with pid {os.getpid()}"):
            second.run(site.factories)
        assert site.cycle() == f"observe: {IDLE}"
    assert site.adapter.calls == [("close", "")]


def test_what_cannot_be_opened_leaves_nothing_open(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        site.write(metrics=f"{{port: {taken.getsockname()[1]}}}")
        with pytest.raises(UserError, match=r"cannot listen on 127\.0\.0\.1"):
            Service(load(site.config), Notifier(), SimpleQueue()).run(site.factories)
    site.write()
    site.socket.write_text("precious")
    with pytest.raises(UserError, match="this is not a socket"):
        Service(load(site.config), Notifier(), SimpleQueue()).run(site.factories)
    assert site.adapter.calls == [("close", "")] * 2
    Journal(site.journal).close()


def test_the_adapter_asks_the_lease_before_each_command(site: Site) -> None:
    adapter = LeasedAdapter(cluster(4))
    site.adapter = adapter
    site.write(f"mode: act\n{SELDOM}")
    with site.up():
        site.listener.wait_for("STATUS=")
        assert adapter.may_send is not None
        assert adapter.may_send()
        site.ask(command="handover")
        assert "waits for the lease" in site.listener.wait_for("STATUS=")
        assert not adapter.may_send()
