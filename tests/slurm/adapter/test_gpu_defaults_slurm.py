"""What jobs get for each GPU that do not say: the defaults of the partition and of the cluster."""

from collections.abc import Iterator

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from makeway.policies.model import CPU, GPU, MEMORY, Resources
from tests.adapters.conformance import running, waiting
from tests.slurm.support.sharing import SLEEP
from tests.slurm.support.world import SlurmWorld, slurm_settings
from tests.waiting import await_that

pytestmark = pytest.mark.slurm

PARTITIONS = (
    "PartitionName=batch Nodes=n1 Default=YES State=UP",
    "PartitionName=own Nodes=n1 DefCpuPerGPU=1 DefMemPerGPU=700 State=UP",
    "PartitionName=half Nodes=n1 DefCpuPerGPU=1 State=UP",
)
REQUESTS = (
    "--gpus=2",
    "--gpus=2 -p own",
    "--gpus=2 -p half",
    "--gres=gpu:1",
    "--gpus=1 --cpus-per-gpu=4",
    "--gpus=1 --mem-per-gpu=900",
    "--gpus=2 --mem=300",
    "--gpus=2 --cpus-per-gpu=1 --mem=250",
    "--gpus=2 --mem=300 -p own",
    "--gpus=2 -c1",
    "--gpus=2 -c3",
    "-n2 --gpus=1",
    "-n1",
)
BY_CPU = "--gpus=2 --mem-per-cpu=150"
"""24.11 and later do not show that this memory is for each CPU."""


@pytest.fixture(scope="module")
def gpu_node(slurm_root: str | None) -> Iterator[DevCluster]:
    spec = DevSpec(
        node_count=1,
        cpus_per_node=8,
        memory_mb=16000,
        memory_counts=True,
        gpus={"n1": "a100:4"},
        settings=slurm_settings(DefMemPerCPU="100", DefCpuPerGPU="2", DefMemPerGPU="500"),
        partitions=PARTITIONS,
        root=slurm_root,
    )
    with dev_cluster(spec) as cluster:
        yield cluster


@pytest.fixture
def world(gpu_node: DevCluster) -> Iterator[SlurmWorld]:
    world = SlurmWorld(gpu_node)
    world.clear()
    yield world
    world.clear()


@pytest.mark.parametrize("options", REQUESTS)
def test_a_job_gets_what_it_was_read_to_ask_for(world: SlurmWorld, options: str) -> None:
    urgent, demand = asked(world, options)
    assert demand == world.adapter.as_submitted(options.split(), walltime_s=600.0).demand
    assert demand == got(world, urgent)


def test_memory_by_cpu_is_told_by_old_releases_only(world: SlurmWorld) -> None:
    urgent, demand = asked(world, BY_CPU)
    told = world.adapter.as_submitted(BY_CPU.split(), walltime_s=600.0).demand
    assert told is not None
    assert told == got(world, urgent)
    hidden = Resources.of(dict(told.amounts) | {MEMORY: 150})
    assert demand == (told if world.cluster.version == (22, 5) else hidden)


def asked(world: SlurmWorld, options: str) -> tuple[str, Resources]:
    """A job that waits for the full node, and what it needs as read once the scheduler has looked at it."""
    full = world.cluster.submit(SLEEP, "-N1", "--exclusive")
    running(world, full)
    urgent = world.cluster.submit(SLEEP, "--account=urgent", *options.split())

    def looked_at() -> bool:
        shown = world.cluster.run("scontrol", "show", "job", urgent)
        return "LastSchedEval=Unknown" not in shown

    await_that("the scheduler looks at the job", looked_at)
    demand = waiting(world, urgent).demand
    assert demand is not None
    world.cluster.run("scancel", full)
    return urgent, demand


def got(world: SlurmWorld, job_id: str) -> Resources:
    """What a job holds of the node."""
    (part,) = running(world, job_id).allocation or ()
    return Resources.of({name: part.amount(name) for name in (CPU, GPU, MEMORY)})
