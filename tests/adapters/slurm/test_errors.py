"""Slurm's words, as printed by 22.05, 24.11 or 26.05, and the errors that they stand for."""

import pytest

from makeway.adapters.command import CompletedCommand
from makeway.adapters.protocol import AdapterError, Gone, Rejected, Unavailable
from makeway.adapters.slurm.errors import in_use, refusal, unknown_reservation

PENDING = "salloc: Pending job allocation 3 salloc: job 3 queued and waiting for resources"


def failed(stderr: str, stdout: str = "") -> CompletedCommand:
    return CompletedCommand(argv=("scontrol", "update"), returncode=1, stdout=stdout, stderr=stderr)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("Invalid job id specified for job 99999", Gone),
        ("slurm_load_jobs error: Invalid job id specified", Gone),
        ("scancel: error: Kill job error on job id 16: Invalid job id specified", Gone),
        ("Job is no longer pending execution for job 14", Gone),
        ("Job has already finished for job 16", Gone),
        ("scancel: error: Kill job error on job id 3: Job/step already completing or completed", Gone),
        ("squeue: error: Unable to contact slurm controller (connect failure)", Unavailable),
        ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)", Unavailable),
        ("slurm_update error: Socket timed out on send/recv operation", Unavailable),
        ("Unexpected message received for job 5", Unavailable),
        ("slurm_load_jobs error: Zero Bytes were transmitted or received", Unavailable),
        ("slurm_load_node error: Slurm backup controller in standby mode", Unavailable),
        ("scontrol: error: auth_p_create: Munge encode failed: Failed to access socket", Unavailable),
        ("Invalid node name specified for job 30", Rejected),
        ("Requested operation is presently disabled for job 17", Rejected),
        ("Error creating the reservation: Requested reservation overlaps with another reservation", Rejected),
        ("Access/permission denied for job 5", Rejected),
        (f"{PENDING} salloc: error: Unable to allocate resources: Connection timed out", Rejected),
        ("salloc: error: Unable to allocate resources: Connection timed out", Unavailable),
        (f"{PENDING} salloc: error: Unable to contact slurm controller (connect failure)", Unavailable),
    ],
)
def test_what_words_mean(words: str, error: type[AdapterError]) -> None:
    found = refusal(failed(words))
    assert type(found) is error
    assert words in str(found)
    assert not getattr(found, "retryable", False)


@pytest.mark.parametrize(
    "words",
    [
        "Job update not available right now, the DB index is being set, try again in a bit for job 30",
        "delete_reservation ReservationName=mw_20: Requested reservation is in use",
        "Job can not be altered now, try again later for job 5",
        "Slurm temporarily unable to accept job, sleeping and retrying",
    ],
)
def test_what_asks_to_be_asked_again(words: str) -> None:
    found = refusal(failed(words))
    assert isinstance(found, Rejected)
    assert found.retryable


def test_a_failure_without_words_names_its_status() -> None:
    assert str(refusal(failed(""))) == "scontrol: exit status 1"
    assert str(refusal(failed("", "said on the output"))) == "scontrol: said on the output"


def test_reservations() -> None:
    assert in_use(failed("delete_reservation ReservationName=a: Requested reservation is in use"))
    assert unknown_reservation(
        failed("delete_reservation ReservationName=a: Requested reservation is invalid")
    )
    assert not in_use(failed(""))
    assert not unknown_reservation(failed(""))


@pytest.mark.parametrize("words", ["", "Access/permission denied for job 5"])
def test_a_command_that_was_killed_may_have_been_carried_out(words: str) -> None:
    """As at the stop of the service, which ends the commands of the daemon too."""
    done = CompletedCommand(argv=("scancel",), returncode=-15, stdout="", stderr=words)
    found = refusal(done)
    assert isinstance(found, Unavailable)
    assert found.sent
    assert "signal 15" in str(found)
