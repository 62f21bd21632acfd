"""What of the journal is forgotten, in small steps: each is one short transaction that a cycle may have to wait for.

An open operation stays whole, its commands included. A decision goes before the commands that it led to, and those before
their operation, so that what is left is never told wrongly. The newest decision and command stay: no number is used twice.
"""

import sqlite3
from typing import Final

VACUUM_PAGES: Final = 2000
"""So many pages are given back to the file system in one step: 8 MB."""


def prune(database: sqlite3.Connection, before_s: float, most: int) -> tuple[int, list[int]]:
    """Remove what is older than `before_s`, at most so many entries of each sort, within a transaction of the caller.

    Returns: how many entries are gone, and the numbers of the commands among them.
    """
    decisions = database.execute(
        "DELETE FROM decisions WHERE decision_id IN (SELECT decision_id FROM decisions"
        " WHERE at_s < ? AND decision_id < (SELECT max(decision_id) FROM decisions) ORDER BY decision_id LIMIT ?)",
        (before_s, most),
    ).rowcount
    (oldest_s,) = database.execute("SELECT min(at_s) FROM decisions").fetchone()
    commands = [
        row[0]
        for row in database.execute(
            "DELETE FROM commands WHERE command_id IN (SELECT command_id FROM commands"
            " WHERE issued_s < ? AND command_id < (SELECT max(command_id) FROM commands)"
            " AND operation_id NOT IN (SELECT operation_id FROM operations WHERE closed = 0)"
            " ORDER BY command_id LIMIT ?) RETURNING command_id",
            (before_s if oldest_s is None else min(before_s, oldest_s), most),
        ).fetchall()
    ]
    operations = database.execute(
        "DELETE FROM operations WHERE operation_id IN (SELECT operation_id FROM operations"
        " WHERE closed = 1 AND opened_s < ? AND operation_id NOT IN (SELECT operation_id FROM commands) LIMIT ?)",
        (before_s, most),
    ).rowcount
    checkpoints = database.execute(
        "DELETE FROM checkpoints WHERE rowid IN (SELECT rowid FROM checkpoints"
        " WHERE duration_s IS NOT NULL AND issued_s < ? LIMIT ?)",
        (before_s, most),
    ).rowcount
    runs = database.execute(
        "DELETE FROM runs WHERE rowid IN (SELECT rowid FROM runs WHERE ended_s < ? LIMIT ?)", (before_s, most)
    ).rowcount
    return decisions + len(commands) + operations + checkpoints + runs, commands


def give_back(database: sqlite3.Connection) -> None:
    """Let the file shrink by some of the space that is free in it."""
    # As a script: `execute` stops after the first page, because the rows of this pragma have no columns.
    database.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")
