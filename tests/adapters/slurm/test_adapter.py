"""The adapter's logic on scripted answers; `tests/slurm` proves it on a real Slurm."""

import re
from collections.abc import Callable

import pytest

from makeway.adapters.protocol import Gone, Rejected, SubmissionReader, Unavailable, Unreadable
from makeway.adapters.slurm import build
from makeway.policies.model import JobKind, JobState, RunIdentity, SignalTarget
from tests import acts
from tests.adapters.slurm.fake_slurm import (
    NO_CONTROLLER,
    NO_RESERVATIONS,
    NOW_S,
    OK,
    RUNNING,
    Answer,
    FakeSlurm,
    adapter_of,
)
from tests.adapters.slurm.test_parse import ROW

# Reading


def test_a_snapshot_is_two_commands_whatever_the_number_of_jobs() -> None:
    slurm = FakeSlurm(*(ROW | {"JobArrayID": str(number)} for number in range(500)))
    adapter = adapter_of(slurm)
    assert adapter.capabilities.name == "c, Slurm 24.11.5"
    slurm.calls.clear()
    cluster = adapter.snapshot()
    assert len(cluster.jobs) == 500
    assert (len(cluster.nodes), cluster.now_s, cluster.reservations) == (8, NOW_S, ())
    assert [argv[0] for argv in slurm.calls] == ["squeue", "scontrol"]
    assert slurm.acts == []


def test_jobs_that_are_over_are_in_no_snapshot() -> None:
    slurm = FakeSlurm(ROW | {"State": "COMPLETED"}, RUNNING | {"JobArrayID": "18"})
    assert [job.job_id for job in adapter_of(slurm).snapshot().jobs] == ["18"]


def test_the_nodes_that_urgent_jobs_exclude_are_read_otherwise_on_22_05() -> None:
    urgent = ROW | {"QOS": "urgent", "JobArrayID": "21"}
    slurm = FakeSlurm(urgent, ROW, release="22.05.8")
    jobs = adapter_of(slurm).snapshot().jobs_by_id()
    assert jobs["21"].eligible_nodes == frozenset({"n3", "n4", "n5", "n6", "n7", "n8"})
    assert jobs["17"].eligible_nodes is None
    assert slurm.inputs[-1].count(b"show job") == 1


def test_on_later_releases_squeue_tells_the_excluded_nodes() -> None:
    slurm = FakeSlurm(ROW | {"QOS": "urgent", "ExcNodes": "n8"})
    (job,) = adapter_of(slurm).snapshot().jobs
    assert job.eligible_nodes == frozenset({f"n{number}" for number in range(1, 8)})


def test_an_exclusive_job_is_not_shrunk_on_22_05() -> None:
    slurm = FakeSlurm(RUNNING | {"OverSubscribe": "NO"}, release="22.05.8")
    adapter = adapter_of(slurm)
    assert adapter.snapshot().jobs[0].kind is JobKind.RIGID
    assert adapter_of(FakeSlurm(RUNNING, release="22.05.8")).snapshot().jobs[0].kind is JobKind.MALLEABLE
    with pytest.raises(Rejected, match="exclusive"):
        adapter.apply(acts.shrink("17", keep_nodes=("n1",), walltime_s=7200))
    assert slurm.acts == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"), Unavailable),
        ((0, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"), Unavailable),
        ((0, "", "wrapper: retrying\nslurm_load_jobs error: Socket timed out"), Unavailable),
        ((1, "", "slurm_load_jobs error: Access/permission denied"), Unavailable),
        ((0, "half a", ""), Unreadable),
        ((0, "", "squeue: error: Invalid job format specification: Comment"), Unreadable),
    ],
)
def test_half_a_view_is_none(answer: Answer, error: type[Exception]) -> None:
    slurm = FakeSlurm(RUNNING)
    slurm.squeue_answer = answer
    with pytest.raises(error):
        adapter_of(slurm).snapshot()


@pytest.mark.parametrize("release", ["22.05.8", "24.11.5"])
def test_a_warning_between_the_rows_spoils_the_snapshot(release: str) -> None:
    """A script around squeue may print it. Else the next job would have another id, and seem to be over."""
    first = "JobArrayID" if release == "22.05.8" else "ExcNodes"
    rows = RUNNING, RUNNING | {"JobArrayID": "18", first: "squeue: slow answer\n" + RUNNING.get(first, "")}
    with pytest.raises(Unreadable, match="a line of its own before the row"):
        adapter_of(FakeSlurm(*rows, release=release)).snapshot()


def given(lines: list[str], names: str = "n1 n2", state: str = "ALLOCATED") -> list[str]:
    """These nodes are given to jobs."""
    for name in names.split():
        lines = [
            re.sub(rf"(?m)^(NodeName={name} .*State=)IDLE", rf"\1{state}", line, count=1) for line in lines
        ]
    return lines


