"""From rows to jobs: requeues, numbers used again, changes of size, periods that overlap."""

from dataclasses import replace

from makeway.adapters.slurm.accounting.jobs import AccountedJob, jobs_of
from makeway.adapters.slurm.accounting.rows import AccountingRow

ROW = AccountingRow(
    line=2,
    job_id="7",
    raw_id="7",
    user="ann",
    account="physics",
    partition="batch",
    qos="normal",
    state="COMPLETED",
    submit_s=100.0,
    eligible_s=110.0,
    start_s=120.0,
    end_s=180.0,
    elapsed_s=60.0,
    limit_s=300.0,
    node_count=2,
    tres=(("cpu", 4),),
)


def only(*rows: AccountingRow) -> AccountedJob:
    (job,) = jobs_of(rows)
    return job


def test_one_row() -> None:
    job = only(ROW)
    assert (job.job_id, job.eligible_s, job.limit_s, job.heterogeneous) == ("7", 110.0, 300.0, False)
    (run,) = job.runs
    assert (run.start_s, run.end_s, run.elapsed_s, run.node_count, run.requeued) == (120, 180, 60, 2, False)


def test_a_requeued_job_is_one_job() -> None:
    first = replace(ROW, state="REQUEUED", end_s=150.0, elapsed_s=30.0)
    second = replace(ROW, submit_s=150.0, eligible_s=270.0, start_s=280.0, end_s=340.0)
    job = only(second, first)
    assert job.eligible_s == 110.0
    assert [(run.elapsed_s, run.requeued) for run in job.runs] == [(30.0, True), (60.0, False)]
    waiting = replace(second, state="PENDING", start_s=None, end_s=None, elapsed_s=0.0)
    assert [run.requeued for run in only(first, waiting).runs] == [True]


def test_a_number_that_is_used_again_is_another_job() -> None:
    later = replace(ROW, submit_s=900.0, eligible_s=900.0, start_s=900.0, end_s=950.0)
    assert [job.job_id for job in jobs_of([ROW, later])] == ["7", "7.2"]


def test_a_change_of_size_is_the_same_run() -> None:
    large = replace(ROW, state="RESIZING", end_s=150.0, elapsed_s=30.0)
    small = replace(ROW, submit_s=150.0, start_s=150.0, end_s=200.0, elapsed_s=50.0, node_count=1)
    # Slurm counts the last part from the first start on.
    # It may change in the second in which it was submitted and started, and still run.
    begun = replace(large, submit_s=120.0, end_s=120.0, elapsed_s=0.0)
    grows = replace(small, submit_s=120.0, start_s=120.0, end_s=None, state="RUNNING")
    assert [(run.node_count, run.elapsed_s) for run in only(begun, grows).runs] == [(1, 50.0)]
    for last in (small, replace(small, start_s=120.0, elapsed_s=80.0)):
        (run,) = only(large, last).runs
        assert (run.start_s, run.end_s, run.elapsed_s) == (120.0, 200.0, 80.0)
        assert (run.node_count, run.requeued) == (2, False)


def test_a_job_of_two_periods_counts_once_and_the_later_row_is_believed() -> None:
    ran, later = (replace(ROW, state="RUNNING", end_s=None, elapsed_s=elapsed_s) for elapsed_s in (10, 20))
    for rows in ((ran, later), (later, ran)):
        assert only(*rows).runs[0].elapsed_s == 20.0
        assert only(*rows, ROW).runs[0].end_s == 180.0
        assert only(ROW, *rows).runs[0].end_s == 180.0
    at_its_end = replace(ROW, state="RUNNING", end_s=None)
    for rows in ((at_its_end, ROW), (ROW, at_its_end)):
        assert only(*rows).runs[0].end_s == 180.0
    limited = replace(ROW, limit_s=600.0)
    assert only(ROW, limited).limit_s == 600.0


def test_the_partition_is_that_in_which_it_ran() -> None:
    first = replace(ROW, state="REQUEUED", end_s=150.0, elapsed_s=30.0)
    waiting = replace(ROW, state="PENDING", submit_s=150.0, start_s=None, end_s=None, partition="batch,low")
    assert only(first, replace(waiting, elapsed_s=0.0)).partition == "batch"
    assert only(replace(waiting, elapsed_s=0.0)).partition == "batch,low"
    again = replace(ROW, submit_s=150.0, start_s=280.0, end_s=340.0, partition="low")
    assert only(first, again).partition == "low"


def test_a_job_that_waits_in_one_export_and_runs_in_the_next_is_one_job() -> None:
    waits = replace(ROW, state="PENDING", start_s=None, end_s=None, elapsed_s=0.0, tres=())
    for rows in ((waits, ROW), (ROW, waits)):
        assert [run.start_s for run in only(*rows).runs] == [120.0]
    # It was requeued at 150 s, and waited again when the second export was made.
    first = replace(ROW, state="REQUEUED", end_s=150.0, elapsed_s=30.0)
    again = replace(waits, submit_s=150.0, eligible_s=270.0)
    second = replace(ROW, submit_s=150.0, eligible_s=270.0, start_s=280.0, end_s=340.0)
    job = only(waits, first, again, first, second)
    assert [(run.start_s, run.requeued) for run in job.runs] == [(120.0, True), (280.0, False)]
    # The number was used again, and that job has not started.
    assert [len(job.runs) for job in jobs_of([ROW, replace(waits, submit_s=900.0, eligible_s=900.0)])] == [
        1,
        0,
    ]


def test_a_job_that_never_started() -> None:
    waited = replace(ROW, state="CANCELLED", start_s=None, elapsed_s=0.0, tres=())
    assert only(waited).runs == ()
    # 22.05 writes when it was cancelled as its start.
    cancelled = only(replace(waited, eligible_s=900.0, start_s=150.0, end_s=150.0))
    assert (cancelled.runs, cancelled.eligible_s) == ((), 900.0)


def test_parts_of_a_heterogeneous_job() -> None:
    assert only(replace(ROW, job_id="7+1")).heterogeneous


def test_a_start_before_the_eligible_time_of_the_row() -> None:
    assert only(replace(ROW, eligible_s=None)).eligible_s == 100.0
    assert only(replace(ROW, eligible_s=130.0)).eligible_s == 120.0
