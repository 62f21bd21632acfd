"""Nodes, running and waiting jobs of a shared cluster, as three releases print them: all say the same."""

from dataclasses import replace

import pytest

from makeway.adapters.slurm.resources.counting import Counting
from makeway.adapters.slurm.resources.licenses import LicenseCount
from makeway.policies.model import CPU, GPU, MEMORY, Resources
from tests.adapters.slurm.resources.captured_sharing import Shared, shared
from tests.adapters.slurm.test_parse import RELEASES
from tests.slurm.support.sharing import HOSTILE_SHARE, REQUESTS

A100 = "gres/gpu:a100"
GPU_NODES = {"n1", "n2", "n3", "n4"}
Amounts = tuple[int, int, int]
"""CPUs, megabytes, GPUs."""


@pytest.fixture(params=sorted(RELEASES))
def found(request: pytest.FixtureRequest) -> Shared:
    return shared(str(request.param))


def amounts(cpus: int, memory_mb: int, gpus: int = 0, typed: int = 0) -> Resources:
    return Resources.of({CPU: cpus, MEMORY: memory_mb, GPU: gpus, A100: typed})


def test_cores_and_memory_count(found: Shared) -> None:
    assert found.counts == Counting(shares=True, cpus=True, memory=True, memory_by_unit=True)


def test_a_node_has_what_is_not_set_aside_for_the_system(found: Shared) -> None:
    capacities = found.resources().capacities
    assert capacities == {
        **dict.fromkeys(("n1", "n2", "n3", "n4"), amounts(8, 16000, 4, 4)),
        "n5": amounts(8, 16000),
        "n6": amounts(6, 15000),
    }


def test_partitions_whose_jobs_share_no_node_are_known(found: Shared) -> None:
    assert {one.name: one.exclusive for one in found.partitions} == {
        "batch": False,
        "whole": True,
        "own": True,
    }
    weights = {one.name: dict(one.weights or ()) for one in found.partitions}
    assert weights == {"batch": {}, "whole": {}, "own": {"cpu": 1.0, "mem": 0.25 / 1024}}


def test_licenses_are_read(found: Shared) -> None:
    assert found.licenses.counts == {"fluent": LicenseCount(free=1, reserved=0)}


@pytest.mark.parametrize(
    ("name", "parts", "node_equivalents"),
    [
        ("commented", (amounts(5, 2000),), 0.625),
        ("licensed", (amounts(1, 500),), 0.125),
        (HOSTILE_SHARE, (amounts(2, 2048, 2, 2), amounts(1, 2048, 1, 1)), 0.75),
        ("all-memory", None, None),
        ("exclusive", None, None),
        ("exclusive-user", None, 0.25),
        ("array", None, 0.25),
    ],
)
def test_what_a_running_job_holds_on_each_node(
    found: Shared, name: str, parts: tuple[Resources, ...] | None, node_equivalents: float | None
) -> None:
    held = found.resources().held(found.job(name))
    assert (held.allocation, held.node_equivalents) == (parts, node_equivalents)


def test_components_of_a_heterogeneous_job_hold_their_own_parts(found: Shared) -> None:
    resources = found.resources()
    held = {job.job_id[-2:]: resources.held(job).allocation for job in found.jobs if job.name == "het"}
    assert held == {"+0": (amounts(1, 500),), "+1": (amounts(2, 1000),)}


def test_the_parts_of_a_node_are_never_more_than_it_has(found: Shared) -> None:
    resources = found.resources()
    for name, has in resources.capacities.items():
        for job in found.jobs:
            parts = resources.held(job).allocation or ()
            for node, part in zip(job.nodes, parts, strict=False):
                assert node != name or has.covers(part)


