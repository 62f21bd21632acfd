"""Records the journals in `old/`: run with the code of the commit that they are named after.

Usage: record_old_journals.py COMMIT, with that commit's packages on PYTHONPATH. The modules are found by name
    because
they have other names today.
"""

import gzip
import sqlite3
import sys
from contextlib import closing
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from old_scenes import SCENES, Scene  # type: ignore[import-not-found]


def record(scene: Scene, path: Path) -> None:
    """Replay a scene until its daemon is stopped, and keep its journal."""
    harness = "makeway.simharness."
    model = import_module("makeway.policies.model")
    scheduler = import_module(harness + "scheduler")
    policy = import_module("makeway.policies.registry").find(scene.policy)
    jobs = [
        import_module(harness + "jobs").SimJob(
            **{**values, "kind": model.JobKind(values.get("kind", "rigid"))}
        )
        for values in scene.jobs
    ]
    cluster: Any = import_module(harness + "cluster").SimCluster(
        8,
        jobs,
        scheduler=scheduler.SchedulerSettings(backfill=scheduler.Backfill.EASY),
        storage=import_module(harness + "storage").StorageSettings(aggregate_gb_s=10.0, node_gb_s=5.0),
    )
    replay = import_module(harness + "replay")
    journal = import_module("makeway.daemon.journal").Journal(path)
    run = replay.Replay(
        cluster,
        policy,
        policy.config_type(**dict(scene.config)),
        replay.ReplaySettings(poll_interval_s=10.0, keep_snapshots=True),
        journal=journal,
    )
    while cluster.now_s < scene.stop_s:
        run.step()
    journal.close()


def main(commit: str) -> None:
    """Record every scene."""
    for name, scene in SCENES.items():
        with TemporaryDirectory() as folder:
            path = Path(folder) / "journal.sqlite"
            record(scene, path)
            with closing(sqlite3.connect(path)) as database:
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                for table in (
                    "operations WHERE closed = 0",
                    "operations",
                    "commands",
                    "decisions",
                    "notices",
                ):
                    print(name, table, database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
            kept = Path(__file__).parent / "old" / f"{commit}-{name}.sqlite.gz"
            kept.write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
