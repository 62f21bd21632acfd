"""A batch script that runs in a folder of its own, with stand-ins for Slurm's commands."""

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from makeway.adapters.site.comment import comment_words
from tests.paths import DEPLOY
from tests.waiting import limit_s

HELPER = DEPLOY / "makeway-job.sh"
DONE = DEPLOY / "makeway-done"
EXAMPLES = DEPLOY / "examples"
SHELLS = ("dash", "bash", "bash --posix")
TOOLS = (
    *(
        "bash",
        "cat",
        "cp",
        "date",
        "dash",
        "dirname",
        "grep",
        "ls",
        "mkdir",
        "mv",
        "readlink",
        "rm",
        "sed",
        "setsid",
    ),
    *("sh", "sleep", "sync", "timeout", "touch", "tr", "truncate", "wc"),
)
NOTHING: Mapping[str, str | None] = MappingProxyType({})

SQUEUE = """
case $* in *RestartCnt*) cat restarts; exit ;; esac
echo squeue "$@" >>calls
env | grep -E '^(SQUEUE_|SLURM_CLUSTERS)' >>calls
if [ -e squeue-fails ]; then cat squeue-fails >&2; exit 1; fi
[ -e no-such-job ] || { cat comment; echo; }
"""
SCONTROL = """
echo scontrol "$1" "$2" >>calls
if [ -e scontrol-fails ]; then cat scontrol-fails >&2; exit 1; fi
if [ -e rival ]; then cp rival comment; [ -e stubborn ] || rm rival; exit; fi
printf %s "${3#Comment=}" >comment
"""
"""While `rival` is there, another writer's comment replaces makeway's at once; without `stubborn` that
happens once.
"""
SCANCEL = """
echo scancel "$@" >>calls
"""

UNTIL_BEGUN = "until grep -q makeway:ckpt-begin= comment; do sleep 0.02; done"
UNTIL_TOLD = "until grep -q makeway:ckpt= comment; do sleep 0.02; done"
"""What programs do to wait until a checkpoint has begun, or is complete."""
ASKS = "kill -s USR1 $PPID"
"""A program's parent is the batch shell, which Slurm signals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A batch script that has ended."""

    status: int
    output: str
    errors: list[str]
    """The lines of its error output."""
    comment: bytes
    calls: list[str]
    """Slurm's commands that it called, and the variables that would have changed what they say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A folder in which batch scripts run, one after another, as one job."""

    folder: Path
    shell: str

    def run(
        self,
        script: str,
        *arguments: str,
        comment: bytes | None = None,
        variables: Mapping[str, str | None] = NOTHING,
        source: bool = True,
        given: bytes = b"",
    ) -> Ended:
        """Run a script to its end. A comment of None stays as it is; a variable of None is not set."""
        if comment is not None:
            (self.folder / "comment").write_bytes(comment)
        process = self.start(script, *arguments, variables=variables, source=source)
        output, errors = process.communicate(given, timeout=limit_s())
        return Ended(
            status=process.returncode,
            output=output.decode(),
            errors=errors.decode("utf-8", "replace").splitlines(),
            comment=(self.folder / "comment").read_bytes(),
            calls=(self.folder / "calls").read_text().splitlines(),
        )

    def start(
        self,
        script: str,
        *arguments: str,
        variables: Mapping[str, str | None] = NOTHING,
        source: bool = True,
    ) -> subprocess.Popen[bytes]:
        """Start a script, in a session of its own. With `source` its first line is the one that takes in the
        helper.
        """
        path = self.folder / "script"
        start = f'#!/usr/bin/env -S {self.shell}\n. "{HELPER}"\n' if source else ""
        path.write_text(start + script)
        path.chmod(0o700)
        (self.folder / "calls").write_text("")
        chosen: dict[str, str | None] = {
            "PATH": f"{self.folder}/slurm:{self.folder}/tools",
            "SLURM_JOB_ID": "12",
            "MAKEWAY": str(DEPLOY),
            "MAKEWAY_REPEATS": "",
            **variables,
        }
        return subprocess.Popen(
            [*self.shell.split(), str(path), *arguments],
            cwd=self.folder,
            env={name: value for name, value in chosen.items() if value is not None},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def stand_in(self, name: str, script: str) -> None:
        """Put a program on the path of the jobs."""
        path = self.folder / "slurm" / name
        path.write_text(f"#!/bin/sh\n{script}")
        path.chmod(0o755)


def make_batch(folder: Path, shell: str) -> Batch:
    """A job whose comment is empty, on a machine with a few tools and stand-ins for Slurm's commands."""
    for name in ("slurm", "tools"):
        (folder / name).mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found is not None, name
        (folder / "tools" / name).symlink_to(found)
    (folder / "tools" / "env").symlink_to("/usr/bin/env")
    batch = Batch(folder=folder, shell=shell)
    batch.stand_in("squeue", SQUEUE)
    batch.stand_in("scontrol", SCONTROL)
    batch.stand_in("scancel", SCANCEL)
    (folder / "comment").write_bytes(b"(null)")
    (folder / "restarts").write_text("1                   \n")
    return batch


def words(ended: Ended) -> Mapping[str, float | None]:
    """What the daemon reads in the job's comment."""
    return comment_words(ended.comment.decode("utf-8", "surrogateescape"))
