"""Shards and slices of GPUs as three releases print them: what is configured, held and requested."""

import pytest

from makeway.adapters.slurm.parse import Gres
from makeway.adapters.slurm.parse_cluster import NO_JOB_DEFAULTS
from makeway.adapters.slurm.resources.details import details
from makeway.adapters.slurm.resources.gpu_parts import HeldGpus, held_gpus, parted_gpus
from makeway.adapters.slurm.resources.submission import submission
from makeway.adapters.slurm.resources.view import SnapshotResources
from makeway.policies.model import CPU, GPU, MEMORY, NO_RESOURCES, Resources
from tests.adapters.slurm.resources.captured_sharing import Shared, shared
from tests.adapters.slurm.test_parse import RELEASES
from tests.slurm.support.sharing import PARTS_REQUESTS

A100, SLICE = "gres/gpu:a100", "gres/gpu:1g.10gb"
SHARD, SHARD_A100 = "gres/shard", "gres/shard:a100"
SHARDED = {"n1", "n3"}
FIRST, SECOND = (f"{SHARD_A100}#{number}/4" for number in range(2))
"""The GPUs of n1, the first one also that of n3: the shards have the type of their GPU."""
FIRST_MPS, SECOND_MPS = (f"gres/mps:a100#{number}/100/100" for number in range(2))
BESIDE_FIRST, BESIDE_SECOND = (f"gres/mps:a100#{number}/others" for number in range(2))


@pytest.fixture(params=sorted(RELEASES))
def found(request: pytest.FixtureRequest) -> Shared:
    return shared(str(request.param), "parts")


def amounts(cpus: int = 1, memory_mb: int = 100, **generic: int) -> Resources:
    """With `gpus`, `a100`, `slices`, `shards` and `shards_a100`; `first` and `second` are shards of a GPU."""
    names = {"gpus": GPU, "a100": A100, "slices": SLICE, "shards": SHARD, "shards_a100": SHARD_A100}
    names |= {"first": FIRST, "second": SECOND}
    named = {names[name]: amount for name, amount in generic.items()}
    return Resources.of({CPU: cpus, MEMORY: memory_mb} | named)


def free(found: Shared, resources: SnapshotResources) -> dict[str, Resources]:
    """What no job holds of each node."""
    left = dict(resources.capacities)
    for job in found.jobs:
        for name, part in zip(job.nodes, resources.held(job).allocation or (), strict=True):
            left[name] = left[name].minus(part)
    return left


def test_each_gpu_with_shards_is_a_resource_of_its_own(found: Shared) -> None:
    whole = {"cpus": 8, "memory_mb": 16000}
    assert found.resources().capacities == {
        "n1": amounts(**whole, first=4, second=4),
        "n2": amounts(**whole, gpus=4, slices=4),
        "n3": amounts(**whole, first=4),
        "n4": amounts(**whole, gpus=3, a100=1, slices=2),
    }


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("two-shards", amounts(first=2)),
        ("next-to-it", amounts(first=1)),
        ("whole-gpu", amounts(second=4)),
        ("slice", amounts(gpus=1, slices=1)),
        ("slice-by-task", amounts(cpus=2, gpus=2, slices=2)),
        ("alone", amounts(first=3)),
        ("any-two", amounts(gpus=2, a100=1, slices=1)),
    ],
)
def test_a_gpu_is_held_with_its_shards_and_shards_with_their_gpu(
    found: Shared, name: str, part: Resources
) -> None:
    assert found.resources().held(found.job(name)).allocation == (part,)


def test_a_job_is_priced_by_what_it_asked_for(found: Shared) -> None:
    resources = found.resources()
    shares = {name: resources.held(found.job(name)).node_equivalents for name in ("alone", "two-shards")}
    assert shares == {"alone": 0.75, "two-shards": 0.25}


def test_what_is_free_is_what_slurm_would_give(found: Shared) -> None:
    left = free(found, found.resources())
    generic = {
        name: {key: amount for key, amount in has.amounts if key.startswith("gres/")}
        for name, has in left.items()
    }
    assert generic == {
        "n1": {FIRST: 1},
        "n2": {GPU: 1, SLICE: 1},
        "n3": {FIRST: 1},
        "n4": {GPU: 1, SLICE: 1},
    }


