"""The daemon's side of the socket, and who asks."""

import os
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import structlog

from makeway.daemon.service.peer import Peer
from makeway.daemon.service.socket_api import Announcement, BadRequest, serve

ME = Peer(pid=os.getpid(), uid=os.geteuid())
STRANGER = Peer(pid=1, uid=54_321)


class Control:
    """Counts the requests."""

    def __init__(self) -> None:
        self.pokes = 0
        self.acknowledged: list[str] = []
        self.announced: list[Announcement] = []
        self.ordered: list[str] = []
        self.paused: list[bool] = []
        self.leads = True
        self.broken = False
        self.hold: threading.Event | None = None

    def poke(self) -> None:
        if self.broken:
            raise RuntimeError("a defect")
        self.pokes += 1

    def acknowledge(self, job_id: str) -> bool:
        self.acknowledged.append(job_id)
        return job_id == "4711_3"

    def status(self) -> Mapping[str, object]:
        if self.hold is not None:
            self.hold.wait()
        return {"mode": "observe", "sentence": "fine \x1b[2J"}

    def restore(self) -> None:
        self.ordered.append("restore")

    def stop(self) -> None:
        self.ordered.append("stop")

    def announce(self, announcement: Announcement) -> str:
        if len(self.announced) >= 3:
            raise BadRequest("too many announcements are kept already")
        self.announced.append(announcement)
        return "n-1"

    def pause(self, on: bool) -> None:
        self.paused.append(on)

    def hand_over(self) -> bool:
        return self.leads


@contextmanager
def serving(path: Path, control: Control | None = None) -> Generator[Control]:
    control = control or Control()
    with serve(path, control, structlog.get_logger()):
        yield control
