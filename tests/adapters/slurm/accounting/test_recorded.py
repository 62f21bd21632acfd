"""What real Slurms with slurmdbd have printed: the export of a short busy day, and the machine."""

import re

import pytest

from makeway.adapters.slurm.accounting.jobs import AccountedJob, jobs_of
from makeway.adapters.slurm.accounting.machine import machine_commands, read_machine, unseen_nodes
from makeway.adapters.slurm.accounting.rows import BadExport, read_rows
from makeway.policies.model import Resources
from tests.paths import ROOT

RECORDED = ROOT / "tests" / "adapters" / "slurm" / "accounting" / "recorded"
RELEASES = sorted(path.name for path in RECORDED.iterdir())


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def jobs(release: str) -> list[AccountedJob]:
    return jobs_of(read_rows((RECORDED / release / "jobs.txt").read_text().splitlines()))


def test_the_releases_are_there() -> None:
    assert RELEASES == ["22.05", "24.11", "26.05"]


def test_each_job_once(jobs: list[AccountedJob]) -> None:
    assert len({job.job_id for job in jobs}) == len(jobs) == 17
    assert {job.job_id for job in jobs if "_" in job.job_id} == {"6_0", "6_1", "6_2"}
    assert [job.heterogeneous for job in jobs].count(True) == 2
    assert [job.account for job in jobs].count("urgent") == 3


def test_the_job_that_was_requeued(jobs: list[AccountedJob]) -> None:
    (job,) = [job for job in jobs if len(job.runs) > 1]
    assert [run.requeued for run in job.runs] == [True, False]
    assert job.limit_s == 86_400.0


def test_the_job_that_was_cancelled_while_it_waited(jobs: list[AccountedJob]) -> None:
    (job,) = [job for job in jobs if not job.runs]
    assert job.account == "urgent"


def test_the_job_that_shrank_has_one_run(jobs: list[AccountedJob]) -> None:
    (job,) = [
        job
        for job in jobs
        if job.account == "batch"
        and [run.node_count for run in job.runs] == [2]
        and job.runs[0].elapsed_s < 60
    ]
    (run,) = job.runs
    assert run.end_s is not None
    assert run.elapsed_s == run.end_s - run.start_s


def test_the_job_that_was_suspended_ran_for_less_time(jobs: list[AccountedJob]) -> None:
    limits = {job.job_id: job.limit_s for job in jobs}
    assert all(run.elapsed_s <= (run.end_s or 0.0) - run.start_s for job in jobs for run in job.runs), limits


def test_the_machine(release: str) -> None:
    nodes = read_machine((RECORDED / release / "machine.txt").read_text())
    assert [node.name for node in nodes] == [f"n{number}" for number in range(1, 7)]
    plain = {"cpu": 2, "mem": 1000}
    assert {node.capacity for node in nodes[:5]} == {Resources.of(plain)}
    assert nodes[5].capacity == Resources.of(plain | {"gres/gpu": 2, "gres/gpu:a100": 2})
    assert nodes[5].partitions == {"batch", "gpu"}


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("SelectType", r"the text ends without SelectType; accepted: also SelectType and"),
        ("PartitionName=", r"the text ends without PartitionName="),
        ("NodeName=", r"line 4: the text ends without NodeName="),
    ],
)
def test_a_part_of_the_machine_is_missing(missing: str, message: str) -> None:
    lines = (RECORDED / "22.05" / "machine.txt").read_text().splitlines()
    with pytest.raises(BadExport, match=message):
        read_machine("\n".join(line for line in lines if not line.startswith(missing)))


def test_the_commands_show_hidden_partitions_and_their_nodes() -> None:
    assert machine_commands().count("scontrol --all --oneliner show ") == 2


def test_nodes_that_scontrol_hides_are_known_by_their_partitions() -> None:
    text = (RECORDED / "22.05" / "machine.txt").read_text()
    assert unseen_nodes(text) == frozenset()
    lines = text.splitlines()
    cut = "\n".join(line for line in lines if not line.startswith(("NodeName=n3 ", "NodeName=n6 ")))
    assert unseen_nodes(cut) == {"n3", "n6"}
    assert unseen_nodes(cut, "gpu") == {"n6"}
    assert unseen_nodes(cut.replace(" Nodes=n6 ", " Nodes=(null) "), "gpu") == frozenset()
    with pytest.raises(BadExport, match=r"line 4: no host list: 'n\[6'.*; accepted: scontrol's lines"):
        unseen_nodes(cut.replace(" Nodes=n6 ", " Nodes=n[6 "))


def test_a_node_in_no_partition_runs_no_job() -> None:
    text = (RECORDED / "22.05" / "machine.txt").read_text()
    nodes = read_machine(re.sub(r"(NodeName=n5 .*) Partitions=\S+ ", r"\1 ", text))
    assert [node.name for node in nodes] == ["n1", "n2", "n3", "n4", "n6"]
    assert None not in {node.capacity for node in nodes}
    with pytest.raises(BadExport, match=r"line \d+: no node is in a partition"):
        read_machine(re.sub(r" Partitions=\S+ ", " ", text))


def test_a_damaged_line_of_the_machine() -> None:
    lines = (RECORDED / "22.05" / "machine.txt").read_text().splitlines()
    lines[6] = lines[6].replace("RealMemory=", "Memory=")
    with pytest.raises(BadExport, match=r"line 7: .* no RealMemory in"):
        read_machine("\n".join(lines))


def test_a_machine_of_whole_nodes() -> None:
    text = (RECORDED / "22.05" / "machine.txt").read_text().replace("cons_tres", "linear")
    assert {node.capacity for node in read_machine(text)} == {None}
