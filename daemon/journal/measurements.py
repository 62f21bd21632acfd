"""How measured checkpoints and ended runs are stored."""

from collections.abc import Sequence
from typing import Final

from makeway.daemon.estimate.checkpoint_times import (
    CheckpointRequest,
    CheckpointTimes,
    Lesson,
    Likeness,
    Measurement,
    Subject,
)
from makeway.daemon.estimate.run_times import LATEST, History, Run
from makeway.daemon.journal.database import Database, Statement

_KEYS: Final = "operation_id = ? AND job_id = ? AND issued_s = ?"
_BEGIN: Final = (
    "INSERT OR REPLACE INTO checkpoints (operation_id, job_id, issued_s, user, account, partition, size, "
    "ends) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_END: Final = f"UPDATE checkpoints SET duration_s = ?, acknowledged = ? WHERE {_KEYS}"
_DROP: Final = f"DELETE FROM checkpoints WHERE {_KEYS}"
_ADD_RUN: Final = "INSERT OR REPLACE INTO runs (job_id, user, ended_s, share) VALUES (?, ?, ?, ?)"
_KEEP_LATEST: Final = (
    "DELETE FROM runs WHERE user = ? AND rowid NOT IN (SELECT rowid FROM runs WHERE user = ? ORDER BY "
    "ended_s DESC, job_id DESC LIMIT ?)"
)


def lesson_statements(lesson: Lesson) -> list[Statement]:
    """What stores a lesson."""
    begun = [(_BEGIN, (*request, *subject.likeness, int(subject.ends))) for request, subject in lesson.begun]
    ended = [
        (_END, (found.duration_s, int(found.acknowledged), *request)) for request, found in lesson.measured
    ]
    return [*begun, *ended, *[(_DROP, tuple(request)) for request in lesson.void]]


def run_statements(runs: Sequence[Run]) -> list[Statement]:
    """What stores ended runs, and keeps the latest of each user."""
    users = sorted({run.user for run in runs})
    return [
        *[(_ADD_RUN, (run.job_id, run.user, run.ended_s, run.share)) for run in runs],
        *[(_KEEP_LATEST, (user, user, LATEST)) for user in users],
    ]


def load_checkpoint_times(database: Database) -> CheckpointTimes:
    """The checkpoints that are being measured and the measured durations."""
    times = CheckpointTimes()
    if database.schema_version < 2:
        return times
    rows = database.read(
        "SELECT operation_id, job_id, issued_s, ends, duration_s, acknowledged, user, account, partition, "
        "size FROM checkpoints ORDER BY issued_s, job_id, operation_id"
    )
    for operation_id, job_id, issued_s, ends, duration_s, acknowledged, *like in rows:
        likeness = Likeness(*like)
        if duration_s is None:
            subject = Subject(likeness=likeness, ends=bool(ends))
            times.under_way[CheckpointRequest(operation_id, job_id, issued_s)] = subject
        else:
            times.add(likeness, Measurement(duration_s=duration_s, acknowledged=bool(acknowledged)))
    return times


def load_history(database: Database) -> History:
    """The ended runs of each user."""
    if database.schema_version < 3:
        return History()
    rows = database.read("SELECT job_id, user, ended_s, share FROM runs ORDER BY ended_s, job_id")
    return History(
        Run(job_id=job_id, user=user, ended_s=ended_s, share=share) for job_id, user, ended_s, share in rows
    )
