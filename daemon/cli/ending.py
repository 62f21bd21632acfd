"""What the program prints and returns when a command fails: a line for each problem, and the exit status."""

import codecs
import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import IO, Any

import click

from makeway.daemon.errors import CANNOT_GO_ON, UserError, printable

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_IN_ASCII = str.maketrans({"→": ">", "·": ".", "█": "#", "─": "-", "│": "|", "┼": "+", "−": "-", "±": "~"})
"""What stands for a character of makeway's own outputs where the terminal has none of them."""


def open_standard_streams() -> None:
    """Open the standard streams that the caller has closed, to nothing.

    Otherwise the next file that is opened, such as the journal, gets the number of one of them.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            # It gets the lowest number that is free, and programs that are started have it, too.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 -- it stays open


def show_any_character(*streams: IO[str]) -> None:
    """Print characters that the encoding of the terminal lacks as similar ones, or as `?`."""
    codecs.register_error("makeway.similar", _similar)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper) and stream.errors in {"strict", "surrogateescape"}:
            stream.reconfigure(errors="makeway.similar")


def _similar(error: UnicodeError) -> tuple[str, int]:
    """The handler of an encoding error: the text to write instead, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end].translate(_IN_ASCII)
    return "".join(one if one.isascii() else "?" for one in lacking), error.end


def ended_by(error: Exception) -> int | None:
    """Say what ended a command. Returns the exit status; None: it is a defect, which needs a traceback."""
    if isinstance(error, BrokenPipeError):  # the reader of the output is gone
        _write_no_more()
        return 1
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return complain([f"{_unwritten(error)}: cannot be written ({error.strerror})"])
    if isinstance(error, UserError):  # a message of several lines holds several problems
        return complain(str(error).splitlines(), error.exit_status)
    if isinstance(error, FileNotFoundError) and not _in_a_folder():
        return complain(["the working directory is gone; accepted: a start in another one"])
    # Policies cannot import the daemon: their errors have a base class of their own.
    from makeway.policies.contract import PolicyError

    return complain([str(error)]) if isinstance(error, PolicyError) else None


def usage_text(error: click.UsageError) -> str:
    """What is wrong with a command line, in one line: with an option's value, what it takes instead."""
    text = " ".join(error.format_message().split())
    param = error.param if isinstance(error, click.BadParameter) else None
    given, refused, _ = text.partition(" does not match " if _is_day(param) else " is not ")
    if param is None or not refused or (wanted := _wanted(param.type)) is None:
        return text
    return f"{given} is not accepted; accepted: {wanted}"


def _is_day(param: click.Parameter | None) -> bool:
    return param is not None and isinstance(param.type, click.DateTime)


def _wanted(kind: "click.ParamType[Any]") -> str | None:
    """The numbers, or days, that an option takes. None: it takes something else, and click says it well."""
    if isinstance(kind, click.DateTime):
        return "a day of the calendar, such as 2026-01-31"
    if not isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
        return None
    number = "a whole number" if isinstance(kind, click.types.IntParamType) else "a number"
    if not isinstance(kind, click.IntRange | click.FloatRange):
        return number
    least = "" if kind.min is None else f" {'above' if kind.min_open else 'from'} {kind.min:g}"
    if kind.max is None:
        return f"{number}{least}" if kind.min_open or not least else f"{number}{least} on"
    return f"{number}{least} to {kind.max}"


def complain(problems: Sequence[str], status: int = CANNOT_GO_ON) -> int:
    """Print one line on standard error for each problem. Returns the exit status."""
    from makeway.daemon.service.systemd import Priority, goes_to_journal

    for_journal = goes_to_journal(sys.stderr, os.environ)
    for problem in problems or ["unknown error"]:
        text = f"makeway: error: {printable(problem)}"
        click.echo(Priority.ERROR.mark(text) if for_journal else text, err=True)
    return status


def _in_a_folder() -> bool:
    """Whether this process has a working directory that is still there."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _unwritten(error: OSError) -> str:
    """Where there was no room: a file, or standard output, which has no name."""
    if error.filename is None:
        _write_no_more()
    return str(error.filename or "standard output")


def _write_no_more() -> None:
    """Nothing may go to standard output any more, not even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
