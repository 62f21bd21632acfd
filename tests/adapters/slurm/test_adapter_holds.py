"""Reservations and the queue on scripted answers: what the adapter sends, and what it makes of refusals."""

from collections.abc import Mapping

import pytest

from makeway.adapters.protocol import Gone, Rejected
from makeway.adapters.slurm import build
from tests import acts
from tests.adapters.slurm.fake_slurm import OK, RUNNING, Answer, FakeSlurm, adapter_of
from tests.adapters.slurm.test_parse import ROW


def test_a_reservation_that_cannot_be_bound_is_taken_away_again() -> None:
    slurm = FakeSlurm(ROW, script=(OK, (1, "", "Job has already finished for job 17")))
    with pytest.raises(Gone):
        adapter_of(slurm).apply(acts.reserve("mw_1", nodes=("n3",), duration_s=60, job_id="17"))
    assert slurm.acts[-1] == build.delete_reservation("mw_1")


def test_a_reservation_that_is_there_is_changed() -> None:
    slurm = FakeSlurm(ROW, script=((1, "", "Requested reservation overlaps with another reservation"),))
    adapter_of(slurm).apply(acts.reserve("mw_1", nodes=("n3",), duration_s=60, job_id="17"))
    update = build.update_reservation("mw_1", nodes=("n3",), duration_s=60, users=("1000",))
    assert slurm.acts[1:] == [update, build.bind("17", "mw_1")]


def test_a_reservation_that_overlaps_says_so() -> None:
    slurm = FakeSlurm(ROW)
    adapter_of(slurm).apply(acts.reserve("mw_1", nodes=("n3",), duration_s=60, job_id="17", overlap=True))
    assert slurm.acts[0][-1] == "Flags=IGNORE_JOBS,NO_HOLD_JOBS_AFTER,PURGE_COMP=1,OVERLAP"


def test_a_reservation_for_an_announced_job_binds_nothing() -> None:
    slurm = FakeSlurm(ROW)
    adapter_of(slurm).apply(
        acts.reserve("mw_notice-1", nodes=("n3",), duration_s=60, job_id=None, user="ada")
    )
    assert slurm.acts == [
        build.create_reservation("mw_notice-1", nodes=("n3",), duration_s=60, users=("ada",), purge=False)
    ]


@pytest.mark.parametrize("user", ["", "-ada", "ada,eve", "ada eve", "+ada", "ada=1", "ada\n"])
def test_a_reservation_is_for_nobody_whose_name_is_no_name(user: str) -> None:
    slurm = FakeSlurm(ROW)
    with pytest.raises(Rejected):
        adapter_of(slurm).apply(
            acts.reserve("mw_notice-1", nodes=("n3",), duration_s=60, job_id=None, user=user)
        )
    assert slurm.acts == []


def test_a_reservation_that_cannot_be_made_is_refused_in_the_words_of_its_making() -> None:
    overlap = (
        1,
        "",
        "Error creating the reservation: Requested reservation overlaps with another reservation",
    )
    slurm = FakeSlurm(ROW, script=(overlap, (1, "", "slurm_update error: Requested reservation is invalid")))
    with pytest.raises(Rejected, match="overlaps"):
        adapter_of(slurm).apply(acts.reserve("mw_1", nodes=("n3",), duration_s=60, job_id="17"))


def test_a_job_that_started_elsewhere_while_it_was_bound_is_let_go() -> None:
    slurm = FakeSlurm(ROW)

    class Racing(FakeSlurm):
        def _answer(self, argv: tuple[str, ...], stdin: bytes, environment: Mapping[str, str]) -> Answer:
            if argv[:2] == ("scontrol", "create"):
                self.rows = [RUNNING]
            return super()._answer(argv, stdin, environment)

    slurm = Racing(ROW)
    with pytest.raises(Gone, match="does not wait"):
        adapter_of(slurm).apply(acts.reserve("mw_1", nodes=("n7", "n8"), duration_s=60, job_id="17"))
    assert slurm.acts[-2:] == [build.bind("17", None), build.delete_reservation("mw_1")]
    slurm = Racing(ROW)
    adapter_of(slurm).apply(acts.reserve("mw_1", nodes=("n1", "n2"), duration_s=60, job_id="17"))
    assert slurm.acts[-1] == build.bind("17", "mw_1")


IN_USE: Answer = (1, "", "delete_reservation ReservationName=mw_1: Requested reservation is in use")


