"""What counts by the settings of slurm.conf, and what a request needs then."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.protocol import Unreadable
from makeway.adapters.slurm.parse import gres
from makeway.adapters.slurm.parse_cluster import (
    RawNode,
    RawPartition,
    partitions,
)
from makeway.adapters.slurm.partitions.weights import billing_weights
from makeway.adapters.slurm.resources.counting import (
    WHOLE_NODES,
    Counting,
    CpuLimit,
    CpuUnit,
    capacity,
    counting,
    cpu_limits,
    cpus_in,
)
from makeway.adapters.slurm.resources.holdings import Holdings
from makeway.adapters.slurm.resources.request import request_of
from makeway.adapters.slurm.resources.serving import Fit, Serving
from makeway.adapters.slurm.resources.view import SnapshotResources
from makeway.policies.model import CPU, GPU, MEMORY, Resources
from tests.adapters.slurm.jobs.raw_jobs import NODES, PENDING, raw_node
from tests.adapters.slurm.resources.test_details import COUNTS, JOB, TRUE, printed

SHARED = frozenset({"batch", "big"})
BY_NUMBER = replace(COUNTS, memory_by_unit=False)
BY_SOCKET = replace(COUNTS, unit=CpuUnit.SOCKET)
THREADED = tuple(
    replace(raw_node(number), cpu_count=8, usable_cpu_count=8, core_count=4, socket_count=2)
    for number in (1, 2)
)
"""Two nodes of two sockets of two cores of two threads."""


@pytest.mark.parametrize(
    ("plugin", "parameters", "expected"),
    [
        ("select/linear", "CR_Memory", WHOLE_NODES),
        ("select/cons_tres", "CR_Core_Memory", COUNTS),
        ("select/cons_res", "CR_CORE_MEMORY", COUNTS),
        ("select/cons_tres", "CR_Core", replace(COUNTS, memory=False)),
        ("select/cons_tres", "CR_CPU_Memory", BY_NUMBER),
        ("select/cons_tres", "CR_Socket_Memory,CR_LLN", BY_SOCKET),
        ("select/cons_tres", "CR_Memory", replace(COUNTS, cpus=False)),
        (
            "select/cons_tres",
            "CR_CORE,CR_ONE_TASK_PER_CORE",
            replace(COUNTS, memory=False, one_task_per_core=True),
        ),
    ],
)
def test_what_counts(plugin: str, parameters: str, expected: Counting) -> None:
    assert counting({"SelectType": plugin, "SelectTypeParameters": parameters}) == expected


def test_a_slurm_that_does_not_say_gives_whole_nodes() -> None:
    assert counting({}) == WHOLE_NODES


def test_only_what_counts_is_in_the_capacity_of_a_node() -> None:
    node = replace(raw_node(5), gres=gres("gpu:a100:4,bandwidth:lustre:no_consume:4G"))
    gpus = {GPU: 4, "gres/gpu:a100": 4}
    assert capacity(node, COUNTS, SHARED) == Resources.of({CPU: 16, MEMORY: 64_000, **gpus})
    assert capacity(node, replace(COUNTS, memory=False), SHARED) == Resources.of({CPU: 16, **gpus})
    assert capacity(node, replace(COUNTS, cpus=False), SHARED) == Resources.of({MEMORY: 64_000, **gpus})
    assert capacity(node, COUNTS, frozenset({"other"})) is None
    assert capacity(node, WHOLE_NODES, SHARED) is None


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("CPU=1.0,Mem=0.25G,GRES/gpu=2", {"cpu": 1.0, "mem": 0.25 / 1024, "gres/gpu": 2.0}),
        ("CPU=.5,Mem=.25G", {"cpu": 0.5, "mem": 0.25 / 1024}),
        ("CPU=1.,Mem=0.25g", {"cpu": 1.0, "mem": 0.25 / 1024}),
        ("CPU=1e-2,Mem=0.5GB,GRES/nvme=2K", {"cpu": 0.01, "mem": 0.5 / 1024, "gres/nvme": 2 / 1024}),
        ("(null)", {}),
    ],
)
def test_billing_weights_are_for_a_megabyte(text: str, weights: dict[str, float]) -> None:
    assert billing_weights(text) == tuple(sorted(weights.items()))


def test_billing_weights_that_cannot_be_read_matter_only_where_they_price_jobs() -> None:
    assert billing_weights("CPU=dear") is None
    line = "PartitionName=batch State=UP TRESBillingWeights=CPU=dear"
    (partition,) = partitions([line], command=("scontrol",))
    assert partition.weights is None
    assert SnapshotResources(NODES, (partition,), counts=COUNTS).capacities
    with pytest.raises(Unreadable, match="TRESBillingWeights of partition batch cannot be read"):
        SnapshotResources(NODES, (partition,), counts=COUNTS, by_weights=True)


@pytest.mark.parametrize(
    ("plugin", "parameters", "shares"),
    [
        ("mcs/account", "enforced,select", False),
        ("mcs/user", "Select,Enforced,privatedata", False),
        ("mcs/account", "enforced,ondemandselect", True),
        ("mcs/account", "ondemand,select", True),
        ("mcs/none", "enforced,select", True),
        ("(null)", "(null)", True),
    ],
)
def test_jobs_of_different_labels_share_no_node(plugin: str, parameters: str, shares: bool) -> None:
    """Slurm starts no job next to a job with another label (tried on 24.11)."""
    said = {"SelectType": "select/cons_tres", "SelectTypeParameters": "CR_CORE_MEMORY"}
    counts = counting(said | {"MCSPlugin": plugin, "MCSParameters": parameters})
    resources = SnapshotResources(NODES, (RawPartition(name="batch", state="UP"),), counts=counts)
    job = replace(PENDING, **(SMALL | {"node_count": 1}))
    assert (resources.asked(job, urgent=True).demand is not None) is shares
    assert bool(resources.capacities) is shares


SMALL: dict[str, Any] = {"tres": "", "cpu_count": 1, "task_count": 1, "memory_mb": 100.0}


def fit(nodes: tuple[RawNode, ...] = NODES, counts: Counting = COUNTS, **changes: Any) -> Fit:
    """How a job of one CPU and 100 MB is served that asks for these changes."""
    return Serving(nodes, SHARED, counts).fit(request_of(replace(PENDING, **(SMALL | changes)), None))


@pytest.mark.parametrize(
    ("counts", "tasks", "cpus"),
    [
        (COUNTS, 1, 2),
        (COUNTS, 3, 4),
        (BY_NUMBER, 3, 4),
        (BY_SOCKET, 1, 4),
        # Tried on 22.05, 24.11 and 26.05: one free socket is enough for them.
        (BY_SOCKET, 2, 4),
        (BY_SOCKET, 5, 8),
        (replace(COUNTS, one_task_per_core=True), 3, 6),
    ],
)
def test_a_job_gets_whole_cores_or_sockets(counts: Counting, tasks: int, cpus: int) -> None:
    found = fit(THREADED, counts, task_count=tasks, cpu_count=tasks)
    assert found.demand is None or found.demand.amount(CPU) == cpus
    assert (found.demand is None) is (cpus == 8), "all CPUs of a node are a whole node"


@pytest.mark.parametrize(("tasks_per_core", "cpus"), [(None, 4), (1, 6), (2, 4)])
def test_as_many_tasks_of_a_job_share_a_core_as_it_says(tasks_per_core: int | None, cpus: int) -> None:
    """Three tasks of one CPU on cores of two threads: `--ntasks-per-core`."""
    request = request_of(replace(PENDING, **(SMALL | {"task_count": 3, "cpu_count": 3})), None)
    found = Serving(THREADED, SHARED, COUNTS).fit(replace(request, tasks_per_core=tasks_per_core or 0))
    assert found.demand is not None
    assert found.demand.amount(CPU) == cpus


def test_where_cpus_are_given_by_number_a_job_may_hold_more_than_it_asked_for() -> None:
    """As squeue shows it; it never holds less."""
    for asked, believed in ((3, True), (4, True), (5, False)):
        job = replace(JOB, cpu_count=asked)
        holdings = Holdings(BY_NUMBER)
        holdings.learn((job,), {"7": printed(job, "")}, {})
        holding = holdings.of(job)
        assert holding is not None
        assert (holding.held is not None) is believed


def test_one_node_may_be_of_any_of_several_partitions_and_several_nodes_are_of_one() -> None:
    nodes = tuple(
        replace(one, partitions=frozenset({"big" if number > 4 else "batch"}))
        for number, one in enumerate(NODES, start=1)
    )
    serving = Serving(nodes, SHARED, COUNTS)
    job = replace(PENDING, tres="", partitions=("batch", "big"), memory_mb=100.0)
    one = serving.fit(request_of(replace(job, cpu_count=1, task_count=1), None))
    assert (one.node_count, one.eligible) == (1, None)
    many = serving.fit(request_of(replace(job, tres="node=3", cpu_count=24, task_count=24), None))
    assert many.eligible == frozenset({"n5", "n6", "n7", "n8"})


CAPPED = tuple(replace(one, partitions=one.partitions | {"capped"}) for one in NODES)
"""All nodes are in a partition whose jobs may have six CPUs of a node together."""
LIMITS = {"capped": CpuLimit(of_node=6)}


def fit_in(*partitions: str, nodes: tuple[RawNode, ...] = CAPPED, **changes: Any) -> Fit:
    serving = Serving(nodes, SHARED | {"capped"}, COUNTS, LIMITS)
    job = replace(PENDING, **(SMALL | {"partitions": partitions} | changes))
    return serving.fit(request_of(job, None))


def test_the_jobs_of_a_partition_may_have_so_many_cpus_of_a_node_together() -> None:
    has = capacity(CAPPED[4], COUNTS, SHARED, LIMITS)
    assert has is not None
    assert (has.amount(CPU), has.amount(cpus_in("capped"))) == (16, 6)
    few = capacity(replace(CAPPED[4], usable_cpu_count=4), COUNTS, SHARED, LIMITS)
    assert few is not None
    assert few.amount(cpus_in("capped")) == 4
    assert capacity(NODES[0], COUNTS, SHARED, LIMITS) == capacity(NODES[0], COUNTS, SHARED)

    found = fit_in("capped", cpu_count=4, task_count=4)
    assert found.demand is not None
    assert (found.demand.amount(CPU), found.demand.amount(cpus_in("capped"))) == (4, 4)
    elsewhere = fit_in("batch", cpu_count=4, task_count=4)
    assert elsewhere.demand is not None
    assert elsewhere.demand.amount(cpus_in("capped")) == 0


def test_so_many_cpus_of_each_socket() -> None:
    """MaxCPUsPerSocket, alone and beside MaxCPUsPerNode."""
    line = "PartitionName=capped State=UP MaxCPUsPerNode={} MaxCPUsPerSocket={}"
    for of_node, of_socket, expected in (("UNLIMITED", "2", 4), ("3", "2", 3), ("6", "2", 4)):
        limits = cpu_limits(partitions([line.format(of_node, of_socket)], command=("scontrol",)), COUNTS)
        has = capacity(replace(CAPPED[4], socket_count=2), COUNTS, SHARED, limits)
        assert has is not None
        assert has.amount(cpus_in("capped")) == expected
        serving = Serving(
            tuple(replace(one, socket_count=2) for one in CAPPED), SHARED | {"capped"}, COUNTS, limits
        )
        for cpu_count, node_count in ((expected, 1), (expected + 1, 2)):
            changes = SMALL | {"partitions": ("capped",), "cpu_count": cpu_count, "task_count": cpu_count}
            assert serving.fit(request_of(replace(PENDING, **changes), None)).node_count == node_count
    unlimited = line.format("UNLIMITED", "UNLIMITED")
    assert not cpu_limits(partitions([unlimited], command=("scontrol",)), COUNTS)


def test_a_job_of_more_cpus_than_its_partition_may_have_of_a_node_gets_several_nodes() -> None:
    assert fit_in("batch", cpu_count=8, task_count=8).node_count == 1
    found = fit_in("capped", cpu_count=8, task_count=8)
    assert found.demand is not None
    assert (found.node_count, found.demand.amount(cpus_in("capped"))) == (2, 4)


def test_of_two_partitions_with_the_same_nodes_the_one_without_a_limit_is_taken() -> None:
    batch = fit_in("batch", cpu_count=4, task_count=4)
    for names in (("capped", "batch"), ("batch", "capped")):
        assert fit_in(*names, cpu_count=4, task_count=4) == batch


def test_a_running_job_holds_its_cpus_of_the_limit_of_its_partition_alone() -> None:
    both = tuple(
        RawPartition(name=name, state="UP", cpus_per_node_max=6 if name in LIMITS else None)
        for name in ("batch", "capped")
    )
    for name, limited in (("batch", False), ("capped", True)):
        job = replace(JOB, partitions=(name,))
        holdings = Holdings(COUNTS)
        holdings.learn((job,), {"7": printed(job, "")}, {})
        held = SnapshotResources(CAPPED, both, counts=COUNTS, holdings=holdings).held(job)
        assert held.allocation is not None
        assert [part.amount(cpus_in("capped")) for part in held.allocation] == [
            part.amount(CPU) if limited else 0 for part in TRUE.values()
        ]


def test_nodes_that_are_asked_for_or_excluded() -> None:
    assert fit(required_nodes=("n2",)).eligible == frozenset({"n2"})
    assert fit(required_nodes=("n2", "n3")).eligible == frozenset({"n2", "n3"})
    assert fit(tres="node=3", required_nodes=("n2",)).eligible == frozenset()
    assert "n2" not in (fit(excluded_nodes=("n2",)).eligible or ())
    assert fit(features="large").eligible == frozenset({"n5", "n6", "n7", "n8"})


def test_what_fits_nowhere_is_served_by_no_node() -> None:
    for changes in ({"gres_per_node": gres("fpga:1")}, {"memory_mb": 1e9}, {"partitions": ("closed",)}):
        found = fit(**changes)
        assert (found.eligible, found.node_count) == (frozenset(), 1)


def test_the_fewest_nodes_on_which_the_even_share_fits() -> None:
    """The large nodes have 16 CPUs and 4 GPUs."""
    assert fit(task_count=20, cpu_count=20).node_count == 2
    assert fit(gres_per_job=gres("gpu:5")).node_count == 2
    found = fit(gres_per_job=gres("gpu:a100:5"))
    assert found.demand is not None
    assert (found.demand.amount(GPU), found.demand.amount("gres/gpu:a100")) == (3, 3)
    assert fit(gres_per_job=gres("gpu:17")).eligible == frozenset()


def test_no_more_nodes_than_the_job_may_have() -> None:
    """Twenty tasks fit on five nodes in even shares, and on a node of 16 CPUs and one of four."""
    nodes = (*NODES[4:5], *(replace(one, cpu_count=4, usable_cpu_count=4, core_count=4) for one in NODES[:4]))
    wanted = replace(PENDING, cpu_count=20, task_count=20, memory_mb=100.0, tres="node=2")
    request = request_of(wanted, None)
    serving = Serving(nodes, SHARED, COUNTS)
    assert serving.fit(request).node_count == 5
    found = serving.fit(replace(request, most_nodes=2))
    assert (found.node_count, found.demand, found.eligible) == (2, None, frozenset({"n1", "n5"}))
    assert serving.fit(replace(request, most_nodes=1)).eligible == frozenset()
    assert serving.fit(replace(request, most_nodes=5)) == serving.fit(request)


def test_whole_nodes_of_different_sizes_where_no_even_share_fits() -> None:
    """28 tasks: ten on each of three nodes are too many for the nodes of eight CPUs."""
    sizes = {"a": 16, "b": 8, "c": 8, "d": 4, "e": 4}
    nodes = tuple(
        replace(NODES[0], name=name, cpu_count=size, usable_cpu_count=size, core_count=size)
        for name, size in sizes.items()
    )
    found = fit(nodes, task_count=28, cpu_count=28)
    assert (found.node_count, found.demand) == (3, None)
    assert found.eligible == frozenset("abc"), "three with d may have only 20"
    assert fit(nodes, task_count=36, cpu_count=36).eligible == frozenset("abcd")
    assert fit(nodes, task_count=45, cpu_count=45).eligible == frozenset()
    # A node of eight CPUs has two tasks of three CPUs, and one of four has none of five.
    assert fit(nodes, task_count=9, cpu_count=27, cpus_per_task=3).eligible == frozenset("abc")
    assert fit(nodes, task_count=5, cpu_count=25, cpus_per_task=5).eligible == frozenset("abc")


def test_no_node_of_a_job_is_without_a_task() -> None:
    """Slurm never starts two tasks with six GPUs on three nodes of two, tried on 22.05 and 24.11."""
    nodes = tuple(replace(one, gres=gres("gpu:a100:2")) for one in NODES[:3])
    wanted: dict[str, Any] = {"gres_per_job": gres("gpu:a100:6"), "cpu_count": 2, "task_count": 2}
    assert fit(nodes, **wanted).eligible == frozenset()
    assert fit(nodes, **(wanted | {"cpu_count": 3, "task_count": 3})).node_count == 3
    assert fit(nodes, **(wanted | {"cpu_count": 1, "task_count": 1})).node_count == 3, "as of one without -n"


def test_where_the_job_fits_on_as_many_nodes_as_it_may_have_that_partition_is_taken() -> None:
    nodes = tuple(
        replace(one, partitions=frozenset({"big" if number > 4 else "batch"}))
        for number, one in enumerate(NODES, start=1)
    )
    serving = Serving((*nodes, *(replace(nodes[0], name=f"m{index}") for index in range(9))), SHARED, COUNTS)
    wanted = replace(PENDING, cpu_count=16, task_count=16, memory_mb=100.0, tres="node=2")
    request = request_of(replace(wanted, partitions=("batch", "big")), None)
    assert serving.fit(request).node_count == 8
    found = serving.fit(replace(request, most_nodes=2))
    assert (found.node_count, found.eligible) == (2, frozenset({"n5", "n6", "n7", "n8"}))


def test_of_several_features_those_count_whose_nodes_have_enough() -> None:
    """More nodes are small, and only the large ones have eight CPUs."""
    more = (*NODES, *(replace(NODES[0], name=f"m{number}") for number in range(4)))
    wanted: dict[str, Any] = {"tres": "node=2", "cpu_count": 16, "task_count": 2, "cpus_per_task": 8}
    found = fit(more, features="[small|large]", **wanted)
    assert (found.node_count, found.eligible) == (2, frozenset({"n5", "n6", "n7", "n8"}))
    assert found == fit(more, features="large", **wanted)
