"""The word by which Slurm keeps with a job to which hold it is bound."""

import pytest

from makeway.adapters.slurm import build
from makeway.policies.model import LastHold
from tests import acts
from tests.adapters.slurm.fake_slurm import NOW_S, OK, FakeSlurm, adapter_of
from tests.adapters.slurm.test_adapter_holds import IN_USE, LOST
from tests.adapters.slurm.test_parse import ROW

HOLD = acts.reserve("makeway_c.17", nodes=("n3",), duration_s=60, job_id="17")
WORD = f"makeway:hold=makeway_c.17,since={int(NOW_S)}"
WRITTEN = LastHold(reservation="makeway_c.17", since_s=float(int(NOW_S)))


def test_the_command_that_binds_a_job_writes_the_hold_into_it() -> None:
    slurm = FakeSlurm(ROW | {"admin_comment": "of the site makeway:hold=makeway_c.17,since=5"})
    adapter_of(slurm).apply(HOLD)
    (bound,) = [argv for argv in slurm.calls if "ReservationName=makeway_c.17" in argv and "JobId=17" in argv]
    assert bound[-1] == f"AdminComment=of the site {WORD}"


def test_the_command_that_unbinds_it_takes_the_word_away() -> None:
    row = ROW | {"Reservation": "makeway_c.17", "admin_comment": f"of the site {WORD}"}
    slurm = FakeSlurm(row, script=(IN_USE,))
    adapter_of(slurm).apply(acts.release("makeway_c.17"))
    assert slurm.kept == ["AdminComment=of the site"]


@pytest.mark.parametrize(
    ("row", "release"),
    [({}, "22.05.8"), ({"Reservation": "theirs"}, "24.11.5")],
    ids=["keeps no job from starting", "its own reservation"],
)
def test_no_hold_is_written(row: dict[str, str], release: str) -> None:
    slurm = FakeSlurm(ROW | row, release=release)
    adapter_of(slurm).apply(HOLD)
    assert slurm.kept == []


def test_an_operator_binds_jobs_without_the_word() -> None:
    """It is refused once. It may write Comment, but so may the owner."""
    refused = (1, "", "Access/permission denied for job 17")
    slurm = FakeSlurm(ROW, script=(OK, refused))
    adapter = adapter_of(slurm)
    for _ in range(2):
        adapter.apply(HOLD)
    bound = build.bind("17", "makeway_c.17")
    assert [argv[:4] for argv in slurm.calls if argv[:4] == bound] == [bound] * 3
    assert slurm.kept == [f"AdminComment={WORD}"]


@pytest.mark.parametrize(
    ("comment", "found"),
    [
        (f"of the site {WORD}", WRITTEN),
        (f"makeway:hold=makeway_c.9,since=5 {WORD}", WRITTEN),
        ("makeway:hold=makeway_other.17,since=5", None),
        ("makeway:hold=makeway_c.17,since=soon", None),
        (f"x{WORD}", None),
        ("(null)", None),
    ],
)
def test_the_hold_of_a_job_whose_reservation_is_lost_is_read(comment: str, found: LastHold | None) -> None:
    (job,) = adapter_of(FakeSlurm(LOST | {"admin_comment": comment})).snapshot().jobs
    assert job.last_hold == found


def test_what_a_user_can_write_does_not_count() -> None:
    (job,) = adapter_of(FakeSlurm(LOST | {"Comment": WORD})).snapshot().jobs
    assert job.last_hold is None