def test_a_reservation_that_is_forgotten_before_its_job_is_bound_is_made_again_later() -> None:
    forgotten = (1, "", "Requested reservation is invalid for job 17")
    slurm = FakeSlurm(ROW, script=(OK, forgotten))
    with pytest.raises(Rejected) as refusal:
        adapter_of(slurm).apply(acts.reserve("mw_1", nodes=("n1",), duration_s=60.0, job_id="17"))
    assert refusal.value.retryable


def test_release_unbinds_the_waiting_jobs_first() -> None:
    slurm = FakeSlurm(ROW | {"Reservation": "mw_1"}, script=(IN_USE,))
    adapter_of(slurm).apply(acts.release("mw_1"))
    delete = build.delete_reservation("mw_1")
    assert slurm.acts == [delete, build.bind("17", None), delete]


def test_release_waits_for_a_job_that_is_about_to_end() -> None:
    waiting = ROW | {"Reservation": "mw_1", "JobArrayID": "18"}
    completing = RUNNING | {"Reservation": "mw_1", "State": "COMPLETING"}
    slurm = FakeSlurm(waiting, completing, script=(IN_USE,))
    with pytest.raises(Rejected) as refusal:
        adapter_of(slurm).apply(acts.release("mw_1"))
    assert refusal.value.retryable
    assert slurm.acts == [build.delete_reservation("mw_1")]


def test_release_lets_the_running_job_run_on_without_it() -> None:
    slurm = FakeSlurm(RUNNING | {"Reservation": "mw_1"}, script=(IN_USE,))
    adapter_of(slurm).apply(acts.release("mw_1"))
    assert slurm.acts == [
        build.delete_reservation("mw_1"),
        build.bind(RUNNING["JobArrayID"], None),
        build.delete_reservation("mw_1"),
    ]


# The reservation that a job was submitted with


def reservation_of(slurm: FakeSlurm) -> str | None:
    (job,) = adapter_of(slurm).snapshot().jobs
    return job.reservation


def test_a_job_stays_bound_to_the_reservation_that_it_was_submitted_with() -> None:
    slurm = FakeSlurm(ROW | {"Reservation": "their own"})
    assert reservation_of(slurm) == "their own"
    adapter_of(slurm).apply(acts.reserve("mw_1", nodes=("n1",), duration_s=60, job_id="17"))
    assert slurm.acts[-1] == build.bind("17", "mw_1", own=("their own",))
    assert slurm.acts[-1][-1] == "ReservationName=mw_1,their own"
    slurm.rows[0]["Reservation"] = "mw_1,their own"
    assert reservation_of(slurm) == "mw_1"


def test_release_leaves_a_job_the_reservation_that_it_was_submitted_with() -> None:
    """The jobs of one reservation do not include those of several on 24.11, as here."""
    slurm = FakeSlurm(ROW | {"Reservation": "mw_1,their own"}, script=(IN_USE,))
    adapter_of(slurm).apply(acts.release("mw_1"))
    delete = build.delete_reservation("mw_1")
    assert slurm.acts == [delete, build.bind("17", None, own=("their own",)), delete]


def test_a_job_whose_own_reservation_is_gone_is_left_without_one() -> None:
    gone = (1, "", "Requested reservation is invalid for job 17")
    slurm = FakeSlurm(ROW | {"Reservation": "mw_1,theirs"}, script=(IN_USE, gone))
    adapter_of(slurm).apply(acts.release("mw_1"))
    delete = build.delete_reservation("mw_1")
    bound = (build.bind("17", None, own=("theirs",)), build.bind("17", None))
    assert slurm.acts == [delete, *bound, delete]


def test_on_22_05_makeway_itself_remembers_the_reservation_until_the_job_is_over() -> None:
    """There squeue shows the first reservation alone."""
    slurm = FakeSlurm(ROW | {"Reservation": "theirs"}, release="22.05.8")
    adapter = adapter_of(slurm)
    adapter.apply(acts.reserve("mw_1", nodes=("n1",), duration_s=60, job_id="17"))
    slurm.rows[0]["Reservation"] = "mw_1"
    slurm.script = [IN_USE]
    adapter.apply(acts.release("mw_1"))
    assert build.bind("17", None, own=("theirs",)) in slurm.acts
    slurm.rows.clear()
    adapter.snapshot()
    slurm.rows = [ROW | {"Reservation": "mw_1"}]
    slurm.script = [IN_USE]
    adapter.apply(acts.release("mw_1"))
    assert slurm.acts[-2] == build.bind("17", None)


def test_a_reservation_that_cannot_be_bound_leaves_the_job_its_own() -> None:
    slurm = FakeSlurm(ROW | {"Reservation": "theirs"}, script=(OK, (1, "", "Access/permission denied")))
    with pytest.raises(Rejected):
        adapter_of(slurm).apply(acts.reserve("mw_1", nodes=("n1",), duration_s=60, job_id="17"))
    assert slurm.acts[-2:] == [build.bind("17", None, own=("theirs",)), build.delete_reservation("mw_1")]


