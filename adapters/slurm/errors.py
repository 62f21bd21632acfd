"""What Slurm's refusals mean: its words, as one of the protocol's errors. A pure function of text.

The words are those of slurm_errno.c, seen on 22.05, 24.11 and 26.05.
"""

import re
from dataclasses import replace

from makeway.adapters.command import CompletedCommand
from makeway.adapters.protocol import AdapterError, Gone, Rejected, Unavailable

_ODD_ANSWER = "Unexpected message received"
_NO_ANSWER = (
    "Unable to contact slurm controller",
    "Unable to contact Slurm controller",
    "Unable to establish control machine address",
    "Unable to establish controller machine",
    "Could not establish a configuration source",
    "Could not connect",
    "connect failure",
    "Connection refused",
    "Connection timed out",
    "Socket timed out",
    "Transport endpoint is not connected",
    "Communication connection failure",
    "Message receive failure",
    "Message send failure",
    "Zero Bytes were transmitted or received",
    "Insane message length",
    _ODD_ANSWER,
    "standby mode",
    "Protocol authentication error",
    "Munge",
    "Invalid authentication credential",
    "Slurmctld is not running",
    "not in a usable state",
)
_WAITED_IN_VAIN = ("Pending job allocation", "Unable to allocate resources: Connection timed out")
"""What salloc --immediate says that got no nodes in time: slurmctld has answered it, and its job is gone."""
_OVER = (
    "Invalid job id specified",
    "Job has already finished",
    "Job/step already completing or completed",
    "Job is no longer pending execution",
    "Job is pending execution",
    "Job is not running",
)
_ASIDES = re.compile(r"^scancel: (?:debug\d?: .*|\S+ +: .*|\w+/\w+: \w+: .*)\n?", re.MULTILINE)
"""What `scancel -vvv` says of its options, of plugins, and of attempts that it goes on from."""
_FORBIDDEN = ("denied", "Invalid user", "not authorized")
_NO_RESERVATION = ("Requested reservation is invalid",)
_LATER = (
    "try again",
    "Requested reservation is in use",
    "temporarily",
    "Job can not be altered now",
    "Duplicate job id",
    "busy",
)


def broke_off(done: CompletedCommand) -> bool:
    """Whether a reading command says that it failed, whatever its exit status: a site's own script around it
    may have another one.
    """
    return re.search(r"^slurm_load_\w+ error", done.stderr, re.MULTILINE) is not None


def in_use(done: CompletedCommand) -> bool:
    """Whether a reservation was not deleted because a job, running or waiting, is bound to it."""
    return "Requested reservation is in use" in done.words


def unknown_reservation(done: CompletedCommand) -> bool:
    """Whether there is no reservation of that name."""
    return any(words in done.words for words in _NO_RESERVATION)


def absent_reservation(done: CompletedCommand) -> bool:
    """Whether a reservation was not shown because there is none of that name."""
    return (
        done.returncode != 0
        and re.search(r"^Reservation \S+ not found", done.words, re.MULTILINE) is not None
    )


def without_account(done: CompletedCommand) -> bool:
    """Whether a reservation was not made because its user has no account on this cluster."""
    return done.returncode != 0 and "Invalid account" in done.words


def denied(done: CompletedCommand) -> bool:
    """Whether a command was refused because makeway's level does not allow it."""
    return done.returncode != 0 and "denied" in done.words


def forbidden(done: CompletedCommand) -> bool:
    """Whether a command was refused that Slurm allows to root and SlurmUser. slurmctld logs each attempt of
    another user, so that there should be no second one.
    """
    return done.returncode != 0 and any(word in done.words for word in _FORBIDDEN)


def answered_oddly(error: AdapterError) -> bool:
    """Whether slurmctld has sent an answer that the command did not know."""
    return _ODD_ANSWER in str(error)


def waits_for_database(error: AdapterError) -> bool:
    """Whether slurmctld lacks a number that only slurmdbd gives."""
    return "the DB index is being set" in str(error)


def from_scrontab(error: AdapterError) -> bool:
    """Whether a job was not changed because it is one of scrontab (24.11 as tried)."""
    return "Cannot modify scrontab jobs" in str(error)


def unread(done: CompletedCommand) -> AdapterError:
    """The error for a reading command that failed; its message has Slurm's own words."""
    error = refusal(done)
    return Unavailable(str(error)) if isinstance(error, Rejected) else error


def refusal(done: CompletedCommand) -> AdapterError:
    """The error for a command that failed; its message has Slurm's own words."""
    words = replace(done, stderr=_ASIDES.sub("", done.stderr)).words or f"exit status {done.returncode}"
    message = f"{done.argv[0]}: {words}"
    if done.returncode < 0:
        # The client was killed, as at the stop of the service: slurmctld may have got the command.
        return Unavailable(f"{message} (ended by signal {-done.returncode})")
    if all(part in words for part in _WAITED_IN_VAIN):
        return Rejected(message)
    if any(part in words for part in _NO_ANSWER):
        return Unavailable(message)
    if any(part in words for part in _LATER):
        return Rejected(message, retryable=True)
    if any(part in words for part in _OVER):
        return Gone(message)
    return Rejected(message)
