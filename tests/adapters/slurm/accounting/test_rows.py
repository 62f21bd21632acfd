"""The export of sacct: what it may look like, and what is refused."""

import re
from zoneinfo import ZoneInfo

import pytest

from makeway.adapters.slurm.accounting.rows import NEEDED, AccountingRow, BadExport, export_command, read_rows

HEADER = ";".join(NEEDED)
LONG = "9" * 400
"""A number that no float holds."""
RUN = (
    "12_3;15;ann;physics;batch;normal;COMPLETED;100;110;120;180;50;5;2;"
    "billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=3.5G,node=2"
)


def one(line: str, header: str = HEADER) -> AccountingRow:
    (row,) = read_rows([header, line])
    return row


def changed(**cells: str) -> str:
    """The run with other values in these columns."""
    values = dict(zip(NEEDED, RUN.split(";"), strict=True)) | cells
    return ";".join(values.values())


def test_a_run() -> None:
    row = one(RUN)
    assert (row.line, row.job_id, row.raw_id) == (2, "12_3", "15")
    assert (row.user, row.account, row.partition, row.qos) == ("ann", "physics", "batch", "normal")
    assert (row.submit_s, row.eligible_s, row.start_s, row.end_s) == (100.0, 110.0, 120.0, 180.0)
    assert (row.elapsed_s, row.limit_s, row.node_count) == (50.0, 300.0, 2)
    assert row.tres == (("cpu", 8), ("gres/gpu:a100", 2), ("gres/gpu", 2), ("mem", 3584))


def test_the_command_asks_for_each_column_that_is_needed() -> None:
    command = export_command("2026-10-01", "2026-11-01")
    assert command.startswith("SLURM_TIME_FORMAT=%s sacct ")
    assert f"--format={','.join(NEEDED)}" in command
    assert export_command("a", "b", features=True, words=True).endswith(",Constraints,Comment")
    # Where sacct shows a whole federation by default, the numbers of jobs are not those of one cluster.
    assert " --local " in command
    assert command.endswith(",Cluster")


def test_a_job_that_waits_and_one_without_a_limit() -> None:
    row = one(changed(Start="None", End="Unknown", ElapsedRaw="0", TimelimitRaw="UNLIMITED", AllocTRES=""))
    assert (row.start_s, row.end_s, row.limit_s, row.tres) == (None, None, None, ())
    assert one(changed(TimelimitRaw="Partition_Limit")).limit_s is None
    assert one(changed(State="CANCELLED by 1001")).state == "CANCELLED"


@pytest.mark.parametrize("step", ["12.batch", "12.0", "12_3.extern", "12+1.0"])
def test_steps_are_left_out(step: str) -> None:
    assert list(read_rows([HEADER, changed(JobID=step, AllocTRES="cpu=x")])) == []


def test_waiting_tasks_that_sacct_does_not_name_one_by_one_are_no_step() -> None:
    tasks = "27_[0,1,4,9,16,25,36,49,64,81,100,121,144,...]"
    assert one(changed(JobID=tasks, JobIDRaw="27")).job_id == tasks


def test_the_cluster_of_a_job() -> None:
    assert one(RUN).cluster == ""
    assert one(f"{RUN};north", f"{HEADER};Cluster").cluster == "north"


@pytest.mark.parametrize(("header", "run"), [(HEADER, RUN), (f"{HEADER};Comment", f"{RUN};hello")])
def test_several_exports_may_be_one_file(header: str, run: str) -> None:
    assert [row.line for row in read_rows([header, run, header, run])] == [2, 4]


def test_times_without_a_zone_need_one() -> None:
    line = changed(Submit="2026-07-01T12:00:00")
    with pytest.raises(
        BadExport, match=r"line 2: Submit '2026-07-01T12:00:00'; accepted: seconds since 1970"
    ):
        one(line)
    (row,) = read_rows([HEADER, line], ZoneInfo("Europe/Berlin"))
    assert row.submit_s == 1782900000.0


def test_a_comment_may_hold_anything() -> None:
    row, other = read_rows(
        [f"{HEADER};Comment", f"{RUN};makeway:a b;c", "d makeway:min-nodes=2", "", f"{RUN};"]
    )
    assert row.words == {"a", "min-nodes"}
    assert other.words == frozenset()


def test_any_delimiter_and_order() -> None:
    columns = dict(zip(NEEDED, RUN.split(";"), strict=True))
    names = sorted(NEEDED, reverse=True)
    row = one("|".join(columns[name] for name in names), "|".join(names))
    assert row == one(RUN)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "line 1: no header of sacct"),
        (["12"], "line 1: no header of sacct"),
        (["JobID;User"], "line 1: the column JobIDRaw is missing"),
        ([f"Comment;{HEADER}"], "line 1: the column Comment is not the last one"),
        ([HEADER, "", "a;b"], "line 3: 2 of 15 columns"),
        ([HEADER, changed(User="a;b")], "line 2: 16 of 15 columns"),
        ([HEADER, changed(Start="soon")], "line 2: Start 'soon'"),
        ([HEADER, changed(Submit="Unknown")], "line 2: Submit 'Unknown'"),
        ([HEADER, RUN, changed(NNodes="two")], "line 3: NNodes 'two'; accepted: a whole number"),
        ([HEADER, changed(ElapsedRaw=LONG)], "line 2: ElapsedRaw '999"),
        ([HEADER, changed(End=LONG)], "line 2: End '999"),
        ([HEADER, changed(AllocTRES=f"cpu={LONG}")], "line 2: AllocTRES 'cpu=999"),
        ([HEADER, changed(AllocTRES=f"mem={LONG}M")], "line 2: AllocTRES 'mem=999"),
        ([HEADER, changed(TimelimitRaw="1:00")], "line 2: TimelimitRaw '1:00'"),
        ([HEADER, changed(AllocTRES="cpu=many")], "line 2: AllocTRES 'cpu=many'; accepted: amounts such as"),
        ([HEADER, changed(AllocTRES="cpu\x1b[31m")], r"line 2: AllocTRES 'cpu\\x1b[31m'"),
    ],
)
def test_what_is_no_export(lines: list[str], message: str) -> None:
    with pytest.raises(BadExport, match=re.escape(message)):
        list(read_rows(lines))
