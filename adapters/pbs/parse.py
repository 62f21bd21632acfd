"""What `qstat -f -F json` and `pbsnodes -a -F json` print, as typed records. Pure functions of text.

Reference: PBS Professional Reference Guide, chapters "PBS Commands" (qstat, pbsnodes) and "Attributes" (of
    jobs and vnodes).
"""

import calendar
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from makeway.adapters.protocol import Unreadable

RecordT = TypeVar("RecordT")
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_CLOCK = re.compile(r"(?:(?:(?P<hours>\d+):)?(?P<minutes>\d+):)?(?P<seconds>\d+)(?:\.\d+)?", re.ASCII)
_SIZE = re.compile(r"(?P<number>\d+)(?P<unit>[kmgtp]?)(?P<kind>[bw]?)", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_WORD_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One kind of chunk of a job's `select`: how many, and what each needs."""

    count: int
    needs: tuple[tuple[str, str], ...]
    """Resources and values, as PBS writes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PbsJob:
    """A job, or a subjob of an array, as the server shows it."""

    job_id: str
    state: str
    """One letter: see the job attribute `job_state`."""
    queue: str
    owner: str
    account: str
    """Account_Name, or else the project."""
    node_count: int
    """How many chunks it asks for."""
    chunks: tuple[Chunk, ...]
    walltime_s: float | None
    """None: it has no time limit."""
    nodes: tuple[str, ...]
    """Its vnodes, the first chunk's first."""
    submit_s: float
    eligible_since_s: float | None
    """etime: when it became eligible to run. None: it is not."""
    start_s: float | None
    not_before_s: float | None
    """Execution_Time: when it may start. None: at once."""
    run_count: int
    """How often it was started."""
    rerunnable: bool
    priority: int
    words: str
    """The value of MAKEWAY in its environment. Empty: it is not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PbsNode:
    """A vnode as the server shows it."""

    name: str
    states: frozenset[str]
    queue: str
    """The only queue whose jobs it serves. Empty: any queue."""
    resources: tuple[tuple[str, str], ...]
    """`resources_available`, as PBS writes it."""
    reservations: tuple[str, ...]
    """Reservations on it, running or to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PbsHeader:
    """Who answered, and when."""

    server: str
    version: str
    now_s: float


class _WrongType(ValueError):
    """An attribute is missing, or is of another type."""


class _Record:
    """Attributes of one object, each asked for by its type. Raises `_WrongType` for another type."""

    def __init__(self, name: str, value: Json) -> None:
        if not isinstance(value, dict):
            raise _WrongType(f"{name} is not an object")
        self._name = name
        self._values = value

    def text(self, key: str, default: str | None = None) -> str:
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise _WrongType(f"{self._name}: {key} is missing or not a text")
        return str(value)

    def number(self, key: str, default: int | None = None) -> int:
        text = self.text(key, None if default is None else str(default))
        return int(text)

    def inner(self, key: str) -> "_Record":
        return _Record(f"{self._name}: {key}", self._values.get(key, {}))

    def items(self) -> tuple[tuple[str, str], ...]:
        return tuple((key, self.text(key)) for key in self._values)

    def objects(self, key: str) -> tuple[tuple[str, "_Record"], ...]:
        inner = self.inner(key)
        return tuple((name, _Record(name, value)) for name, value in inner._values.items())

    def has(self, key: str) -> bool:
        return key in self._values


def jobs(text: str, *, command: tuple[str, ...]) -> tuple[PbsJob, ...]:
    """The jobs of `qstat -t -f -F json`; an array's own entry is left out, for its subjobs are there.

    Raises:
        Unreadable: the text is not whole, or not of this form.
    """
    return tuple(_each(text, "Jobs", _job, command))


def nodes(text: str, *, command: tuple[str, ...]) -> tuple[PbsNode, ...]:
    """The vnodes of `pbsnodes -a -F json`. Raises `Unreadable`."""
    return tuple(_each(text, "nodes", _node, command))


def header(text: str, *, command: tuple[str, ...]) -> PbsHeader:
    """What both commands begin with. Raises `Unreadable`."""
    try:
        record = _Record("the answer", _loaded(text))
        return PbsHeader(
            server=record.text("pbs_server"),
            version=record.text("pbs_version"),
            now_s=float(record.text("timestamp")),
        )
    except ValueError as error:
        raise Unreadable(f"PBS printed what cannot be read: {error}", command=command, text=text) from None


def duration_s(text: str) -> float:
    """Seconds of `[[hours:]minutes:]seconds`. Raises ValueError for anything else."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise ValueError(f"no duration: {text!r}")
    hours, minutes, seconds = (int(found[part] or 0) for part in ("hours", "minutes", "seconds"))
    return float((hours * 60 + minutes) * 60 + seconds)


def instant_s(text: str) -> float:
    """POSIX time of a date such as `Fri Nov 20 09:15:02 2026`. Raises ValueError for anything else.

    qstat prints local time, which is UTC for every command that `CommandRunner` starts.
    """
    return float(calendar.timegm(time.strptime(text, "%a %b %d %H:%M:%S %Y")))


def size_bytes(text: str) -> int | None:
    """The bytes of a size such as `16gb`, or a plain number as it is. None: it is neither."""
    found = _SIZE.fullmatch(text)
    if found is None:
        return None
    number = int(found["number"]) * _UNITS[found["unit"].lower()]
    return number * _WORD_BYTES if found["kind"].lower() == "w" else number


def select(text: str) -> tuple[Chunk, ...]:
    """The chunks of a `select`, such as `2:ncpus=4:mem=8gb+1:ngpus=1`. Raises ValueError for anything
    else.
    """
    chunks: list[Chunk] = []
    for part in text.split("+"):
        count, *needs = part.split(":")
        if not count.isdecimal():
            count, needs = "1", [count, *needs]
        pairs = tuple(tuple(need.split("=", 1)) for need in needs)
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError(f"no select: {text!r}")
        chunks.append(Chunk(count=int(count), needs=tuple((pair[0], pair[1]) for pair in pairs)))
    return tuple(chunks)


def vnodes(text: str) -> tuple[str, ...]:
    """The vnodes of an `exec_vnode`, such as `(n1:ncpus=4)+(n2:ncpus=2+n3:ncpus=2)`, each once, in order."""
    parts = text.replace("(", "").replace(")", "").split("+")
    return tuple(dict.fromkeys(part.split(":", 1)[0] for part in parts if part))


def _loaded(text: str) -> Json:
    """The JSON value. Raises ValueError."""
    loaded: Json = json.loads(text)
    return loaded


def _each(
    text: str, key: str, record: Callable[[str, _Record], RecordT | None], command: tuple[str, ...]
) -> Iterator[RecordT]:
    """The records in one object of the answer; where there are none, PBS leaves the object out."""
    try:
        for name, attributes in _Record("the answer", _loaded(text)).objects(key):
            found = record(name, attributes)
            if found is not None:
                yield found
    except ValueError as error:
        raise Unreadable(f"PBS printed what cannot be read: {error}", command=command, text=text) from None


def _job(job_id: str, record: _Record) -> PbsJob | None:
    if record.text("array", "False") == "True":
        return None
    wanted = record.inner("Resource_List")
    environment = record.inner("Variable_List")
    chunks = select(wanted.text("select", "1"))
    return PbsJob(
        job_id=job_id,
        state=record.text("job_state"),
        queue=record.text("queue"),
        owner=record.text("Job_Owner").split("@", 1)[0],
        account=record.text("Account_Name", "") or record.text("project", ""),
        node_count=wanted.number("nodect", sum(chunk.count for chunk in chunks)),
        chunks=chunks,
        walltime_s=duration_s(wanted.text("walltime")) if wanted.has("walltime") else None,
        nodes=vnodes(record.text("exec_vnode", "")),
        submit_s=instant_s(record.text("ctime")),
        eligible_since_s=instant_s(record.text("etime")) if record.has("etime") else None,
        start_s=instant_s(record.text("stime")) if record.has("stime") else None,
        not_before_s=instant_s(record.text("Execution_Time")) if record.has("Execution_Time") else None,
        run_count=record.number("run_count", 0),
        rerunnable=record.text("Rerunable", "False") == "True",
        priority=record.number("Priority", 0),
        words=environment.text("MAKEWAY", ""),
    )


def _node(name: str, record: _Record) -> PbsNode:
    return PbsNode(
        name=name,
        states=frozenset(part.strip() for part in record.text("state").split(",")),
        queue=record.text("queue", ""),
        resources=record.inner("resources_available").items(),
        reservations=tuple(part.strip() for part in record.text("resv", "").split(",") if part.strip()),
    )
