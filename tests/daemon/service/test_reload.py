"""Reloading the configuration: what is used at once, what waits for a restart, what is refused."""

from pathlib import Path

import pytest

from makeway.adapters.site.sections import AdapterSection
from makeway.daemon.config.load import Config
from makeway.daemon.service import cycle_runner
from makeway.daemon.service.service import SignalMessage
from tests.daemon.service.site import IDLE, SELDOM, Site, entries


def test_a_good_reload_is_used_at_once(site: Site) -> None:
    with site.up():
        site.listener.wait_for("STATUS=observe")
        site.write("mode: act\npolicy: {name: n-paa}\n" + SELDOM)
        site.inbox.put(SignalMessage.RELOAD)
        assert "MONOTONIC_USEC=" in site.listener.wait_for("RELOADING=1")
        site.listener.wait_for("READY=1")
        assert site.listener.wait_for("STATUS=") == f"STATUS=act: {IDLE}"
        assert (site.status()["mode"], site.status()["policy"]) == ("act", "n-paa")


def test_a_bad_reload_changes_nothing_and_is_reported(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    with site.up():
        site.listener.wait_for("STATUS=observe")
        site.write("mode: actt\nlog: {level: x}\n" + SELDOM)
        site.inbox.put(SignalMessage.RELOAD)
        site.listener.wait_for("RELOADING=1")
        assert "reload refused, old settings in use: " in site.listener.wait_for("READY=1")
        line = site.listener.wait_for("STATUS=observe")
        assert 'makeway.yaml:5: mode: "actt" is not accepted' in line
        assert "reload refused" in site.status()["reload_problem"]
        refused = next(entry for entry in entries(capsys) if "reload refused" in entry["event"])
        assert len(refused["problems"]) == 2
        site.config.unlink()
        site.inbox.put(SignalMessage.RELOAD)
        assert "cannot be read" in site.listener.wait_for("READY=1")
        site.write(SELDOM)
        site.inbox.put(SignalMessage.RELOAD)
        assert "reload refused" not in site.listener.wait_for("READY=1")
        assert site.status()["reload_problem"] is None


def test_a_reload_that_the_system_refuses_is_reported_as_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: Path) -> Config:
        raise PermissionError(13, "Permission denied", "/etc/makeway")

    with site.up():
        site.listener.wait_for("STATUS=observe")
        monkeypatch.setattr(cycle_runner, "load", refuse)
        site.inbox.put(SignalMessage.RELOAD)
        line = site.listener.wait_for("READY=1")
        assert "reload refused, old settings in use: [Errno 13] Permission denied: '/etc/makeway'" in line
        assert site.listener.wait_for("STATUS=observe"), "the cycle goes on"


def test_what_cannot_change_at_run_time_waits_for_a_restart(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    with site.up():
        site.listener.wait_for("STATUS=observe")
        site.write("mode: act\n" + SELDOM, metrics="{enabled: true, port: 0}")
        text = site.config.read_text().replace("journal: j.sqlite", "journal: k.sqlite")
        site.config.write_text(text)
        site.inbox.put(SignalMessage.RELOAD)
        line = site.listener.wait_for("READY=1")
        assert "waits for a restart: journal, metrics" in line
        assert site.status()["mode"] == "act"
        assert site.cycle().startswith(f"act: {IDLE} | waits for a restart: journal, metrics")
    assert not (site.folder / "k.sqlite").exists()
    assert any(entry.get("settings") == ["journal", "metrics"] for entry in entries(capsys))


def test_a_reload_changes_the_log(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    with site.up():
        site.listener.wait_for("STATUS=observe")
        site.write("log: {level: error}\n" + SELDOM)
        site.inbox.put(SignalMessage.RELOAD)
        site.listener.wait_for("READY=1")
        site.listener.wait_for("STATUS=observe")
        entries(capsys)
        site.cycle()
        assert entries(capsys) == []


@pytest.mark.parametrize(("all_of_it", "words"), [(True, ""), (False, "waits for a restart: adapter")])
def test_what_the_adapter_takes_over_needs_no_restart(site: Site, all_of_it: bool, words: str) -> None:
    sections: list[AdapterSection] = []

    def adopt(section: AdapterSection) -> bool:
        sections.append(section)
        return all_of_it

    site.adopt = adopt
    with site.up():
        site.listener.wait_for("STATUS=observe")
        text = site.config.read_text()
        site.config.write_text(text.replace("type: simulated", "type: simulated, speed: 2"))
        site.inbox.put(SignalMessage.RELOAD)
        site.listener.wait_for("RELOADING=1")
        ready = site.listener.wait_for("READY=1")
        assert ("waits for a restart" in ready, words in ready) == (not all_of_it, True)
        assert [section.adapter_name for section in sections] == ["simulated"]
