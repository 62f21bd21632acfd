"""How measured checkpoints, measured losses and ended runs are stored."""

from collections.abc import Sequence
from typing import Final

from makeway.daemon.estimate.actual_losses import (
    HeldAmounts,
    LeavingRun,
    LossLesson,
    RunKey,
    RunLoss,
)
from makeway.daemon.estimate.checkpoint_times import (
    CheckpointRequest,
    CheckpointTimes,
    Lesson,
    Likeness,
    Measurement,
    Subject,
)
from makeway.daemon.estimate.recent_losses import RecentLosses
from makeway.daemon.estimate.run_times import LATEST, History, Run
from makeway.daemon.journal.database import Database, Row, Statement
from makeway.daemon.operation.announcements import AnnouncementRecord
from makeway.policies.model import Acknowledgement, Method

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
_LEAVING_COLUMNS: Final = (
    "operation_id, job_id, requeue_count, for_job_id, decided_s, method, acknowledgement, nodes, cpus, gpus, "
    "expected_s, start_s, setup_s, saved_s, requested_s, reported_s, completed_s"
)
_PAYER_COLUMNS: Final = "for_user, for_account"
"""Since schema 6."""
_CHANGES: Final = ", ".join(
    [
        *[f"{name} = excluded.{name}" for name in _LEAVING_COLUMNS.split(", ")[3:]],
        *[
            f"{name} = iif(excluded.for_user = '', {name}, excluded.{name})"
            for name in _PAYER_COLUMNS.split(", ")
        ],
    ]
)
"""SQL: how a stored run changes, apart from its three keys."""
_LEAVE: Final = (
    f"INSERT INTO losses ({_LEAVING_COLUMNS}, {_PAYER_COLUMNS}) VALUES ({', '.join(['?'] * 19)}) "
    f"ON CONFLICT (operation_id, job_id, requeue_count) DO UPDATE SET {_CHANGES}"
)
"""An old view may show a run again that has left: what it has lost stays, and who pays for it."""
_RUN: Final = "operation_id = ? AND job_id = ? AND requeue_count = ?"
_LEFT: Final = f"UPDATE losses SET left_s = ?, lost_s = ?, overhead_s = ?, evicted = ? WHERE {_RUN}"
_METHODS: Final = ", ".join(f"'{method}'" for method in Method)
_WORDS: Final = ", ".join(f"'{word}'" for word in Acknowledgement)
_READABLE: Final = f"method IN ({_METHODS}) AND acknowledgement IN ({_WORDS})"
"""SQL: no word in the row is one of a newer makeway."""
_STAY: Final = f"DELETE FROM losses WHERE {_RUN} AND left_s IS NULL"


_ANNOUNCED: Final = (
    "INSERT OR IGNORE INTO announcements (notice_id, user, announced_s, node_s) VALUES (?, ?, ?, ?)"
)
_MISSED: Final = "UPDATE announcements SET missed_s = ? WHERE notice_id = ?"


def announced_statement(notice_id: str, record: AnnouncementRecord) -> Statement:
    """What stores a new announcement for the limits."""
    return _ANNOUNCED, (notice_id, record.user, record.announced_s, record.node_s)


def missed_statement(notice_id: str, at_s: float) -> Statement:
    """What stores that the job of an announcement was missed."""
    return _MISSED, (at_s, notice_id)


def load_announcements(database: Database) -> dict[str, AnnouncementRecord]:
    """What users announced, by the id of the announcement."""
    if database.schema_version < 6:
        return {}
    rows = database.read(
        "SELECT notice_id, user, announced_s, node_s, missed_s FROM announcements ORDER BY announced_s, "
        "notice_id"
    )
    return {
        notice_id: AnnouncementRecord(user=user, announced_s=announced_s, node_s=node_s, missed_s=missed_s)
        for notice_id, user, announced_s, node_s, missed_s in rows
    }


def lesson_statements(lesson: Lesson) -> list[Statement]:
    """What stores a lesson."""
    begun = [(_BEGIN, (*request, *subject.likeness, int(subject.ends))) for request, subject in lesson.begun]
    ended = [
        (_END, (found.duration_s, int(found.acknowledged), *request)) for request, found in lesson.measured
    ]
    return [*begun, *ended, *[(_DROP, tuple(request)) for request in lesson.void]]


