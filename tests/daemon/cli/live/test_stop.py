"""`makeway stop`, with the service in the same process."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from makeway.adapters.protocol import Unavailable
from makeway.daemon.cli.live import stop as command
from makeway.daemon.cli.main import run_cli
from makeway.daemon.service.service import SignalMessage
from makeway.policies.model import LeaderLease, Reservation, TakenFromJob
from tests.builders import node_names
from tests.daemon.service.listener import Listener
from tests.daemon.service.site import Site, busy
from tests.fakes import LeasedAdapter


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Listener(tmp_path / "notify") as listener:
        yield Site(tmp_path, listener)


@contextmanager
def holding(site: Site) -> Iterator[None]:
    """The service in observe mode, on a cluster where an earlier life has left a hold."""
    left = Reservation(name="mw_z", nodes=node_names(2), start_s=0.0, end_s=9e9)
    site.adapter.view = replace(busy(), reservations=(left,))
    with site.up():
        site.listener.wait_for("STATUS=observe")
        yield


def test_everything_is_given_back_before_the_end(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    with holding(site):
        assert run_cli(["stop", "--restore", "--config", str(site.config)]) == 0
        printed = capsys.readouterr().out
        assert printed == "Everything is given back.\nThe daemon has stopped.\n"
    assert site.adapter.view.reservations == ()
    assert site.adapter.calls == [("release", "mw_z"), ("close", "")]
    assert not site.socket.exists()


def test_a_daemon_that_follows_gives_nothing_back_and_says_so(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    left = Reservation(name="mw_z", nodes=node_names(2), start_s=0.0, end_s=9e9)
    site.adapter = adapter = LeasedAdapter(replace(busy(), reservations=(left,)))
    adapter.create_lease(LeaderLease(term=7, mark=1, lasts_s=9e9))
    site.write("mode: act\npoll_interval_s: 3600\npoke_gap_s: 0\n")
    with site.up():
        assert run_cli(["stop", "--restore", "--config", str(site.config)]) == 0
    said, end = capsys.readouterr().out.splitlines()
    assert said.startswith("Nothing is given back: another daemon leads, and this one follows (term 7). ")
    assert end == "The daemon has stopped."
    assert adapter.calls == [("close", "")]
    assert [lease.term for lease in adapter.book.all()] == [7]


def test_what_cannot_be_given_back_is_said(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    view = busy()
    taken = TakenFromJob(run=0, walltime_s=1800.0, raised_to_s=view.jobs[1].walltime_s)
    site.adapter.view = replace(view, jobs=(view.jobs[0], replace(view.jobs[1], taken=taken)))
    with site.up():
        assert run_cli(["stop", "--restore", "--config", str(site.config)]) == 0
    said, end = capsys.readouterr().out.splitlines()
    assert said.startswith("Given back, except: job v\\x1b[2J has a time limit of ")
    assert end == "The daemon has stopped."


def test_a_daemon_that_cannot_give_back_in_time_goes_on(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster does not answer the command that ends a hold."""
    monkeypatch.setattr(command, "LOOK_S", 0.01)
    site.adapter.errors["release"] = Unavailable("no answer")
    with holding(site):
        assert run_cli(["stop", "--restore", "--wait", "0.1", "--config", str(site.config)]) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert error.startswith("makeway: error: not everything is given back yet: ")
        site.cycle()
        assert site.status()["restored"] is False
        assert "hold mw_z is there" in site.status()["not_given_back"]


def test_a_reload_does_not_end_the_giving_back(site: Site) -> None:
    with holding(site):
        site.ask(command="restore")
        site.listener.wait_for("STATUS=act: 1 urgent waiting; accepted release")
        site.write("mode: act\npoll_interval_s: 3600\npoke_gap_s: 0\n")
        site.inbox.put(SignalMessage.RELOAD)
        site.listener.wait_for("READY=1")
        for _ in range(2):
            site.cycle()
        assert site.status()["mode"] == "act"
        assert site.adapter.calls == [("release", "mw_z")], "the urgent job gets nothing"


def test_a_stop_without_restore_leaves_what_is_held(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    with holding(site):
        assert run_cli(["stop", "--config", str(site.config)]) == 0
        assert capsys.readouterr().out == "The daemon has stopped.\n"
    assert [one.name for one in site.adapter.view.reservations] == ["mw_z"]


def test_without_a_daemon_it_says_what_gives_back(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """The last daemon got no answer to the command that ends a hold: that is in its journal."""
    site.adapter.errors["release"] = Unavailable("no answer")
    with holding(site):
        site.ask(command="restore")
        site.listener.wait_for("STATUS=act: 1 urgent waiting; in doubt release")
    assert run_cli(["stop", "--restore", "--config", str(site.config)]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"makeway: error: socket {site.socket}: no daemon answers; ")
    assert f"; by the journal {site.journal}, 1 operation of the last daemon is open; " in error
    assert error.endswith("; a daemon that is started in `mode: act` gives back what the last one took")


def test_without_a_daemon_a_stop_fails(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["stop", "--config", str(site.config)]) == 2
    assert "no daemon answers" in capsys.readouterr().err


def test_without_a_daemon_and_with_nothing_open_there_is_nothing_to_do(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before its first start, and after an observing daemon, whose operations have taken nothing."""
    restore = ["stop", "--restore", "--config", str(site.config)]
    assert run_cli(restore) == 0
    nothing = "nothing is to be given back.\n"
    assert capsys.readouterr().out == f"No daemon runs, and there is no journal {site.journal}: {nothing}"
    site.adapter.view = busy()
    with site.up():
        site.listener.wait_for("STATUS=observe: 1 urgent waiting")
    assert run_cli(restore) == 0
    assert capsys.readouterr().out == f"No daemon runs, and by the journal {site.journal} {nothing}"


def test_of_a_daemon_behind_another_socket_nothing_is_known(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    with site.up():
        site.listener.wait_for("STATUS=observe")
        assert run_cli(["stop", "--restore", "--socket", "other.sock", "--config", str(site.config)]) == 2
    assert f"The journal {site.journal} is in use by the daemon with pid " in capsys.readouterr().err


def test_a_journal_that_cannot_be_read_says_so(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.journal.write_text("no journal")
    assert run_cli(["stop", "--restore", "--config", str(site.config)]) == 2
    assert str(site.journal) in capsys.readouterr().err
