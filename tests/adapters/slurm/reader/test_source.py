"""Which reader a snapshot comes from: the one that is set, and with `auto` the one that works and agrees."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.protocol import Unavailable
from makeway.adapters.slurm import build
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.adapters.slurm.parse_cluster import RawReservation
from makeway.adapters.slurm.reader.agreement import View, difference
from makeway.adapters.slurm.reader.answer import ClusterRecords
from makeway.adapters.slurm.settings import Price, Reader
from makeway.policies.model import Cluster
from tests.adapters.slurm.fake_slurm import NODES, NOW_S, SETTINGS, FakeSlurm
from tests.adapters.slurm.reader.told import JOB, SAME_ROW, Told
from tests.adapters.slurm.reader.told import NODES as TOLD_NODES

Open = Callable[..., SlurmCliAdapter]


@pytest.fixture
def slurm() -> FakeSlurm:
    return FakeSlurm(dict(SAME_ROW))


@pytest.fixture
def opened(told: Told, slurm: FakeSlurm) -> Iterator[Open]:
    """Opens the adapter with a reader; nothing may be left of it after the test."""
    adapters: list[SlurmCliAdapter] = []

    def open_with(reader: Reader, **settings: Any) -> SlurmCliAdapter:
        chosen = replace(SETTINGS, reader=reader, pyslurm_python=sys.executable, timeout_s=60.0, **settings)
        adapters.append(SlurmCliAdapter(chosen, runner=slurm, now=lambda: NOW_S, starter=told.starter))
        return adapters[-1]

    yield open_with
    for adapter in adapters:
        adapter.close()
    assert told.children() == set()


def commands(slurm: FakeSlurm) -> list[str]:
    return [argv[0] for argv in slurm.calls]


def by_commands(slurm: FakeSlurm) -> Cluster:
    with closing(SlurmCliAdapter(SETTINGS, runner=slurm, now=lambda: NOW_S)) as adapter:
        return adapter.snapshot()


@pytest.mark.parametrize("reader", [Reader.PYSLURM, Reader.AUTO])
def test_pyslurm_gives_the_snapshot_of_the_commands(opened: Open, slurm: FakeSlurm, reader: Reader) -> None:
    adapter = opened(reader)
    assert adapter.snapshot() == by_commands(slurm)
    slurm.calls.clear()
    adapter.snapshot()
    assert commands(slurm) == []


def test_the_commands_are_the_default(opened: Open, told: Told, slurm: FakeSlurm) -> None:
    assert SETTINGS.reader is Reader.CLI
    opened(Reader.CLI).snapshot()
    assert commands(slurm) == ["scontrol", "squeue", "scontrol"]
    assert told.children() == set()


def test_what_pyslurm_cannot_tell_is_asked_of_scontrol(opened: Open, told: Told, slurm: FakeSlurm) -> None:
    urgent = {"QOS": "urgent"}
    slurm.rows[0] |= urgent
    told.tell(jobs=[JOB | {"qos": "urgent"}])
    adapter = opened(Reader.PYSLURM)
    adapter.snapshot()
    slurm.calls.clear()
    slurm.inputs.clear()
    assert adapter.snapshot() == by_commands(slurm)
    assert commands(slurm)[0] == "scontrol"
    script = slurm.inputs[0].decode()
    assert "show job 17" in script
    assert "show nodes" not in script


def test_billing_weights_are_asked_of_scontrol(opened: Open, slurm: FakeSlurm) -> None:
    adapter = opened(Reader.PYSLURM, price=Price.BILLING_WEIGHTS)
    adapter.snapshot()
    script = slurm.inputs[-1].decode()
    assert "show partitions" in script
    assert "show nodes" not in script


@pytest.mark.parametrize(
    "settings",
    [
        {"ResumeProgram": "/wake", "ResumeTimeout": "60 sec", "SuspendTimeout": "30 sec"},
        {"OverTimeLimit": "2 min"},
    ],
)
def test_the_times_of_partitions_are_asked_of_scontrol(
    opened: Open, slurm: FakeSlurm, settings: dict[str, str]
) -> None:
    """pyslurm tells none of the times in which nodes wake, and takes an overtime of 0 for none."""
    slurm.settings = settings
    adapter = opened(Reader.PYSLURM)
    adapter.snapshot()
    script = slurm.inputs[-1].decode()
    assert "show partitions" in script
    assert "show nodes" not in script


def test_jobs_that_are_over_are_left_out(opened: Open, told: Told, caplog: pytest.LogCaptureFixture) -> None:
    """squeue does not list them, which is no difference."""
    told.tell(jobs=[JOB, JOB | {"id": 16, "state": "COMPLETED"}])
    assert [job.job_id for job in opened(Reader.AUTO).snapshot().jobs] == ["17"]
    assert caplog.records == []


def test_what_jobs_ask_for_by_gpu_is_read_once(opened: Open, told: Told, slurm: FakeSlurm) -> None:
    with_gpus = [node | {"configured_gres": {"gpu:a100": 4}} for node in TOLD_NODES]
    slurm.change = lambda lines: [line.replace("Gres=(null)", "Gres=gpu:a100:4") for line in lines]
    slurm.rows[0] |= {"tres-per-job": "gres/gpu:16", "cpus-per-tres": "gres/gpu:2"}
    told.tell(nodes=with_gpus)
    adapter = opened(Reader.PYSLURM)
    (job,) = adapter.snapshot().jobs
    assert job.eligible_nodes == frozenset()
    assert by_commands(slurm).jobs == (job,)
    slurm.calls.clear()
    adapter.snapshot()
    assert commands(slurm) == []
    slurm.rows.append(SAME_ROW | {"JobArrayID": "18"})
    told.tell(nodes=with_gpus, jobs=[JOB, JOB | {"id": 18}])
    assert adapter.snapshot() == by_commands(slurm)
    assert commands(slurm)[0] == "squeue"
    slurm.calls.clear()
    adapter.snapshot()
    assert commands(slurm) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"at_import": "raise"}, "ImportError: libslurmfull.so"),
        ({"at_import": "exit"}, "ended with exit status 1"),
        ({"does": "die"}, "was ended by signal 11"),
        ({"does": "raise"}, "pyslurm cannot read this cluster: ValueError"),
        ({"version": "25.11.2"}, "pyslurm 25.11.2 is for another release than 24.11"),
        ({"version": "newest"}, "pyslurm has no version: 'newest'"),
        ({"jobs": [JOB | {"priority": 2}]}, "job 17: priority is 2 instead of 1"),
        ({"jobs": []}, "job 17 is missing"),
        ({"jobs": [JOB, JOB | {"id": 18}]}, "there is no job 18"),
        ({"nodes": [*TOLD_NODES[:7], TOLD_NODES[7] | {"state": "DOWN"}]}, "node n8: states is"),
        ({"partitions": [{"name": "batch", "state": "DOWN"}]}, "partition batch: state is 'DOWN' instead of"),
        (
            {"reservations": [{"name": "r", "nodes": "n1", "start_time": 1, "end_time": 2, "flags": 0}]},
            "there is no reservation r",
        ),
    ],
)
def test_what_does_not_work_or_agree_leaves_the_commands(
    opened: Open,
    told: Told,
    slurm: FakeSlurm,
    caplog: pytest.LogCaptureFixture,
    changes: dict[str, Any],
    words: str,
) -> None:
    told.tell(**changes)
    adapter = opened(Reader.AUTO)
    for _ in range(3):
        assert adapter.snapshot() == by_commands(slurm)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("the cluster is read by squeue and scontrol: ")
    assert words in line


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"at_import": "raise"}, "ImportError"),
        ({"does": "die"}, "signal 11"),
        ({"does": "refuse"}, "Unable to contact slurm controller"),
        ({"version": "22.05.1"}, "is for another release than 24.11"),
    ],
)
def test_without_auto_there_is_no_snapshot(
    opened: Open, told: Told, changes: dict[str, Any], words: str
) -> None:
    told.tell(**changes)
    adapter = opened(Reader.PYSLURM)
    with pytest.raises(Unavailable, match=words):
        adapter.snapshot()


def test_a_controller_that_does_not_answer_pyslurm_is_no_reason_for_the_commands(
    opened: Open, told: Told, slurm: FakeSlurm
) -> None:
    adapter = opened(Reader.AUTO)
    adapter.snapshot()
    slurm.calls.clear()
    told.tell(does="refuse")
    with pytest.raises(Unavailable, match="Unable to contact slurm controller"):
        adapter.snapshot()
    assert commands(slurm) == []


def test_a_helper_that_dies_later_is_replaced_by_the_commands_and_comes_back(
    opened: Open, told: Told, slurm: FakeSlurm, caplog: pytest.LogCaptureFixture
) -> None:
    adapter = opened(Reader.AUTO)
    before = adapter.snapshot()
    (pid,) = told.children()
    os.kill(pid, 9)
    slurm.calls.clear()
    assert adapter.snapshot() == before
    assert commands(slurm) == ["squeue", "scontrol"]
    assert adapter.snapshot() == before
    assert len(caplog.records) == 1


def test_whether_jobs_may_start_before_their_reservation_has_to_agree() -> None:
    plain = RawReservation(name="course", nodes=("n1",), start_s=NOW_S, end_s=NOW_S + 60.0)

    def seen(*flags: str) -> View:
        reservations = (replace(plain, flags=frozenset(flags)),)
        return View(jobs=(), cluster=ClusterRecords(nodes=(), partitions=(), reservations=reservations))

    assert difference(seen("SPEC_NODES"), seen("DAILY"), seen("SPEC_NODES")) is None
    assert "course: flags" in str(difference(seen("FLEX"), seen("SPEC_NODES"), seen("FLEX")))
    has = View(
        jobs=(),
        cluster=ClusterRecords(nodes=(), partitions=(), reservations=(replace(plain, licenses="fluent:1"),)),
    )
    assert difference(has, seen(), has) is None, "pyslurm tells no licences"


def test_what_changes_meanwhile_is_no_difference(opened: Open, told: Told, slurm: FakeSlurm) -> None:
    """Between the two reads by the commands the node goes down."""
    reads: list[bytes] = []
    n8 = "NodeName=n8 CPUTot=2 RealMemory=1000 State=IDLE"

    def change(lines: list[str]) -> list[str]:
        if any("show nodes" in line for line in lines):
            reads.append(b"")
        down = len(reads) > 1
        return [line.replace(n8, n8.replace("IDLE", "DOWN")) if down else line for line in lines]

    assert n8 in NODES
    slurm.change = change
    adapter = opened(Reader.AUTO)
    adapter.snapshot()
    slurm.calls.clear()
    adapter.snapshot()
    assert build.squeue() not in slurm.calls
