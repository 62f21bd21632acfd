"""Reservations and the queue on scripted answers: what the adapter sends, and what it makes of refusals."""

from collections.abc import Mapping
from typing import Any

import pytest

from makeway.adapters.protocol import Gone, Rejected
from makeway.adapters.slurm import build
from tests import acts
from tests.adapters.slurm.fake_slurm import (
    NOW_S,
    OK,
    RUNNING,
    Answer,
    FakeSlurm,
    adapter_of,
    made_reservation,
)
from tests.adapters.slurm.test_parse import ROW


def test_a_reservation_that_cannot_be_bound_is_taken_away_again() -> None:
    slurm = FakeSlurm(ROW, script=(OK, (1, "", "Job has already finished for job 17")))
    with pytest.raises(Gone):
        adapter_of(slurm).apply(acts.reserve("makeway_c.17", nodes=("n3",), duration_s=60, job_id="17"))
    assert slurm.acts[-1] == build.delete_reservation("makeway_c.17")


def test_a_reservation_that_is_there_is_changed() -> None:
    slurm = FakeSlurm(ROW, script=((1, "", "Requested reservation overlaps with another reservation"),))
    lasts: dict[str, Any] = {"nodes": ("n3",), "duration_s": 60, "until_s": NOW_S + 9}
    adapter_of(slurm).apply(acts.reserve("makeway_c.17", job_id="17", **lasts))
    update = build.update_reservation("makeway_c.17", users=("1000",), **lasts)
    assert slurm.acts[1:] == [update, build.bind("17", "makeway_c.17")]
    assert slurm.acts[0] == build.create_reservation("makeway_c.17", users=("1000",), purge=True, **lasts)


def test_a_reservation_that_overlaps_says_so() -> None:
    slurm = FakeSlurm(ROW)
    adapter_of(slurm).apply(
        acts.reserve("makeway_c.17", nodes=("n3",), duration_s=60, job_id="17", overlap=True)
    )
    assert slurm.acts[0][-1] == "Flags=IGNORE_JOBS,NO_HOLD_JOBS_AFTER,PURGE_COMP=1,OVERLAP"


def test_a_reservation_for_an_announced_job_binds_nothing() -> None:
    slurm = FakeSlurm(ROW)
    name = "makeway_c.notice-1"
    lasts: dict[str, Any] = {"nodes": ("n3",), "duration_s": 60}
    adapter_of(slurm).apply(acts.reserve(name, job_id=None, user="ada", **lasts))
    assert slurm.acts == [build.create_reservation(name, users=("ada",), purge=False, **lasts)]


