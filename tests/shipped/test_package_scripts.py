"""What the scripts of the packages do when dpkg and rpm run them, without the programs of the system."""

import re
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.paths import DEPLOY

LOGGED = ("groupadd", "useradd", "groupdel", "userdel", "install", "rm", "systemctl")
UNITS = "makeway.service makeway-page.service"
RELOAD = "systemctl daemon-reload"
GIVE_BACK = "makeway stop --restore --wait 5m"
RESTART = f"systemctl try-restart {UNITS}"
ACCOUNTS = ("passwd/makeway", "group/makeway", "group/makeway-users")

STEPS: dict[str, dict[str, list[str]]] = {
    "dpkg": {
        "install": ["postinstall configure"],
        "upgrade": ["preremove upgrade 2", "postremove upgrade 2", "postinstall configure 1"],
        "remove": ["preremove remove", "postremove remove"],
    },
    "rpm": {
        "install": ["postinstall 1"],
        "upgrade": ["postinstall 2", "preremove 1", "postremove 1"],
        "remove": ["preremove 0", "postremove 0"],
    },
}
"""The scripts that each package manager runs, in their order, with what it tells them."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine in a folder. The scripts find its files instead of the system's, and only programs that write
    down that they were run.
    """

    root: Path

    def __post_init__(self) -> None:
        for folder in ("bin", "passwd", "group", "opt/makeway/bin", "run/makeway", "run/systemd/system"):
            (self.root / folder).mkdir(parents=True)
        for name in LOGGED:
            self._program(f"bin/{name}", f'echo "{name} $*" >>{self.root}/log')
        self._program("bin/getent", f'[ -e "{self.root}/$1/$2" ]')
        self.makeway_ends(0)

    def _program(self, name: str, line: str) -> None:
        path = self.root / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def makeway_ends(self, status: int) -> None:
        """The exit status of each command of makeway from now on."""
        self._program("opt/makeway/bin/makeway", f'echo "makeway $*" >>{self.root}/log; exit {status}')

    def has(self, *accounts: str) -> None:
        """It has these users (`passwd/NAME`) and groups (`group/NAME`)."""
        for account in accounts:
            (self.root / account).touch()

    def without_systemd(self) -> None:
        """It runs without systemd from now on, as a chroot does."""
        (self.root / "run/systemd/system").rmdir()

    def run(self, *steps: str) -> list[str]:
        """Run scripts, each with its arguments, which have to succeed. Returns what they have run."""
        log = self.root / "log"
        log.unlink(missing_ok=True)
        for step in steps:
            name, *arguments = step.split()
            text = (DEPLOY / "package" / f"{name}.sh").read_text()
            moved = self.root / f"{name}.sh"
            moved.write_text(re.sub(r"(?<![\w/])/(run|opt|var|etc)/", rf"{self.root}/\1/", text))
            subprocess.run(["/bin/sh", moved, *arguments], env={"PATH": f"{self.root}/bin"}, check=True)
        return log.read_text().replace(f"{self.root}/", "/").splitlines() if log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def daemon(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The socket of a daemon that runs on the machine. Its path may be too long for a socket otherwise."""
    monkeypatch.chdir(machine.root / "run/makeway")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("makeway.sock")
        yield


manager = pytest.mark.parametrize("manager", ["dpkg", "rpm"])


@manager
def test_an_installation_makes_the_accounts_and_starts_nothing(machine: Machine, manager: str) -> None:
    ran = machine.run(*STEPS[manager]["install"])
    assert ran[:2] == ["groupadd --system makeway", "groupadd --system makeway-users"]
    assert ran[2].startswith("useradd --system --gid makeway")
    assert ran[3] == "install -d -m 700 -o makeway -g makeway-users /var/lib/makeway"
    assert ran[4] == RELOAD
    assert set(ran[5:]) <= {RESTART}, "a daemon that does not run stays so"


@manager
def test_accounts_that_exist_stay_as_they_are(machine: Machine, manager: str) -> None:
    machine.has("group/makeway-users")
    ran = machine.run(*STEPS[manager]["install"])
    assert [line for line in ran if line.startswith("groupadd")] == ["groupadd --system makeway"]
    machine.has(*ACCOUNTS)
    assert not [line for line in machine.run(*STEPS[manager]["install"]) if "add" in line.split()[0]]


@pytest.mark.usefixtures("daemon")
@manager
def test_an_upgrade_restarts_the_daemon_once_at_its_end_and_takes_nothing_away(
    machine: Machine, manager: str
) -> None:
    machine.has(*ACCOUNTS)
    ran = machine.run(*STEPS[manager]["upgrade"])
    assert ran[-2:] == [RELOAD, RESTART]
    assert {line.split()[0] for line in ran} == {"install", "systemctl"}
    assert {line for line in ran if line.startswith("systemctl")} == {RELOAD, RESTART}
    assert ran.count(RESTART) == 1


@pytest.mark.usefixtures("daemon")
@manager
def test_a_removal_gives_back_first_and_keeps_the_accounts(machine: Machine, manager: str) -> None:
    machine.has(*ACCOUNTS)
    ran = machine.run(*STEPS[manager]["remove"])
    assert ran == [GIVE_BACK, f"systemctl disable --now {UNITS}", RELOAD]


@pytest.mark.usefixtures("daemon")
@manager
def test_what_cannot_be_given_back_is_a_warning(
    machine: Machine, manager: str, capfd: pytest.CaptureFixture[str]
) -> None:
    machine.makeway_ends(2)
    assert f"systemctl disable --now {UNITS}" in machine.run(*STEPS[manager]["remove"])
    assert "not everything was given back" in capfd.readouterr().err


@manager
def test_makeway_is_asked_whether_a_daemon_that_does_not_run_has_left_something(
    machine: Machine, manager: str
) -> None:
    assert machine.run(*STEPS[manager]["remove"])[0] == GIVE_BACK


@manager
def test_an_upgrade_leaves_the_folder_of_the_journal_to_its_user(machine: Machine, manager: str) -> None:
    machine.has(*ACCOUNTS)
    (machine.root / "var/lib/makeway").mkdir(parents=True)
    ran = machine.run(*STEPS[manager]["upgrade"])
    assert not [line for line in ran if line.startswith("install")]


@manager
def test_without_systemd_no_unit_is_touched(machine: Machine, manager: str) -> None:
    machine.without_systemd()
    steps = [step for steps in STEPS[manager].values() for step in steps]
    ran = machine.run(*steps)
    assert ran
    assert not [line for line in ran if line.startswith("systemctl")]


def test_only_a_purge_deletes(machine: Machine) -> None:
    machine.has(*ACCOUNTS)
    accounts = ["userdel makeway", "groupdel makeway", "groupdel makeway-users"]
    assert machine.run("postremove purge") == [RELOAD, "rm -rf /var/lib/makeway /etc/makeway", *accounts]


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize(
    "step", ["postinstall abort-upgrade 2", "postinstall abort-remove", "preremove failed-upgrade 1"]
)
def test_a_step_of_dpkg_that_takes_back_another_changes_nothing(machine: Machine, step: str) -> None:
    assert machine.run(step) == []
