"""A stand-in for pyslurm, for the helper process: it tells what a JSON file says, and fails as the file says.

FAKE_PYSLURM names the file. It is read at each load, so that a test may change it while the helper runs.
"""

import enum
import json
import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def _told() -> Any:
    return json.loads(Path(os.environ["FAKE_PYSLURM"]).read_text())


__version__ = _told()["version"]
if _told().get("at_import") == "exit":
    print("fatal: could not open slurm.conf", file=sys.stderr, flush=True)
    os._exit(1)
elif _told().get("at_import") == "raise":
    raise ImportError("libslurmfull.so: cannot open shared object file")


class RPCError(Exception):
    """The controller did not answer, or refused."""


class ReservationFlags(enum.Flag):
    IGNORE_RUNNING_JOBS = 1
    NO_JOB_HOLD_AFTER_END = 2
    PURGE = 4
    SPECIFIC_NODES = 8


class _Again(enum.Enum):
    NO = 0
    DAILY = 1


class _Record:
    """A record with the attributes of the file; those under `bytes` are no UTF-8."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        values = self._values
        if name in values.get("bytes", {}):
            return bytes.fromhex(values["bytes"][name]).decode()
        if name in values.get("raising", ()):
            raise IndexError("list index out of range")
        if name in {"allocated_tres", "requested_tres", "tres_per_task"} and values.get(name):
            return _tres(values[name])
        if name == "flags":
            return _flags(values["flags"])
        if name == "reoccurrence":
            return _Again[values.get("reoccurrence", "NO")]
        return values.get(name)


def _flags(bits: int) -> ReservationFlags:
    """As Python from 3.11.4 on does it; earlier ones of 3.11 drop the bits that they do not know."""
    if bits >= 1 << len(ReservationFlags):
        raise ValueError(f"invalid value {bits}")
    return ReservationFlags(bits)


def _tres(values: Any) -> SimpleNamespace:
    def of(count: Any) -> Any:
        return None if count is None else SimpleNamespace(count=count)

    simple = {name: of(values.get(name)) for name in ("cpu", "mem", "node", "billing")}
    grouped = {
        kind: {name: of(n) for name, n in values.get(kind, {}).items()} for kind in ("gres", "license")
    }
    return SimpleNamespace(**simple, **grouped)


def _load(kind: str) -> dict[int, _Record]:
    told = _told()
    match told.get("does"):
        case "refuse":
            raise RPCError("Unable to contact slurm controller")
        case "die":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(3)
        case "hang":
            time.sleep(1000)
        case "raise":
            raise ValueError("invalid literal for int() with base 10: 'no_consume'")
        case "print":
            print("bb cray bb/cray", flush=True)
        case _:
            pass
    return dict(enumerate(map(_Record, told[kind])))


class Jobs:
    @staticmethod
    def load() -> dict[int, _Record]:
        return _load("jobs")


class Nodes:
    @staticmethod
    def load() -> dict[int, _Record]:
        return _load("nodes")


class Partitions:
    @staticmethod
    def load() -> dict[int, _Record]:
        return _load("partitions")


class Reservations:
    @staticmethod
    def load() -> dict[int, _Record]:
        return _load("reservations")
