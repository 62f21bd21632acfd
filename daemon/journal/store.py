"""What the daemon remembers: operations, commands, decisions and notices, in SQLite (WAL, synchronous FULL).

A command is written down before it is sent and its answer after. Whoever reads the journal after a crash therefore
finds every command that may have reached the cluster; one without an answer is in doubt, and only a snapshot settles
it. A journal belongs to one daemon at a time, so what every cycle asks for is read once and then kept at hand, changed
after the file and never before it.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from makeway.daemon.estimate.checkpoint_times import (
    CheckpointTimes,
    Learned,
    Lesson,
    Likeness,
    Measurement,
    Request,
    Subject,
)
from makeway.daemon.estimate.run_times import LATEST, History, Run
from makeway.daemon.journal import retention
from makeway.daemon.journal.codec import (
    ACTION,
    DECISION,
    NOTICE,
    OPERATION,
    PLAN,
    StoredCommand,
    StoredDecision,
    pack,
    unpack,
)
from makeway.daemon.journal.command_log import SentCommands
from makeway.daemon.journal.schema import connect, take_lock
from makeway.policies.model import Action, Cluster, Decision, Eviction, Notice, Operation, Phase, Plan


class Journal:
    """The daemon's memory. Safe to call from several threads; every write is one transaction.

    Args:
        path: the file, made if absent. None: in memory, for a replay.
        read_only: look at what another daemon writes, without taking it over. Operations, evictions, failures and
            notices are then those of the instant of opening; decisions and commands are read when they are asked for.

    Raises:
        JournalInUse: another daemon has it open.
        JournalTooNew: a newer makeway wrote it.
        JournalError: it is not a journal, or cannot be opened.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        self._path = path
        self._mutex = threading.RLock()
        self._lock_file: int | None = None
        if path is not None and not read_only:
            self._lock_file = take_lock(path)
        try:
            self._database = connect(path, read_only)
            self._open_operations = self._load_operations()
            self._sent = self._load_sent()
            self._notices = self._load_notices()
            self._plan = self._load_plan()
            self._times = self._load_times()
            self._history = self._load_history()
        except BaseException:
            self._let_go()
            raise

    def open_operations(self) -> tuple[Operation, ...]:
        """The operations that are not closed, oldest first."""
        return tuple(self._open_operations.values())

    def save(self, operation: Operation) -> None:
        """Write an operation down as it is now."""
        with self._mutex:
            self._write(*self._upsert(operation))
            self._remember(operation)

    def begin_command(self, operation: Operation, action: Action, now_s: float) -> int:
        """Write down that `action` is about to be sent, together with its operation as it is then.

        Returns: the number to give to `finish_command`.
        """
        insert = (
            "INSERT INTO commands (operation_id, verb, job_id, action, issued_s) VALUES (?, ?, ?, ?, ?)",
            (operation.operation_id, action.verb, action.job_id, ACTION.encode(action), now_s),
        )
        with self._mutex:
            command_id = self._write(*self._upsert(operation), insert)
            self._remember(operation)
            self._sent.add(command_id, action.verb, action.job_id, now_s)
        return command_id

    def finish_command(
        self, command_id: int, operation: Operation, *, outcome: str, detail: str, now_s: float
    ) -> None:
        """Write down the answer to a command, together with its operation as it is then."""
        update = (
            "UPDATE commands SET answered_s = ?, outcome = ?, detail = ? WHERE command_id = ?",
            (now_s, outcome, detail, command_id),
        )
        with self._mutex:
            self._write(*self._upsert(operation), update)
            self._remember(operation)
            self._sent.answer(command_id, outcome)

    def add_decision(self, at_s: float, decision: Decision, cluster: Cluster | None) -> int:
        """Keep a decision, with its snapshot unless that is None. Returns its number."""
        blob = pack(cluster) if cluster is not None else None
        return self._write(
            (
                "INSERT INTO decisions (at_s, policy, body, cluster) VALUES (?, ?, ?, ?)",
                (at_s, decision.policy, DECISION.encode(decision), blob),
            )
        )

    def decision(self, decision_id: int) -> StoredDecision | None:
        """A decision by its number. None: there is none of that number."""
        row = self._read(
            "SELECT decision_id, at_s, body, cluster FROM decisions WHERE decision_id = ?", (decision_id,)
        )
        return _stored_decision(row[0]) if row else None

    def decisions(self, limit: int) -> tuple[StoredDecision, ...]:
        """The last `limit` decisions, newest first, without their snapshots."""
        rows = self._read(
            "SELECT decision_id, at_s, body, NULL FROM decisions ORDER BY decision_id DESC LIMIT ?", (limit,)
        )
        return tuple(_stored_decision(row) for row in rows)

    def decisions_since(self, since_s: float) -> tuple[StoredDecision, ...]:
        """The decisions since then, oldest first, without their snapshots."""
        rows = self._read(
            "SELECT decision_id, at_s, body, NULL FROM decisions WHERE at_s >= ? ORDER BY decision_id",
            (since_s,),
        )
        return tuple(_stored_decision(row) for row in rows)

    def operations_since(self, since_s: float) -> tuple[Operation, ...]:
        """The operations that were opened since then, closed ones among them, oldest first."""
        rows = self._read(
            "SELECT body FROM operations WHERE opened_s >= ? ORDER BY opened_s, operation_id", (since_s,)
        )
        return tuple(OPERATION.decode(row[0]) for row in rows)

    def commands_since(self, since_s: float) -> tuple[StoredCommand, ...]:
        """The commands that were sent since then, in their order."""
        return self._commands("WHERE issued_s >= ?", (since_s,))

    def first_decision_id(self) -> int | None:
        """The number of the oldest decision that is still kept. None: there is none."""
        (row,) = self._read("SELECT min(decision_id) FROM decisions")
        return None if row[0] is None else int(row[0])

    def commands(self) -> tuple[StoredCommand, ...]:
        """Every command that is kept, in the order in which they were sent."""
        return self._commands("")

    def commands_of(self, job_id: str, since_s: float) -> tuple[StoredCommand, ...]:
        """The commands for one job since then, in the order in which they were sent."""
        return self._commands("WHERE job_id = ? AND issued_s >= ?", (job_id, since_s))

    def _commands(self, which: str, values: tuple[Any, ...] = ()) -> tuple[StoredCommand, ...]:
        rows = self._read(
            "SELECT command_id, operation_id, action, issued_s, answered_s, outcome, detail FROM commands"
            f" {which} ORDER BY command_id",
            values,
        )
        return tuple(
            StoredCommand(
                command_id=row[0],
                operation_id=row[1],
                action=ACTION.decode(row[2]),
                issued_s=row[3],
                answered_s=row[4],
                outcome=row[5],
                detail=row[6] or "",
            )
            for row in rows
        )

    def evictions(self, since_s: float) -> tuple[Eviction, ...]:
        """Evictions since then that were carried out or may have been, oldest first."""
        with self._mutex:
            return self._sent.evictions(since_s)

    def failures_s(self, since_s: float) -> tuple[float, ...]:
        """When commands since then were refused or got no answer, oldest first."""
        with self._mutex:
            return self._sent.failures_s(since_s)

    def checkpoints_under_way(self) -> Mapping[Request, Subject]:
        """The checkpoints whose durations are being measured."""
        return self._times.under_way

    def learned(self) -> Learned:
        """The measured durations of checkpoints. Another object whenever it changes."""
        return self._times.learned

    def learn(self, lesson: Lesson) -> None:
        """Keep what a cycle has seen of checkpoints."""
        keys = "operation_id = ? AND job_id = ? AND issued_s = ?"
        begin = (
            "INSERT OR REPLACE INTO checkpoints (operation_id, job_id, issued_s, user, account, partition, size, ends)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        )
        end = f"UPDATE checkpoints SET duration_s = ?, acknowledged = ? WHERE {keys}"
        forget = f"DELETE FROM checkpoints WHERE {keys}"
        with self._mutex:
            self._write(
                *[
                    (begin, (*request, *subject.likeness, int(subject.ends)))
                    for request, subject in lesson.begun
                ],
                *[
                    (end, (found.duration_s, int(found.acknowledged), *request))
                    for request, found in lesson.measured
                ],
                *[(forget, tuple(request)) for request in lesson.void],
            )
            self._times.under_way.update(lesson.begun)
            for request, measurement in lesson.measured:
                self._times.add(self._times.under_way.pop(request).likeness, measurement)
            for request in lesson.void:
                del self._times.under_way[request]

    def usual_shares(self) -> Mapping[str, float]:
        """Which share of their time limits the finished runs of a user usually took, by user."""
        return self._history.usual

    def add_runs(self, runs: Sequence[Run]) -> None:
        """Keep runs that have ended, of each user the latest."""
        insert = "INSERT OR REPLACE INTO runs (job_id, user, ended_s, share) VALUES (?, ?, ?, ?)"
        forget = (
            "DELETE FROM runs WHERE user = ? AND rowid NOT IN"
            " (SELECT rowid FROM runs WHERE user = ? ORDER BY ended_s DESC, job_id DESC LIMIT ?)"
        )
        with self._mutex:
            self._write(
                *[(insert, (run.job_id, run.user, run.ended_s, run.share)) for run in runs],
                *[(forget, (user, user, LATEST)) for user in sorted({run.user for run in runs})],
            )
            self._history.add(runs)

    def add_notice(self, notice: Notice) -> None:
        """Keep an announcement; one of the same id is replaced."""
        insert = (
            "INSERT OR REPLACE INTO notices (notice_id, body) VALUES (?, ?)",
            (notice.notice_id, NOTICE.encode(notice)),
        )
        with self._mutex:
            self._write(insert)
            self._notices[notice.notice_id] = notice

    def remove_notice(self, notice_id: str) -> None:
        """Forget an announcement; one that is not there is no error."""
        with self._mutex:
            self._write(("DELETE FROM notices WHERE notice_id = ?", (notice_id,)))
            self._notices.pop(notice_id, None)

    def notices(self) -> tuple[Notice, ...]:
        """The announcements, in the order of their ids."""
        with self._mutex:
            return tuple(self._notices[notice_id] for notice_id in sorted(self._notices))

    def plan(self) -> Plan | None:
        """The last plan that was finished. None: there was none."""
        return self._plan

    def save_plan(self, plan: Plan) -> None:
        """Keep a plan in place of the last one."""
        with self._mutex:
            self._write(("INSERT OR REPLACE INTO meta VALUES ('plan', ?)", (PLAN.encode(plan),)))
            self._plan = plan

    def prune(self, before_s: float, most: int = 50) -> int:
        """Forget what is older than `before_s`, some of it: at most so many entries of each sort.

        Nothing of an open operation is forgotten. What the limits count must not be older. Returns how many entries are
        gone: 0 once there is nothing more to forget.
        """
        with self._mutex:
            with self._database:
                count, command_ids = retention.prune(self._database, before_s, most)
            retention.give_back(self._database)
            self._sent.forget(command_ids)
            if count:
                self._times = self._load_times()
                self._history = self._load_history()
        return count

    def close(self) -> None:
        """Close the file and let another daemon have it."""
        self._database.close()
        self._let_go()

    def _load_operations(self) -> dict[str, Operation]:
        rows = self._read("SELECT body FROM operations WHERE closed = 0 ORDER BY opened_s, operation_id")
        operations = [OPERATION.decode(row[0]) for row in rows]
        return {operation.operation_id: operation for operation in operations}

    def _load_sent(self) -> SentCommands:
        sent = SentCommands()
        rows = self._read(
            "SELECT command_id, verb, job_id, issued_s, outcome FROM commands ORDER BY command_id"
        )
        for command_id, verb, job_id, issued_s, outcome in rows:
            sent.add(command_id, verb, job_id, issued_s)
            if outcome is not None:
                sent.answer(command_id, outcome)
        return sent

    def _load_times(self) -> CheckpointTimes:
        times = CheckpointTimes()
        if not self._read("SELECT 1 FROM sqlite_master WHERE name = 'checkpoints'"):
            return times  # an older makeway's, and we only read
        rows = self._read(
            "SELECT operation_id, job_id, issued_s, ends, duration_s, acknowledged, user, account, partition, size"
            " FROM checkpoints ORDER BY issued_s, job_id, operation_id"
        )
        for operation_id, job_id, issued_s, ends, duration_s, acknowledged, *like in rows:
            likeness = Likeness(*like)
            if duration_s is None:
                subject = Subject(likeness=likeness, ends=bool(ends))
                times.under_way[Request(operation_id, job_id, issued_s)] = subject
            else:
                times.add(likeness, Measurement(duration_s=duration_s, acknowledged=bool(acknowledged)))
        return times

    def _load_history(self) -> History:
        if not self._read("SELECT 1 FROM sqlite_master WHERE name = 'runs'"):
            return History()  # an older makeway's, and we only read
        rows = self._read("SELECT job_id, user, ended_s, share FROM runs ORDER BY ended_s, job_id")
        return History(
            Run(job_id=job_id, user=user, ended_s=ended_s, share=share)
            for job_id, user, ended_s, share in rows
        )

    def _load_notices(self) -> dict[str, Notice]:
        rows = self._read("SELECT notice_id, body FROM notices")
        return {notice_id: NOTICE.decode(body) for notice_id, body in rows}

    def _load_plan(self) -> Plan | None:
        rows = self._read("SELECT value FROM meta WHERE key = 'plan'")
        return PLAN.decode(rows[0][0]) if rows else None

    def _remember(self, operation: Operation) -> None:
        if operation.phase is Phase.CLOSED:
            self._open_operations.pop(operation.operation_id, None)
        else:
            self._open_operations[operation.operation_id] = operation

    def _upsert(self, operation: Operation) -> tuple[tuple[str, tuple[Any, ...]], ...]:
        """What writes an operation down: nothing in a journal without a file, which no later start can read."""
        if self._path is None:
            return ()
        sql = (
            "INSERT INTO operations (operation_id, closed, opened_s, body) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (operation_id) DO UPDATE SET closed = excluded.closed, body = excluded.body"
        )
        closed = int(operation.phase is Phase.CLOSED)
        return ((sql, (operation.operation_id, closed, operation.opened_s, OPERATION.encode(operation))),)

    def _write(self, *statements: tuple[str, tuple[Any, ...]]) -> int:
        """Carry out all statements in one transaction. Returns the last row's number."""
        with self._mutex, self._database:
            row_id = 0
            for sql, values in statements:
                row_id = self._database.execute(sql, values).lastrowid or 0
            return row_id

    def _read(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._mutex:
            return self._database.execute(sql, values).fetchall()

    def _let_go(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None


def _stored_decision(row: tuple[Any, ...]) -> StoredDecision:
    """A row of number, instant, decision and snapshot, the last of which may be NULL."""
    cluster = None if row[3] is None else unpack(row[3])
    return StoredDecision(decision_id=row[0], at_s=row[1], decision=DECISION.decode(row[2]), cluster=cluster)
