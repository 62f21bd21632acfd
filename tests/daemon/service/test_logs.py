"""Log lines, and what hostile text can do to them: nothing."""

import io
import json
import logging
import os
from pathlib import Path

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.daemon.service import logs
from makeway.daemon.service.logs import LogLayout, LogLevel

HOSTILE = "a\x1b[2J\r\n2026 info forged \u202e\u2028\x9b0m \ud800"


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_json_has_one_object_a_line_with_time_and_level() -> None:
    stream = io.StringIO()
    log = logs.configure("info", "json", stream)
    log.info("observe: nothing to do", cycle_s=0.25, job_id=HOSTILE)
    (line,) = lines(stream)
    assert line.isascii()
    entry = json.loads(line)
    assert entry["event"] == "observe: nothing to do"
    assert entry["level"] == "info"
    assert entry["cycle_s"] == 0.25
    assert entry["job_id"] == HOSTILE
    assert entry["timestamp"].endswith("Z")


def test_console_shows_hostile_text_and_does_not_obey_it() -> None:
    stream = io.StringIO()
    logs.configure("info", "console", stream).info(HOSTILE, job_id=HOSTILE, n=3)
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.rstrip("\n").isprintable()
    assert "\\x1b[2J" in text
    assert " n=3" in text


def test_console_quotes_values_that_could_be_taken_for_more() -> None:
    stream = io.StringIO()
    logs.configure("info", "console", stream).info("action", job_id="7 outcome=accepted", detail="")
    assert "job_id='7 outcome=accepted' detail=''" in stream.getvalue()


def test_tracebacks_on_the_console_stand_behind_a_bar() -> None:
    stream = io.StringIO()
    log = logs.configure("info", "console", stream)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        log.exception("a cycle failed")
    first, *rest = stream.getvalue().rstrip("\n").split("\n")
    assert "a cycle failed" in first
    assert rest
    assert all(line.startswith("  | ") for line in rest)
    assert all(line.isprintable() for line in rest)
    assert any("ValueError" in line for line in rest)


def test_tracebacks_in_json_are_a_field() -> None:
    stream = io.StringIO()
    log = logs.configure("info", "json", stream)
    try:
        raise ValueError("bad")
    except ValueError:
        log.exception("a cycle failed")
    assert "ValueError: bad" in json.loads(stream.getvalue())["exception"]


@pytest.mark.parametrize(("level", "shown"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_the_level_is_a_threshold(level: LogLevel, shown: int) -> None:
    stream = io.StringIO()
    log = logs.configure(level, "json", stream)
    log.debug("a")
    log.info("b")
    log.warning("c")
    log.error("d")
    assert len(lines(stream)) == shown


def test_a_second_call_changes_loggers_that_exist() -> None:
    first, second = io.StringIO(), io.StringIO()
    log = logs.configure("info", "json", first)
    log.info("one")
    logs.configure("error", "console", second)
    log.info("two")
    log.error("three")
    assert len(lines(first)) == 1
    assert len(lines(second)) == 1


def test_libraries_are_heard_once() -> None:
    stream = io.StringIO()
    logs.configure("info", "json", stream)
    logs.configure("info", "json", stream)
    logging.getLogger("some.library").warning("odd: %s", HOSTILE)
    (line,) = lines(stream)
    entry = json.loads(line)
    assert entry["event"] == f"odd: {HOSTILE}"
    assert entry["logger"] == "some.library"


@pytest.mark.parametrize("layout", ["json", "console"])
def test_lines_for_the_journal_of_systemd_begin_with_their_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: LogLayout
) -> None:
    path = tmp_path / "log"
    with path.open("w", encoding="utf-8") as stream:
        found = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
        log = logs.configure("debug", layout, stream)
        log.debug("a")
        log.info("b\n<3>forged")
        log.warning("c")
        log.error("d")
        logging.getLogger("some.library").warning("e")
        try:
            raise ValueError("bad")
        except ValueError:
            log.exception("f")
        logs.configure("debug", layout, io.StringIO()).info("not for the journal")
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line[:3] for line in lines[:6]] == ["<7>", "<6>", "<4>", "<3>", "<4>", "<3>"]
    assert all(line.startswith("<3>  | ") for line in lines[6:]), "a traceback on the console"
    assert len(lines) == 6 if layout == "json" else len(lines) > 6


def test_lines_for_anything_else_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a shell on a desktop, which inherits JOURNAL_STREAM from a service."""
    monkeypatch.setenv("JOURNAL_STREAM", "1:2")
    with (tmp_path / "log").open("w", encoding="utf-8") as stream:
        logs.configure("info", "json", stream).info("a")
    memory = io.StringIO()
    logs.configure("info", "json", memory).info("a")
    assert (tmp_path / "log").read_text(encoding="utf-8").startswith("{")
    assert memory.getvalue().startswith("{")


@pytest.mark.parametrize("layout", ["json", "console"])
def test_a_full_disk_loses_the_line_and_nothing_else(layout: LogLayout) -> None:
    class Full(io.StringIO):
        def write(self, text: str, /) -> int:
            raise OSError(28, "No space left on device")

    logs.configure("info", layout, Full()).info("lost")
    closed = io.StringIO()
    closed.close()
    logs.configure("info", layout, closed).info("lost")


@settings(deadline=None)
@given(event=st.text(), key=st.text(min_size=1), value=st.text() | st.integers() | st.none() | st.binary())
def test_whatever_is_logged_stays_one_line(event: str, key: str, value: object) -> None:
    for layout in ("json", "console"):
        stream = io.StringIO()
        logs.configure("info", layout, stream)
        structlog.get_logger().bind(**{key: value}).info(event)
        text = stream.getvalue()
        assert text.endswith("\n")
        assert text[:-1].isprintable()