def test_a_job_that_does_not_say_which_gpus_it_holds_has_all(found: Shared) -> None:
    parted = parted_gpus(next(one for one in found.nodes if one.name == "n1").gres)
    assert parted is not None
    held = amounts(shards=2, shards_a100=2)
    for gpus in (HeldGpus(), HeldGpus(part_counts={0: None, 1: None}), HeldGpus(part_counts={7: 2})):
        assert parted.allocation(held, gpus, across_gpus=False) == amounts(first=4, second=4)


def test_of_gpus_of_several_types_those_without_shards_serve_jobs() -> None:
    """Which numbers those with shards have, the node does not say."""
    kinds = (("gpu", "a100", 1), ("gpu", "v100", 1), ("shard", "a100", 4))
    there = [Gres(name=name, type=kind, count=count) for name, kind, count in kinds]
    parted = parted_gpus(there)
    assert parted is not None
    whole = Resources.of({CPU: 8, GPU: 2, A100: 1, "gres/gpu:v100": 1, SHARD: 4, SHARD_A100: 4})
    assert parted.capacity(whole, across_gpus=False) == Resources.of({CPU: 8, GPU: 1, "gres/gpu:v100": 1})


@pytest.mark.parametrize(
    ("shown", "first", "second"),
    [
        # 22.05, then 24.11 and 26.05.
        ("mps:50(IDX:0)", {FIRST_MPS: 50}, {BESIDE_SECOND: 50}),
        ("mps:50(50/100,0/100)", {FIRST_MPS: 50}, {BESIDE_SECOND: 50}),
        ("gpu:a100:1(IDX:1)", {}, {SECOND_MPS: 100}),
        ("", {FIRST_MPS: 100, BESIDE_FIRST: 100}, {SECOND_MPS: 100, BESIDE_SECOND: 100}),
    ],
)
def test_of_a_node_with_mps_one_gpu_at_a_time_gives_parts(
    shown: str, first: dict[str, int], second: dict[str, int]
) -> None:
    parted = parted_gpus((Gres(name="gpu", type="a100", count=2), Gres(name="mps", type="a100", count=200)))
    assert parted is not None
    there = {CPU: 8, GPU: 2, A100: 2, "gres/mps": 200, "gres/mps:a100": 200}
    all_parts = dict.fromkeys((FIRST_MPS, SECOND_MPS, BESIDE_FIRST, BESIDE_SECOND), 100)
    for across in (False, True):
        whole = parted.capacity(Resources.of(there), across_gpus=across)
        assert whole == Resources.of({CPU: 8} | all_parts)
        gpu_count = 1 if shown.startswith("gpu") else 0
        mps_count = 0 if gpu_count else 50
        held = {CPU: 1, GPU: gpu_count, A100: gpu_count, "gres/mps": mps_count, "gres/mps:a100": mps_count}
        taken = parted.allocation(Resources.of(held), held_gpus(shown), across_gpus=across)
        assert taken == Resources.of({CPU: 1} | first | second)
    there_is_one = parted_gpus((Gres(name="gpu", type="", count=1), Gres(name="mps", type="", count=100)))
    assert there_is_one is not None
    one = there_is_one.capacity(Resources.of({GPU: 1, "gres/mps": 100}), across_gpus=False)
    assert one == Resources.of({"gres/mps#0/100": 100})


