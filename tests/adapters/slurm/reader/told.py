"""What the fake pyslurm tells, and the Slurm commands that tell the same."""

import json
import os
import pwd
import sys
from pathlib import Path
from typing import Any

from makeway.adapters.command import CommandRunner
from makeway.adapters.slurm.reader.helper import PyslurmHelper
from tests.adapters.slurm.test_parse import ROW

FAKE = Path(__file__).with_name("fake")
USER = pwd.getpwuid(os.getuid()).pw_name
UID = os.getuid()
SAME_ROW = ROW | {"UserID": str(UID), "UserName": USER}
"""`JOB` as squeue prints it."""
JOB: dict[str, Any] = {
    "id": 17,
    "state": "PENDING",
    "state_reason": "Resources",
    "num_nodes": 2,
    "cpus": 4,
    "min_cpus_per_node": 1,
    "requested_tres": {"cpu": 4, "mem": 2000, "node": 2, "billing": 4},
    "ntasks": 4,
    "time_limit": 60,
    "submit_time": 1795247000,
    "eligible_time": 1795247000,
    "user_id": UID,
    "group_id": 1000,
    "qos": "normal",
    "partition": "batch",
    "resource_sharing": "OK",
    "is_requeueable": True,
    "is_batch_job": True,
    "priority": 1,
    "name": "name",
}
NODES: list[dict[str, Any]] = [
    {
        "name": f"n{number}",
        "state": "IDLE",
        "total_cpus": 2,
        "effective_cpus": 2,
        "real_memory": 1000,
        "configured_gres": {},
        "sockets": 2,
        "partitions": ["batch"],
    }
    for number in range(1, 9)
]
PARTITION: dict[str, Any] = {"name": "batch", "state": "UP", "is_user_exclusive": False, "is_default": False}


class Told:
    """The file that the fake pyslurm reads, and a helper process with it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "told.json"
        self.now_s = 0.0
        """The helper's clock."""
        self._others = _children()
        self.tell()

    def tell(self, **changes: Any) -> None:
        """From the next request on it tells this."""
        told = {
            "version": "24.11.2",
            "jobs": [JOB],
            "nodes": NODES,
            "partitions": [PARTITION],
            "reservations": [],
        }
        self.path.write_text(json.dumps(told | changes))

    def children(self) -> set[int]:
        """The processes that the test has started and not yet waited for, zombies too.

        An earlier test of this worker may have left others, such as a browser.
        """
        return _children() - self._others

    @property
    def starter(self) -> CommandRunner:
        environment = {"PYTHONPATH": str(FAKE), "FAKE_PYSLURM": str(self.path)}
        return CommandRunner(environment=environment)

    def helper(self, *, python: str = sys.executable, timeout_s: float = 60.0) -> PyslurmHelper:
        return PyslurmHelper(self.starter, python, timeout_s, clock=lambda: self.now_s)


def _children() -> set[int]:
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return {int(pid) for pid in path.read_text().split()}
