"""The service as a process: signals, a second process, and the program on the sample."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.daemon.service.site import SELDOM, Site
from tests.paths import ROOT
from tests.waiting import limit_s

PROGRAM = """
import sys
from makeway.daemon.cli.main import run_cli
from makeway.adapters.registry import Connection
from tests.builders import cluster
from tests.fakes import FakeAdapter
adapter = FakeAdapter(cluster(4))
factories = {"simulated": lambda _: Connection(adapter=adapter, now=lambda: 1000.0)}
sys.exit(run_cli(sys.argv[1:], factories=factories))
"""

MAIN = ("-m", "makeway.daemon.cli.main")
CLOSED = ("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh")
"""A command without standard streams."""
SAMPLE = "{type: simulated, start_s: 95000, speed: 300}"


@contextmanager
def process(site: Site, *program: str, through: tuple[str, ...] = ()) -> Generator[Callable[[int], None]]:
    """The service as a process of its own; gives a way to signal it. It must end with status 0.

    `through`: the command that becomes it.
    """
    environment = {**os.environ, "NOTIFY_SOCKET": site.listener.address, "PYTHONPATH": str(ROOT)}
    command = [*through, sys.executable, *(program or ("-c", PROGRAM)), "run", "--config", str(site.config)]
    log = site.folder / "log"
    with log.open("wb") as stream, subprocess.Popen(command, env=environment, stderr=stream) as child:
        try:
            site.listener.wait_for("READY=1")
            yield child.send_signal
            child.wait(limit_s())
        finally:
            child.kill()
    assert child.returncode == 0, log.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_of_a_real_process(site: Site, number: int) -> None:
    with process(site) as send:
        site.listener.wait_for("STATUS=observe")
        site.write("mode: act\n" + SELDOM)
        send(signal.SIGHUP)
        site.listener.wait_for("RELOADING=1")
        site.listener.wait_for("READY=1")
        site.listener.wait_for("STATUS=act")
        site.write("mode: [\n" + SELDOM)
        send(signal.SIGHUP)
        assert "reload refused" in site.listener.wait_for("READY=1")
        assert site.status()["mode"] == "act"
        send(number)
        site.listener.wait_for("STOPPING=1")
    assert not site.socket.exists()


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_a_signal_that_means_nothing_ends_nothing(site: Site, number: int) -> None:
    """As when a logrotate takes makeway for slurmctld, which opens its log again at SIGUSR2."""
    with process(site) as send:
        send(number)
        send(signal.SIGTERM)  # of two signals Linux delivers the lower number first
    assert "means nothing to makeway: it goes on" in (site.folder / "log").read_text()


def test_closed_standard_streams_are_opened(site: Site) -> None:
    """Otherwise the next file gets the number of standard error, and the first line of the log ends the
    daemon.
    """
    site.write(SELDOM)
    site.config.write_text(site.config.read_text().replace("{type: simulated}", SAMPLE))
    with process(site, *MAIN, through=CLOSED) as send:
        streams = [os.readlink(f"/proc/{site.status()['pid']}/fd/{number}") for number in range(3)]
        send(signal.SIGTERM)
    assert streams == [os.devnull] * 3


def test_what_a_command_starts_has_the_streams_that_were_opened(tmp_path: Path) -> None:
    told = tmp_path / "told"
    look = (
        "import os, pathlib, sys\n"
        "streams = [os.readlink(f'/proc/self/fd/{number}') for number in range(3)]\n"
        "pathlib.Path(sys.argv[1]).write_text(' '.join(streams))"
    )
    program = (
        "import subprocess, sys\n"
        "from makeway.daemon.cli.ending import open_standard_streams\n"
        "open_standard_streams()\n"
        "subprocess.run([sys.executable, '-c', *sys.argv[1:]], check=True)"
    )
    words = (sys.executable, "-c", program, look, str(told))
    subprocess.run([*CLOSED, *words], check=True, timeout=limit_s())
    assert told.read_text().split() == [os.devnull] * 3


def test_a_second_process_is_one_line_and_status_2(site: Site) -> None:
    with process(site) as send:
        pid = site.status()["pid"]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, "run", "--config", str(site.config)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            timeout=limit_s(),
            check=False,
        )
        assert done.returncode == 2
        expected = f"makeway: error: {site.journal}: in use by the daemon with pid {pid}; "
        assert done.stderr.decode().startswith(expected)
        assert done.stderr.count(b"\n") == 1
        send(signal.SIGTERM)


def test_the_program_makes_way_on_the_sample(site: Site) -> None:
    """The whole of it: the real command, the simulated cluster in real time, an urgent job that gets its
    nodes.
    """
    text = "mode: act\npoll_interval_s: 0.2\npoke_gap_s: 0\npolicy: {settings: {start_within_s: 1800}}\n"
    site.write(text)
    site.config.write_text(site.config.read_text().replace("{type: simulated}", SAMPLE))
    with process(site, *MAIN) as send:
        site.listener.wait_for("accepted reserve")
        assert "urgent job" in site.listener.wait_for(" started; ")
        send(signal.SIGTERM)
