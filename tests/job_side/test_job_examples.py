"""The scripts for batch users: read by every shell, explained, and those for CRIU and DMTCP tried with
stand-ins.
"""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.job_side.batch_job import (
    ASKS,
    DONE,
    EXAMPLES,
    HELPER,
    SHELLS,
    UNTIL_BEGUN,
    UNTIL_TOLD,
    Batch,
    make_batch,
    words,
)
from tests.paths import DEPLOY, ROOT
from tests.waiting import await_that, limit_s

SCRIPTS = (HELPER, DONE, *sorted(EXAMPLES.glob("*.sh")))
SHELL_SCRIPTS = (*SCRIPTS, *sorted(DEPLOY.glob("*.sh")), *sorted((ROOT / "tests").glob("*.sh")))


def test_every_function_is_explained() -> None:
    public = re.findall(r"^(makeway_\w+)\(\)", HELPER.read_text(), re.MULTILINE)
    page = (DEPLOY / "JOBS.md").read_text()
    assert len(public) == 8
    assert [name for name in public if f"`{name}" not in page] == []
    assert [path.name for path in EXAMPLES.iterdir() if path.is_file() and path.name not in page] == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_script_can_be_read_by_every_shell(script: Path) -> None:
    for shell in SHELLS:
        done = subprocess.run(
            [*shell.split(), "-n", str(script)], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_shellcheck_finds_nothing(shellcheck: str) -> None:
    command = [shellcheck, "--external-sources", "--source-path=SCRIPTDIR", *map(str, SHELL_SCRIPTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=DEPLOY)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    """Scripts begin with #!/bin/sh: dash in one half of the world, bash in the other; the helper's tests run
    both.
    """
    return make_batch(tmp_path, "dash")


def example(name: str) -> str:
    """A script that is an example."""
    return f'. "{EXAMPLES}/{name}"'


REQUEUED = {"SLURM_RESTART_COUNT": "1"}

CRIU = """
echo criu "$@" >>calls
command=$1
shift
while [ $# -gt 0 ]; do
    case $1 in
    --tree) tree=$2 ;;
    --images-dir) images=$2 ;;
    --pidfile) pidfile=$2 ;;
    esac
    shift
done
[ ! -e criu-fails ] || exit 1
case $command in
dump) kill -s STOP "$tree" && touch "$images/image" ;;
restore) cp "$images/image" criu.12/output restored && echo $$ >"$pidfile" ;;
esac
"""
"""It stops what it dumps; what it restores ends at once, and leaves in `restored` what it was given."""


def test_criu_saves_and_restores(batch: Batch) -> None:
    batch.stand_in("criu", CRIU)
    program = f"echo before; {ASKS}; {UNTIL_TOLD}; echo after"
    (batch.folder / "restored").mkdir()
    ended = batch.run(example("criu.sh"), "sh", "-c", program, source=False, variables={"STAND_STILL_S": "0"})
    assert (ended.status, ended.output, ended.errors) == (0, "", [])
    assert {"ckpt", "ckpt-begin"} == set(words(ended))
    # Not requeued, it went on; what it wrote since the checkpoint is no part of that.
    assert (batch.folder / "criu.12" / "output").read_text() == "before\nafter\n"
    latest = (batch.folder / "criu.12" / "latest").read_text().strip()

    ended = batch.run(example("criu.sh"), "sh", "-c", program, source=False, variables=REQUEUED)
    assert (ended.status, ended.output, ended.errors) == (0, f"goes on from {latest}\n", [])
    assert [call.split()[:4] for call in ended.calls] == [["criu", "restore", "--images-dir", latest]]
    assert (batch.folder / "restored" / "image").exists()
    assert (batch.folder / "restored" / "output").read_text() == "before\n"


def test_a_dump_that_fails_is_no_checkpoint(batch: Batch) -> None:
    batch.stand_in("criu", CRIU)
    (batch.folder / "criu-fails").touch()
    program = f"{ASKS}; {UNTIL_BEGUN}; echo went on"
    ended = batch.run(example("criu.sh"), "sh", "-c", program, source=False)
    assert (ended.status, len(ended.errors)) == (0, 1)
    assert set(words(ended)) == {"ckpt-begin"}
    assert (batch.folder / "criu.12" / "output").read_text() == "went on\n"
    assert not (batch.folder / "criu.12" / "latest").exists()


def _criu() -> str | None:
    """The CRIU of this machine. None: there is none, or this kernel or this user cannot use it."""
    found = shutil.which("criu", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None or subprocess.run([found, "check"], capture_output=True, check=False).returncode != 0:
        return None
    return found


COUNTS = "i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo $i; sleep 0.1; done"


@pytest.mark.skipif(_criu() is None, reason="no CRIU here that `criu check` finds good")
def test_a_real_criu_saves_and_restores(batch: Batch) -> None:
    criu = _criu()
    assert criu is not None
    (batch.folder / "slurm" / "criu").symlink_to(criu)
    output = batch.folder / "criu.12" / "output"
    arguments = ("sh", "-c", COUNTS)
    job = batch.start(example("criu.sh"), *arguments, source=False)
    await_that("the program has counted to five", lambda: output.exists() and "5\n" in output.read_text())
    job.send_signal(signal.SIGUSR1)
    await_that(
        "the checkpoint is published", lambda: b"makeway:ckpt=" in (batch.folder / "comment").read_bytes()
    )
    # What a requeue does: nothing of the job is left.
    program = int((batch.folder / "criu.12" / "pid").read_text())
    os.killpg(job.pid, signal.SIGKILL)
    os.killpg(program, signal.SIGKILL)
    job.communicate(timeout=limit_s())
    await_that("the process id is free", lambda: not Path(f"/proc/{program}").exists())

    ended = batch.run(example("criu.sh"), *arguments, source=False, variables=REQUEUED)
    assert (ended.status, ended.output[:13]) == (0, "goes on from ")
    assert output.read_text().split() == [str(number) for number in range(1, 31)]


DMTCP_LAUNCH = """
echo "${0##*/}" "$@" >>calls
while [ $# -gt 0 ]; do
    case $1 in
    --new-coordinator) shift ;;
    --coord-port) shift 2 ;;
    --port-file) echo 4711 >"$2"; shift 2 ;;
    --ckptdir) echo "$2" >ckptdir; shift 2 ;;
    *) break ;;
    esac
done
"""
DMTCP_COMMAND = """
echo "dmtcp_command $* $DMTCP_COORD_PORT" >>calls
[ ! -e dmtcp-fails ] || exit 2
echo image >"$(cat ckptdir)/ckpt_program_$(wc -l <calls).dmtcp"
"""


def _with_dmtcp(batch: Batch) -> None:
    batch.stand_in("dmtcp_launch", DMTCP_LAUNCH + '"$@"\n')
    batch.stand_in("dmtcp_restart", DMTCP_LAUNCH + 'cat "$@"\n')
    batch.stand_in("dmtcp_command", DMTCP_COMMAND)


def test_dmtcp_saves_and_restores(batch: Batch) -> None:
    _with_dmtcp(batch)
    # The program is a child of dmtcp_launch, which is one of the batch shell.
    asks = "read -r _ _ _ shell _ </proc/$PPID/stat; kill -s USR1 $shell"
    ended = batch.run(example("dmtcp.sh"), "sh", "-c", f"{asks}; {UNTIL_TOLD}; exit 3", source=False)
    assert (ended.status, ended.errors) == (3, [])
    assert "dmtcp_command --bcheckpoint 4711" in ended.calls
    assert {"ckpt", "ckpt-begin"} == set(words(ended))
    latest = (batch.folder / "dmtcp.12" / "latest").read_text().strip()
    images = list((batch.folder / latest).iterdir())
    assert len(images) == 1

    ended = batch.run(example("dmtcp.sh"), "sh", "-c", "exit 3", source=False, variables=REQUEUED)
    assert (ended.status, ended.output) == (0, f"goes on from {latest}\nimage\n")
    assert [call.split()[0] for call in ended.calls] == ["dmtcp_restart"]
    assert ended.calls[0].endswith(f" {latest}/{images[0].name}")


def test_a_dmtcp_checkpoint_that_fails_is_none(batch: Batch) -> None:
    _with_dmtcp(batch)
    (batch.folder / "dmtcp-fails").touch()
    asks = "read -r _ _ _ shell _ </proc/$PPID/stat; kill -s USR1 $shell"
    ended = batch.run(example("dmtcp.sh"), "sh", "-c", f"{asks}; {UNTIL_BEGUN}; exit 3", source=False)
    assert (ended.status, len(ended.errors)) == (3, 1)
    assert set(words(ended)) == {"ckpt-begin"}
    assert not (batch.folder / "dmtcp.12" / "latest").exists()
