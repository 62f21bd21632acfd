"""The adapter of PBS Pro on samples of its answers."""

from pathlib import Path
from typing import Any

import pytest

from makeway.adapters.pbs import parse
from makeway.adapters.pbs.adapter import LIST_JOBS, LIST_NODES
from makeway.adapters.protocol import Unavailable, Unreadable
from makeway.adapters.site.times import NOT_BEFORE_S, UNLIMITED_S
from makeway.daemon.cli.main import run_cli
from makeway.policies.model import Cluster, Job, JobKind, JobState, NodeState
from tests.adapters.pbs.fake_pbs import FakePbs, adapter_of, captured, changed


@pytest.fixture
def view() -> Cluster:
    return adapter_of(FakePbs()).snapshot()


def job(view: Cluster, number: str) -> Job:
    return view.jobs_by_id()[f"{number}.pbs01"]


def with_job(place: str, value: Any, *inner: str) -> Job:
    """Job 101 with one other attribute."""
    pbs = FakePbs(jobs=changed(captured("qstat"), ("Jobs", "101.pbs01", place, *inner), value))
    return job(adapter_of(pbs).snapshot(), "101")


def test_a_snapshot_is_two_commands() -> None:
    pbs = FakePbs()
    adapter = adapter_of(pbs)
    assert adapter.capabilities.name == "pbs01, PBS 2022.1.1"
    assert adapter.capabilities.actions == frozenset()
    pbs.calls.clear()
    assert adapter.snapshot().now_s == 1_795_170_600.0
    assert pbs.calls == [LIST_JOBS, LIST_NODES]
    adapter.close()


def test_states(view: Cluster) -> None:
    states = {one.job_id.removesuffix(".pbs01"): one.state for one in view.jobs}
    assert states == {
        "101": JobState.RUNNING,
        "102": JobState.RUNNING,
        "103": JobState.PENDING,
        "104": JobState.PENDING,
        "105": JobState.PENDING,
        "106": JobState.PENDING,
        "107[1]": JobState.RUNNING,
        "107[2]": JobState.PENDING,
        "108": JobState.COMPLETING,
        "109": JobState.SUSPENDED,
        "110": JobState.RUNNING,
    }


def test_a_subjob_knows_its_array(view: Cluster) -> None:
    arrays = {one.job_id.removesuffix(".pbs01"): one.array_job_id for one in view.jobs if one.array_job_id}
    assert arrays == {"107[1]": "107", "107[2]": "107"}


@pytest.mark.parametrize(
    ("letter", "expected"),
    [("U", JobState.SUSPENDED), ("T", JobState.PENDING), ("?", JobState.SUSPENDED)],
)
def test_rare_states(letter: str, expected: JobState) -> None:
    found = with_job("job_state", letter)
    assert found.state is expected
    assert not found.preemptible


@pytest.mark.parametrize("letter", ["F", "M", "X"])
def test_what_is_over_is_in_no_snapshot(letter: str) -> None:
    pbs = FakePbs(jobs=changed(captured("qstat"), ("Jobs", "101.pbs01", "job_state"), letter))
    assert "101.pbs01" not in adapter_of(pbs).snapshot().jobs_by_id()


def test_a_running_job(view: Cluster) -> None:
    found = job(view, "101")
    assert (found.nodes, found.node_count, found.walltime_s) == (("n1", "n2"), 2, 3600.0)
    assert (found.submit_s, found.start_s) == (1_795_165_200.0, 1_795_165_500.0)
    assert (found.user, found.account, found.partition) == ("ada", "_pbs_project_default", "workq")
    assert (found.requeue_count, found.preemptible, found.kind) == (0, True, JobKind.RIGID)
    assert found.checkpoint is not None
    assert found.checkpoint.interval_s == 600.0


def test_chunks_on_one_vnode_and_a_job_without_a_limit(view: Cluster) -> None:
    found = job(view, "102")
    assert (found.nodes, found.node_count) == (("n3", "n4"), 2)
    assert (found.walltime_s, found.account, found.requeue_count) == (UNLIMITED_S, "ml", 1)


def test_a_requeued_job_counts_its_runs(view: Cluster) -> None:
    assert (job(view, "106").state, job(view, "106").requeue_count) == (JobState.PENDING, 1)


def test_when_a_job_may_start(view: Cluster) -> None:
    assert job(view, "104").eligible_s == NOT_BEFORE_S
    assert job(view, "105").eligible_s == 1_795_251_600.0
    assert job(view, "103").eligible_s is None


def test_since_when_an_urgent_job_waits(view: Cluster) -> None:
    assert job(view, "103").waits_since_s == job(view, "103").submit_s
    later = ("Jobs", "103.pbs01", "etime"), "Fri Nov 20 09:04:00 2026"
    released = job(adapter_of(FakePbs(jobs=changed(captured("qstat"), *later))).snapshot(), "103")
    assert released.waits_since_s == released.submit_s + 240.0
    assert with_job("etime", later[1]).eligible_since_s is None  # it is not urgent


def test_which_vnodes_serve_a_job(view: Cluster) -> None:
    assert job(view, "106").eligible_nodes == frozenset(), "the one with GPUs is of another queue"
    everywhere = {f"n{number}" for number in range(1, 13)} - {"n11"}
    assert job(view, "101").eligible_nodes == frozenset(everywhere)
    big = changed(captured("qstat"), ("Jobs", "106.pbs01", "queue"), "bigq")
    assert job(adapter_of(FakePbs(jobs=big)).snapshot(), "106").eligible_nodes == frozenset({"n11"})
    assert with_job("Resource_List", "2:mem=17gb", "select").eligible_nodes == frozenset()
    assert with_job("Resource_List", "1:host=n2:mpiprocs=8", "select").eligible_nodes == frozenset({"n2"})


