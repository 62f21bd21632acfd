"""Start times and nodes on shared machines are those of an independent scheduler."""

from random import Random

import pytest

from makeway.policies.model import Resources
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import Backfill, Order, SchedulerSettings
from makeway.simharness.engine.shared.nodes import Packing, SharingSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.job import SimJob
from tests.simharness.engine.shared.brute_force import (
    BackfillName,
    PackingName,
    SharedAsk,
    Site,
    shared_start_times,
)

RESOURCES = ("cpu", "mem", "gres/gpu", "gres/shard")
"""The first is the load of a node."""
BACKFILLS: tuple[BackfillName, ...] = ("none", "easy", "conservative")
SCHEDULERS = [(order, backfill) for order in Order for backfill in BACKFILLS]
WORKLOADS = 5000


def random_workload(random: Random) -> tuple[Site, list[SharedAsk]]:
    """A machine of up to 4 nodes of 1 to 4 resources, and up to 12 jobs, one in eight of whole nodes."""
    resources = random.randint(1, 4)
    base = [random.randint(2, 6) for _ in range(resources)]
    alike = random.random() < 0.6
    capacities = [
        tuple(base if alike else [random.randint(2, 6) for _ in range(resources)])
        for _ in range(random.randint(1, 4))
    ]
    packing: PackingName = random.choice(("dense", "least-loaded"))
    asks = []
    for _ in range(random.randint(5, 12)):
        runtime_s = random.randint(1, 12)
        limit_s = runtime_s + random.choice((0, 0, random.randint(1, 10)))
        like = random.choice(capacities)
        need = None
        if random.random() > 1 / 8:
            need = (random.randint(1, like[0]), *(random.randint(0, most) for most in like[1:]))
        able = sum(1 for capacity in capacities if need is None or all(map(int.__le__, need, capacity)))
        submit_s = random.randint(0, 20)
        asks.append(
            SharedAsk(float(submit_s), float(runtime_s), float(limit_s), random.randint(1, able), need)
        )
    return Site(capacities, packing), asks


def simulated(
    site: Site, asks: list[SharedAsk], order: Order, backfill: BackfillName, *, check: bool
) -> list[tuple[float, tuple[int, ...]]]:
    """When and where the simulator starts each job."""
    used = RESOURCES[: len(site.capacities[0])]
    jobs = [
        SimJob(
            str(number),
            ask.submit_s,
            ask.runtime_s,
            ask.walltime_s,
            ask.size,
            demand=None if ask.need is None else Resources.of(dict(zip(used, ask.need, strict=True))),
        )
        for number, ask in enumerate(asks)
    ]
    capacities = tuple(Resources.of(dict(zip(used, found, strict=True))) for found in site.capacities)
    cluster = SimCluster(
        len(capacities),
        jobs,
        scheduler=SchedulerSettings(order=order, backfill=Backfill(backfill)),
        storage=StorageSettings(),
        sharing=SharingSettings(capacities=capacities, packing=Packing(site.packing)),
        check=check,
    )
    cluster.run()
    record = cluster.record(policy="none")
    found: dict[int, tuple[float, tuple[int, ...]]] = {}
    for segment in record.segments:
        nodes = tuple(node for node in range(len(capacities)) if segment.nodes >> node & 1)
        found[segment.job] = (segment.start_s, nodes)
    return [found[number] for number in range(len(asks))]


@pytest.mark.parametrize(("order", "backfill"), SCHEDULERS)
def test_every_start_is_the_brute_force_one_on_5000_workloads(order: Order, backfill: BackfillName) -> None:
    for seed in range(SCHEDULERS.index((order, backfill)), WORKLOADS, len(SCHEDULERS)):
        site, asks = random_workload(Random(seed))
        expected = shared_start_times(site, asks, order=order.value, backfill=backfill)
        checked = seed % 10 == 0
        assert simulated(site, asks, order, backfill, check=checked) == expected, f"seed {seed}"
