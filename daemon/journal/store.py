"""What the daemon remembers: operations, commands, decisions and announcements, in SQLite (WAL, synchronous
FULL).

A command is written down before it is sent, and its answer after. After a crash the journal therefore has
every command that may have reached the cluster; one without an answer is in doubt, and only a snapshot
settles it. A journal belongs to one daemon at a time, so what every cycle asks for is read once and then kept
in memory, changed after the file and never before it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import ClassVar

from makeway.daemon.estimate.actual_losses import LeavingRun, LossLesson, RunKey
from makeway.daemon.estimate.checkpoint_times import CheckpointRequest, Learned, Lesson, Subject
from makeway.daemon.estimate.recent_losses import RecentLoss
from makeway.daemon.estimate.run_times import Run
from makeway.daemon.journal import holds, loading, retention
from makeway.daemon.journal.archive import Archive
from makeway.daemon.journal.codec import ACTION, DECISION, NOTICE, OPERATION, PLAN, pack
from makeway.daemon.journal.command_log import SignalledRun
from makeway.daemon.journal.database import Database, Statement
from makeway.daemon.journal.measurements import (
    announced_statement,
    lesson_statements,
    load_announcements,
    load_checkpoint_times,
    load_history,
    load_leaving_runs,
    load_recent_losses,
    loss_statements,
    missed_statement,
    run_statements,
)
from makeway.daemon.operation.announcements import AnnouncementRecord, record_of
from makeway.daemon.operation.changed.refused_holds import HoldAnswer
from makeway.daemon.operation.changed.saving import SaveRequests
from makeway.policies.model import (
    Action,
    Cluster,
    Decision,
    Eviction,
    Notice,
    Operation,
    Phase,
    Plan,
    Reserve,
    RunIdentity,
)

_NOTE = "note:"
"""What the keys of notes begin with."""


def _in_order(notices: Mapping[str, Notice]) -> tuple[Notice, ...]:
    return tuple(notices[notice_id] for notice_id in sorted(notices))


class Journal(Archive):
    """The daemon's memory. Safe to call from several threads; every write is one transaction.

    Args:
        path: the file, made if absent. None: in memory, for a replay.
        unread: what a journal in memory has written down is not read: it keeps only what a cycle asks for.
        read_only: look at what another daemon writes, without taking it over. Operations, evictions, failures
            and notices are then those of the instant of opening; decisions and commands are read when they
            are asked for.

    Raises:
        JournalInUse: another daemon has it open.
        JournalTooNew: a newer makeway wrote it, or a part of it that a start needs.
        JournalUnavailable: its disk is full, or not there yet.
        JournalError: it is not a journal, or cannot be opened.
    """

    check: ClassVar[Callable[[Operation], None] | None] = None
    """Called with every operation that is written down: the tests set it to `validate`. None: nothing is
    checked.
    """

    def __init__(self, path: Path | None, *, unread: bool = False, read_only: bool = False) -> None:
        super().__init__(Database(path, read_only=read_only))
        self._in_memory = path is None
        self._unread = count(1) if unread and path is None else None
        self._mutex = self._database.mutex
        try:
            loaded = loading.load(self._database)
            if not read_only:
                loading.set_aside(self._database, loaded.damaged)
            self._last_operation = loading.last_operation(self._database)
            self._sent = loading.load_commands(self._database)
            self._times = load_checkpoint_times(self._database)
            self._history = load_history(self._database)
            self._leaving = load_leaving_runs(self._database)
            self._losses = load_recent_losses(self._database)
            self._announcements = load_announcements(self._database)
        except BaseException:
            self._database.close()
            raise
        self._open_operations = loaded.operations
        self._open_now = tuple(loaded.operations.values())
        self._notices = loaded.notices
        self._notices_now = _in_order(loaded.notices)
        self._plan = loaded.plan
        self.damaged = tuple(f"{path}: {row}" for row in loaded.damaged)
        """The rows that could not be read at this start, each with its problem. The daemon has moved them to
        the table `set_aside`; a reader left them in place.
        """

    def open_operations(self) -> tuple[Operation, ...]:
        """The operations that are not closed, oldest first."""
        return self._open_now

    def new_operation_id(self) -> str:
        """An id that no operation of this journal ever had: a count, stored with the first operation that
        bears it.
        """
        with self._mutex:
            self._last_operation += 1
            return str(self._last_operation)

    def save(self, *operations: Operation) -> None:
        """Write operations down as they are now, all of them or none."""
        with self._mutex:
            self._write(*(one for operation in operations for one in self._upsert(operation)))
            for operation in operations:
                self._remember(operation)

    def begin_command(self, operation: Operation, action: Action, now_s: float) -> int:
        """Write down that `action` is about to be sent, together with its operation as it is then.

        Returns: the number to give to `finish_command`.
        """
        insert = (
            "INSERT INTO commands (operation_id, verb, job_id, action, issued_s) VALUES (?, ?, ?, ?, ?)",
            (operation.operation_id, action.verb, action.job_id, partial(ACTION.encode, action), now_s),
        )
        with self._mutex:
            command_id = self._write(*self._upsert(operation), insert)
            self._remember(operation)
            signalled = SignalledRun.of(action)
            self._sent.add(command_id, action.verb, action.job_id, now_s, signalled=signalled)
        return command_id

    def finish_command(
        self,
        command_id: int,
        operation: Operation,
        *,
        outcome: str,
        failed: bool,
        detail: str,
        now_s: float,
    ) -> None:
        """Write down the answer to a command, together with its operation as it is then.

        Args:
            command_id: the command.
            operation: as the answer makes it.
            outcome: the answer in one word.
            failed: whether the circuit breaker counts it.
            detail: the answer in the cluster's words.
            now_s: when it came.
        """
        update = (
            "UPDATE commands SET answered_s = ?, outcome = ?, failed = ?, detail = ? WHERE command_id = ?",
            (now_s, outcome, int(failed), detail, command_id),
        )
        with self._mutex:
            self._write(*self._upsert(operation), update)
            self._remember(operation)
            self._sent.answer(command_id, outcome, failed=failed)

    def add_decision(self, at_s: float, decision: Decision, cluster: Cluster | None) -> int:
        """Store a decision, with its snapshot unless that is None. Returns its number."""
        blob = None if cluster is None else pack(cluster)
        return self._write(
            (
                "INSERT INTO decisions (at_s, policy, body, cluster) VALUES (?, ?, ?, ?)",
                (at_s, decision.policy, partial(DECISION.encode, decision), blob),
            )
        )

    def evictions(self, since_s: float) -> tuple[Eviction, ...]:
        """Evictions since then that were carried out or may have been, oldest first."""
        with self._mutex:
            return self._sent.evictions(since_s)

    def past_evictions(self) -> Mapping[str, int]:
        """How often each job was evicted, by job id. Another object whenever it changes."""
        with self._mutex:
            return self._sent.past_evictions()

    def last_hold(self, job_id: str, since_s: float) -> Reserve | None:
        """See `holds.last_hold`."""
        with self._mutex:
            return holds.last_hold(self._database, job_id, since_s)

    def holds_since(self, job_id: str, since_s: float) -> tuple[Reserve, ...]:
        """See `holds.holds_since`."""
        with self._mutex:
            return holds.holds_since(self._database, job_id, since_s)

    def hold_answers_since(self, since_s: float) -> tuple[HoldAnswer, ...]:
        """See `holds.hold_answers`. None if the cluster has refused no hold since then."""
        with self._mutex:
            return holds.hold_answers(self._database, since_s) if self._sent.refused_hold_s >= since_s else ()

    def nodes_left_for(self, job_id: str, since_s: float) -> frozenset[str]:
        """The nodes that other jobs have left for a job, or may have, since then."""
        with self._mutex:
            present = (one for one in self._open_operations.values() if one.for_job_id == job_id)
            return holds.nodes_left((*holds.operations_for(self._database, job_id, since_s), *present))

    def failures_s(self, since_s: float) -> tuple[float, ...]:
        """When the commands since then were sent that the circuit breaker counts, oldest first."""
        with self._mutex:
            return self._sent.failures_s(since_s)

    def unanswered_signals(self) -> Mapping[tuple[str, RunIdentity], float]:
        """When each run of a job was signalled without an answer: the signal may have arrived, or may yet."""
        with self._mutex:
            return self._sent.unanswered_signals()

    def asked_s(self) -> Mapping[str, float]:
        """When each job was asked to save its work last, by id."""
        with self._mutex:
            return self._sent.asked_s()

    def save_requests(self, now_s: float) -> SaveRequests:
        """The signals by which runs may still be saving their work. Empty: there are none."""
        with self._mutex:
            return self._sent.save_requests(now_s)

    def checkpoints_under_way(self) -> Mapping[CheckpointRequest, Subject]:
        """The checkpoints whose durations are being measured."""
        return self._times.under_way

    def learned(self) -> Learned:
        """The measured durations of checkpoints. Another object whenever it changes."""
        return self._times.learned

    def learn(self, lesson: Lesson) -> None:
        """Store what a cycle has seen of checkpoints."""
        with self._mutex:
            self._write(*lesson_statements(lesson))
            self._times.learn(lesson)

    def leaving_runs(self) -> Mapping[RunKey, LeavingRun]:
        """The runs that are to leave their nodes, and whose losses are being measured."""
        return self._leaving

    def note_losses(self, lesson: LossLesson) -> None:
        """Store what a cycle has seen of the runs that are to leave."""
        with self._mutex:
            self._write(*loss_statements(lesson))
            self._leaving.update((*lesson.begun, *lesson.changed))
            for key in (*[key for key, _ in lesson.measured], *lesson.void):
                self._leaving.pop(key, None)
            self._losses.learn(lesson)

    def recent_losses(self, since_s: float) -> tuple[RecentLoss, ...]:
        """The work that the decisions since then have lost, or are expected to lose."""
        with self._mutex:
            return self._losses.since(since_s)

    def usual_shares(self) -> Mapping[str, float]:
        """The share of their time limits that the finished runs of a user usually took, by user."""
        return self._history.usual

    def add_runs(self, runs: Sequence[Run]) -> None:
        """Store runs that have ended; of each user the latest are kept."""
        with self._mutex:
            self._write(*run_statements(runs))
            self._history.add(runs)

    def add_notice(self, notice: Notice) -> None:
        """Store an announcement; one of the same id is replaced. A new one counts for its user\'s limits."""
        insert = (
            "INSERT OR REPLACE INTO notices (notice_id, body) VALUES (?, ?)",
            (notice.notice_id, partial(NOTICE.encode, notice)),
        )
        record = record_of(notice)
        with self._mutex:
            self._write(insert, announced_statement(notice.notice_id, record))
            self._notices[notice.notice_id] = notice
            self._notices_now = _in_order(self._notices)
            self._announcements.setdefault(notice.notice_id, record)

    def note_missed(self, notice_id: str, at_s: float) -> None:
        """Store that the job of an announcement did not come."""
        with self._mutex:
            self._write(missed_statement(notice_id, at_s))
            if notice_id in self._announcements:
                record = replace(self._announcements[notice_id], missed_s=at_s)
                self._announcements[notice_id] = record

    def announcements(self) -> Mapping[str, AnnouncementRecord]:
        """What users announced, also what is over, by the id of the announcement."""
        with self._mutex:
            return dict(self._announcements)

    def remove_notice(self, notice_id: str) -> None:
        """Delete an announcement; it is no error if there is none of that id."""
        with self._mutex:
            self._write(("DELETE FROM notices WHERE notice_id = ?", (notice_id,)))
            self._notices.pop(notice_id, None)
            self._notices_now = _in_order(self._notices)

    def notices(self) -> tuple[Notice, ...]:
        """The announcements, in the order of their ids."""
        return self._notices_now

    def plan(self) -> Plan | None:
        """The last plan that was finished. None: there was none."""
        return self._plan

    def save_plan(self, plan: Plan) -> None:
        """Store a plan in place of the last one."""
        with self._mutex:
            self._write(("INSERT OR REPLACE INTO meta VALUES ('plan', ?)", (PLAN.encode(plan),)))
            self._plan = plan

    def noted(self, name: str) -> str | None:
        """The note of that name. None: there is none."""
        rows = self._database.read("SELECT value FROM meta WHERE key = ?", (_NOTE + name,))
        return str(rows[0][0]) if rows else None

    def note(self, name: str, text: str) -> None:
        """Keep a text under a name, in place of the one before."""
        with self._mutex:
            self._write(("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_NOTE + name, text)))

    def prune(self, before_s: float, most: int = 50) -> int:
        """Delete some of what is older than `before_s`: at most `most` entries of each table.

        Nothing of an open operation is deleted. `before_s` must not be later than what the limits count.
        Returns how many entries are gone: 0 once nothing more is to be deleted.
        """
        with self._mutex:
            count, command_ids = retention.prune(self._database, before_s, most)
            self._sent.forget(command_ids)
            if count:
                self._times = load_checkpoint_times(self._database)
                self._history = load_history(self._database)
                self._announcements = load_announcements(self._database)
        return count

    def verify(self) -> None:
        """Check that the file is still the one that was opened. Raises `JournalReplaced` if it is not."""
        self._database.verify()

    def save_copy(self) -> tuple[Path, ...]:
        """Put a complete copy where the file was that was deleted or replaced. Returns the new names of what
        was there.

        Raises:
            JournalError: another daemon has it, or the copy cannot be made.
        """
        return tuple(self._database.save_copy())

    def close(self) -> None:
        """Close the file and let another daemon have it."""
        self._database.close()

    def _write(self, *statements: Statement) -> int:
        """The one way to the file for what a cycle writes down. Returns the number of the last
        inserted row.
        """
        return self._database.write(*statements) if self._unread is None else next(self._unread)

    def _remember(self, operation: Operation) -> None:
        if operation.phase is Phase.CLOSED:
            self._open_operations.pop(operation.operation_id, None)
        else:
            self._open_operations[operation.operation_id] = operation
        self._open_now = tuple(self._open_operations.values())

    def _upsert(self, operation: Operation) -> tuple[Statement, ...]:
        """What writes an operation down: nothing in a journal without a file, which no later start
        can read.
        """
        check = Journal.check
        if check is not None:
            check(operation)
        if self._in_memory:
            return ()
        sql = (
            "INSERT INTO operations (operation_id, closed, opened_s, body) VALUES (?, ?, ?, ?) ON CONFLICT "
            "(operation_id) DO UPDATE SET closed = excluded.closed, body = excluded.body"
        )
        closed = int(operation.phase is Phase.CLOSED)
        upsert = (sql, (operation.operation_id, closed, operation.opened_s, OPERATION.encode(operation)))
        if operation.operation_id in self._open_operations or not operation.operation_id.isdecimal():
            return (upsert,)  # the count is stored already, or an older makeway gave it another kind of id
        count = "INSERT OR REPLACE INTO meta VALUES ('last_operation', ?)"
        return (upsert, (count, (str(self._last_operation),)))
