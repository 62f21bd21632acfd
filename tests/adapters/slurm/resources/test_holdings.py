"""What running jobs hold: read once, believed only if it adds up."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.slurm.parse_cluster import nodes
from makeway.adapters.slurm.resources.counting import WHOLE_NODES, threads_per_cpu
from makeway.adapters.slurm.resources.holdings import (
    MOST_AT_ONCE,
    MOST_BY_ID,
    MOST_IN_A_TEXT,
    Holdings,
    node_equivalents,
    parts_of,
)
from makeway.policies.model import CPU, GPU, MEMORY, Resources
from tests.adapters.slurm.fake_slurm import RUNNING, FakeSlurm, adapter_of
from tests.adapters.slurm.resources.test_details import COUNTS, JOB, TRUE, printed

CAPACITIES = {name: Resources.of({CPU: 4, MEMORY: 1000}) for name in ("n1", "n2")}


def known(**changes: Any) -> Holdings:
    """Holdings that have read the details of `JOB`; `changes`: what squeue says otherwise."""
    holdings = Holdings(COUNTS)
    job = replace(JOB, **changes)
    holdings.learn((job,), {"7": printed(JOB, "")}, {})
    return holdings


def test_what_adds_up_is_believed() -> None:
    holding = known().of(JOB)
    assert holding is not None
    assert holding.held == TRUE
    assert parts_of(JOB, holding, CAPACITIES) == tuple(TRUE.values())


@pytest.mark.parametrize(
    "changes",
    [
        {"cpu_count": 5},
        {"cpu_count": 3},
        {"tres": "cpu=4,mem=500M,node=2"},
        {"tres": "cpu=4,mem=400M,node=2,gres/gpu=1"},
        {"nodes": ("n1", "n3")},
        {"nodes": ("n1",)},
        {"name": "another"},
    ],
)
def test_what_contradicts_squeue_counts_as_whole_nodes(changes: dict[str, Any]) -> None:
    job = replace(JOB, **changes)
    holding = known(**changes).of(job)
    assert holding is not None
    assert holding.held is None
    assert parts_of(job, holding, CAPACITIES) is None


def test_what_is_known_is_not_asked_for_again_until_the_job_runs_again_or_is_resized() -> None:
    holdings = known()
    assert holdings.to_ask((JOB,)) == ((), False)
    for changes in ({"restarts": 1}, {"start_s": 7.0}, {"nodes": ("n1",), "cpu_count": 1}):
        assert holdings.to_ask((replace(JOB, **changes),)) == (("7",), False), changes


def test_a_job_that_completes_keeps_its_parts_of_the_nodes_that_it_still_has() -> None:
    """A requeued job counts its next run while the last one completes."""
    holdings = known()
    leaving = replace(JOB, state="COMPLETING", nodes=("n2",), restarts=1, cpu_count=3)
    holding = holdings.of(leaving)
    assert holding is not None
    assert parts_of(leaving, holding, CAPACITIES) == (TRUE["n2"],)
    assert holdings.of(replace(leaving, nodes=("n3",))) is None


def test_jobs_that_are_gone_are_forgotten() -> None:
    holdings = known()
    holdings.to_ask(())
    assert holdings.of(JOB) is None


def test_many_unknown_jobs_are_read_at_once_and_few_by_their_ids() -> None:
    jobs = tuple(replace(JOB, job_id=str(number)) for number in range(MOST_BY_ID + 1))
    assert Holdings(COUNTS).to_ask(jobs) == ((), True)
    ids, everything = Holdings(COUNTS).to_ask(jobs[1:])
    assert (len(ids), everything) == (MOST_BY_ID, False)
    # A long queue makes the text of all jobs long.
    waiting = tuple(replace(JOB, job_id=f"w{number}", nodes=()) for number in range(50_000))
    ids, everything = Holdings(COUNTS).to_ask((*jobs, *waiting))
    assert (len(ids), everything) == (MOST_BY_ID + 1, False)


def test_more_jobs_than_one_snapshot_can_read_are_read_by_several() -> None:
    jobs = tuple(replace(JOB, job_id=str(number)) for number in range(MOST_IN_A_TEXT + 1))
    holdings = Holdings(COUNTS)
    ids, everything = holdings.to_ask(jobs)
    assert (ids, everything) == (tuple(job.job_id for job in jobs[:MOST_AT_ONCE]), False)
    holdings.learn(jobs, {job_id: printed(replace(JOB, job_id=job_id), "") for job_id in ids}, {})
    assert holdings.to_ask(jobs)[0][0] == jobs[MOST_AT_ONCE].job_id


def test_jobs_that_wait_are_not_asked_for_and_nothing_is_where_nodes_are_not_shared() -> None:
    assert Holdings(COUNTS).to_ask((replace(JOB, nodes=()),)) == ((), False)
    assert Holdings(WHOLE_NODES).to_ask((JOB,)) == ((), False)


def test_a_job_that_leaves_no_cpu_or_no_memory_holds_whole_nodes() -> None:
    holding = known().of(JOB)
    full_cpus = {"n1": Resources.of({CPU: 1, MEMORY: 1000, GPU: 4}), "n2": Resources.of({CPU: 3})}
    assert parts_of(JOB, holding, full_cpus) is None
    full_memory = {"n1": Resources.of({CPU: 8, MEMORY: 100}), "n2": Resources.of({CPU: 8, MEMORY: 300})}
    assert parts_of(JOB, holding, full_memory) is None
    one_of_two = {"n1": Resources.of({CPU: 1, MEMORY: 1000}), "n2": Resources.of({CPU: 8, MEMORY: 1000})}
    assert parts_of(JOB, holding, one_of_two) == tuple(TRUE.values())


def test_what_does_not_count_is_left_out() -> None:
    without_memory = {name: Resources.of({CPU: 4}) for name in ("n1", "n2")}
    assert parts_of(JOB, known().of(JOB), without_memory) == (
        Resources.of({CPU: 1}),
        Resources.of({CPU: 3}),
    )


def test_the_shares_of_all_nodes_add_up() -> None:
    parts = parts_of(JOB, known().of(JOB), CAPACITIES)
    assert node_equivalents(JOB, parts, CAPACITIES, {}) == pytest.approx(0.25 + 0.75)
    by_memory = node_equivalents(JOB, parts, CAPACITIES, {"mem": 1.0})
    assert by_memory == pytest.approx(0.1 + 0.3)
    assert node_equivalents(JOB, None, CAPACITIES, {}) is None


NUMBERED = (
    "JobId=7 JobName=sbatch UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=1 Nice=0 Account=batch "
    "QOS=(null) JobState=RUNNING Reason=None Dependency=(null) ReqNodeList=(null) ExcNodeList=(null) "
    "NodeList=n1 BatchHost=n1 NumNodes=1 NumCPUs=2 NumTasks=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:* "
    "{totals}=cpu=2,mem=800M,node=1,billing=2 Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=* "
    "JOB_GRES=(null)   Nodes=n1 CPU_IDs=4-7 Mem=800 GRES= MinCPUsNode=1 MinMemoryNode=800M "
    "MinTmpDiskNode=0 Features=(null) DelayBoot=00:00:00 OverSubscribe=OK Contiguous=0 Licenses=(null) "
    "Network=(null) Command=(null) WorkDir=/tmp"
)
CORES_ARE_CPUS = (
    "NodeName=n1 Arch=x86_64 CoresPerSocket=4  CPUAlloc=4 CPUEfctv=4 CPUTot=4 CPULoad=12.19 "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=(null) RealMemory=4000 AllocMem=1600 Sockets=1 "
    "Boards=1 State=ALLOCATED ThreadsPerCore=2 TmpDisk=0 Weight=1 Partitions=batch "
)


@pytest.mark.parametrize("totals", ["TRES", "ReqTRES=cpu=2,mem=800M,node=1,billing=2 AllocTRES"])
def test_where_cores_count_as_cpus_slurm_numbers_their_threads(totals: str) -> None:
    """As 22.05, and 24.11 and 26.05, print a job of two tasks on a node with `CPUs=4 CoresPerSocket=4
    ThreadsPerCore=2`.
    """
    record = NUMBERED.format(totals=totals) + "\n"
    threads = threads_per_cpu(nodes([CORES_ARE_CPUS], command=("scontrol",)))
    job = replace(
        JOB, name="sbatch", account="batch", nodes=("n1",), cpu_count=2, tres="cpu=2,mem=800M,node=1"
    )
    by_id, of_all = Holdings(COUNTS), Holdings(COUNTS)
    by_id.learn((job,), {"7": record}, {}, threads)
    of_all.learn((job,), {}, {"7": record}, threads)
    for holding in (by_id.of(job), of_all.of(job)):
        assert holding is not None
        assert holding.held == {"n1": Resources.of({CPU: 2, MEMORY: 800})}


def test_a_snapshot_goes_by_the_threads_of_its_nodes() -> None:
    row = {"JobArrayID": "7", "Name": "sbatch", "Account": "batch", "NodeList": "n1", "NumNodes": "1"}
    slurm = FakeSlurm(RUNNING | row | {"NumCPUs": "2", "tres-alloc": "cpu=2,mem=800M,node=1,billing=2"})
    slurm.settings = {"SelectType": "select/cons_tres", "SelectTypeParameters": "CR_CORE_MEMORY"}
    shown = {"NodeName=n1 ": CORES_ARE_CPUS, "JobId=7 ": NUMBERED.format(totals="TRES")}
    slurm.change = lambda lines: [
        shown.get(line.partition(" ")[0] + " ", line) for text in lines for line in text.splitlines()
    ]
    (job,) = adapter_of(slurm).snapshot().jobs
    assert job.allocation == (Resources.of({CPU: 2, MEMORY: 800}),)
