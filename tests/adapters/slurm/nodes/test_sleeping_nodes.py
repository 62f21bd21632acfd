"""Nodes that sleep to save power, as the adapter shows and wakes them."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from makeway.adapters.site.checks import Level
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.adapters.slurm.nodes.check import check_power_saving
from makeway.adapters.slurm.nodes.states import WakeTimes, node, wake_times
from makeway.adapters.slurm.parse_cluster import RawPartition
from makeway.adapters.slurm.partitions.times import PartitionTimes
from makeway.adapters.slurm.settings import SlurmAdapterSettings
from makeway.policies.model import CPU, NodeState, Reason, Reserve, Resources
from tests.adapters.slurm.fake_slurm import NOW_S, OK, SETTINGS, FakeSlurm
from tests.adapters.slurm.jobs.raw_jobs import NODES
from tests.adapters.slurm.test_doctor import slurm
from tests.adapters.slurm.test_parse import ROW

WAKES = {"ResumeProgram": "/wake", "ResumeTimeout": "300 sec", "SuspendTimeout": "30 sec"}
URGENT = ROW | {"QOS": "urgent", "NumNodes": "2"}
REFUSED = (1, "", "slurm_update error: Invalid user id")
FAILED = (1, "", "slurm_update error: Invalid node state specified")


def sleeping(**states: str) -> Callable[[list[str]], list[str]]:
    """Changes what scontrol prints: these nodes have these states."""

    def changed(line: str) -> str:
        for name, state in states.items():
            line = re.sub(rf"^(NodeName={name} .*? State=)\S+", rf"\1{state}", line, flags=re.MULTILINE)
        return line

    return lambda lines: [changed(line) for line in lines]


def power_saving(slurm: FakeSlurm, counts_as: str = "free") -> SlurmCliAdapter:
    """An adapter on a Slurm whose nodes n1 and n2 sleep, and n3 boots."""
    slurm.settings = dict(WAKES)
    slurm.change = sleeping(n1="IDLE+POWERED_DOWN", n2="IDLE+POWERING_DOWN", n3="IDLE+POWERING_UP")
    settings = replace(SETTINGS, sleeping_nodes="down" if counts_as == "down" else "free")
    return SlurmCliAdapter(settings, runner=slurm, now=lambda: NOW_S)


def hold(*nodes: str) -> Reserve:
    return Reserve(
        job_id=URGENT["JobArrayID"],
        for_job_id=URGENT["JobArrayID"],
        policy="eviction",
        reason=Reason.URGENT_FITS,
        nodes=nodes,
        duration_s=600.0,
        reservation="mw_x",
    )


def test_what_sleeping_nodes_count_as() -> None:
    found = power_saving(FakeSlurm()).snapshot()
    assert [node.wake_s for node in found.nodes] == [300.0, 330.0, 300.0, *(0.0,) * 5]
    assert {node.state for node in found.nodes} == {NodeState.UP}
    found = power_saving(FakeSlurm(), "down").snapshot()
    assert [node.state for node in found.nodes].count(NodeState.DOWN) == 3
    asleep_for_ever = FakeSlurm()
    adapter = power_saving(asleep_for_ever)
    asleep_for_ever.settings = {"ResumeProgram": "(null)"}
    assert [node.state for node in adapter.snapshot().nodes].count(NodeState.DOWN) == 3


@pytest.mark.parametrize(("answer", "times"), [(OK, 2), (FAILED, 2), (REFUSED, 1)])
def test_the_nodes_of_a_hold_that_sleep_are_woken(answer: tuple[int, str, str], times: int) -> None:
    """A user who may not does not try again: slurmctld logs each attempt."""
    slurm = FakeSlurm(URGENT, script=(OK, OK, answer))
    adapter = power_saving(slurm)
    for _ in range(2):
        adapter.snapshot()
        adapter.apply(hold("n1", "n2", "n3", "n4"))
    woken = [argv for argv in slurm.acts if "State=POWER_UP" in argv]
    assert woken == [("scontrol", "update", "NodeName=n[1-2]", "State=POWER_UP")] * times, "n3 boots already"


@pytest.mark.parametrize(("counts_as", "nodes"), [("down", ("n1", "n2")), ("free", ("n4", "n5"))])
def test_no_other_node_is_woken(counts_as: str, nodes: tuple[str, ...]) -> None:
    slurm = FakeSlurm(URGENT)
    adapter = power_saving(slurm, counts_as)
    adapter.snapshot()
    adapter.apply(hold(*nodes))
    assert not any("State=POWER_UP" in argv for argv in slurm.acts)


@pytest.mark.parametrize(
    ("states", "expected", "wake_s"),
    [
        ("IDLE", NodeState.UP, 0.0),
        ("IDLE POWERED_DOWN", NodeState.UP, 300.0),
        ("IDLE CLOUD POWERED_DOWN RESERVED", NodeState.UP, 300.0),
        ("IDLE POWERING_DOWN", NodeState.UP, 330.0),
        ("IDLE NOT_RESPONDING POWERING_UP", NodeState.UP, 300.0),
        ("ALLOCATED RESERVED NOT_RESPONDING POWERING_UP", NodeState.UP, 300.0),
        ("DOWN POWERED_DOWN", NodeState.DOWN, 0.0),
        ("IDLE DRAIN POWERED_DOWN", NodeState.DRAINED, 0.0),
        ("IDLE POWER_DOWN", NodeState.UP, 330.0),
        ("ALLOCATED POWER_DOWN", NodeState.UP, 330.0),
    ],
)
def test_nodes_that_sleep_are_up_and_take_time_to_wake(
    states: str, expected: NodeState, wake_s: float
) -> None:
    found = node(replace(NODES[0], states=frozenset(states.split())), wakes=wake_times(WAKES))
    assert (found.state, found.wake_s) == (expected, wake_s)
    assert found.sleeps_first is (wake_s == 330.0)


@pytest.mark.parametrize("states", ["IDLE", "IDLE POWERED_DOWN", "DOWN", "IDLE DRAIN", "IDLE NOT_RESPONDING"])
@pytest.mark.parametrize("wakes", [None, wake_times(WAKES)], ids=["down", "free"])
def test_a_node_has_what_it_has_whatever_its_state(states: str, wakes: WakeTimes | None) -> None:
    """A running job on it is priced by its share of that."""
    has = Resources.of({CPU: 8})
    assert node(replace(NODES[0], states=frozenset(states.split())), has, wakes).capacity == has


@pytest.mark.parametrize("lacks", ["ResumeProgram", "ResumeTimeout", "SuspendTimeout"])
def test_without_a_program_or_a_time_no_node_wakes(lacks: str) -> None:
    assert wake_times({key: text for key, text in WAKES.items() if key != lacks}) is None
    assert wake_times(WAKES | {lacks: "(null)"}) is None


@pytest.mark.parametrize(
    ("partitions", "wake_s", "falls_asleep_s"),
    [
        ({"batch", "other"}, 300.0, 330.0),
        ({"batch", "slow"}, 500.0, 530.0),
        ({"quick"}, 20.0, 29.0),  # shorter than the cluster's: the only time that is set
        ({"slow", "quick"}, 500.0, 509.0),
    ],
)
def test_of_the_times_of_its_partitions_the_longest_counts(
    partitions: set[str], wake_s: float, falls_asleep_s: float
) -> None:
    wakes = wake_times(WAKES)
    assert wakes is not None
    wakes = wakes.in_partitions(
        (
            RawPartition(name="batch", state="UP"),
            RawPartition(name="slow", state="UP", times=PartitionTimes(resume_s=500.0)),
            RawPartition(name="quick", state="UP", times=PartitionTimes(resume_s=20.0, suspend_s=9.0)),
        )
    )
    raw = replace(NODES[0], partitions=frozenset(partitions))
    asleep = replace(raw, states=frozenset({"IDLE", "POWERED_DOWN"}))
    falls_asleep = replace(raw, states=frozenset({"IDLE", "POWERING_DOWN"}))
    assert node(asleep, wakes=wakes).wake_s == wake_s
    assert node(falls_asleep, wakes=wakes).wake_s == falls_asleep_s
    assert node(raw, wakes=wakes).wake_s == 0.0


def test_the_time_of_a_partition_is_read() -> None:
    found = FakeSlurm()
    adapter = power_saving(found)
    asleep = found.change
    found.change = lambda lines: [
        line.replace("PartitionName=batch State=UP", "PartitionName=batch State=UP ResumeTimeout=500")
        for line in asleep(lines)
    ]
    assert [node.wake_s for node in adapter.snapshot().nodes[:3]] == [500.0, 530.0, 500.0]


def test_the_doctor_knows_the_longest_time() -> None:
    section = SlurmAdapterSettings.model_validate({"type": "slurm"})
    survey = slurm(WAKES | {"SuspendProgram": "/sleep"})
    slow = RawPartition(name="slow", state="UP", times=PartitionTimes(resume_s=900.0))
    found = check_power_saving(replace(survey, layout=(*survey.layout, slow)), section, 600.0)
    assert found is not None
    assert "ResumeTimeout, 900 s, to wake" in found.text


@pytest.mark.parametrize(
    ("settings", "sleeping", "within_s", "level", "said"),
    [
        ({}, "free", 600.0, Level.OK, "can wait until they are awake (ResumeTimeout 300 s)"),
        ({}, "free", None, Level.OK, "ResumeTimeout 300 s"),
        ({}, "free", None, Level.OK, "cloud nodes only where PrivateData has `cloud`"),
        ({"PrivateData": "jobs,cloud"}, "free", None, Level.OK, "awake (ResumeTimeout 300 s)"),
        ({}, "free", 120.0, Level.WARNING, "too long for urgent jobs that have to start within 120 s"),
        ({}, "down", 600.0, Level.WARNING, "counts as down"),
        ({"ResumeProgram": "(null)"}, "free", 600.0, Level.WARNING, "SuspendExcNodes (now n1)"),
        ({"ResumeTimeout": "UNLIMITED"}, "free", 600.0, Level.WARNING, "counts as down"),
    ],
)
def test_nodes_that_may_sleep(
    settings: dict[str, str], sleeping: str, within_s: float | None, level: Level, said: str
) -> None:
    section = SlurmAdapterSettings.model_validate({"type": "slurm", "sleeping_nodes": sleeping})
    survey = slurm(WAKES | {"SuspendProgram": "/sleep", "SuspendExcNodes": "n1"} | settings)
    survey = replace(survey, release=(22, 5))
    found = check_power_saving(survey, section, within_s)
    assert found is not None
    assert found.level is level
    assert said in found.text
    assert "PrivateData" not in found.text or settings == {}
    shows_all = check_power_saving(replace(survey, release=(24, 11)), section, within_s)
    assert shows_all is not None
    assert "PrivateData" not in shows_all.text
    assert check_power_saving(slurm(), section, within_s) is None
    assert check_power_saving(slurm({"SuspendProgram": "(null)"}), section, within_s) is None
