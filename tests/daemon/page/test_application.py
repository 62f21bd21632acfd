"""What the page answers, and what it refuses."""

import json
from pathlib import Path

import pytest

from makeway.daemon.page.application import Page
from tests.daemon.page.browsing import get

OTHERS = ("evil.example", "127.0.0.1.evil.example", "localhost:9790.evil", "", "10.0.0.1")
THIS = ("localhost", "127.0.0.1", "[::1]", "localhost:1", "127.0.0.1:65535", "[::1]:80")
DATA = ("/now.json", "/decisions.json", "/timeline.json", "/what-if.json", "/explanation.txt")


@pytest.mark.parametrize("path", ["/", "/page.css", "/page.js", *DATA])
def test_every_answer_has_the_headers(page: Page, path: str) -> None:
    got = get(page, path)
    assert got.status == 200
    assert got.headers["X-Content-Type-Options"] == "nosniff"
    assert got.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in got.headers["Content-Security-Policy"]
    assert int(got.headers["Content-Length"]) == len(got.body.encode())
    if path.endswith(".json"):
        json.loads(got.body)
    if path == "/":
        assert "<script src=" in got.body
        assert "http" not in got.body.replace("http-equiv", "")


@pytest.mark.parametrize("path", ["/", *DATA])
@pytest.mark.parametrize("host", OTHERS)
def test_another_host_is_refused(page: Page, path: str, host: str) -> None:
    got = get(page, path, host=host)
    assert got.status == 403
    assert "make_way" not in got.body


@pytest.mark.parametrize("host", THIS)
def test_this_machine_is_answered(page: Page, host: str) -> None:
    assert get(page, "/now.json", host=host).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_only_get_is_answered(page: Page, method: str) -> None:
    assert get(page, "/now.json", method=method).status == 405


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        ("/nothing", "", "there is no such page"),
        ("/../j.sqlite", "", "there is no such page"),
        ("/explanation.txt", "decision=9", "there is no decision 9"),
        ("/explanation.txt", "decision=%1b[2J", "is not a decision"),
        ("/what-if.json", "nodes=-1", "nodes: one of"),
        ("/what-if.json", "nodes=99999999999999", "nodes: one of"),
    ],
)
def test_what_is_not_there(page: Page, path: str, query: str, expected: str) -> None:
    got = get(page, path, query=query)
    assert got.status == 404
    assert expected in got.body
    assert got.headers["Content-Type"].startswith("text/plain")
    assert "\x1b" not in got.body


def test_a_journal_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    got = get(Page(tmp_path / "none.sqlite", tmp_path / "s.sock"), "/now.json")
    assert got.status == 503
    assert "none.sqlite" in got.body
