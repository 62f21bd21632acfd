"""What the adapter reads of single jobs, on scripted answers."""

import pytest

from makeway.adapters.protocol import SubmissionReader
from makeway.adapters.site.times import UNLIMITED_S
from makeway.adapters.slurm import build
from makeway.adapters.slurm.parse import job_of
from makeway.adapters.slurm.resources.details import least_nodes
from tests.adapters.slurm.fake_slurm import RUNNING, FakeSlurm, adapter_of
from tests.adapters.slurm.test_parse import ROW


@pytest.mark.parametrize(
    ("limit", "overtime_s"),
    [("0 min", 0.0), ("5 min", 300.0), ("UNLIMITED", UNLIMITED_S), ("soon", 0.0)],
)
def test_how_long_jobs_run_on_after_their_limits(limit: str, overtime_s: float) -> None:
    slurm = FakeSlurm(RUNNING, ROW | {"JobArrayID": "18"})
    slurm.settings = {"OverTimeLimit": limit}
    runs, waits = adapter_of(slurm).snapshot().jobs
    assert (runs.overtime_s, waits.overtime_s) == (overtime_s, 0.0)


@pytest.mark.parametrize(
    ("row", "options", "why"),
    [
        ({"ReqNodes": "n9"}, "-w n9", "--nodelist with fewer nodes than the job gets"),
        ({"ReqNodes": "n1"}, "-w n1", ""),
        ({"ReqNodes": "n[1-2]"}, "-w n[1-2]", ""),
        ({"Feature": "[a*1&b*1]"}, "-C [a*1&b*1]", "--constraint with numbers of nodes"),
    ],
)
def test_what_no_set_of_nodes_says_is_named(row: dict[str, str], options: str, why: str) -> None:
    slurm = FakeSlurm(ROW | {"QOS": "urgent", "NumNodes": "2"} | row)
    slurm.change = lambda lines: [line.replace("State=UP", "State=UP Default=YES") for line in lines]
    adapter = adapter_of(slurm)
    (waits,) = adapter.snapshot().jobs
    assert isinstance(adapter, SubmissionReader)
    submitted = adapter.as_submitted(("-N2", *options.split()), walltime_s=60.0)
    wanted = why and f"nodes that makeway cannot choose ({why})"
    assert (waits.blocked_by, submitted.blocked_by) == (wanted, wanted)


@pytest.mark.parametrize(
    ("fields", "tasks", "least"),
    [
        ({"numtasks": "4", "ntpernode": "0"}, 4, 2),
        ({"numtasks": "131072", "ntpernode": "64"}, 131_072, 2048),
        ({"numtasks": "4", "ntpernode": "65534"}, 4, 2),
        ({"numtasks": "4294967294", "ntpernode": "64"}, 1, 2),
        ({"numtasks": "-2", "ntpernode": "64"}, 1, 2),
        ({"numtasks": "N/A", "ntpernode": "N/A"}, 1, 2),
    ],
)
def test_how_many_tasks_a_job_has(fields: dict[str, str], tasks: int, least: int) -> None:
    """Only the number of tasks of a node is so small that 65534 means that there is none."""
    job = job_of([(ROW | fields)[field] for field in build.JOB_FIELDS], build.JOB_FIELDS)
    assert (job.task_count, least_nodes(job)) == (tasks, least)
