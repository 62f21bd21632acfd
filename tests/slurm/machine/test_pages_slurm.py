"""What the documents show on a real Slurm: the part of "Try it", and the commands of Slurm on all pages."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from tests.docs.conftest import page_file
from tests.docs.pages import PAGES, commands, programs
from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.world import slurm_settings
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="22.05")]

TRY = Path("docs/try.md")
AFTERNOON = Path("docs/afternoon.md")
"""`tests/docs/test_afternoon.py` runs all of its commands."""
LOOKS = frozenset({"scontrol", "sdiag", "sinfo", "squeue"})
"""Slurm's commands on the pages. `sbatch` belongs to "Try it", and `sacctmgr` needs accounting."""


@pytest.fixture(scope="module")
def four_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """The cluster of the page: four nodes."""
    with dev_cluster(DevSpec(node_count=4, root=slurm_root, settings=slurm_settings())) as cluster:
        yield cluster


@pytest.fixture
def page_daemon(four_nodes: DevCluster, tmp_path: Path) -> Iterator[DaemonProcess]:
    """The daemon with the configuration of the page, on this cluster."""
    daemon = DaemonProcess(four_nodes, tmp_path, "act")
    usual = yaml.safe_load(daemon.config.read_text())
    shown = yaml.safe_load(page_file(str(TRY), "slurm.yaml"))
    for key in ("conf", "bin_dir", "timeout_s"):
        shown["adapter"][key] = usual["adapter"][key]
    shown |= {key: usual[key] for key in ("journal", "socket")}
    daemon.config.write_text(yaml.safe_dump(shown))
    daemon.start()
    yield daemon
    daemon.stop()
    four_nodes.cancel_all()


def state(cluster: DevCluster, job_id: str) -> str:
    return cluster.run("squeue", "--noheader", f"--jobs={job_id}", "--format=%T").strip()


def shown_jobs(cluster: DevCluster) -> Iterator[str]:
    """Submit the jobs of the page, one after another. Yields their ids."""
    for command in commands(TRY):
        (words,) = programs(command.text)
        if words[0] == "sbatch":
            folder = f"--chdir={cluster.inner_folder}/work"
            yield cluster.run("sbatch", "--parsable", folder, *words[1:]).strip()


def test_the_urgent_job_of_the_page_gets_its_nodes(
    four_nodes: DevCluster, page_daemon: DaemonProcess
) -> None:
    jobs = shown_jobs(four_nodes)
    first = next(jobs)
    await_that("the first job runs", lambda: state(four_nodes, first) == "RUNNING", page_daemon.log)
    urgent = next(jobs)
    page_daemon.run("poke")
    await_that("the urgent job runs", lambda: state(four_nodes, urgent) == "RUNNING", page_daemon.log)
    assert state(four_nodes, first) == "PENDING"
    assert f"makeway_makeway-dev.{urgent}" in four_nodes.run("scontrol", "show", "reservation")
    for command in (("explain", "last"), ("summary",), ("doctor",), ("status",)):
        done = page_daemon.run(*command)
        assert (done.status, done.stderr) == (0, ""), command
    four_nodes.run("scancel", urgent)
    await_that("the first job runs again", lambda: state(four_nodes, first) == "RUNNING", page_daemon.log)
    await_that(
        "the hold is gone",
        lambda: "makeway_" not in four_nodes.run("scontrol", "show", "reservation"),
        page_daemon.log,
    )
    released = [one.outcome for one in page_daemon.commands() if one.action.verb == "release"]
    assert released == ["accepted"], "its job has no time limit: the hold has an end all the same"
    assert next(jobs, None) is None


def test_the_commands_of_slurm_on_all_pages_are_taken(four_nodes: DevCluster) -> None:
    """The runbook's way to remove a hold that stays works, although a job runs in it."""
    hold = "makeway_cluster.4711"
    four_nodes.run(
        *("scontrol", "create", "reservation", f"ReservationName={hold}", "Nodes=n1,n2", "Users=root"),
        *("StartTime=now", "Duration=10", "Flags=IGNORE_JOBS,NO_HOLD_JOBS_AFTER"),
    )
    held = four_nodes.submit("sleep 600", "--nodes=2", f"--reservation={hold}")
    await_that("the job runs in the hold", lambda: state(four_nodes, held) == "RUNNING")
    shown = [
        words for page in PAGES if page != AFTERNOON for one in commands(page) for words in programs(one.text)
    ]
    run = [words for words in shown if words[0] in LOOKS]
    assert len(run) > 12
    for words in run:
        four_nodes.run(*(word if hold in word else word.replace("4711", held) for word in words))
    assert hold not in four_nodes.run("scontrol", "show", "reservation")
    assert state(four_nodes, held) == "RUNNING"
    four_nodes.cancel_all()