@pytest.mark.parametrize("state", ["ALLOCATED", "MIXED+PLANNED", "ALLOCATED+DRAIN"])
def test_a_list_that_lacks_the_jobs_of_nodes_is_none(state: str) -> None:
    """PrivateData hides the jobs of others from a makeway whose level was taken away."""
    slurm = FakeSlurm(RUNNING, RUNNING | {"JobArrayID": "18", "NodeList": "n3", "BatchHost": "n3"})
    slurm.change = lambda lines: given(lines, "n1 n2 n3", state)
    adapter = adapter_of(slurm)
    assert len(adapter.snapshot().jobs) == 2
    for kept in (slurm.rows[:1], []):
        slurm.rows = kept
        with pytest.raises(Unreadable, match=f"no job for {3 - 2 * len(kept)} nodes .* such as n[13]: "):
            adapter.snapshot()


def test_a_node_whose_job_is_ending_may_have_none() -> None:
    slurm = FakeSlurm()
    slurm.change = lambda lines: given(lines, state="ALLOCATED+COMPLETING")
    assert adapter_of(slurm).snapshot().jobs == ()


def test_a_job_that_starts_between_the_commands_is_listed_by_another_look() -> None:
    slurm = FakeSlurm(RUNNING | {"State": "PENDING", "NodeList": "", "BatchHost": ""})

    def starts(lines: list[str]) -> list[str]:
        slurm.rows = [RUNNING]
        return given(lines)

    slurm.change = starts
    (job,) = adapter_of(slurm).snapshot().jobs
    assert job.state is JobState.PENDING
    assert [argv[0] for argv in slurm.calls[-3:]] == ["squeue", "scontrol", "squeue"]
    assert "--nodelist=n[1-2]" in slurm.calls[-1]  # not all tasks of all arrays


def test_a_job_that_starts_and_ends_between_the_looks_is_not_missing() -> None:
    slurm = FakeSlurm()

    def comes_and_goes(lines: list[str]) -> list[str]:
        slurm.rows = [RUNNING | {"State": "COMPLETED"}]
        return given(lines)

    slurm.change = comes_and_goes
    assert adapter_of(slurm).snapshot().jobs == ()
    assert "--states=all" in slurm.calls[-1]


def test_options_of_sbatch_become_a_waiting_urgent_job() -> None:
    slurm = FakeSlurm(RUNNING)
    slurm.change = lambda lines: [line.replace("State=UP", "State=UP Default=YES") for line in lines]
    adapter = adapter_of(slurm)
    assert isinstance(adapter, SubmissionReader)
    job = adapter.as_submitted(("-N2", "-x", "n[3-8]", "-t", "30"), walltime_s=60.0)
    assert (job.kind, job.state, job.submit_s) == (JobKind.ON_DEMAND, JobState.PENDING, NOW_S)
    assert (job.node_count, job.demand, job.eligible_nodes) == (2, None, frozenset({"n1", "n2"}))
    assert job.walltime_s == 1800.0
    assert adapter.as_submitted(("-n5",), walltime_s=60.0).walltime_s == 60.0
    assert adapter.as_submitted(("-n5",), walltime_s=60.0).node_count == 3, "five CPUs on nodes of two"
    with pytest.raises(ValueError, match="there is no partition 'gpu'; accepted: batch"):
        adapter.as_submitted(("-p", "gpu"), walltime_s=60.0)
    assert slurm.acts == []


def without(part: str) -> Callable[[list[str]], list[str]]:
    return lambda lines: [line for line in lines if part not in line]


@pytest.mark.parametrize("part", ["-end", "NodeName=", "NodeName=n2 ", "PartitionName=", NO_RESERVATIONS])
def test_a_second_command_that_lacks_something_spoils_the_snapshot(part: str) -> None:
    slurm = FakeSlurm(RUNNING)
    slurm.change = without(part)
    with pytest.raises(Unreadable):
        adapter_of(slurm).snapshot()


def test_a_job_on_a_node_that_is_not_listed_spoils_the_snapshot() -> None:
    """slurmctld was started with other nodes between the two commands."""
    with pytest.raises(Unreadable, match="job 17 holds nodes that are not listed"):
        adapter_of(FakeSlurm(RUNNING | {"NodeList": "n[8-9]"})).snapshot()


def test_a_controller_that_does_not_answer_first_is_asked_again() -> None:
    slurm = FakeSlurm(RUNNING)
    slurm.release = "x"
    adapter = adapter_of(slurm)
    with pytest.raises(Unreadable):
        adapter.snapshot()
    slurm.release = "26.05.5"
    assert adapter.snapshot().jobs


# Verbs


