"""The adapter of PBS Pro passes what the suite of every adapter asks of one that only reads."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from makeway.policies.model import Cluster, JobKind
from tests.adapters.conformance import AdapterConformance, World
from tests.adapters.pbs.fake_pbs import FakePbs, adapter_of

NOW_S = 1_795_170_600
QUEUES = {JobKind.RIGID: "workq", JobKind.MALLEABLE: "elasticq", JobKind.ON_DEMAND: "urgentq"}


def date(instant_s: float) -> str:
    """As PBS writes it."""
    return time.strftime("%a %b %d %H:%M:%S %Y", time.gmtime(instant_s))


def printed(kind: str, objects: dict[str, Any]) -> str:
    return json.dumps({"timestamp": NOW_S, "pbs_version": "2022.1.1", "pbs_server": "pbs01", kind: objects})


class PbsWorld:
    """Six vnodes; a job starts at once if enough of them are free, and a short one is over when it is looked
    for.
    """

    def __init__(self) -> None:
        self.nodes = tuple(f"n{number}" for number in range(1, 7))
        self._jobs: dict[str, dict[str, Any]] = {}
        self._free = list(self.nodes)
        self._pbs = FakePbs(
            jobs=printed("Jobs", {}),
            nodes=printed("nodes", {name: {"state": "free"} for name in self.nodes}),
        )
        self.adapter = adapter_of(self._pbs)

    def submit(
        self,
        node_count: int,
        *,
        kind: JobKind = JobKind.RIGID,
        runtime_s: float = 3600.0,
        walltime_s: float = 3600.0,
        node_count_min: int | None = None,
        saves: bool = False,
    ) -> str:
        job_id = f"{len(self._jobs) + 1}.pbs01"
        given = [self._free.pop(0) for _ in range(node_count)] if node_count <= len(self._free) else []
        minutes, seconds = divmod(round(walltime_s), 60)
        self._jobs[job_id] = {
            "Job_Owner": "ada@login1",
            "job_state": "Q" if not given else "R" if runtime_s > 1.0 else "F",
            "queue": QUEUES[kind],
            "ctime": date(NOW_S),
            "Rerunable": "True",
            "Resource_List": {
                "select": str(node_count),
                "nodect": node_count,
                "walltime": f"{minutes}:{seconds:02}",
            },
        }
        if given:
            vnodes = "+".join(f"({name}:ncpus=1)" for name in given)
            self._jobs[job_id] |= {"exec_vnode": vnodes, "stime": date(NOW_S), "run_count": 1}
        if node_count_min is not None:
            self._jobs[job_id]["Variable_List"] = {"MAKEWAY": f"makeway:min-nodes={node_count_min}"}
        self._pbs.jobs = printed("Jobs", self._jobs)
        return job_id

    def wait(self, condition: Callable[[Cluster], bool], what: str) -> Cluster:
        cluster = self.adapter.snapshot()
        assert condition(cluster), f"it never came about that {what}"
        return cluster


class TestPbsAdapter(AdapterConformance):
    @pytest.fixture
    def world(self) -> World:
        return PbsWorld()