@pytest.mark.parametrize("user", ["", "-ada", "ada,eve", "ada eve", "+ada", "ada=1", "ada\n"])
def test_a_reservation_is_for_nobody_whose_name_is_no_name(user: str) -> None:
    slurm = FakeSlurm(ROW)
    with pytest.raises(Rejected):
        adapter_of(slurm).apply(
            acts.reserve("makeway_c.notice-1", nodes=("n3",), duration_s=60, job_id=None, user=user)
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
        adapter_of(slurm).apply(acts.reserve("makeway_c.17", nodes=("n3",), duration_s=60, job_id="17"))


def test_a_job_that_started_elsewhere_while_it_was_bound_is_let_go() -> None:
    slurm = FakeSlurm(ROW)

    class Racing(FakeSlurm):
        def _answer(self, argv: tuple[str, ...], stdin: bytes, environment: Mapping[str, str]) -> Answer:
            if argv[:2] == ("scontrol", "create"):
                self.rows = [RUNNING]
            return super()._answer(argv, stdin, environment)

    slurm = Racing(ROW)
    with pytest.raises(Gone, match="does not wait"):
        adapter_of(slurm).apply(acts.reserve("makeway_c.17", nodes=("n7", "n8"), duration_s=60, job_id="17"))
    assert slurm.acts[-2:] == [build.bind("17", None), build.delete_reservation("makeway_c.17")]
    slurm = Racing(ROW)
    adapter_of(slurm).apply(acts.reserve("makeway_c.17", nodes=("n1", "n2"), duration_s=60, job_id="17"))
    assert slurm.acts[-1] == build.bind("17", "makeway_c.17")


IN_USE: Answer = (1, "", "delete_reservation ReservationName=makeway_c.17: Requested reservation is in use")


def test_a_reservation_that_is_forgotten_before_its_job_is_bound_is_made_again_later() -> None:
    forgotten = (1, "", "Requested reservation is invalid for job 17")
    slurm = FakeSlurm(ROW, script=(OK, forgotten))
    with pytest.raises(Rejected) as refusal:
        adapter_of(slurm).apply(acts.reserve("makeway_c.17", nodes=("n1",), duration_s=60.0, job_id="17"))
    assert refusal.value.retryable


def test_release_unbinds_the_waiting_jobs_first() -> None:
    slurm = FakeSlurm(ROW | {"Reservation": "makeway_c.17"}, script=(IN_USE,))
    adapter_of(slurm).apply(acts.release("makeway_c.17"))
    delete = build.delete_reservation("makeway_c.17")
    assert slurm.acts == [delete, build.bind("17", None), delete]


def test_release_waits_for_a_job_that_is_about_to_end() -> None:
    waiting = ROW | {"Reservation": "makeway_c.17", "JobArrayID": "18"}
    completing = RUNNING | {"Reservation": "makeway_c.17", "State": "COMPLETING"}
    slurm = FakeSlurm(waiting, completing, script=(IN_USE,))
    with pytest.raises(Rejected) as refusal:
        adapter_of(slurm).apply(acts.release("makeway_c.17"))
    assert refusal.value.retryable
    assert slurm.acts == [build.delete_reservation("makeway_c.17")]


def test_release_lets_the_running_job_run_on_without_it() -> None:
    slurm = FakeSlurm(RUNNING | {"Reservation": "makeway_c.17"}, script=(IN_USE,))
    adapter_of(slurm).apply(acts.release("makeway_c.17"))
    assert slurm.acts == [
        build.delete_reservation("makeway_c.17"),
        build.bind(RUNNING["JobArrayID"], None),
        build.delete_reservation("makeway_c.17"),
    ]


# A reservation that slurmctld has lost

LOST = ROW | {"State": "RESV_DEL_HOLD", "Reason": "Reservation (null) is invalid", "Reservation": "(null)"}


@pytest.mark.parametrize(
    ("release", "own", "command"),
    [
        ("24.11.5", None, build.bind("17", None)),
        ("26.05.5", None, build.restore_priority("17")),
        ("24.11.5", "theirs", build.bind("17", None, own=("theirs",))),
        ("26.05.5", "theirs", build.bind("17", None, own=("theirs",))),
    ],
)
def test_the_job_of_a_lost_hold_goes_back_to_the_queue(
    release: str, own: str | None, command: tuple[str, ...]
) -> None:
    slurm = FakeSlurm(LOST, release=release)
    adapter_of(slurm).apply(acts.release("makeway_c.17", job_id="17", own=own, lost=True))
    assert slurm.acts == [command]


@pytest.mark.parametrize("changes", [{"Reason": "Resources"}, {"State": "RUNNING", "NodeList": "n1"}])
def test_nothing_is_done_for_a_job_that_is_kept_from_nothing(changes: dict[str, str]) -> None:
    slurm = FakeSlurm(LOST | changes)
    with pytest.raises(Gone):
        adapter_of(slurm).apply(acts.release("makeway_c.17", job_id="17", lost=True))
    assert slurm.acts == []


def test_a_job_whose_own_reservation_is_lost_too_stays_as_it_is() -> None:
    slurm = FakeSlurm(LOST, script=((1, "", "Requested reservation is invalid for job 17"),))
    with pytest.raises(Rejected, match="invalid") as refusal:
        adapter_of(slurm).apply(acts.release("makeway_c.17", job_id="17", own="theirs", lost=True))
    assert not refusal.value.retryable


# The reservation that a job was submitted with


def reservation_of(slurm: FakeSlurm) -> str | None:
    (job,) = adapter_of(slurm).snapshot().jobs
    return job.reservation


def test_a_job_stays_bound_to_the_reservation_that_it_was_submitted_with() -> None:
    slurm = FakeSlurm(ROW | {"Reservation": "their own"})
    assert reservation_of(slurm) == "their own"
    adapter_of(slurm).apply(acts.reserve("makeway_c.17", nodes=("n1",), duration_s=60, job_id="17"))
    assert slurm.acts[-1] == build.bind("17", "makeway_c.17", own=("their own",))
    assert slurm.acts[-1][-1] == "ReservationName=makeway_c.17,their own"
    # Slurm would remove the hold while the job runs in it.
    assert slurm.acts[-2][-1] == "Flags=IGNORE_JOBS,NO_HOLD_JOBS_AFTER"
    slurm.rows[0]["Reservation"] = "makeway_c.17,their own"
    assert reservation_of(slurm) == "makeway_c.17"


def test_release_leaves_a_job_the_reservation_that_it_was_submitted_with() -> None:
    """The jobs of one reservation do not include those of several on 24.11, as here."""
    slurm = FakeSlurm(ROW | {"Reservation": "makeway_c.17,their own"}, script=(IN_USE,))
    adapter_of(slurm).apply(acts.release("makeway_c.17"))
    delete = build.delete_reservation("makeway_c.17")
    assert slurm.acts == [delete, build.bind("17", None, own=("their own",)), delete]


@pytest.mark.parametrize("release", ["22.05.8", "24.11.5", "26.05.5"])
@pytest.mark.parametrize(
    ("ends_in_s", "flags", "left"),
    [
        (3000.0, "SPEC_NODES", ()),
        (3000.0, "FLEX,SPEC_NODES", ("theirs",)),
        (4000.0, "SPEC_NODES", ("theirs",)),
    ],
)
def test_a_job_that_runs_is_left_no_reservation_with_which_it_would_be_ended(
    release: str, ends_in_s: float, flags: str, left: tuple[str, ...]
) -> None:
    """It runs for an hour, on other nodes than those of its reservation."""
    bound = "makeway_c.17" if release == "22.05.8" else "makeway_c.17,theirs"
    runs = {"State": "RUNNING", "StartTime": f"{NOW_S:.0f}", "NodeList": "n1", "Reservation": bound}
    slurm = FakeSlurm(ROW | runs, release=release, script=(IN_USE,))
    ends = f"{NOW_S + ends_in_s:.0f}"
    slurm.reservations["theirs"] = made_reservation("theirs", Nodes="n2", EndTime=ends, Flags=flags)
    adapter = adapter_of(slurm)
    adapter.snapshot()
    adapter.apply(acts.release("makeway_c.17", job_id="17", own="theirs"))
    delete = build.delete_reservation("makeway_c.17")
    assert slurm.acts == [delete, build.bind("17", None, own=left), delete]


def test_a_job_whose_own_reservation_is_gone_is_left_without_one() -> None:
    gone = (1, "", "Requested reservation is invalid for job 17")
    slurm = FakeSlurm(ROW | {"Reservation": "makeway_c.17,theirs"}, script=(IN_USE, gone))
    adapter_of(slurm).apply(acts.release("makeway_c.17"))
    delete = build.delete_reservation("makeway_c.17")
    bound = (build.bind("17", None, own=("theirs",)), build.bind("17", None))
    assert slurm.acts == [delete, *bound, delete]


def test_on_22_05_the_release_says_which_reservation_the_job_was_submitted_with() -> None:
    """There squeue shows the first reservation alone. Another job that is bound to the hold gets none."""
    rows = (ROW | {"Reservation": "makeway_c.17"}, ROW | {"JobArrayID": "18", "Reservation": "makeway_c.17"})
    slurm = FakeSlurm(*rows, release="22.05.8", script=(IN_USE,))
    adapter_of(slurm).apply(acts.release("makeway_c.17", job_id="17", own="theirs,others"))
    bound = (build.bind("17", None, own=("theirs", "others")), build.bind("18", None))
    delete = build.delete_reservation("makeway_c.17")
    assert slurm.acts == [delete, *bound, delete]


def test_on_22_05_a_hold_that_changes_says_it_too() -> None:
    slurm = FakeSlurm(ROW | {"Reservation": "makeway_c.17"}, release="22.05.8")
    adapter_of(slurm).apply(
        acts.reserve("makeway_c.17", nodes=("n2",), duration_s=60, job_id="17", own="theirs")
    )
    assert slurm.acts[-1] == build.bind("17", "makeway_c.17", own=("theirs",))


def test_what_the_cluster_shows_counts_more_than_what_the_action_says() -> None:
    slurm = FakeSlurm(ROW | {"Reservation": "makeway_c.17,theirs"}, script=(IN_USE,))
    adapter_of(slurm).apply(acts.release("makeway_c.17", job_id="17", own="former"))
    assert build.bind("17", None, own=("theirs",)) in slurm.acts


def test_a_reservation_that_cannot_be_bound_leaves_the_job_its_own() -> None:
    slurm = FakeSlurm(ROW | {"Reservation": "theirs"}, script=(OK, (1, "", "Access/permission denied")))
    with pytest.raises(Rejected):
        adapter_of(slurm).apply(acts.reserve("makeway_c.17", nodes=("n1",), duration_s=60, job_id="17"))
    assert slurm.acts[-2:] == [
        build.bind("17", None, own=("theirs",)),
        build.delete_reservation("makeway_c.17"),
    ]


OTHERS = {"Flags": "SPEC_NODES"}


def test_a_reservation_of_another_shape_is_left_alone_whatever_its_name() -> None:
    """Its name was taken between the last snapshot and now, or the journal is wrong."""
    for name in ("makeway_c.17", "mw_1"):
        slurm = FakeSlurm(ROW)
        slurm.reservations[name] = made_reservation(name, **OTHERS)
        for action in (acts.release(name), acts.expand("17", nodes=("n3",), reservation=name)):
            slurm.rows = [RUNNING]
            with pytest.raises(Rejected, match="not made by this makeway"):
                adapter_of(slurm).apply(action)
        assert slurm.acts == []
        taken = (1, "", "Error creating the reservation: Duplicate reservation name")
        slurm = FakeSlurm(ROW, script=(taken,))
        slurm.reservations[name] = made_reservation(name, **OTHERS)
        with pytest.raises(Rejected, match="not made by this makeway"):
            adapter_of(slurm).apply(acts.reserve(name, nodes=("n3",), duration_s=60, job_id="17"))
        assert [argv[1] for argv in slurm.acts] == ["create"]


def test_a_release_looks_first_and_a_look_that_fails_is_no_permission() -> None:
    slurm = FakeSlurm(ROW)
    slurm.reservation_answer = (1, "", "slurm_load_reservations error: Access/permission denied")
    with pytest.raises(Rejected, match="denied"):
        adapter_of(slurm).apply(acts.release("makeway_c.17"))
    assert slurm.acts == []
    slurm.reservation_answer = (1, "Reservation makeway_c.17 not found\n", "")
    adapter_of(slurm).apply(acts.release("makeway_c.17"))
    assert slurm.acts == [build.delete_reservation("makeway_c.17")]


def test_a_snapshot_says_which_reservations_are_makeway_s() -> None:
    slurm = FakeSlurm(ROW | {"Reservation": "mw_17"})
    lines = (
        made_reservation("makeway_c.4"),
        made_reservation("makeway_c.5", **OTHERS),
        made_reservation("makeway_test.6"),
        made_reservation("mw_1", **OTHERS),
        made_reservation("mw_17"),
        made_reservation("mw_18"),
    )
    slurm.reservations = {line.split()[0].partition("=")[2]: line for line in lines}
    cluster = adapter_of(slurm).snapshot()
    assert cluster.reservation_prefix == "makeway_c."
    assert [one.name for one in cluster.reservations if one.by_makeway] == ["makeway_c.4", "mw_17"]
    assert cluster.jobs[0].reservation == "mw_17"


def test_release_of_nothing_is_gone() -> None:
    slurm = FakeSlurm(
        script=((1, "", "delete_reservation ReservationName=makeway_c.17: Requested reservation is invalid"),)
    )
    with pytest.raises(Gone):
        adapter_of(slurm).apply(acts.release("makeway_c.17"))


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


@pytest.mark.parametrize(
    "reason", ["JobHeldUser", "launch_failure_limit_exceeded_requeued_held", "BadConstraints", "Dependency"]
)
def test_a_held_job_stays_held(reason: str) -> None:
    """The priority says it, whatever the reason is."""
    slurm = FakeSlurm(ROW | {"Reason": reason, "PriorityLong": "0"})
    with pytest.raises(Rejected, match="is held"):
        adapter_of(slurm).apply(acts.prioritise("17"))
    assert slurm.acts == []
