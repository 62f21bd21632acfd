"""The parsers, on what three releases of Slurm really printed, and on what users might write."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.adapters.protocol import Unreadable
from makeway.adapters.slurm import build, parse, parse_cluster
from makeway.adapters.slurm.parse import Gres, RawJob
from tests.paths import CAPTURED

RELEASES = {"22.05": (22, 5), "24.11": (24, 11), "26.05": (26, 5)}
TOKEN = "mwcaptured"
COMMAND = ("squeue",)


def captured(release: str, name: str) -> str:
    return (CAPTURED / release / f"{name}.txt").read_bytes().decode("utf-8", "surrogateescape")


def jobs_of(release: str) -> dict[str, RawJob]:
    """The captured jobs by name; of those that share one, the last."""
    fields = build.job_fields(RELEASES[release])
    found = parse.jobs(captured(release, "squeue"), fields=fields, token=TOKEN, command=COMMAND)
    return {job.name: job for job in found}


@pytest.fixture(params=sorted(RELEASES))
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# squeue


def test_every_job_of_the_capture_is_read(release: str) -> None:
    fields = build.job_fields(RELEASES[release])
    found = parse.jobs(captured(release, "squeue"), fields=fields, token=TOKEN, command=COMMAND)
    assert sorted(job.job_id for job in found) == sorted(
        ["1", "2_0", "2_1", "2_2", "3", "6", "7", "8", "9", "10", "11", "12", "13+0", "13+1"]
    )


def test_a_running_job_is_read_whole(release: str) -> None:
    job = next(job for name, job in jobs_of(release).items() if name.startswith("a\n"))
    assert (job.job_id, job.state, job.nodes, job.node_count) == ("1", "RUNNING", ("n1", "n2"), 2)
    assert (job.limit_s, job.restarts, job.partitions, job.user) == (131_400.0, 0, ("batch",), "root")
    assert job.start_s is not None
    assert job.submit_s <= job.start_s
    assert (job.batch, job.requeueable, job.heterogeneous, job.reservations) == (True, True, False, ())


def test_hostile_names_and_comments_stay_what_they_are(release: str) -> None:
    job = next(job for name, job in jobs_of(release).items() if name.startswith("a\n"))
    assert job.name == "a\nb|c\t\x1b[31m JobState=RUNNING ExcNodeList=n1 NodeList=\udcff\udcfe"
    assert job.comment == "first\nmakeway:ckpt=1795247730\n2|PENDING|\udcc3( makeway:ckpt=x %s ~T~ é"


def test_a_comment_of_1024_characters_is_whole(release: str) -> None:
    assert jobs_of(release)["long-comment"].comment == "makeway:min-nodes=2 ".ljust(1024, "x")


def test_array_tasks_are_jobs(release: str) -> None:
    fields = build.job_fields(RELEASES[release])
    found = parse.jobs(captured(release, "squeue"), fields=fields, token=TOKEN, command=COMMAND)
    tasks = {job.job_id: job for job in found if job.name == "array"}
    assert {job_id: job.state for job_id, job in tasks.items()} == {
        "2_0": "RUNNING",
        "2_1": "RUNNING",
        "2_2": "PENDING",
    }
    assert tasks["2_2"].reason == "JobArrayTaskLimit"


def test_what_a_job_asks_for_is_read(release: str) -> None:
    jobs = jobs_of(release)
    asks, urgent, by_tasks = jobs["asks"], jobs["urgent"], jobs["by-tasks"]
    assert asks.required_nodes == ("n1", "n5")
    assert (asks.memory_mb, asks.tres_memory_mb, asks.least_cpus_per_node) == (100.0, 400.0, 2)
    assert not asks.requeueable
    assert urgent.gres_per_node == (Gres(name="fpga", type="", count=1),)
    assert urgent.account == "a b=c"
    assert (by_tasks.node_count, by_tasks.cpu_count, by_tasks.tres_memory_mb) == (4, 7, 1400.0)
    assert by_tasks.limit_s is None
    assert jobs["heterogeneous"].heterogeneous
    assert jobs["held"].priority == 0
    assert (jobs["dependent"].eligible_s, jobs["dependent"].deadline_s) == (None, None)


def test_excluded_nodes_are_read_where_squeue_tells_them() -> None:
    assert jobs_of("22.05")["urgent"].excluded_nodes is None
    for release in ("24.11", "26.05"):
        assert jobs_of(release)["urgent"].excluded_nodes == ("n3", "n4")
        assert jobs_of(release)["asks"].excluded_nodes == ()


def test_a_requeued_job_is_held_back(release: str) -> None:
    job = jobs_of(release)["long-comment"]
    assert (job.state, job.reason, job.restarts, job.nodes) == ("PENDING", "BeginTime", 1, ())
    assert job.eligible_s is not None
    assert job.eligible_s - job.submit_s == 121


@pytest.mark.parametrize("cut", [1, 40, 900, -2])
def test_a_text_that_breaks_off_is_unreadable(release: str, cut: int) -> None:
    fields = build.job_fields(RELEASES[release])
    text = captured(release, "squeue")[:cut]
    with pytest.raises(Unreadable) as error:
        parse.jobs(text, fields=fields, token=TOKEN, command=COMMAND)
    assert error.value.command == COMMAND
    assert error.value.text == text


def test_no_jobs_are_no_jobs() -> None:
    assert parse.jobs("", fields=build.JOB_FIELDS, token=TOKEN, command=COMMAND) == ()


def test_a_record_of_another_release_is_unreadable() -> None:
    text = captured("24.11", "squeue")
    with pytest.raises(Unreadable):
        parse.jobs(text, fields=build.JOB_FIELDS, token=TOKEN, command=COMMAND)


ROW = {
    "JobArrayID": "17",
    "State": "PENDING",
    "Reason": "Resources",
    "NumNodes": "2",
    "NumCPUs": "4",
    "MinCpus": "1",
    "MinMemory": "0",
    "tres-alloc": "cpu=4,mem=2000M,node=2,billing=4",
    "tres-per-node": "N/A",
    "tres-per-job": "N/A",
    "tres-per-task": "N/A",
    "tres-per-socket": "N/A",
    "mem-per-tres": "N/A",
    "cpus-per-tres": "N/A",
    "numtasks": "4",
    "cpus-per-task": "1",
    "ntpernode": "0",
    "Licenses": "(null)",
    "TimeLimit": "1:00:00",
    "SubmitTime": "1795247000",
    "StartTime": "N/A",
    "EligibleTime": "1795247000",
    "Deadline": "N/A",
    "UserID": "1000",
    "GroupID": "1000",
    "UserName": "user",
    "Account": "(null)",
    "QOS": "normal",
    "Partition": "batch",
    "Feature": "(null)",
    "ReqNodes": "",
    "NodeList": "",
    "BatchHost": "n/a",
    "OverSubscribe": "OK",
    "Requeue": "1",
    "BatchFlag": "1",
    "RestartCnt": "0",
    "HetJobID": "N/A",
    "Reservation": "(null)",
    "PriorityLong": "1",
    "admin_comment": "(null)",
    "Name": "name",
    "Comment": "(null)",
}


def printed(rows: list[dict[str, str]], token: str) -> str:
    """What squeue prints for the rows."""
    return "".join("".join(f"{row[field]}{token}" for field in build.JOB_FIELDS) + "\n" for row in rows)


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(), st.text(), st.text()), max_size=5))
def test_no_text_of_a_user_forges_a_record(texts: list[tuple[str, str, str]]) -> None:
    """Whatever users write, there are as many jobs as were printed, each with its own id and texts."""
    rows = [
        ROW | {"JobArrayID": str(number), "Name": name, "Comment": comment, "Account": account}
        for number, (name, comment, account) in enumerate(texts)
    ]
    token = "mw5f1d0c9e8b7a6f54"
    found = parse.jobs(printed(rows, token), fields=build.JOB_FIELDS, token=token, command=COMMAND)
    assert [(job.job_id, job.name) for job in found] == [(row["JobArrayID"], row["Name"]) for row in rows]
    nothing = {"(null)", "N/A"}
    assert [job.comment for job in found] == [
        "" if row["Comment"] in nothing else row["Comment"] for row in rows
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("NumNodes", "two"),
        ("TimeLimit", "soon"),
        ("SubmitTime", "2026-11-21T08:00:00"),
        ("NodeList", "n[1-"),
        ("MinMemory", "much"),
        ("RestartCnt", ""),
    ],
)
def test_nonsense_in_a_field_of_slurm_s_own_is_unreadable(field: str, value: str) -> None:
    text = printed([ROW | {field: value}], TOKEN)
    with pytest.raises(Unreadable):
        parse.jobs(text, fields=build.JOB_FIELDS, token=TOKEN, command=COMMAND)


def test_a_senseless_list_of_required_nodes_is_the_user_s_own_affair() -> None:
    text = printed([ROW | {"ReqNodes": "n[1-999999999999]"}], TOKEN)
    (job,) = parse.jobs(text, fields=build.JOB_FIELDS, token=TOKEN, command=COMMAND)
    assert job.required_nodes == ()


# scontrol


def sections_of(release: str) -> dict[str, list[str]]:
    return parse.sections(captured(release, "scontrol"), token=TOKEN, command=COMMAND)


def test_nodes_are_read(release: str) -> None:
    nodes = {node.name: node for node in parse_cluster.nodes(sections_of(release)["nodes"], command=COMMAND)}
    assert list(nodes) == [f"n{number}" for number in range(1, 9)]
    assert nodes["n4"].states == frozenset({"IDLE"})
    assert {"IDLE", "DRAIN"} <= nodes["n8"].states
    assert "DOWN" in nodes["n7"].states
    assert (nodes["n1"].cpu_count, nodes["n1"].memory_mb) == (2, 1000.0)
    assert nodes["n1"].features == frozenset({"small"})
    assert nodes["n5"].features == frozenset({"big", "fast"})
    assert nodes["n1"].gres == (Gres(name="fpga", type="", count=2),)
    assert nodes["n5"].gres[0] == Gres(name="fpga", type="large", count=1)
    assert nodes["n1"].partitions == frozenset({"batch", "closed"})
    assert nodes["n8"].partitions == frozenset({"batch", "urgent"})


def test_partitions_are_read(release: str) -> None:
    found = parse_cluster.partitions(sections_of(release)["partitions"], command=COMMAND)
    assert {one.name: one.state for one in found} == {"batch": "UP", "urgent": "UP", "closed": "DOWN"}


def test_reservations_are_read(release: str) -> None:
    found = parse_cluster.reservations(sections_of(release)["reservations"], command=COMMAND)
    ours, theirs = sorted(found, key=lambda one: one.name)
    assert (ours.name, ours.nodes, ours.end_s - ours.start_s) == ("mw_7", ("n1", "n2"), 600)
    assert (theirs.name, theirs.nodes, theirs.end_s - theirs.start_s) == ("their own", ("n4", "n6"), 3600)


def test_excluded_nodes_of_one_job_are_read(release: str) -> None:
    sections = sections_of(release)
    assert parse.excluded_nodes(sections["6"]) == ("n3", "n4")
    assert parse.excluded_nodes(sections["7"]) == ()
    assert parse.excluded_nodes([]) == ()


def test_sections_that_break_off_are_unreadable(release: str) -> None:
    text = captured(release, "scontrol")
    with pytest.raises(Unreadable):
        parse.sections(text[: text.index(f"{TOKEN}-end")], token=TOKEN, command=COMMAND)


def test_sections_are_found_without_readline_too() -> None:
    """A scontrol that was built without readline does not repeat what it reads, but prompts."""
    text = "scontrol: t-nodes\nscontrol: NodeName=n1 State=IDLE\nscontrol: t-end\nscontrol: \n"
    assert parse.sections(text, token="t", command=COMMAND)["nodes"] == ["NodeName=n1 State=IDLE"]


def test_a_cluster_without_nodes_or_partitions_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="where PrivateData has `nodes`, makeway has to run as an operator"):
        parse_cluster.nodes([], command=COMMAND)
    with pytest.raises(Unreadable):
        parse_cluster.partitions(["slurm_load_partitions error"], command=COMMAND)
    with pytest.raises(Unreadable):
        parse_cluster.reservations([], command=COMMAND)
    assert parse_cluster.reservations(["No reservations in the system"], command=COMMAND) == ()


@pytest.mark.parametrize(
    "line",
    [
        "NodeName=n1 State=IDLE",
        "NodeName=n1 State=IDLE CPUTot=x RealMemory=1 ActiveFeatures=a Gres=(null)",
        "NodeName=n1 State=IDLE CPUTot=2 RealMemory=inf ActiveFeatures=a Gres=(null)",
        "NodeName=n1 State=IDLE CPUTot=2 Sockets=0 RealMemory=1 ActiveFeatures=a Gres=(null)",
    ],
)
def test_a_node_that_cannot_be_read_is_unreadable(line: str) -> None:
    with pytest.raises(Unreadable):
        parse_cluster.nodes([line], command=COMMAND)


def test_node_states_with_signs_and_flags() -> None:
    line = (
        "NodeName=n1 CPUTot=2 State=DOWN*+DRAIN+NOT_RESPONDING RealMemory=1 ActiveFeatures=(null) Gres=(null)"
    )
    (node,) = parse_cluster.nodes([line], command=COMMAND)
    assert node.states == frozenset({"DOWN", "DRAIN", "NOT_RESPONDING"})
    assert (node.features, node.partitions) == (frozenset(), frozenset())


def test_a_release_is_read_exactly() -> None:
    told = ("24.11.5", "25.11.0-rc1", "26.05.5-1", "25.11")
    assert [parse.exact_release(one) for one in told] == [(24, 11, 5), (25, 11, 0), (26, 5, 5), (25, 11, 0)]
    with pytest.raises(ValueError, match="no version"):
        parse.exact_release("x")


def test_the_configuration_is_read(release: str) -> None:
    config = parse.config(captured(release, "config"))
    assert parse.release(config["SLURM_VERSION"]) == RELEASES[release]
    assert "bf_interval=1" in config["SchedulerParameters"].split(",")
    assert config["ClusterName"] == "makeway-dev"


# Single values


@pytest.mark.parametrize("text", ["", "(null)", "N/A"])
def test_no_resources(text: str) -> None:
    assert parse.gres(text) == ()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10:00", 600),
        ("0:30", 30),
        ("1:00:00", 3600),
        ("1-00:00:00", 86_400),
        ("365-00:00:00", 31_536_000),
        ("5-12:30:15", 477_015),
        ("UNLIMITED", None),
        ("Partition_Limit", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert parse.duration_s(text) == seconds


@settings(deadline=None)
@given(st.integers(0, 400 * 86_400))
def test_durations_round_trip(seconds: int) -> None:
    days, rest = divmod(seconds, 86_400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    assert parse.duration_s(f"{days}-{clock}" if days else clock) == seconds


@pytest.mark.parametrize(
    ("text", "megabytes"),
    [("0", 0), ("100M", 100), ("1.50G", 1536), ("2T", 2_097_152), ("512K", 0.5), ("100Mc", 100)],
)
def test_memory(text: str, megabytes: float) -> None:
    assert parse.memory_mb(text) == megabytes


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("12", 12), ("1K", 1024), ("2M", 2_097_152), ("2-4", 2)]
)
def test_counts(text: str, number: int) -> None:
    """squeue prints 1024 CPUs a task as 1K."""
    assert parse.count(text) == number
    job = parse.jobs(
        printed([ROW | {"tres-alloc": f"cpu=1,node={text}"}], TOKEN),
        fields=build.JOB_FIELDS,
        token=TOKEN,
        command=COMMAND,
    )[0]
    assert job.requested_node_count == number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(null)", ()),
        ("N/A", ()),
        ("gres:gpu:2", (Gres(name="gpu", type="", count=2),)),
        ("gres/gpu:2", (Gres(name="gpu", type="", count=2),)),
        ("fpga::2", (Gres(name="fpga", type="", count=2),)),  # 24.11 and later, of a node
        ("lustre:no_consume:4G", (Gres(name="lustre", type="", count=4 * 1024**3, consumable=False),)),
        ("gres:nvme:500k", (Gres(name="nvme", type="", count=500 * 1024),)),  # in the user's letters
        ("nvme(CNT:400)", (Gres(name="nvme", type="", count=400),)),
        (
            "gpu:a100:2(IDX:0-1),nvme:ssd(CNT:8)",
            (Gres(name="gpu", type="a100", count=2), Gres(name="nvme", type="ssd", count=8)),
        ),
        ("gres:", (Gres(name="gres", type="", count=1),)),
        ("::", (Gres(name="::", type="", count=1),)),
        ("gres/gpu:a100=2", (Gres(name="gpu", type="a100", count=2),)),
        (
            "gpu:a100:4(S:0-1),fpga",
            (Gres(name="gpu", type="a100", count=4), Gres(name="fpga", type="", count=1)),
        ),
    ],
)
def test_generic_resources(text: str, expected: tuple[Gres, ...]) -> None:
    assert parse.gres(text) == expected
