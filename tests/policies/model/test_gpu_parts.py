"""GPUs that are given out by parts: what one job can get of them, and how they count."""

import pytest

from makeway.policies.model import (
    CPU,
    GPU,
    Resources,
    alternatives,
    gpu_equivalents,
    parted_gpu,
    without_numbers,
)

A100, SHARD, SHARD_A100 = "gres/gpu:a100", "gres/shard", "gres/shard:a100"
GPUS = {"gres/shard:a100#0/4": 4, "gres/shard:a100#1/4": 3, "gres/shard:a100#2/4": 1}
"""What is free of three GPUs."""
FREE = Resources.of({CPU: 8} | GPUS)


@pytest.mark.parametrize(
    ("demand", "fits"),
    [
        ({SHARD: 4}, True),
        ({SHARD: 5}, False),
        ({SHARD: 3, SHARD_A100: 3, CPU: 8}, True),
        ({SHARD: 1, CPU: 9}, False),
        ({"gres/shard:v100": 1}, False),
        ({"gres/mps": 1}, False),
        ({GPU: 1}, True),
        ({GPU: 1, A100: 1}, True),
        ({GPU: 2}, False),
        ({"gres/gpu:v100": 1}, False),
        ({"gres/shard:a100#1/4": 3}, True),
        ({"gres/shard:a100#1/4": 4}, False),
    ],
)
def test_the_parts_of_a_job_are_those_of_one_gpu(demand: dict[str, int], fits: bool) -> None:
    assert FREE.covers(Resources.of(demand)) is fits


def test_names_are_read_as_they_are_written() -> None:
    for name in GPUS:
        gpu = parted_gpu(name)
        assert gpu is not None
        assert gpu.name == name
    assert [parted_gpu(name) for name in (CPU, GPU, SHARD_A100, "gres/odd#name", "gres/shard#1/")] == [
        None
    ] * 5


def test_one_way_for_each_set_of_gpus_that_can_meet_a_demand() -> None:
    """The GPU of the lowest rank first; those of another type and too small ones do not count."""
    names = ["gres/shard:a100#0/4", "gres/shard:a100#1/4", "gres/shard:v100#2/4", "gres/shard:a100#3/2"]
    gpus = [gpu for gpu in map(parted_gpu, names) if gpu is not None]
    ranked = [(gpu, float(-gpu.number)) for gpu in gpus]
    assert alternatives(ranked, {CPU: 1, SHARD: 3, SHARD_A100: 3}) == (
        {CPU: 1, names[1]: 3},
        {CPU: 1, names[0]: 3},
    )
    assert alternatives(ranked, {A100: 3, GPU: 3}) == ({names[3]: 2, names[1]: 4, names[0]: 4},)
    assert alternatives(ranked, {CPU: 1}) == ()


def test_sums_over_the_gpus() -> None:
    assert gpu_equivalents(dict(FREE.amounts)) == 2.0
    assert without_numbers(dict(FREE.amounts)) == {CPU: 8, GPU: 1, A100: 1, SHARD: 8, SHARD_A100: 8}
    held = {CPU: 1, "gres/shard#0/4": 4}
    assert without_numbers(held, as_held=True) == {CPU: 1, GPU: 1}
    assert without_numbers({"gres/shard#0/4": 1} | {SHARD: 1}) == {SHARD: 1}


MPS = "gres/mps"
FIRST, SECOND = (f"{MPS}:a100#{number}/100/100" for number in range(2))
BESIDE_FIRST, BESIDE_SECOND = (f"{MPS}:a100#{number}/others" for number in range(2))
IN_USE = {FIRST: 40, SECOND: 100, BESIDE_FIRST: 100, BESIDE_SECOND: 40}
"""What is free of two GPUs of which one gives parts at a time: 60 of the first one are in use."""


@pytest.mark.parametrize(
    ("demand", "fits"),
    [({MPS: 40}, True), ({MPS: 41}, False), ({f"{MPS}:a100": 40}, True), ({GPU: 1}, True), ({GPU: 2}, False)],
)
def test_a_free_gpu_gives_no_parts_beside_one_that_does(demand: dict[str, int], fits: bool) -> None:
    assert Resources.of(IN_USE).covers(Resources.of(demand)) is fits
    assert Resources.of(dict.fromkeys(IN_USE, 100)).covers(Resources.of(demand))


def test_a_gpu_that_is_to_give_parts_needs_those_of_the_others() -> None:
    gpus = [(gpu, 0.0) for gpu in map(parted_gpu, (FIRST, SECOND)) if gpu is not None]
    assert [gpu.name for gpu, _ in gpus] == [FIRST, SECOND]
    assert parted_gpu(BESIDE_FIRST) is None
    assert alternatives(gpus, {MPS: 60}) == ({FIRST: 60, BESIDE_FIRST: 100}, {SECOND: 60, BESIDE_SECOND: 100})
    assert alternatives(gpus, {GPU: 1}) == ({FIRST: 100}, {SECOND: 100})
    assert gpu_equivalents(IN_USE) == 1.4
    assert without_numbers(IN_USE) == {GPU: 1, A100: 1, MPS: 140, f"{MPS}:a100": 140}