def test_a_verb_looks_before_it_acts() -> None:
    slurm = FakeSlurm(RUNNING, ROW | {"JobArrayID": "30"})
    adapter = adapter_of(slurm)
    for_running: dict[str, Callable[[str], None]] = {
        "checkpoint": lambda job_id: adapter.apply(acts.checkpoint(job_id, signal="USR1", walltime_s=0.0)),
        "requeue": lambda job_id: adapter.apply(acts.requeue(job_id)),
        "shrink": lambda job_id: adapter.apply(acts.shrink(job_id, keep_nodes=("n1",), walltime_s=0.0)),
    }
    for_pending: dict[str, Callable[[str], None]] = {
        "prioritise": lambda job_id: adapter.apply(acts.prioritise(job_id)),
        "reserve": lambda job_id: adapter.apply(
            acts.reserve("mw_1", nodes=("n1",), duration_s=60, job_id=job_id)
        ),
    }
    for_any: dict[str, Callable[[str], None]] = {"cancel": lambda job_id: adapter.apply(acts.cancel(job_id))}
    for verb, attempt in {**for_running, **for_pending, **for_any}.items():
        with pytest.raises(Gone, match="is over"):
            attempt("99")
        assert slurm.acts == [], verb
    for attempt in for_running.values():
        with pytest.raises(Gone, match="does not run"):
            attempt("30")
    for attempt in for_pending.values():
        with pytest.raises(Gone, match="does not wait"):
            attempt("17")
    assert slurm.acts == []


def test_a_command_that_succeeds_may_warn() -> None:
    warns = (
        0,
        "",
        "scontrol: error: Unable to contact slurm controller (connect failure), trying the backup",
    )
    slurm = FakeSlurm(RUNNING, script=(warns,))
    adapter_of(slurm).apply(acts.requeue("17"))
    assert slurm.acts == [build.requeue("17")]


@pytest.mark.parametrize("shown", ["UNLIMITED", "INVALID"])
def test_a_job_without_a_time_limit_keeps_none(shown: str) -> None:
    """Nor does one get another limit that has more than a year: squeue does not show it."""
    slurm = FakeSlurm(RUNNING | {"TimeLimit": shown})
    adapter = adapter_of(slurm)
    (job,) = adapter.snapshot().jobs
    longer_s = job.walltime_s + 300.0
    adapter.apply(acts.checkpoint("17", signal="USR1", walltime_s=longer_s))
    assert slurm.acts == [build.signal_batch("17", "USR1")]
    slurm.calls.clear()
    adapter.apply(acts.shrink("17", keep_nodes=("n1",), walltime_s=longer_s))
    assert slurm.acts == [build.resize("17", ("n1",), None)]


def test_a_time_limit_rises_before_the_signal_and_never_falls() -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm)
    adapter.apply(acts.checkpoint("17", signal="USR1", walltime_s=3600))
    assert slurm.acts == [build.signal_batch("17", "USR1")]
    adapter.apply(acts.checkpoint("17", signal="USR2", walltime_s=3661))
    assert slurm.acts[1:] == [build.resize("17", None, 62), build.signal_batch("17", "USR2")]


@pytest.mark.parametrize(("shown", "raised_min"), [("364-23:00:00", 365 * 1440), ("365-00:00:00", None)])
def test_a_time_limit_rises_to_a_year_at_most(shown: str, raised_min: int | None) -> None:
    """Slurm gives a job without a limit one of 365 days; if it had more, squeue would not show it."""
    slurm = FakeSlurm(RUNNING | {"TimeLimit": shown})
    adapter_of(slurm).apply(acts.checkpoint("17", signal="USR1", walltime_s=366 * 86_400.0))
    raised = [] if raised_min is None else [build.resize("17", None, raised_min)]
    assert slurm.acts == [*raised, build.signal_batch("17", "USR1")]


def test_the_signal_goes_where_it_is_to_go() -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm)
    for target in SignalTarget:
        adapter.apply(acts.checkpoint("17", signal="USR2", signal_to=target, walltime_s=0))
    batch, steps = build.signal_batch("17", "USR2"), build.signal_steps("17", "USR2")
    assert slurm.acts == [batch, steps, batch, steps]


@pytest.mark.parametrize(
    "run",
    [
        RunIdentity(requeue_count=1, start_s=1_795_249_000.0),
        RunIdentity(requeue_count=0, start_s=1_795_248_000.0),
        RunIdentity(requeue_count=1, start_s=None),
    ],
)
def test_a_command_for_another_run_is_not_sent(run: RunIdentity) -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm)
    for action in (
        acts.requeue("17", run=run),
        acts.cancel("17", run=run),
        acts.checkpoint("17", signal="USR1", walltime_s=0, run=run),
        acts.shrink("17", keep_nodes=("n1",), walltime_s=7200, run=run),
    ):
        with pytest.raises(Gone, match="has left the run"):
            adapter.apply(action)
    assert slurm.acts == []


