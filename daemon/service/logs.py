"""Log lines: JSON for machines, or plain lines for a terminal. Text from users is escaped.

Where the lines go to systemd's journal, each begins with its priority, which systemd takes off.

JSON escapes everything that is not ASCII. The console escapes every character that is not printable and
indents tracebacks, so that no job name can look like a log line or move the cursor.
"""

import json
import logging
import os
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import FilteringBoundLogger, Processor

from makeway.daemon.errors import printable
from makeway.daemon.service.systemd import Priority, goes_to_journal

LogLevel = Literal["debug", "info", "warning", "error"]
LogLayout = Literal["json", "console"]


class _LineWriter:
    """Writes one line at a time. If the stream is full or closed, the line is lost and the cycle goes on."""

    def __init__(self, stream: TextIO, *, for_journal: bool) -> None:
        self._stream = stream
        self._for_journal = for_journal

    def debug(self, text: str) -> None:
        self._write(text, Priority.DEBUG)

    def info(self, text: str) -> None:
        self._write(text, Priority.INFO)

    def warning(self, text: str) -> None:
        self._write(text, Priority.WARNING)

    def error(self, text: str) -> None:
        self._write(text, Priority.ERROR)

    critical = exception = error

    def _write(self, text: str, priority: Priority) -> None:
        with suppress(OSError, ValueError):
            self._stream.write((priority.mark(text) if self._for_journal else text) + "\n")
            self._stream.flush()


class _Forward(logging.Handler):
    """Passes log records of libraries, which use the standard library, to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger()
        log.log(record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info)


def configure(level: LogLevel, layout: LogLayout, stream: TextIO) -> FilteringBoundLogger:
    """Set up logging for the whole process; may be called again to change it.

    Args:
        level: lines below it are dropped.
        layout: "json" (one object a line) or "console".
        stream: where the lines go.

    Returns:
        The logger; `get_logger()` of structlog gives the same.
    """
    threshold = logging.getLevelNamesMapping()[level.upper()]
    writer = _LineWriter(stream, for_journal=goes_to_journal(stream, os.environ))
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *_renderer(layout),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=lambda *_: writer,
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Forward)]:
        root.removeHandler(handler)
    root.addHandler(_Forward())
    root.setLevel(max(threshold, logging.WARNING))
    log: FilteringBoundLogger = structlog.get_logger()
    return log


def _renderer(layout: LogLayout) -> list[Processor]:
    match layout:
        case "json":
            return [structlog.processors.JSONRenderer(serializer=_json)]
        case "console":
            return [_escape, _render]


def _json(value: object, **_: object) -> str:
    return json.dumps(value, ensure_ascii=True, default=str)


def _escape(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Make every value printable; a traceback keeps its lines, each after a bar."""
    for key, value in event.items():
        if key == "exception":
            event[key] = "".join(f"\n  | {printable(line)}" for line in str(value).splitlines())
        else:
            event[key] = printable(str(value))
    return event


def _render(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
    """`time level event key=value ...`, and the traceback below."""
    when, level, what = (event.pop(key, "") for key in ("timestamp", "level", "event"))
    exception = event.pop("exception", "")
    values = "".join(f" {printable(key)}={_quoted(value)}" for key, value in event.items())
    return f"{when} {level:<7} {what}{values}{exception}"


def _quoted(text: str) -> str:
    """In quotes if the value could be read as several values."""
    return repr(text) if not text or any(character in text for character in " ='\"") else text
