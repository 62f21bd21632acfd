"""Journals that older versions left behind amid their operations: read whole, and gone on from."""

import gzip
import json
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from makeway.adapters.site.checks import Level
from makeway.daemon.cli.main import run_cli
from makeway.daemon.inspect.doctor import check_journal
from makeway.daemon.journal.codec import ACTION, DECISION, NOTICE, OPERATION, PLAN, BodyCodec, pack, unpack
from makeway.daemon.journal.formats import Noun, upgraded
from makeway.daemon.journal.store import Journal
from makeway.policies.model import JobKind, Prioritise
from makeway.policies.registry import find
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob
from tests.daemon.journal.old_scenes import SCENES, Scene

OLD = Path(__file__).parent / "old"
COMMITS = ("c12d5fb",)
SCENE_NAMES = sorted(SCENES)
SETS = {"cluster.actions"}
"""Fields of a cluster in which the order says nothing."""


@pytest.fixture(params=COMMITS)
def commit(request: pytest.FixtureRequest) -> str:
    """Which version wrote the journals."""
    assert isinstance(request.param, str)
    return request.param


def recorded(commit: str, name: str, folder: Path) -> Path:
    """A journal as that version left it."""
    path = folder / "old.sqlite"
    path.write_bytes(gzip.decompress((OLD / f"{commit}-{name}.sqlite.gz").read_bytes()))
    return path


def bodies(path: Path) -> list[tuple[Noun, str]]:
    """Every stored body, as it is in the file; snapshots without their compression."""
    queries = {
        Noun.OPERATION: "SELECT body FROM operations",
        Noun.ACTION: "SELECT action FROM commands",
        Noun.DECISION: "SELECT body FROM decisions",
        Noun.NOTICE: "SELECT body FROM notices",
        Noun.PLAN: "SELECT value FROM meta WHERE key = 'plan'",
    }
    with closing(sqlite3.connect(path)) as database:
        found = [(noun, body) for noun, sql in queries.items() for (body,) in database.execute(sql)]
        blobs = database.execute("SELECT cluster FROM decisions WHERE cluster NOT NULL").fetchall()
    return found + [(Noun.CLUSTER, zlib.decompress(blob).decode()) for (blob,) in blobs]


def reread(noun: Noun, text: str) -> Any:
    """The JSON of a body after it was read and written again."""
    codecs: dict[Noun, BodyCodec[Any]] = {
        Noun.OPERATION: OPERATION,
        Noun.ACTION: ACTION,
        Noun.DECISION: DECISION,
        Noun.NOTICE: NOTICE,
        Noun.PLAN: PLAN,
    }
    if noun is Noun.CLUSTER:
        again = zlib.decompress(pack(unpack(zlib.compress(text.encode())))).decode()
    else:
        again = codecs[noun].encode(codecs[noun].decode(text))
    return json.loads(again)["body"]


def lost(old: Any, new: Any, where: str) -> list[str]:
    """Where `new` does not have what `old` has. More is no loss: new fields have defaults."""
    match old, new:
        case dict(), dict():
            return [
                loss
                for key in old
                for loss in (lost(old[key], new[key], f"{where}.{key}") if key in new else [f"{where}.{key}"])
            ]
        case list(), list() if where in SETS:
            return lost(dict.fromkeys(old), dict.fromkeys(new), where)
        case list(), list() if len(old) == len(new):
            return [
                loss
                for index, (mine, other) in enumerate(zip(old, new, strict=True))
                for loss in lost(mine, other, f"{where}[{index}]")
            ]
        case _:
            return [] if old == new else [f"{where}: {old!r} became {new!r}"]


@pytest.mark.parametrize("name", SCENE_NAMES)
def test_no_field_of_an_old_body_is_lost(commit: str, name: str, tmp_path: Path) -> None:
    """The reader ignores fields that it does not know, so a renamed one without a step would silently become
    its default.
    """
    found = bodies(recorded(commit, name, tmp_path))
    assert {noun for noun, _ in found} >= {Noun.OPERATION, Noun.ACTION, Noun.DECISION, Noun.CLUSTER}
    for noun, text in found:
        assert lost(upgraded(noun, json.loads(text), 0), reread(noun, text), noun) == []


def test_a_place_in_the_planned_order_is_a_queue_position_now(commit: str, tmp_path: Path) -> None:
    with closing(Journal(recorded(commit, "planned", tmp_path), read_only=True)) as journal:
        actions = [command.action for command in journal.commands()]
        last = journal.decision(2)
    moved = [action.queue_position for action in actions if isinstance(action, Prioritise)]
    assert moved == [32, 64, 96]
    assert last is not None
    assert last.cluster is not None
    assert sorted(job.queue_position for job in last.cluster.jobs if job.queue_position) == [32, 64]


@pytest.mark.parametrize("name", SCENE_NAMES)
def test_explain_summary_and_doctor_read_it(
    commit: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorded(commit, name, tmp_path)
    for command in (["explain"], ["explain", "1"], ["explain", "last", "--json"], ["summary"]):
        assert run_cli([*command, "--journal", str(path)], factories={}) == 0, capsys.readouterr().err
    assert check_journal(path).level is Level.OK
    assert capsys.readouterr().err == ""


def stopped(scene: Scene, journal: Journal) -> Replay:
    """The scene up to the instant at which the older version was stopped."""
    jobs = [SimJob(**{**values, "kind": JobKind(values.get("kind", "rigid"))}) for values in scene.jobs]
    cluster = SimCluster(
        8,
        jobs,
        scheduler=SchedulerSettings(backfill=Backfill.EASY),
        storage=StorageSettings(aggregate_gb_s=10.0, node_gb_s=5.0),
        check=True,
    )
    policy = find(scene.policy)
    settings = ReplaySettings(poll_interval_s=10.0, keep_snapshots=True)
    run = Replay(cluster, policy, policy.config_type(**dict(scene.config)), settings, journal=journal)
    while cluster.now_s < scene.stop_s:
        run.step()
    return run


@pytest.mark.parametrize("name", SCENE_NAMES)
def test_a_start_goes_on_where_the_older_version_was_stopped(commit: str, name: str, tmp_path: Path) -> None:
    """The cluster is the same, the journal is the older version's, and everything ends as if it had not been
    stopped.
    """
    undisturbed = stopped(SCENES[name], Journal(None))
    run = stopped(SCENES[name], Journal(None))
    journal = Journal(recorded(commit, name, tmp_path))
    assert journal.damaged == ()
    assert {one.for_job_id for one in journal.open_operations()} == {
        one.for_job_id for one in run.journal.open_operations()
    }
    # The older version said less of some actions, such as which run it meant.
    sent, older = (
        [(one.action.verb, one.action.job_id, one.action.for_job_id) for one in each.commands()]
        for each in (run.journal, journal)
    )
    assert older == sent
    run.restart(journal)
    while run.step():
        pass
    while undisturbed.step():
        pass

    starts, expected = (
        {one.job.job_id: one.start_s for one in each.record().jobs} for each in (run, undisturbed)
    )
    assert starts == expected
    assert all(one.end_s is not None for one in run.record().jobs)
    assert not run.cluster.machine.holds
    assert run.journal.open_operations() == ()
    journal.close()
