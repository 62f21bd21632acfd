"""Accounting for a development cluster: MariaDB on a socket, and slurmdbd. Both end with the cluster."""

import os
import pwd
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.fight.service import START_S, NotServing, serving

from makeway.adapters.command import CommandRunner
from makeway.adapters.devcluster.processes import MARKER

_SYSTEM_TABLES = (
    Path("/usr/share/mysql/mysql_system_tables.sql"),
    Path("/usr/share/mariadb/mariadb_system_tables.sql"),
)
"""Where Debian 12 and later ones have them; slurmdbd's stored procedures need them."""
_DATABASE_OPTIONS = (
    "--no-defaults",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-buffer-pool-size=128M",
    "--innodb-lock-wait-timeout=900",
)
"""No part of the machine's own configuration counts, and nothing has to survive a crash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """Where the accounting of a cluster is to run."""

    state: Path
    """The state folder of the cluster."""
    port: int
    """slurmdbd's, on loopback."""
    root: str | None = None
    """The chroot with the Slurm, in which all folders are. None: it is this machine's. MariaDB always is."""

    def manage(self, *words: str) -> None:
        """One command of sacctmgr. Raises NotServing if it fails."""
        done = self._runner.run(("sacctmgr", "--immediate", "--quiet", *words))
        if done.returncode != 0:
            raise NotServing(f"sacctmgr {' '.join(words)}: {done.words}")

    @property
    def folder(self) -> Path:
        """Of the database and of slurmdbd. It goes with the state folder."""
        return self.state / "accounting"

    @property
    def _slurm_conf(self) -> str:
        """slurm.conf of the cluster, as Slurm sees it."""
        return self._inner(self.state / "slurm.conf")

    @property
    def _mark(self) -> dict[str, str]:
        """The environment by which what is started here is known to belong to the cluster."""
        return {MARKER: str(self.state.resolve())}

    @property
    def _prefix(self) -> tuple[str, ...]:
        """What puts a command into the chroot."""
        return (
            ("unshare", "--mount", f"--root={self.root}", "--wd=/", "--mount-proc=/proc") if self.root else ()
        )

    @property
    def _runner(self) -> CommandRunner:
        environment = {"SLURM_CONF": self._slurm_conf}
        return CommandRunner(environment=environment, prefix=self._prefix, timeout_s=START_S)

    def _inner(self, path: Path) -> str:
        """A path as Slurm sees it."""
        return str(path if self.root is None else Path("/") / path.relative_to(self.root))

    def start(self, stack: ExitStack) -> None:
        """Start the database and slurmdbd. Both end when the stack is closed. Raises NotServing."""
        self._start_database(stack)
        self._start_slurmdbd(stack)

    def _start_database(self, stack: ExitStack) -> None:
        data, socket = self.folder / "data", self.folder / "sql.socket"
        data.mkdir(parents=True, mode=0o700)
        self.folder.chmod(0o700)
        options = (*_DATABASE_OPTIONS, f"--datadir={data}", f"--tmpdir={data}", f"--user={user_name()}")
        tables = next((path for path in _SYSTEM_TABLES if path.exists()), None)
        if tables is None:
            looked_for = " or ".join(map(str, _SYSTEM_TABLES))
            raise NotServing(f"MariaDB is not installed (no {looked_for}): make slurm-accounting")
        # slurmdbd would make its database itself. With MariaDB's client library 11.8.9 it cannot: after a
        # connection to a database that is not there, the library refuses every result.
        script = b"create database slurm;\ncreate database mysql;\nuse mysql;\n" + tables.read_bytes()
        made = CommandRunner(environment=self._mark, timeout_s=START_S).run(
            ("mariadbd", *options, "--bootstrap"), stdin=script
        )
        if made.returncode != 0:
            raise NotServing(f"mariadbd --bootstrap: {made.words[-500:]}")
        # Only its socket reaches it, and only this user can enter the folder: it needs no passwords.
        argv = ("mariadbd", *options, f"--socket={socket}", "--skip-networking", "--skip-grant-tables")
        stack.enter_context(serving(argv, self.folder / "mariadbd.log", self._mark, socket.exists))

    def _start_slurmdbd(self, stack: ExitStack) -> None:
        lines = {
            "DbdHost": "localhost",
            "DbdAddr": "127.0.0.1",
            "DbdPort": str(self.port),
            "SlurmUser": user_name(),
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={self._inner(self.state / 'munge.socket')}",
            "StorageType": "accounting_storage/mysql",
            "StorageHost": "localhost",
            "StorageUser": user_name(),
            "StorageLoc": "slurm",
            "PidFile": self._inner(self.folder / "slurmdbd.pid"),
        }
        conf = self.state / "slurmdbd.conf"
        conf.touch(mode=0o600)
        conf.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        environment = {
            **self._mark,
            "SLURM_CONF": self._slurm_conf,
            "MYSQL_UNIX_PORT": self._inner(self.folder / "sql.socket"),
        }

        def answers() -> bool:
            return self._runner.run(("sacctmgr", "-n", "show", "cluster")).returncode == 0

        argv = (*self._prefix, "slurmdbd", "-D")
        stack.enter_context(serving(argv, self.folder / "slurmdbd.log", environment, answers))


def user_name() -> str:
    """The user that runs everything here."""
    return pwd.getpwuid(os.getuid()).pw_name