ASKED: dict[str, tuple[int, Resources | None, set[str] | None]] = {
    "-N2 -n4": (2, amounts(2, 1000), None),
    "-n8": (1, None, {"n1", "n2", "n3", "n4", "n5"}),
    "-n20": (3, None, {"n1", "n2", "n3", "n4", "n5"}),
    "-N2-4 -n8": (2, amounts(4, 2000), None),
    "-n4 -c2 --mem=3G": (1, None, {"n1", "n2", "n3", "n4", "n5"}),
    "-n2 --mem-per-cpu=1500": (1, amounts(2, 3000), None),
    "-n2 --gpus=4": (1, amounts(2, 1000, 4), GPU_NODES),
    "-n2 --gpus=6": (2, amounts(1, 500, 3), GPU_NODES),
    "-n2 --gpus=2 --mem-per-gpu=2G": (1, amounts(2, 4096, 2), GPU_NODES),
    "-n1 --gpus=2 --cpus-per-gpu=2": (1, amounts(4, 2000, 2), GPU_NODES),
    "-N2 --gpus-per-node=2": (2, amounts(1, 500, 2), GPU_NODES),
    "-N1 --gres=gpu:a100:1": (1, amounts(1, 500, 1, 1), GPU_NODES),
    "-n4 --gpus-per-task=1": (1, amounts(4, 2000, 4), GPU_NODES),
    # On a node with two threads per core three tasks get four CPUs.
    "-N2 --ntasks-per-node=3": (2, amounts(4, 2000), None),
    "-n10 --ntasks-per-node=4": (3, amounts(4, 2000), None),
    "-N1 --exclusive": (1, None, None),
    "-N1 --exclusive=user": (1, None, None),
    "-N1 -n1 -c2 --hint=nomultithread -C ht": (1, amounts(4, 1000), {"n6"}),
    "-N1 -n3 --mem-per-cpu=200 -C ht": (1, amounts(4, 800), {"n6"}),
    "-N1 -n2 --ntasks-per-core=1 -C ht": (1, amounts(4, 2000), {"n6"}),
    "-N1 --mem=0": (1, None, None),
    "-n1 -p batch,whole": (1, amounts(2, 1000), None),
    "-n1 -p whole": (1, None, {"n4", "n5", "n6"}),
    "-n1 -p own": (1, None, {"n5", "n6"}),
    "-n1 -L fluent:2": (1, amounts(2, 1000), None),
    # How many sockets it gets depends on the node: makeway does not count it.
    "-n2 --gpus-per-socket=1 --sockets-per-node=1": (1, None, GPU_NODES),
    "-N1 --mincpus=6": (1, amounts(6, 3000), None),
    "-N1 --gres=none": (1, amounts(2, 1000), None),
    "-N1 -w n2 -x n3": (1, amounts(1, 500), {"n2"}),
}


def test_every_captured_request_is_expected() -> None:
    assert ASKED.keys() == set(REQUESTS)


@pytest.mark.parametrize("request_options", REQUESTS)
def test_what_a_waiting_job_asks_of_each_node(found: Shared, request_options: str) -> None:
    node_count, demand, eligible = ASKED[request_options]
    asked = found.resources().asked(found.job(request_options), urgent=True)
    assert (asked.node_count, asked.demand) == (node_count, demand)
    assert asked.eligible_nodes == eligible
    assert asked.node_count_max == node_count


@pytest.mark.parametrize(("name", "node_count"), [("-n20", 1), ("-N2 -n4", 2)])
def test_a_job_that_overcommits_asks_for_one_cpu_of_each_node(
    found: Shared, name: str, node_count: int
) -> None:
    """As squeue prints `-n20 --overcommit`: one CPU for twenty tasks."""
    job = replace(found.job(name), cpu_count=node_count, least_cpus_per_node=1)
    asked = found.resources().asked(job, urgent=True)
    # On a node with two threads per core it gets a whole core.
    assert (asked.node_count, asked.demand) == (node_count, amounts(2, 1000))
    assert asked.blocked_by == ""


def test_without_details_memory_is_taken_from_the_sum(found: Shared) -> None:
    """As for waiting jobs that are not urgent: squeue does not tell what their memory is asked for by."""
    resources = found.resources(detailed=False)
    asked = {
        name: resources.asked(found.job(name), urgent=False).demand
        for name in ("-n2 --mem-per-cpu=1500", "-n2 --gpus=2 --mem-per-gpu=2G", "-N1 --mem=0", "-N2 -n4")
    }
    assert asked == {
        "-n2 --mem-per-cpu=1500": amounts(2, 3000),
        "-n2 --gpus=2 --mem-per-gpu=2G": amounts(2, 4096, 2),
        "-N1 --mem=0": None,
        "-N2 -n4": amounts(2, 1000),
    }


def test_a_partition_with_billing_weights_prices_by_them(found: Shared) -> None:
    """One array task: 2 of 8 CPUs and 1000 of 16000 MB, a CPU as dear as 4 GB."""
    held = found.resources(by_weights=True).held(found.job("array"))
    assert held.node_equivalents == pytest.approx((2 + 1000 / 4096) / (8 + 16000 / 4096))
    assert found.resources(by_weights=True).held(found.job("commented")).node_equivalents == 0.625