@pytest.mark.parametrize("start_s", [1_795_249_000.0, None])
def test_the_run_is_looked_at_before_and_after_a_requeue(start_s: float | None) -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm)
    (job,) = adapter.snapshot().jobs
    assert (job.requeue_count, job.start_s) == (0, 1_795_249_000.0)
    slurm.calls.clear()
    adapter.apply(acts.requeue("17", run=RunIdentity(requeue_count=0, start_s=start_s)))
    assert [argv[0] for argv in slurm.calls] == ["squeue", "scontrol", "scontrol", "squeue"]
    assert slurm.acts == [build.requeue("17")]


def test_a_command_whose_question_got_no_answer_was_not_sent() -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm)
    adapter.snapshot()
    slurm.squeue_answer = NO_CONTROLLER
    for action in (acts.requeue("17"), acts.checkpoint("17", signal="USR1", walltime_s=0)):
        with pytest.raises(Unavailable) as unavailable:
            adapter.apply(action)
        assert not unavailable.value.sent
    assert slurm.acts == []


def test_a_command_without_an_answer_may_have_been_sent() -> None:
    slurm = FakeSlurm(RUNNING, script=(NO_CONTROLLER,))
    with pytest.raises(Unavailable) as unavailable:
        adapter_of(slurm).apply(acts.requeue("17"))
    assert unavailable.value.sent
    # The limit is raised before the signal: without an answer to that, no signal is sent.
    slurm = FakeSlurm(RUNNING, script=(NO_CONTROLLER,))
    with pytest.raises(Unavailable) as unavailable:
        adapter_of(slurm).apply(acts.checkpoint("17", signal="USR1", walltime_s=7200))
    assert not unavailable.value.sent
    assert slurm.acts == [build.resize("17", None, 120)]


def test_a_signal_that_has_reached_a_part_of_a_job_is_not_refused() -> None:
    """A refusal, and a request to try again, would let the signal be sent to that part again."""
    later = (1, "", "scancel: error: Kill job error on job id 17: try again")
    slurm = FakeSlurm(RUNNING, script=(OK, later))
    with pytest.raises(Unavailable, match="only the batch shell of job 17 is signalled"):
        adapter_of(slurm).apply(
            acts.checkpoint("17", signal="USR1", signal_to=SignalTarget.BOTH, walltime_s=0)
        )
    over = (1, "", "scancel: error: Kill job error on job id 17: Invalid job id specified")
    slurm = FakeSlurm(RUNNING, script=(OK, over))
    with pytest.raises(Gone):
        adapter_of(slurm).apply(
            acts.checkpoint("17", signal="USR1", signal_to=SignalTarget.BOTH, walltime_s=0)
        )


def test_a_limit_that_cannot_rise_now_costs_no_checkpoint() -> None:
    later = "Job update not available right now, the DB index is being set, try again in a bit for job 17"
    slurm = FakeSlurm(RUNNING, script=((1, "", later),), release="22.05.8")
    adapter_of(slurm).apply(acts.checkpoint("17", signal="USR1", walltime_s=7200))
    assert slurm.acts[-1] == build.signal_batch("17", "USR1")
    slurm = FakeSlurm(RUNNING, script=((1, "", "Job has already finished for job 17"),))
    with pytest.raises(Gone):
        adapter_of(slurm).apply(acts.checkpoint("17", signal="USR1", walltime_s=7200))
    assert len(slurm.acts) == 1


def test_a_shrink_that_is_done_is_not_done_again() -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm)
    adapter.apply(acts.shrink("17", keep_nodes=("n2", "n1"), walltime_s=1800))
    assert slurm.acts == []
    adapter.apply(acts.shrink("17", keep_nodes=("n2", "n1"), walltime_s=7200))
    assert slurm.acts == [build.resize("17", None, 120)]


def test_a_refusal_keeps_slurm_s_words() -> None:
    later = "Job update not available right now, the DB index is being set, try again in a bit for job 17"
    slurm = FakeSlurm(RUNNING, script=((1, "", later), (1, "", "Invalid node name specified for job 17")))
    slurm.settings["AccountingStorageType"] = "accounting_storage/slurmdbd"
    adapter = adapter_of(slurm)
    with pytest.raises(Rejected, match="try again in a bit") as refusal:
        adapter.apply(acts.shrink("17", keep_nodes=("n1",), walltime_s=7200))
    assert refusal.value.retryable
    with pytest.raises(Rejected, match="Invalid node name") as refusal:
        adapter.apply(acts.shrink("17", keep_nodes=("n2",), walltime_s=7200))
    assert not refusal.value.retryable
