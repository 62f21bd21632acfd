"""`makeway page` as a process: where it listens, what it refuses, and how it ends."""

import http.client
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from makeway.daemon.cli.main import run_cli
from tests.waiting import limit_s


@contextmanager
def serving(journal: Path, listen: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the address that it prints."""
    argv = ("page", "--journal", str(journal), "--socket", str(journal.with_name("s.sock")))
    with subprocess.Popen(
        (sys.executable, "-m", "makeway.daemon.cli.main", *argv, "--listen", listen),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("The page is at "), line
            yield process, line.removeprefix("The page is at ").strip()
        finally:
            process.kill()


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "localhost:0"])
def test_it_serves_on_loopback_until_it_is_ended(decided: Path, listen: str) -> None:
    with serving(decided, listen) as (process, address):
        assert address.startswith("http://127.0.0.1:")
        connection = http.client.HTTPConnection(
            address.removeprefix("http://").rstrip("/"), timeout=limit_s()
        )
        connection.request("GET", "/decisions.json")
        assert b"more nodes are needed" in connection.getresponse().read()
        connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(limit_s()) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_it_serves_on_a_unix_socket_of_its_group(decided: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))  # one that a killed process has left
    left.close()
    with serving(decided, f"unix:{path}") as (process, address):
        assert address == f"unix:{path}"
        assert path.stat().st_mode & 0o777 == 0o660
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(limit_s())
            client.connect(str(path))
            client.sendall(b"GET /now.json HTTP/1.0\r\nHost: localhost\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.0 200 OK")
        process.send_signal(signal.SIGINT)
        assert process.wait(limit_s()) in {0, 130}
    assert not path.exists()


@pytest.mark.parametrize(
    "listen", ["0.0.0.0:80", "127.0.0.1", "10.0.0.1:8000", "localhost:99999", "unix:", "[::]:1"]
)
def test_other_machines_are_never_served(
    decided: Path, capsys: pytest.CaptureFixture[str], listen: str
) -> None:
    assert run_cli(["page", "--journal", str(decided), "--listen", listen]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"--listen {listen}: 127.0.0.1:PORT" in said


def test_an_address_in_use_is_refused(
    decided: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run_cli(["page", "--journal", str(decided), "--listen", f"127.0.0.1:{port}"]) == 2
    assert "Address already in use" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert run_cli(["page", "--journal", str(decided), "--listen", f"unix:{tmp_path}/file"]) == 2
    assert "Address already in use" in capsys.readouterr().err
    assert (tmp_path / "file").exists()


def test_without_waitress_it_says_what_to_install(
    decided: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "waitress.server", None)
    assert run_cli(["page", "--journal", str(decided)]) == 2
    assert "pip install 'makeway[page]'" in capsys.readouterr().err
