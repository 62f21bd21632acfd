"""The page as a WSGI application: it answers GET requests from this machine, and changes nothing."""

import json
import re
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qs
from wsgiref.types import StartResponse, WSGIEnvironment

from makeway.daemon.errors import UserError
from makeway.daemon.inspect.now import latest_decisions, now
from makeway.daemon.journal.errors import JournalError
from makeway.daemon.journal.store import Journal
from makeway.daemon.page import views

_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?")
"""A page of another site that has its name point here is refused: its requests carry that name."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
DECISIONS_LISTED = 50
_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAnswer:
    """What goes back to the browser."""

    status: str
    content_type: str
    body: bytes


class Page:
    """The application.

    Args:
        journal: path of the daemon's journal. It is opened for each answer, read-only.
        socket: path of the daemon's socket.
        clock: the present time, in seconds since 1970.
    """

    def __init__(self, journal: Path, socket: Path, clock: Callable[[], float] = time.time) -> None:
        self._journal = journal
        self._socket = socket
        self._clock = clock
        self._what_if = views.WhatIf()
        self._lock = Lock()
        """Computations one after another: many readers cost no more than one."""

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        answer = self._answer(environ)
        length = ("Content-Length", str(len(answer.body)))
        start_response(answer.status, [("Content-Type", answer.content_type), length, *_HEADERS])
        return [answer.body]

    def _answer(self, environ: WSGIEnvironment) -> PageAnswer:
        path = environ.get("PATH_INFO", "")
        if environ.get("REQUEST_METHOD") != "GET":
            return _refusal("405 Method Not Allowed", "only GET is answered")
        if not _HOST.fullmatch(environ.get("HTTP_HOST", "")):
            return _refusal("403 Forbidden", "the page is served to localhost only")
        if path in _FILES:
            name, content_type = _FILES[path]
            body = files("makeway.daemon.page").joinpath("static", name).read_bytes()
            return PageAnswer(status="200 OK", content_type=content_type, body=body)
        try:
            with self._lock, closing(Journal(self._journal, read_only=True)) as journal:
                return self._data(journal, path, parse_qs(environ.get("QUERY_STRING", "")))
        except JournalError as error:
            return _refusal("503 Service Unavailable", str(error))
        except UserError as error:
            return _refusal("404 Not Found", str(error))

    def _data(self, journal: Journal, path: str, query: dict[str, list[str]]) -> PageAnswer:
        match path:
            case "/now.json":
                return _json(now(journal, self._socket))
            case "/decisions.json":
                return _json(latest_decisions(journal, DECISIONS_LISTED))
            case "/timeline.json":
                return _json(views.timeline(journal, self._clock()))
            case "/what-if.json":
                return _json(self._what_if.view(journal, _number(query.get("nodes", ["1"])[0])))
            case "/explanation.txt":
                text = views.explanation(journal, query.get("decision", ["last"])[0])
                return PageAnswer(status="200 OK", content_type=_TEXT, body=text.encode())
            case _:
                return _refusal("404 Not Found", "there is no such page")


def _number(text: str) -> int:
    """The number, or 0, which is never a number of nodes."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _json(values: Any) -> PageAnswer:
    return PageAnswer(status="200 OK", content_type=_JSON, body=json.dumps(values).encode())


def _refusal(status: str, why: str) -> PageAnswer:
    return PageAnswer(status=status, content_type=_TEXT, body=f"{why}\n".encode())
