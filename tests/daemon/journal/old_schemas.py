"""Journals as older versions of makeway made them: their statements, word for word, and their rows."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

_SCHEMA: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE operations (
    operation_id TEXT PRIMARY KEY, closed INTEGER NOT NULL, opened_s REAL NOT NULL,
    body TEXT NOT NULL) STRICT;
CREATE TABLE commands (
    command_id INTEGER PRIMARY KEY, operation_id TEXT NOT NULL, verb TEXT NOT NULL, job_id TEXT NOT NULL,
    action TEXT NOT NULL, issued_s REAL NOT NULL, answered_s REAL, outcome TEXT, detail TEXT) STRICT;
CREATE INDEX commands_by_time ON commands (issued_s);
CREATE TABLE decisions (
    decision_id INTEGER PRIMARY KEY, at_s REAL NOT NULL, policy TEXT NOT NULL, body TEXT NOT NULL,
    cluster BLOB) STRICT;
CREATE TABLE notices (notice_id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
"""
_SINCE_2: Final = """
CREATE INDEX commands_by_job ON commands (job_id, issued_s);
CREATE INDEX commands_by_operation ON commands (operation_id);
CREATE INDEX operations_by_age ON operations (closed, opened_s);
CREATE INDEX decisions_by_time ON decisions (at_s);
CREATE TABLE checkpoints (
    operation_id TEXT NOT NULL, job_id TEXT NOT NULL, issued_s REAL NOT NULL, user TEXT NOT NULL,
    account TEXT NOT NULL, partition TEXT NOT NULL, size INTEGER NOT NULL, ends INTEGER NOT NULL,
    duration_s REAL, acknowledged INTEGER, PRIMARY KEY (operation_id, job_id, issued_s)) STRICT;
"""
_SINCE_3: Final = """
CREATE TABLE runs (
    job_id TEXT NOT NULL, user TEXT NOT NULL, ended_s REAL NOT NULL, share REAL NOT NULL,
    PRIMARY KEY (job_id, ended_s)) STRICT;
CREATE INDEX runs_by_user ON runs (user, ended_s);
"""
_SINCE_4: Final = """
ALTER TABLE commands ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
UPDATE commands SET failed = 1 WHERE outcome = 'in_doubt' OR (outcome = 'rejected' AND verb IN
    ('checkpoint', 'requeue', 'cancel', 'shrink', 'reserve'));
CREATE TABLE set_aside (
    source TEXT NOT NULL, key TEXT NOT NULL, problem TEXT NOT NULL, body BLOB) STRICT;
"""
SCRIPTS: Final = {
    1: _SCHEMA,
    2: _SCHEMA + _SINCE_2,
    3: _SCHEMA + _SINCE_2 + _SINCE_3,
    4: _SCHEMA + _SINCE_2 + _SINCE_3 + _SINCE_4,
}

_ACTION: Final = (
    '{"job_id":"7","for_job_id":"u","policy":"test","reason":"urgent_arrival","method":"kill","not_after_s":5.0,'
    '"verb":"requeue"}'
)
_OPERATION: Final = (
    '{"operation_id":"%s","for_job_id":"u","policy":"test","reservation":"mw_u","nodes":["n0"],"opened_s":0.0,'
    '"deadline_s":9.0,"give_up_s":99.0,"phase":"%s","tasks":[{"action":'
    + _ACTION
    + ',"progress":"planned"}]}'
)
_NOTICE: Final = (
    '{"notice_id":"n","user":"u","node_count":2,"walltime_s":60.0,"announced_s":0.0,"expected_s":900.0,'
    '"job_id":null}'
)


def statements(version: int) -> list[str]:
    """What makes the tables of that version, one by one."""
    return [part.strip() for part in SCRIPTS[version].split(";") if part.strip()]


def make(path: Path, version: int) -> None:
    """A journal of that version: an open and a closed operation, four commands, a decision and an
    announcement.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        if version > 1:
            database.execute("PRAGMA auto_vacuum = INCREMENTAL")
        database.execute("PRAGMA journal_mode = WAL")
        for statement in statements(version):
            database.execute(statement)
        database.execute("INSERT INTO meta VALUES ('schema_version', ?)", (str(version),))
        for operation_id, closed, phase in (("u@0", 1, "closed"), ("u@1", 0, "making_room")):
            database.execute(
                "INSERT INTO operations VALUES (?, ?, 0.0, ?)",
                (operation_id, closed, _OPERATION % (operation_id, phase)),
            )
        for outcome in ("accepted", "rejected", "in_doubt", None):
            database.execute(
                "INSERT INTO commands (operation_id, verb, job_id, action, issued_s, outcome) VALUES ('u@0', "
                "'requeue', '7', ?, 1.0, ?)",
                (_ACTION, outcome),
            )
        if version > 3:
            database.execute("UPDATE commands SET failed = 1 WHERE outcome IN ('rejected', 'in_doubt')")
        database.execute(
            "INSERT INTO decisions (at_s, policy, body) VALUES (1.0, 'test', ?)",
            ('{"policy":"test","actions":[' + _ACTION + '],"rationale":[],"again_s":null}',),
        )
        database.execute("INSERT INTO notices VALUES ('n', ?)", (_NOTICE,))
