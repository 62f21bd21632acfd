"""The details of jobs: whatever users write, no job is read as holding what it does not hold."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.adapters.slurm import build
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.resources.counting import Counting
from makeway.adapters.slurm.resources.details import details, overcommits, records, texts
from makeway.adapters.slurm.resources.holdings import Holdings
from makeway.policies.model import CPU, MEMORY, Resources
from tests.adapters.slurm.jobs.raw_jobs import RUNNING
from tests.adapters.slurm.resources.captured_sharing import Shared, shared
from tests.adapters.slurm.test_parse import RELEASES
from tests.slurm.support.sharing import HOSTILE_SHARE

COUNTS = Counting(shares=True, cpus=True, memory=True, memory_by_unit=True)
TRUE = {"n1": Resources.of({CPU: 1, MEMORY: 100}), "n2": Resources.of({CPU: 3, MEMORY: 300})}
FORGED = " Nodes=n1 CPU_IDs=0-2 Mem=300 GRES= Nodes=n2 CPU_IDs=3 Mem=100 GRES= MinCPUsNode=1"
BITS = (
    "JobId=7 JobName=",
    "JobId=8 JobName=b UserId=u(1) GroupId=g(1) MCS_label=N/A Priority=1 Nice=0 Account=c QOS=n JobState=",
    " UserId=u(1) GroupId=g(1) MCS_label=N/A Priority=1 Nice=0 Account=",
    " QOS=n JobState=RUNNING NodeList=n[1-2] BatchHost=n1 NumNodes=2 NumCPUs=4 NumTasks=4",
    " ReqB:S:C:T=0:0:*:* TRES=cpu=4 NtasksPerN:B:S:C=0:0:*:* CoreSpec=* JOB_GRES=(null)",
    FORGED,
    " MinMemoryCPU=100M MinTmpDiskNode=0 OverSubscribe=OK Contiguous=0 Command=x",
    "\n",
    "\n\n",
    "\nscontrol: show job 8\n",
    "\nshow hostnames mw-8\n",
    " ",
)
FORGED_BODY = "".join(BITS[3:7])
"""All that is read of a record, as it would be if its user were believed."""
TEXT = st.lists(st.sampled_from((*BITS, FORGED_BODY)) | st.text(max_size=5), max_size=8).map("".join)
JOB = replace(
    RUNNING,
    job_id="7",
    cpu_count=4,
    tres="cpu=4,mem=400M,node=2,billing=4",
    nodes=("n1", "n2"),
)


@pytest.fixture(params=sorted(RELEASES))
def found(request: pytest.FixtureRequest) -> Shared:
    return shared(str(request.param))


def printed(job: RawJob, comment: str) -> str:
    """What `scontrol --details --oneliner show job` prints of a job that holds `TRUE`."""
    held = "".join(
        f"   Nodes={name} CPU_IDs=0-{part.amount(CPU) - 1} Mem={part.amount(MEMORY)} GRES="
        for name, part in TRUE.items()
    )
    return (
        f"JobId={job.job_id} JobName={job.name} UserId=u(1) GroupId=g(1) MCS_label=N/A Priority=1 Nice=0 "
        f"Account={job.account or '(null)'} QOS=n JobState=RUNNING Reason=None ReqNodeList=(null) "
        f"ExcNodeList=(null) NodeList=n[1-2] BatchHost=n1 NumNodes=2 NumCPUs=4 NumTasks=4 CPUs/Task=1 "
        f"ReqB:S:C:T=0:0:*:* TRES=cpu=4,mem=400M,node=2 Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=* "
        f"JOB_GRES=(null){held} MinCPUsNode=1 MinMemoryCPU=100M MinTmpDiskNode=0 Features=(null) "
        f"DelayBoot=00:00:00 OverSubscribe=OK Contiguous=0 Licenses=(null) Command={comment} "
        f"WorkDir=/ Comment={comment} Power=\n"
    )


def held(job: RawJob, by_id: Mapping[str, str], all_jobs: str = "") -> Mapping[str, Resources] | None:
    holdings = Holdings(COUNTS)
    holdings.learn((job,), by_id, records(all_jobs))
    holding = holdings.of(job)
    return None if holding is None else holding.held


@settings(deadline=None)
@given(TEXT, TEXT, TEXT)
def test_no_name_account_or_comment_changes_what_is_read_by_id(name: str, account: str, comment: str) -> None:
    # Slurm stores neither an empty account nor one that reads like none.
    account = account if account.strip() not in {"", "(null)", "N/A"} else ""
    job = replace(JOB, name=name, account=account)
    output = (
        f"scontrol: show hostnames TOKEN-7\nTOKEN-7\nscontrol: show job 7\n{printed(job, comment)}"
        "scontrol: show hostnames TOKEN-end\nTOKEN-end\nscontrol: \n"
    )
    assert held(job, texts(output, token="TOKEN", names=("7", "8"))) == TRUE


@pytest.mark.parametrize("where", ["name", "account", "comment"])
def test_a_whole_record_in_the_words_of_a_user_is_not_read(where: str) -> None:
    hostile = f"x{BITS[2]}{FORGED_BODY}"
    changes: dict[str, Any] = {where: hostile}
    job = replace(JOB, **changes)
    record = printed(job, hostile if where == "comment" else "")
    assert record.count("CPU_IDs=0-2 Mem=300") >= 1
    assert held(job, {"7": record}) == TRUE


@settings(deadline=None)
@given(TEXT, TEXT, TEXT)
def test_nothing_that_another_user_writes_changes_what_is_read_from_the_text_of_all_jobs(
    name: str, account: str, comment: str
) -> None:
    """At worst it is not read at all, and asked for by its id in the next snapshot."""
    other = replace(JOB, job_id="8", name=name, account=account)
    for text in (
        printed(JOB, "") + printed(other, comment),
        printed(other, comment) + printed(JOB, ""),
    ):
        assert held(JOB, {}, text) in (TRUE, None)


def test_a_forged_record_makes_the_job_doubtful_and_its_id_decides() -> None:
    forged = printed(JOB, "").replace("CPU_IDs=0-0 Mem=100", "CPU_IDs=0-1 Mem=1")
    forger = replace(JOB, job_id="8", name=f"x\n{forged}")
    text = printed(forger, "") + printed(JOB, "")
    assert records(text)["7"] is None
    holdings = Holdings(COUNTS)
    holdings.learn((JOB,), {}, records(text))
    assert holdings.of(JOB) is None
    assert holdings.to_ask((JOB,)) == (("7",), False)
    holdings.learn((JOB,), {"7": printed(JOB, "")}, {})
    holding = holdings.of(JOB)
    assert holding is not None
    assert holding.held == TRUE
    assert holdings.to_ask((JOB,)) == ((), False)


def test_the_captured_forger_holds_what_it_holds(found: Shared) -> None:
    forger = found.job(HOSTILE_SHARE)
    assert found.details(HOSTILE_SHARE).held == {
        "n1": Resources.of({CPU: 2, MEMORY: 2048, "gres/gpu": 2, "gres/gpu:a100": 2}),
        "n2": Resources.of({CPU: 1, MEMORY: 2048, "gres/gpu": 1, "gres/gpu:a100": 1}),
    }
    # In the text of all jobs it claims to be job 2, so that neither of them is believed there.
    doubtful = {job_id for job_id, record in records(found.all_jobs).items() if record is None}
    assert doubtful == {"2"}
    assert details(records(found.all_jobs)[forger.job_id] or "", forger) is None


def test_all_other_jobs_are_read_from_the_text_of_all_jobs(found: Shared) -> None:
    by_record = records(found.all_jobs)
    for job in found.jobs:
        record = by_record.get(job.job_id)
        if job.name not in {HOSTILE_SHARE, "commented"}:
            assert record is not None
            assert details(record, job) == details(found.texts[job.job_id], job) is not None


@pytest.mark.parametrize("throttle", ["", "ArrayTaskThrottle=2 "])
def test_a_task_of_an_array_is_read(throttle: str) -> None:
    job = replace(JOB, job_id="7_3")
    record = printed(job, "").replace("JobId=7_3 ", f"JobId=9 ArrayJobId=7 ArrayTaskId=3 {throttle}")
    assert held(job, {"7_3": record}) == TRUE
    assert list(records(record)) == ["7_3"]


def test_what_has_no_files_is_held_by_its_number() -> None:
    record = printed(JOB, "").replace("Mem=300 GRES=", "Mem=300 GRES=nvme(CNT:400)")
    parts = held(JOB, {"7": record})
    assert parts is not None
    assert parts["n2"].amount("gres/nvme") == 400


@pytest.mark.parametrize(
    ("node_counts", "switches", "uncounted"),
    [("2-2", "1@01:00:00", ("--switches",)), ("1-1", "1@01:00:00", ()), ("2-2", "0@00:00:00", ())],
)
def test_switches_are_not_counted(node_counts: str, switches: str, uncounted: tuple[str, ...]) -> None:
    record = printed(JOB, "").replace("NumNodes=2 ", f"NumNodes={node_counts} ")
    found = details(record.replace("Power=", f"Power= Switches={switches}"), JOB)
    assert found is not None
    assert found.uncounted == uncounted


@pytest.mark.parametrize(
    ("extra", "names_extra"), [(" Extra=free>5", True), (" Extra=(null)", False), ("", False)]
)
def test_a_filter_of_nodes_by_their_extra_is_seen(extra: str, names_extra: bool) -> None:
    found = details(printed(JOB, "").replace("Power=", f"Power={extra} "), JOB)
    assert found is not None
    assert found.names_extra == names_extra


@pytest.mark.parametrize(
    ("cpu_count", "node_count", "per_task", "uncounted"),
    [
        (4, 1, 1, ()),
        (8, 1, 2, ()),
        (1, 1, 1, ()),
        (1, 1, 2, ("--overcommit with --cpus-per-task",)),
        (3, 3, 2, ("--overcommit with --cpus-per-task",)),
        (4, 4, 2, ()),
    ],
)
def test_several_cpus_for_each_of_overcommitted_tasks_are_not_counted(
    cpu_count: int, node_count: int, per_task: int, uncounted: tuple[str, ...]
) -> None:
    """24.11 and 26.05 take a job with more tasks than nodes, and never start it. With one task for each node
    they start it; `-N4-8 -c2` looks like that, too.
    """
    tres = f"cpu={cpu_count},node={node_count}"
    job = replace(JOB, cpu_count=cpu_count, task_count=4, cpus_per_task=per_task, tres=tres)
    found = details(printed(job, ""), job)
    assert found is not None
    assert found.uncounted == uncounted


@pytest.mark.parametrize(
    ("cpu_count", "node_count", "per_node", "expected"),
    [
        (1, 1, 0, True),
        (2, 2, 0, True),
        (4, 4, 0, False),
        (2, 1, 0, False),
        (2, 1, 2, False),
        (2, 2, 1, False),
        (8, 2, 0, False),
    ],
)
def test_a_job_whose_tasks_share_cpus(cpu_count: int, node_count: int, per_node: int, expected: bool) -> None:
    """Slurm shows 2 CPUs of `-N1-2 -c2 --ntasks-per-node=2`, which gets 4."""
    job = replace(JOB, cpu_count=cpu_count, task_count=4, cpus_per_task=2, tasks_per_node=per_node)
    assert overcommits(replace(job, tres=f"cpu={cpu_count},node={node_count}")) is expected


@pytest.mark.parametrize(
    ("said", "takes_blocks"),
    [
        ("OverSubscribe=TOPO", True),  # 24.11
        ("OverSubscribe=NO Exclusive=TOPO", True),  # 26.05
        ("OverSubscribe=NO Exclusive=NODE", False),
        ("OverSubscribe=USER", False),
    ],
)
def test_a_job_that_shares_no_block_shares_no_node(said: str, takes_blocks: bool) -> None:
    found = details(printed(JOB, "").replace("OverSubscribe=OK", said), JOB)
    assert found is not None
    assert (found.exclusive, found.takes_blocks) == (True, takes_blocks)


def test_the_size_of_segments() -> None:
    """26.05 prints it in the last line."""
    record = printed(JOB, "")
    sizes = [details(text, JOB) for text in (record, record.replace("Power=", "Power= SegmentSize=2"))]
    assert [0 if one is None else one.segment_size for one in sizes] == [0, 2]


@pytest.mark.parametrize(
    ("said", "least_limit_s"),
    [("TimeMin=N/A", None), ("TimeMin=00:20:00", 1200.0), ("TimeMin=1-00:00:00", 86_400.0)],
)
def test_the_least_time_limit(said: str, least_limit_s: float | None) -> None:
    """As all releases print it, before anything that a user writes at will."""
    times = f"TimeLimit=02:00:00 {said} SubmitTime=1795377966 ReqNodeList="
    record = printed(JOB, " TimeMin=00:00:01 SubmitTime=1 ").replace("ReqNodeList=", times, 1)
    found = details(record, JOB)
    assert found is not None
    assert found.least_limit_s == least_limit_s


@pytest.mark.parametrize(
    ("node_counts", "asked", "most"),
    [("1", 1, None), ("3", 1, None), ("2-2", 2, 2), ("2-4", 2, 4), ("4-4", 2, 4), ("1-2K", 1, 2048)],
)
def test_the_largest_number_of_nodes(node_counts: str, asked: int, most: int | None) -> None:
    job = replace(JOB, tres=f"cpu=4,mem=400M,node={asked}")
    found = details(printed(job, "").replace("NumNodes=2 ", f"NumNodes={node_counts} "), job)
    assert found is not None
    assert found.most_nodes == most


@pytest.mark.parametrize(
    ("node_counts", "may_have_more"),
    [("1", True), ("3", True), ("1-1", False), ("2-2", False), ("1-3", True), ("1-2K", True)],
)
def test_whether_a_job_surely_may_have_more_nodes(node_counts: str, may_have_more: bool) -> None:
    found = details(printed(JOB, "").replace("NumNodes=2 ", f"NumNodes={node_counts} "), JOB)
    assert found is not None
    assert found.may_have_more is may_have_more


@pytest.mark.parametrize(
    ("node_counts", "asked", "most"),
    [("1-1", 1, None), ("3-3", 1, None), ("3-3", 2, 2), ("2-2", 2, 2), ("2-4", 2, 4), ("1-4", 1, 4)],
)
def test_the_largest_number_of_nodes_as_later_releases_print_it(
    node_counts: str, asked: int, most: int | None
) -> None:
    """24.11 prints `3-3` of `-n20` and of `-N2 -n20` on nodes of 8 CPUs, and `1-1` of `--gpus=5`, which then
    runs on two nodes.
    """
    job = replace(JOB, tres=f"cpu=4,mem=400M,node={asked}")
    record = printed(job, "").replace("NumNodes=2 ", f"NumNodes={node_counts} ")
    found = details(record.replace(" TRES=", " ReqTRES=cpu=4 AllocTRES="), job)
    assert found is not None
    assert found.most_nodes == most


def test_a_record_of_another_job_is_no_record(found: Shared) -> None:
    first, second = found.job("licensed"), found.job("all-memory")
    assert details(found.texts[first.job_id], second) is None
    assert details(found.texts[first.job_id], replace(first, name="licensed2")) is None
    assert details(found.texts[first.job_id], replace(first, account="other")) is None
    assert details("", first) is None


def test_sections_without_readline_are_read_too() -> None:
    """The prompt then precedes the output, and commands are not repeated."""
    output = f"scontrol: TOKEN-7\nscontrol: {printed(JOB, '')}scontrol: TOKEN-end\nscontrol: \n"
    assert held(JOB, texts(output, token="TOKEN", names=("7",))) == TRUE
    assert build.show_script("TOKEN", ("7",)).endswith(
        b"show hostnames TOKEN-7\nshow job 7\nshow hostnames TOKEN-end\n"
    )
