"""The commands of the pages, run for real next to the daemon of the page "Try it"."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from makeway.daemon.cli.main import run_cli
from makeway.daemon.config.load import load, open_adapter
from makeway.daemon.journal.store import Journal
from makeway.policies.model import JobKind, JobState
from makeway.simharness.workloads.sample import sample_workload
from tests.docs.conftest import PageSite, page_file
from tests.docs.pages import PAGES, ShownCommand, commands, programs

RUN = frozenset(
    {
        *("check-config", "completion", "demo", "doctor", "explain", "notice", "poke"),
        *("replay", "status", "summary", "whatif"),
    }
)
"""The commands of makeway that are run. `run` is: it is the daemon itself. Others take too long, or need a
real Slurm, and are parsed only (`test_commands.py`)."""
LONG = (
    "--workload W5 --policy n-paa --policy eviction --seeds 10",
    "openb-2023-pods",
    "--class urgent:queue=1",
)
"""In commands that would take too long, or read a trace that is not there."""
SLURM_ONLY = ("whatif -- ", "--config slurm.yaml")


DONE: set[tuple[str, ...]] = set()
"""The commands that have been run by this process: several pages show the same one."""


def is_run(command: ShownCommand) -> bool:
    """Whether a command of a page is run."""
    words = next(iter(programs(command.text)))
    if words[0] == "cp":
        return words[1].startswith("docs/")
    if words[0] != "makeway" or any(part in command.text for part in (*LONG, *SLURM_ONLY)):
        return False
    return words[1] in RUN


RUNNABLE = {page: [one for one in commands(page) if is_run(one)] for page in PAGES}


@pytest.mark.parametrize("page", [page for page, found in RUNNABLE.items() if found], ids=str)
def test_the_commands_of_a_page_run(
    page: Path, page_site: PageSite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(page_site.folder)
    monkeypatch.setenv("MAKEWAY_CONFIG", str(page_site.config))
    for command in RUNNABLE[page]:
        words = with_files(next(iter(programs(command.text))), page_site)
        if words[0] == "cp":
            shutil.copy(words[1], words[2])
            continue
        if tuple(words) in DONE and words[1] == "replay":
            continue
        DONE.add(tuple(words))
        status = run_cli(words[1:])
        printed = capsys.readouterr()
        assert status == 0, f"{command}\n{printed.out}\n{printed.err}"
        assert printed.out or words[1] == "poke", f"{command} printed nothing"


def test_the_daemon_of_the_page_begins_shortly_before_the_first_urgent_job() -> None:
    """In time for the page's "some seconds", and not so late that the job's deadline has passed."""
    adapter = yaml.safe_load(page_file("docs/try.md", "try.yaml"))["adapter"]
    _, jobs = sample_workload(0)
    first = next(job for job in jobs if job.kind is JobKind.ON_DEMAND)
    ahead_s = first.submit_s - jobs[0].submit_s - adapter["start_s"]
    assert 2 * adapter["speed"] < ahead_s < 6 * adapter["speed"]


def test_most_commands_of_makeway_are_run() -> None:
    run = [command for found in RUNNABLE.values() for command in found]
    assert len(run) > 60
    assert {next(iter(programs(command.text)))[1] for command in run} >= RUN


def with_files(words: list[str], site: PageSite) -> list[str]:
    """A command with the files of the site in the place of those that an installation has."""
    names = {
        "/etc/makeway/makeway.yaml": site.config,
        "FILE": site.config,
        "site/makeway.yaml": site.config,
        "/run/makeway/makeway.sock": site.socket,
        "/var/lib/makeway/journal.sqlite": site.journal,
        "TRACE.swf.gz": site.trace,
    }
    replaced = [str(names.get(word, word)) for word in words]
    if "4711" in replaced and "--like" in replaced:
        replaced[replaced.index("4711")] = _running_job(site)
    if "4711" in replaced and "--job" in replaced:
        replaced[replaced.index("4711")] = _decided_job(site)
    return replaced


def _decided_job(site: PageSite) -> str:
    """The id of a job that the journal of the site knows."""
    with closing(Journal(site.journal, read_only=True)) as journal:
        return journal.decisions(1)[0].decision.rationale[0].for_job_id


def _running_job(site: PageSite) -> str:
    """The id of a job that runs when the trace of the site begins."""
    connection = open_adapter(load(site.config).settings.adapter)
    try:
        jobs = connection.adapter.snapshot().jobs
    finally:
        connection.adapter.close()
    return next(job.job_id for job in jobs if job.state is JobState.RUNNING)