ASKED: dict[str, tuple[Resources | None, set[str] | None]] = {
    "--gres=shard:1": (amounts(shards=1), SHARDED),
    "--gres=shard:2": (amounts(shards=2), SHARDED),
    "--gres=shard:6": (amounts(shards=6), set()),
    "--gres=shard:a100:1": (amounts(shards=1, shards_a100=1), SHARDED),
    "--gres=shard:3 --exclusive": (None, SHARDED),
    "--gres=shard:6 --exclusive": (None, set()),
    "--gres=gpu:1g.10gb:1": (amounts(gpus=1, slices=1), {"n2", "n4"}),
    "--gres=gpu:a100:1": (amounts(gpus=1, a100=1), {"n1", "n3", "n4"}),
    "--gres=gpu:a100:1,gpu:1g.10gb:1": (amounts(gpus=2, a100=1, slices=1), {"n4"}),
    "--gpus=1": (amounts(gpus=1), None),
    "--gpus=3": (amounts(gpus=3), {"n2", "n4"}),
    "--gpus-per-node=1g.10gb:2": (amounts(gpus=2, slices=2), {"n2", "n4"}),
    "--gpus-per-socket=1 --sockets-per-node=1": (None, None),
    "-n2 --ntasks-per-socket=1": (amounts(cpus=2), None),
    "--sockets-per-node=2": (amounts(), None),
    "--hint=memory_bound": (amounts(), None),
    "-n4 --ntasks-per-gpu=2": (amounts(cpus=4), None),
    "-n4 --ntasks-per-gpu=2 --gpus=2": (amounts(cpus=4, gpus=2), {"n1", "n2", "n4"}),
    "-N2 -n2 --contiguous": (amounts(), None),
    "--gres=gpu:1 --gres-flags=enforce-binding": (amounts(gpus=1), None),
    "--tmp=100": (amounts(), {"n3"}),
    "--tmp=100 --exclusive": (None, {"n3"}),
}
UNCOUNTED = {
    "--gres=shard:6": "6 of gres/shard for one job",
    "--gres=shard:6 --exclusive": "6 of gres/shard for one job",
    "--gpus-per-socket=1 --sockets-per-node=1": "--gpus-per-socket",
    "-n2 --ntasks-per-socket=1": "--ntasks-per-socket",
    "--sockets-per-node=2": "--sockets-per-node",
    "--hint=memory_bound": "--cores-per-socket",
    "-n4 --ntasks-per-gpu=2": "--ntasks-per-gpu",
    "-N2 -n2 --contiguous": "--contiguous",
    "--gres=gpu:1 --gres-flags=enforce-binding": "--gres-flags=enforce-binding",
}


def test_every_captured_request_is_expected() -> None:
    assert ASKED.keys() == set(PARTS_REQUESTS)


@pytest.mark.parametrize("options", PARTS_REQUESTS)
def test_what_a_waiting_job_asks_of_each_node(found: Shared, options: str) -> None:
    asked = found.resources().asked(found.job(options), urgent=True)
    assert (asked.demand, asked.eligible_nodes) == ASKED[options]
    assert asked.uncounted == UNCOUNTED.get(options, "")


@pytest.mark.parametrize("options", PARTS_REQUESTS)
def test_the_same_options_ask_for_the_same_before_they_are_submitted(found: Shared, options: str) -> None:
    given = ("-N1", "-n1", "--mem=100", *options.split())
    if (options in UNCOUNTED and "shard" not in options) or "--ntasks-per-gpu" in options:
        with pytest.raises(ValueError, match=r"accepted|expected|invalid choice"):
            submission(given, found.partitions, NO_JOB_DEFAULTS)
        return
    asked = found.resources().submitted(submission(given, found.partitions, NO_JOB_DEFAULTS))
    assert (asked.demand, asked.eligible_nodes) == ASKED[options]
    assert asked.uncounted == UNCOUNTED.get(options, "")


@pytest.mark.parametrize("options", PARTS_REQUESTS)
def test_a_job_that_slurm_has_planned_asks_for_the_same(found: Shared, options: str) -> None:
    """Once backfill has planned it, its text has the planned nodes as well. The captured jobs are held."""
    job = found.job(options)
    text = found.texts[job.job_id]
    planned = text.replace(" NodeList= ", " NodeList= SchedNodeList=n[1,3] ", 1)
    assert planned != text
    assert details(planned, job) == details(text, job) is not None


def test_what_is_not_counted_does_not_matter_for_jobs_that_are_not_urgent(found: Shared) -> None:
    resources = found.resources()
    assert {resources.asked(found.job(options), urgent=False).uncounted for options in UNCOUNTED} == {""}


def test_shards_of_several_gpus_count_together_where_slurm_gives_them(found: Shared) -> None:
    resources = found.resources(parts_across_gpus=True)
    asked = resources.asked(found.job("--gres=shard:6"), urgent=True)
    assert (asked.eligible_nodes, asked.uncounted) == (frozenset({"n1"}), "")
    held = resources.held(found.job("whole-gpu")).allocation
    assert held == (amounts(second=4, shards=4, shards_a100=4),)


def test_a_request_for_shards_needs_a_node_that_has_some(found: Shared) -> None:
    left = free(found, found.resources())
    demand = found.resources().asked(found.job("--gres=shard:1"), urgent=True).demand or NO_RESOURCES
    assert {name for name, has in left.items() if has.covers(demand)} == SHARDED
