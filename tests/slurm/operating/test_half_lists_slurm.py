"""A site's own script around squeue loses jobs, and says that all is well: nothing is decided on that."""

import stat
from pathlib import Path

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import COMMANDS, READS_ACCOUNTING, DaemonProcess
from tests.slurm.support.story import SAVES_WHEN_TOLD, Story, makes_room_and_gives_it_back
from tests.waiting import await_that

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.one_release(on="22.05", only="the daemon can run scripts of this machine"),
]
LOSES = (
    "cat >/dev/null",
    "head -n 1",
    "tail -n 1",
    "head -c 700",
    "sed '2i squeue: warning: slow answer'",
)
"""What the script does to the list."""


def with_script(daemon: DaemonProcess) -> Path:
    """Have the daemon run Slurm by scripts. Returns the file that says what is done to squeue's output."""
    folder, does = daemon.folder / "bin", daemon.folder / "does"
    folder.mkdir()
    for name in (*COMMANDS, READS_ACCOUNTING):
        (folder / name).symlink_to(f"/usr/bin/{name}")
    script = folder / "squeue"
    script.unlink()
    script.write_text(f'#!/bin/sh\n/usr/bin/squeue "$@" | sh {does}\n')
    script.chmod(stat.S_IRWXU)
    does.write_text("cat")
    daemon.stop()
    daemon.config.write_text(daemon.config.read_text().replace("bin_dir: null", f"bin_dir: {folder}"))
    daemon.start()
    return does


def test_a_list_that_lacks_jobs(story: Story, start_daemon: StartDaemon) -> None:
    """While jobs save their work, and while the urgent job runs."""
    story.fill(SAVES_WHEN_TOLD)
    daemon = start_daemon()
    does = with_script(daemon)
    story.urgent_comes()
    await_that("a job saves", lambda: daemon.signals() > 0, story.explain(daemon))
    for loses in LOSES:
        decides_nothing(daemon, does, loses)
    story.may_save()
    await_that("the urgent job runs", lambda: story.runs(story.urgent[0]), story.explain(daemon))
    decides_nothing(daemon, does, LOSES[0])
    makes_room_and_gives_it_back(story, daemon)
    assert daemon.signals() == 1


def decides_nothing(daemon: DaemonProcess, does: Path, loses: str) -> None:
    """Nothing is sent, and no operation changes, while the script loses jobs."""
    does.write_text(loses)
    daemon.await_sight(sees=False)
    before = daemon.commands(), daemon.operations()
    failures = daemon.status()["failures"]
    await_that("it has looked again", lambda: daemon.status()["failures"] > failures + 2, daemon.log)
    assert (daemon.commands(), daemon.operations()) == before
    does.write_text("cat")
    daemon.await_sight()