def test_a_job_that_cannot_be_rerun_is_left_alone(view: Cluster) -> None:
    assert not with_job("Rerunable", "False").preemptible
    assert not job(view, "103").preemptible, "it is urgent"


def test_an_urgent_and_a_malleable_job() -> None:
    assert job(adapter_of(FakePbs()).snapshot(), "103").kind is JobKind.ON_DEMAND
    elastic = with_job("queue", "elasticq")
    assert (elastic.kind, elastic.node_count_min, elastic.node_count_max) == (JobKind.MALLEABLE, 1, 2)


def test_states_of_vnodes(view: Cluster) -> None:
    states = {node.name: node.state for node in view.nodes}
    assert [name for name, state in states.items() if state is NodeState.UP] == [
        *(f"n{number}" for number in range(1, 9)),
        "n11",
    ]
    assert (states["n9"], states["n10"], states["n12"]) == (
        NodeState.DRAINED,
        NodeState.DOWN,
        NodeState.DOWN,
    )


def test_a_reservation_keeps_its_vnodes(view: Cluster) -> None:
    (reserved,) = view.reservations
    assert (reserved.name, reserved.nodes, reserved.by_makeway) == ("R200.pbs01", ("n8",), False)
    assert job(view, "110").reservation == "R200.pbs01"
    assert view.free_nodes() == ("n11",)


def test_an_empty_queue() -> None:
    assert adapter_of(FakePbs(jobs=changed(captured("qstat"), ("Jobs",), None))).snapshot().jobs == ()


def test_a_server_that_does_not_answer() -> None:
    adapter = adapter_of(FakePbs(refusal="pbsnodes: cannot connect to server pbs01, error=15010"))
    with pytest.raises(Unavailable, match=r"cannot connect to server pbs01"):
        adapter.snapshot()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("job_state",), None),
        (("ctime",), "yesterday"),
        (("Resource_List", "walltime"), "an hour"),
        (("Resource_List", "select"), "2:ncpus"),
        (("Resource_List",), "ncpus=4"),
        (("run_count",), "often"),
        (("exec_vnode",), "(n99:ncpus=4)"),
    ],
)
def test_what_cannot_be_read_decides_nothing(place: tuple[str, ...], value: Any) -> None:
    pbs = FakePbs(jobs=changed(captured("qstat"), ("Jobs", "101.pbs01", *place), value))
    with pytest.raises(Unreadable):
        adapter_of(pbs).snapshot()


@pytest.mark.parametrize("text", ["", "[]", '{"nodes": {"n1"', captured("pbsnodes")[:500]])
def test_an_answer_that_is_not_whole(text: str) -> None:
    with pytest.raises(Unreadable):
        adapter_of(FakePbs(nodes=text)).snapshot()
    with pytest.raises(Unreadable):
        adapter_of(FakePbs(jobs=text)).snapshot()


@pytest.mark.parametrize(("text", "seconds"), [("45", 45), ("10:00", 600), ("100:00:01", 360_001)])
def test_durations(text: str, seconds: float) -> None:
    assert parse.duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("4", 4), ("2kb", 2048), ("1gb", 1 << 30), ("2mw", 16 << 20), ("big", None)]
)
def test_sizes(text: str, size: int | None) -> None:
    assert parse.size_bytes(text) == size


def test_the_text_of_users_is_harmless() -> None:
    assert with_job("Account_Name", "a\x1b[2J").account == "a\\x1b[2J"


# The configuration and doctor

PATHS = "journal: j.sqlite\nsocket: s.sock\nmetrics: {port: 0}\n"


def site(folder: Path, text: str = "") -> Path:
    """A configuration whose commands print the samples."""
    for command, sample in (("qstat", "qstat"), ("pbsnodes", "pbsnodes")):
        (folder / f"{sample}.json").write_text(captured(sample))
        program = folder / command
        program.write_text(f"#!/bin/sh\ncat '{folder}/{sample}.json'\n")
        program.chmod(0o755)
    path = folder / "makeway.yaml"
    classes = "classes: [{name: u, partitions: [urgentq], kind: on_demand}, {name: b, preemptible: true}]"
    path.write_text(f"adapter: {{type: pbs, bin_dir: {folder}, {classes}}}\n{PATHS}{text}")
    return path


def test_doctor_reads_a_pbs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["doctor", "--config", str(site(tmp_path))]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "pbs01, PBS 2022.1.1: 12 nodes (9 up), 11 jobs" in printed
    assert "PBS is only read" in printed


def test_doctor_asks_for_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = site(tmp_path)
    path.write_text(f"adapter: {{type: pbs, bin_dir: {tmp_path}}}\n{PATHS}")
    assert run_cli(["doctor", "--config", str(path)]) == 1
    assert "adapter.classes is empty" in capsys.readouterr().out


def test_mode_act_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["check-config", str(site(tmp_path, "mode: act\n"))]) == 2
    assert (
        "mode: act is not accepted: the adapter pbs only reads; accepted: observe" in capsys.readouterr().err
    )
