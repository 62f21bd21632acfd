"""What of the journal is deleted in time, in small steps: each is one short transaction that a cycle may have
to wait for.

An open operation stays whole, its commands included. A decision goes before the commands that it led to, and
those before their operation, so that what is left never misleads. The newest decision and command stay: no
number is used twice.
"""

from typing import Final

from makeway.daemon.journal.database import Database, Statement

VACUUM_PAGES: Final = 2000
"""Up to this many pages are given back to the file system in one step: 8 MB."""

_DECISIONS: Final = (
    "DELETE FROM decisions WHERE decision_id IN (SELECT decision_id FROM decisions WHERE at_s < ? AND "
    "decision_id < (SELECT max(decision_id) FROM decisions) ORDER BY decision_id LIMIT ?) RETURNING 1"
)
_COMMANDS: Final = (
    "DELETE FROM commands WHERE command_id IN (SELECT command_id FROM commands WHERE issued_s < ? AND "
    "issued_s < ifnull((SELECT min(at_s) FROM decisions), 9e999) AND command_id < (SELECT max(command_id) "
    "FROM commands) AND operation_id NOT IN (SELECT operation_id FROM operations WHERE closed = 0) ORDER BY "
    "command_id LIMIT ?) RETURNING command_id"
)
_OPERATIONS: Final = (
    "DELETE FROM operations WHERE operation_id IN (SELECT operation_id FROM operations WHERE closed = 1 AND "
    "opened_s < ? AND operation_id NOT IN (SELECT operation_id FROM commands) LIMIT ?) RETURNING 1"
)
_CHECKPOINTS: Final = (
    "DELETE FROM checkpoints WHERE rowid IN (SELECT rowid FROM checkpoints WHERE duration_s IS NOT NULL AND "
    "issued_s < ? LIMIT ?) RETURNING 1"
)
_RUNS: Final = (
    "DELETE FROM runs WHERE rowid IN (SELECT rowid FROM runs WHERE ended_s < ? LIMIT ?) RETURNING 1"
)
_LOSSES: Final = (
    "DELETE FROM losses WHERE rowid IN (SELECT rowid FROM losses WHERE left_s IS NOT NULL AND decided_s < ? "
    "LIMIT ?) RETURNING 1"
)
_ANNOUNCEMENTS: Final = (
    "DELETE FROM announcements WHERE notice_id IN (SELECT notice_id FROM announcements WHERE announced_s < "
    "?1 AND ifnull(missed_s, announced_s) < ?1 AND notice_id NOT IN (SELECT notice_id FROM notices) LIMIT "
    "?2) RETURNING 1"
)


def prune(database: Database, before_s: float, most: int) -> tuple[int, list[int]]:
    """Delete what is older than `before_s`, at most `most` entries of each table, and let the file shrink.

    Returns: how many entries are gone, and the numbers of the commands among them.
    """
    statements: list[Statement] = [
        (sql, (before_s, most))
        for sql in (_DECISIONS, _COMMANDS, _OPERATIONS, _CHECKPOINTS, _RUNS, _LOSSES, _ANNOUNCEMENTS)
    ]
    deleted = database.delete(*statements)
    database.shrink(VACUUM_PAGES)
    return sum(map(len, deleted)), [row[0] for row in deleted[1]]