def test_release_of_nothing_is_gone() -> None:
    slurm = FakeSlurm(
        script=((1, "", "delete_reservation ReservationName=mw_1: Requested reservation is invalid"),)
    )
    with pytest.raises(Gone):
        adapter_of(slurm).apply(acts.release("mw_1"))


def test_prioritise_lifts_the_delay_of_a_requeued_job_alone() -> None:
    slurm = FakeSlurm(ROW)
    adapter_of(slurm).apply(acts.prioritise("17"))
    assert slurm.acts == [build.to_front("17", requeued=False, node_count=None)]
    slurm = FakeSlurm(ROW | {"RestartCnt": "2"})
    adapter_of(slurm).apply(acts.prioritise("17"))
    assert slurm.acts == [build.to_front("17", requeued=True, node_count=None)]


def test_a_place_is_a_priority_below_the_front_and_changes_nothing_else() -> None:
    slurm = FakeSlurm(ROW | {"RestartCnt": "2"})
    adapter_of(slurm).apply(acts.prioritise("17", queue_position=3))
    assert slurm.acts == [("scontrol", "update", "JobId=17", f"Priority={build.FRONT_PRIORITY - 4}")]


def test_prioritise_gives_a_job_its_size_back() -> None:
    slurm = FakeSlurm(
        ROW | {"RestartCnt": "1", "tres-alloc": "cpu=6,mem=6000M,node=6,billing=6"}, release="22.05.8"
    )
    adapter_of(slurm).apply(acts.prioritise("17"))
    assert slurm.acts == [build.to_front("17", requeued=True, node_count=6)]


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING", "FAILED", "COMPLETED"])
def test_a_requeue_that_slurm_forgot_is_repeated(state: str) -> None:
    """Also if the job ends between the look and the command, which therefore takes ended jobs too."""
    slurm = FakeSlurm(RUNNING | {"State": state, "RestartCnt": "1"})
    adapter_of(slurm).apply(acts.requeue("17", forgotten_run=1))
    assert slurm.acts == [("scontrol", "requeue", "17")]


@pytest.mark.parametrize(
    "rows",
    [
        (),
        (RUNNING | {"State": "CANCELLED", "RestartCnt": "2"},),
        (RUNNING | {"State": "SUSPENDED", "RestartCnt": "1"},),
        (ROW | {"RestartCnt": "1"},),
    ],
    ids=["gone", "cancelled", "suspended", "pending"],
)
def test_a_requeue_that_slurm_remembers_is_not_repeated(rows: tuple[dict[str, str], ...]) -> None:
    slurm = FakeSlurm(*rows)
    with pytest.raises(Gone):
        adapter_of(slurm).apply(acts.requeue("17", forgotten_run=1))
    assert slurm.acts == []


@pytest.mark.parametrize("row", [RUNNING, ROW | {"PriorityLong": str(build.PLANNED_PRIORITY - 7)}])
def test_a_job_that_runs_or_has_a_place_gets_its_priority_back(row: dict[str, str]) -> None:
    slurm = FakeSlurm(row)
    adapter_of(slurm).apply(acts.restore_priority("17"))
    assert slurm.acts == [("scontrol", "release", "17")]


@pytest.mark.parametrize("priority", ["0", str(build.PLANNED_PRIORITY - 7)])
def test_a_priority_that_is_given_back_lifts_no_hold(priority: str) -> None:
    slurm = FakeSlurm(ROW | {"Reason": "JobHeldUser", "PriorityLong": priority})
    with pytest.raises(Rejected, match="is held"):
        adapter_of(slurm).apply(acts.restore_priority("17"))
    assert slurm.acts == []


@pytest.mark.parametrize("priority", [build.FRONT_PRIORITY, 1])
def test_a_waiting_job_without_a_place_has_nothing_to_give_back(priority: int) -> None:
    slurm = FakeSlurm(ROW | {"PriorityLong": str(priority)})
    with pytest.raises(Gone, match="has no queue position"):
        adapter_of(slurm).apply(acts.restore_priority("17"))
    assert slurm.acts == []


def test_a_held_job_stays_held() -> None:
    slurm = FakeSlurm(ROW | {"Reason": "JobHeldUser", "PriorityLong": "0"})
    with pytest.raises(Rejected, match="is held"):
        adapter_of(slurm).apply(acts.prioritise("17"))
    assert slurm.acts == []
