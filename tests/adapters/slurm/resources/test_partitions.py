"""Urgent jobs in several partitions: which of them is looked at."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.slurm.nodes.network import ONE_NETWORK, Network, Networks
from makeway.adapters.slurm.nodes.reach import Reach
from makeway.adapters.slurm.parse_cluster import RawPartition, partitions
from makeway.adapters.slurm.partitions.admission import TakenJobs
from makeway.adapters.slurm.partitions.rules import NO_RULES, PartitionRules
from makeway.adapters.slurm.resources.counting import WHOLE_NODES, Counting
from makeway.adapters.slurm.resources.view import SnapshotResources
from makeway.adapters.slurm.translate import kept_jobs
from tests.adapters.slurm.fake_slurm import NOW_S, FakeSlurm, adapter_of, made_reservation
from tests.adapters.slurm.jobs.raw_jobs import ANY, NODES, PENDING, RUNNING, translated
from tests.adapters.slurm.test_parse import ROW

SMALL, LARGE = frozenset({"n1", "n2", "n3"}), frozenset({"n4", "n5", "n6", "n7", "n8"})
LEFT, RIGHT = frozenset({"n1", "n2", "n3", "n4", "n5"}), frozenset({"n6", "n7", "n8"})
SHARING = Counting(shares=True, cpus=True)

PLACED = tuple(
    replace(
        one,
        partitions=frozenset({"small" if one.name in SMALL else "large"}),
        features=frozenset({"left" if one.name in LEFT else "right"}),
    )
    for one in NODES
)
"""The nodes in their partitions, and with a feature each."""


def eligible(
    node_count: int,
    *,
    counts: Counting = WHOLE_NODES,
    partitions: tuple[str, ...] = ("small", "large"),
    kept: Iterable[str] = (),
    held: tuple[str, ...] = (),
    unusable: Iterable[str] = (),
    cpus_in_small: int | None = None,
    features: str = "",
    busy: Iterable[str] = (),
    held_for_others: Iterable[str] = (),
    network: Network = ONE_NETWORK,
) -> frozenset[str] | None:
    """The nodes for a job of one CPU on each of so many nodes."""
    changes: dict[str, Any] = {
        "node_count": node_count,
        "cpu_count": node_count,
        "task_count": node_count,
        "memory_mb": 0.0 if counts is WHOLE_NODES else 100.0,
        "tres": f"cpu={node_count},node={node_count}",
        "partitions": partitions,
        "features": features,
    }
    job = replace(PENDING, **changes)
    resources = SnapshotResources(
        PLACED,
        (
            RawPartition(name="small", state="UP", cpus_per_node_max=cpus_in_small),
            RawPartition(name="large", state="UP"),
        ),
        counts=counts,
    )
    reach = Reach(
        kept=frozenset(kept),
        busy=frozenset(kept) | frozenset(busy),
        own={job.job_id: frozenset(held)} if held else {},
        held=frozenset(held) | frozenset(held_for_others),
        unusable=frozenset(unusable),
    )
    return resources.within(lambda: reach, Networks(default=network)).asked(job, urgent=True).eligible_nodes


@pytest.fixture(params=[WHOLE_NODES, SHARING], ids=["whole", "shared"])
def counts(request: pytest.FixtureRequest) -> Counting:
    found: Counting = request.param
    return found


def test_several_nodes_are_those_of_the_partition_where_most_could_come_free(counts: Counting) -> None:
    assert eligible(2, counts=counts) == LARGE
    assert eligible(2, counts=counts, kept=("n4", "n5", "n6")) == SMALL
    assert eligible(2, counts=counts, kept=("n4", "n5")) == LARGE, "of equal ones the larger one"


def test_nodes_that_are_not_up_or_that_the_site_has_reserved_do_not_count(counts: Counting) -> None:
    assert eligible(2, counts=counts, unusable=LARGE) == SMALL
    assert eligible(2, counts=counts, unusable=("n4", "n5", "n6", "n7")) == SMALL
    assert eligible(2, counts=counts, unusable=("n4", "n5", "n6"), kept=SMALL) == LARGE
    assert eligible(2, counts=counts, unusable=SMALL | LARGE) == LARGE
    assert eligible(2, counts=counts, unusable=LARGE, held=("n7", "n8")) == LARGE


def test_one_node_of_a_partition_whose_jobs_have_a_limit_is_up() -> None:
    limited: dict[str, Any] = {"counts": SHARING, "cpus_in_small": 2}
    assert eligible(1, **limited) == LARGE
    assert eligible(1, unusable=LARGE, **limited) == SMALL
    assert eligible(1, unusable=SMALL, **limited) == LARGE


def test_nodes_of_one_of_several_features_are_those_that_could_come_free(counts: Counting) -> None:
    one: dict[str, Any] = {"counts": counts, "features": "[left|right]", "partitions": ("large",)}
    assert eligible(2, **one) == RIGHT
    assert eligible(2, unusable=RIGHT, **one) == LEFT & LARGE
    assert eligible(2, kept=("n7", "n8"), **one) == LEFT & LARGE
    assert eligible(2, held=("n4", "n5"), **one) == LEFT & LARGE
    assert eligible(1, unusable=RIGHT, **one) == LARGE, "one node may have any of the features"
    one["partitions"] = ("small", "large")
    assert eligible(2, **one) == SMALL, "of equal ones the first"
    assert eligible(2, unusable=("n1", "n2"), **one) == RIGHT


def test_a_job_stays_in_the_partition_of_its_hold(counts: Counting) -> None:
    """Jobs that end elsewhere meanwhile do not make it change."""
    assert eligible(2, counts=counts, held=("n1", "n3")) == SMALL
    assert eligible(2, counts=counts, kept=("n4", "n5", "n6"), held=("n7", "n8")) == LARGE


def test_nodes_without_jobs_come_before_those_from_which_jobs_would_have_to_leave(counts: Counting) -> None:
    assert eligible(2, counts=counts, busy=LARGE) == SMALL
    assert eligible(2, counts=counts, busy=LARGE | {"n1"}) == SMALL
    assert eligible(2, counts=counts, busy=LARGE | SMALL) == LARGE
    assert eligible(3, counts=counts, busy=LARGE, kept=("n1",)) == LARGE, "the others are too few"


def test_what_is_held_for_another_urgent_job_does_not_come_free(counts: Counting) -> None:
    assert eligible(2, counts=counts, held_for_others=("n4", "n5", "n6", "n7")) == SMALL
    assert eligible(2, counts=counts, held=("n7", "n8"), held_for_others=SMALL) == LARGE


def test_nodes_are_those_that_the_topology_gives_to_one_job(counts: Counting) -> None:
    pairs = [frozenset({f"n{number}", f"n{number + 1}"}) for number in (1, 3, 5, 7)]
    blocks = Network(parts=tuple(pairs), block_size=2)
    two: dict[str, Any] = {"counts": counts, "partitions": ("large",), "network": blocks}
    assert eligible(2, **two) == pairs[2], "n3 is in the other partition"
    assert eligible(2, kept=("n5",), **two) == pairs[3]
    assert eligible(2, held=("n7", "n8"), busy=pairs[3], **two) == pairs[3]
    assert eligible(3, kept=("n4",), **two) == pairs[2] | pairs[3]
    assert eligible(1, **two) == LARGE


def test_the_topology_of_a_partition_comes_before_that_of_the_cluster() -> None:
    (own,) = partitions(["PartitionName=batch Topology=topo2 State=UP"], command=())
    (other,) = partitions(["PartitionName=batch Topology=(null) State=UP"], command=())
    network = Network(parts=(frozenset({"n1", "n2"}), frozenset({"n3", "n4"})), block_size=2)
    job = replace(PENDING, node_count=2, cpu_count=2, tres="cpu=2,node=2", partitions=("batch",))
    pairs = Network(parts=(frozenset({"n5", "n6"}), frozenset({"n7", "n8"})))
    networks = Networks(default=network, of_partitions={"batch": pairs})
    assert [one.topology for one in (own, other)] == ["topo2", ""]

    def eligible(found: Networks, *names: str) -> frozenset[str] | None:
        resources = SnapshotResources(NODES, (own,)).within(Reach, found)
        return resources.asked(replace(job, partitions=names), urgent=True).eligible_nodes

    assert eligible(networks, "batch") == frozenset({"n5", "n6"})
    assert eligible(Networks(default=network), "batch") == frozenset({"n1", "n2"})
    assert networks.of(("batch", "other")) == ONE_NETWORK


def test_one_node_may_be_in_any_of_the_partitions(counts: Counting) -> None:
    assert eligible(1, counts=counts) is None
    assert eligible(1, counts=counts, partitions=("small",)) == SMALL


def test_more_nodes_than_one_of_the_partitions_has_are_those_of_the_other(counts: Counting) -> None:
    assert eligible(4, counts=counts, kept=LARGE) == LARGE


CHOICE = (
    RawPartition(name="one", state="UP", node_count_max=1),
    RawPartition(name="brief", state="UP", limit_max_s=600.0),
    RawPartition(name="large", state="UP"),
)
"""The last one has fewer nodes than the others."""


@pytest.mark.parametrize(
    ("said", "exclusive", "takes_blocks"),
    [
        ("ExclusiveUser=NO ExclusiveTopo=NO", False, False),  # 24.11
        ("ExclusiveUser=NO ExclusiveTopo=YES", True, True),
        ("ExclusiveUser=YES ExclusiveTopo=NO", True, False),
        ("Exclusive=TOPO", True, True),  # 26.05
        ("Exclusive=USER", True, False),
        ("Exclusive=NO", False, False),
    ],
)
def test_whether_jobs_of_a_partition_share_blocks(said: str, exclusive: bool, takes_blocks: bool) -> None:
    (found,) = partitions([f"PartitionName=topo DefaultTime=NONE {said} State=UP"], command=())
    assert (found.exclusive, found.takes_blocks) == (exclusive, takes_blocks)


@pytest.mark.parametrize(
    ("names", "changes", "nodes", "admitted"),
    [
        (("one", "large"), {"node_count": 2, "tres": "node=2"}, LARGE, True),
        (("one", "large"), {"node_count": 1, "tres": "node=1"}, None, True),
        (("brief", "large"), {"limit_s": 601.0}, LARGE, True),
        (("brief", "large"), {"limit_s": 600.0}, None, True),
        (("brief", "large"), {"limit_s": None}, None, True),
        (("one", "brief"), {"node_count": 2, "tres": "node=2", "limit_s": 601.0}, None, False),
        (
            ("one", "brief"),
            {"node_count": 2, "tres": "node=2", "limit_s": 601.0, "reason": "PartitionTimeLimit"},
            None,
            False,
        ),
        # A QOS overrides the limits: Slurm says that it waits for nodes.
        (("one", "brief"), {"node_count": 2, "limit_s": 601.0, "reason": "Resources"}, None, True),
        # Slurm's reason says it.
        (("brief",), {"limit_s": 601.0, "reason": "PartitionTimeLimit"}, None, True),
    ],
)
def test_partitions_that_do_not_admit_the_job_do_not_count(
    counts: Counting,
    names: tuple[str, ...],
    changes: dict[str, Any],
    nodes: frozenset[str] | None,
    admitted: bool,
) -> None:
    all_nodes = tuple(
        replace(one, partitions=frozenset({"one", "brief", *(["large"] if one.name in LARGE else [])}))
        for one in NODES
    )
    plain = {"cpu_count": 2, "task_count": 2, "memory_mb": 0.0 if counts is WHOLE_NODES else 100.0}
    job = replace(PENDING, **({"reason": "None", "tres": "", "partitions": names} | plain | changes))
    asked = SnapshotResources(all_nodes, CHOICE, counts=counts).asked(job, urgent=True)
    assert (asked.admitted, asked.eligible_nodes if admitted else None) == (admitted, nodes)
    assert bool(asked.blocked_by) is not admitted


@pytest.mark.parametrize(
    ("reason", "held", "admitted"),
    [
        ("None", SMALL, True),
        ("SchedDefer", SMALL, True),
        ("None", frozenset[str](), False),
        ("PartitionTimeLimit", SMALL, False),
    ],
)
def test_a_job_in_its_hold_was_admitted_until_slurm_says_otherwise(
    reason: str, held: frozenset[str], admitted: bool
) -> None:
    """Its QOS overrides the limits of both partitions. Slurm has not looked at it since it was bound."""
    reach = Reach(own={PENDING.job_id: SMALL}, held=held)
    job = replace(PENDING, partitions=("one", "brief"), limit_s=601.0, node_count=2, reason=reason)
    asked = SnapshotResources(NODES, CHOICE).within(lambda: reach).asked(job, urgent=True)
    assert asked.admitted is admitted


NOT_ALL = (
    RawPartition(name="accounts", state="UP", admission=TakenJobs(allowed_accounts="physics,other")),
    RawPartition(name="denied", state="UP", admission=TakenJobs(denied_accounts="a")),
    RawPartition(name="qos", state="UP", admission=TakenJobs(allowed_qos="long")),
    RawPartition(name="root", state="UP", admission=TakenJobs(root_only=True)),
    RawPartition(name="wide", state="UP", admission=TakenJobs(node_count_min=3)),
    RawPartition(name="lean", state="UP", admission=TakenJobs(memory_max_mb=99.0)),
    RawPartition(name="large", state="UP"),
)
"""All but the last do not take every job, and have all nodes."""


@pytest.mark.parametrize(
    ("name", "changes", "refused"),
    [
        ("accounts", {}, True),
        ("accounts", {"account": "physics"}, False),
        ("denied", {}, True),
        ("denied", {"account": "b"}, False),
        ("qos", {}, True),
        ("qos", {"qos": "urgent,long"}, False),
        ("root", {}, True),
        ("root", {"user_id": "0"}, False),
        ("wide", {}, True),
        ("wide", {"node_count": 3, "tres": "node=3,mem=300M", "cpu_count": 3, "task_count": 3}, False),
        ("lean", {}, True),
        ("lean", {"memory_mb": 99.0, "tres": "mem=99M"}, False),
    ],
)
@pytest.mark.parametrize("node_count", [1, 2])
def test_no_nodes_are_chosen_in_a_partition_that_does_not_take_the_job(
    name: str, changes: dict[str, Any], refused: bool, node_count: int
) -> None:
    everywhere = frozenset(one.name for one in NOT_ALL[:-1])
    nodes = tuple(
        replace(one, partitions=everywhere | ({"large"} if one.name in LARGE else frozenset()))
        for one in NODES
    )
    plain: dict[str, Any] = {
        "node_count": node_count,
        "cpu_count": node_count,
        "task_count": node_count,
        "tres": f"node={node_count},mem={node_count}00M",
        "memory_mb": 100.0,
        "account": "a",
        "qos": "urgent",
        "user_id": "7",
    }
    counts = Counting(shares=True, cpus=True, memory=True)
    job = replace(PENDING, **(plain | {"partitions": (name, "large"), "reason": "Resources"} | changes))
    asked = SnapshotResources(nodes, NOT_ALL, counts=counts).asked(job, urgent=True)
    assert (asked.eligible_nodes, asked.blocked_by) == (LARGE if refused else None, "")
    nowhere = replace(job, partitions=(name, "brief"), limit_s=601.0, reason=REFUSALS[name])
    partitions = (*NOT_ALL, RawPartition(name="brief", state="UP", limit_max_s=600.0))
    asked = SnapshotResources(nodes, partitions, counts=counts).asked(nowhere, urgent=True)
    assert asked.admitted is not refused


REFUSALS = {
    "accounts": "Job's account not permitted to use this partition (accounts allows physics not a)",
    "denied": "PartitionConfig",
    "qos": "Job's QOS not permitted to use this partition (qos allows long not urgent)",
    "root": "PartitionConfig",
    "wide": "PartitionNodeLimit",
    "lean": "MaxMemPerLimit",
}
"""How Slurm says of a job that the partition does not take it."""


@pytest.mark.parametrize("reason", REFUSALS.values())
def test_what_one_of_several_partitions_refuses_keeps_no_job_from_the_others(reason: str) -> None:
    several = replace(PENDING, partitions=("batch", "big"), reason=reason)
    assert translated(several, ANY).blocked_by == ""
    assert translated(replace(several, partitions=("batch",)), ANY).blocked_by != ""


def test_the_jobs_that_may_not_leave_are_known() -> None:
    stays = replace(RUNNING, job_id="1", nodes=("n1", "n2"), requeueable=False)
    leaves = replace(RUNNING, job_id="2", nodes=("n3",), requeueable=True)
    completing = replace(stays, job_id="3", nodes=("n4",), state="COMPLETING")
    part = replace(leaves, job_id="4+0", nodes=("n5",), heterogeneous=True)

    def nothing_taken(_raw: object) -> None:
        """makeway has taken nothing from any job."""

    assert kept_jobs((stays, leaves, completing, part), (ANY,), NO_RULES, nothing_taken) == (stays, part)
    closed = PartitionRules(closed=frozenset({"batch"}))
    assert kept_jobs((leaves,), (ANY,), closed, nothing_taken) == (leaves,)


def test_the_states_are_those_of_the_present_snapshot() -> None:
    """What was worked out for the nodes is kept when only their states change."""
    slurm = FakeSlurm(ROW | {"QOS": "urgent", "Partition": "batch,big", "tres-alloc": "cpu=2,node=2"})
    adapter = adapter_of(slurm)
    lost: set[str] = set()

    def change(lines: list[str]) -> list[str]:
        text = "\n".join(lines).replace(
            "PartitionName=batch", "PartitionName=big State=UP\nPartitionName=batch"
        )
        for number in range(4, 9):
            text = re.sub(rf"(NodeName=n{number} .*)Partitions=batch", r"\1Partitions=big", text)
        for name in lost:
            text = re.sub(rf"(NodeName={name} .*)State=IDLE", r"\1State=IDLE+DRAIN", text)
        return text.split("\n")

    slurm.change = change

    def found() -> frozenset[str] | None:
        (job,) = adapter.snapshot().jobs
        return job.eligible_nodes

    assert found() == LARGE
    lost |= LARGE
    assert found() == SMALL
    lost.clear()
    assert found() == LARGE
    theirs = {"Users": "root", "Flags": "SPEC_NODES", "Nodes": "n[4-8]"}
    slurm.reservations["theirs"] = made_reservation("theirs", **theirs)
    assert found() == SMALL
    slurm.reservations["theirs"] = made_reservation("theirs", **theirs, StartTime=f"{NOW_S + 60:.0f}")
    assert found() == LARGE