def loss_statements(lesson: LossLesson) -> list[Statement]:
    """What stores the runs that are to leave, and what those cost that have left."""
    known = [(_LEAVE, _leaving_row(key, run)) for key, run in (*lesson.begun, *lesson.changed)]
    left = [
        (_LEFT, (loss.left_s, loss.lost_s, loss.overhead_s, int(loss.evicted), *key))
        for key, loss in lesson.measured
    ]
    return [*known, *left, *[(_STAY, tuple(key)) for key in lesson.void]]


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


def load_leaving_runs(database: Database) -> dict[RunKey, LeavingRun]:
    """The runs that are still to leave."""
    if database.schema_version < 5:
        return {}
    columns = _columns(database)
    rows = database.read(f"SELECT {columns} FROM losses WHERE left_s IS NULL AND {_READABLE}")
    return {RunKey(*row[:3]): _leaving_run(row[3:]) for row in rows}


def _columns(database: Database) -> str:
    """SQL: what a stored run that is to leave consists of. Before schema 6 no payer was stored."""
    payer = _PAYER_COLUMNS if database.schema_version >= 6 else "'', ''"
    return f"{_LEAVING_COLUMNS}, {payer}"


def load_losses(database: Database, since_s: float, until_s: float) -> tuple[tuple[str, RunLoss], ...]:
    """What the runs cost that were to leave by decisions from `since_s` to `until_s`, each with its job."""
    if database.schema_version < 5:
        return ()
    rows = database.read(
        f"SELECT {_columns(database)}, left_s, lost_s, overhead_s, evicted FROM losses WHERE decided_s "
        f"BETWEEN ? AND ? AND left_s IS NOT NULL AND {_READABLE} ORDER BY decided_s, job_id, operation_id, "
        "requeue_count",
        (since_s, until_s),
    )
    return tuple((row[1], _run_loss(row[3:])) for row in rows)


def load_recent_losses(database: Database) -> RecentLosses:
    """What evictions have lost, or are expected to lose."""
    recent = RecentLosses()
    if database.schema_version < 5:
        return recent
    rows = database.read(
        f"SELECT left_s, lost_s, overhead_s, evicted, {_columns(database)} FROM losses WHERE {_READABLE}"
    )
    for left_s, lost_s, overhead_s, evicted, *row in rows:
        key, run = RunKey(*row[:3]), tuple(row[3:])
        if left_s is None:
            recent.expect(key, _leaving_run(run))
        else:
            recent.measured(key, _run_loss((*run, left_s, lost_s, overhead_s, evicted)))
    return recent


def _leaving_row(key: RunKey, run: LeavingRun) -> Row:
    held = run.held
    return (
        *key,
        run.for_job_id,
        run.decided_s,
        run.method,
        run.acknowledgement,
        held.nodes,
        held.cpus,
        held.gpus,
        run.expected_s,
        run.start_s,
        run.setup_s,
        run.saved_s,
        run.requested_s,
        run.reported_s,
        run.completed_s,
        run.for_user,
        run.for_account,
    )


def _leaving_run(row: Row) -> LeavingRun:
    """The run in the columns after its key."""
    for_job_id, decided_s, method, acknowledgement, nodes, cpus, gpus, *instants = row
    expected_s, start_s, setup_s, saved_s, requested_s, reported_s, completed_s, *payer = instants
    for_user, for_account = payer
    return LeavingRun(
        for_job_id=for_job_id,
        decided_s=decided_s,
        method=Method(method),
        acknowledgement=Acknowledgement(acknowledgement),
        held=HeldAmounts(nodes=nodes, cpus=cpus, gpus=gpus),
        expected_s=expected_s,
        start_s=start_s,
        setup_s=setup_s,
        saved_s=saved_s,
        requested_s=requested_s,
        reported_s=reported_s,
        completed_s=completed_s,
        for_user=for_user,
        for_account=for_account,
    )


def _run_loss(row: Row) -> RunLoss:
    """The measured run in the columns after its key."""
    *run, left_s, lost_s, overhead_s, evicted = row
    return RunLoss(
        run=_leaving_run(tuple(run)),
        left_s=left_s,
        lost_s=lost_s,
        overhead_s=overhead_s,
        evicted=bool(evicted),
    )


def load_history(database: Database) -> History:
    """The ended runs of each user."""
    if database.schema_version < 3:
        return History()
    rows = database.read("SELECT job_id, user, ended_s, share FROM runs ORDER BY ended_s, job_id")
    return History(
        Run(job_id=job_id, user=user, ended_s=ended_s, share=share) for job_id, user, ended_s, share in rows
    )
