"""Nodes that jobs share: what a snapshot says is what Slurm gives and counts."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.site.times import NOT_BEFORE_S
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.adapters.slurm.resources import holdings
from makeway.policies.model import CPU, GPU, MEMORY, Cluster, Job, Resources, total
from tests import acts
from tests.adapters.conformance import job_of, running, waiting
from tests.slurm.support.crowd import CountingRunner
from tests.slurm.support.sharing import HOSTILE_SHARE, SHARED_SPEC, SLEEP, UNEVEN
from tests.slurm.support.world import SETTINGS, SlurmWorld, slurm_settings

pytestmark = pytest.mark.slurm

URGENT = "--account=urgent"
Amounts = tuple[int, int, int]
"""CPUs, megabytes, GPUs."""


@pytest.fixture(scope="module")
def shared_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """Four nodes with GPUs, two with hyperthreads, all shared by cores, memory and GPUs."""
    settings = slurm_settings(**SHARED_SPEC.settings)
    with dev_cluster(replace(SHARED_SPEC, root=slurm_root, settings=settings)) as cluster:
        yield cluster


@pytest.fixture
def shared(shared_nodes: DevCluster) -> Iterator[SlurmWorld]:
    world = SlurmWorld(shared_nodes)
    world.clear()
    yield world
    world.clear()


def counted_by_slurm(world: SlurmWorld) -> dict[str, Amounts]:
    """What is in use on each node, as Slurm itself sums it up."""
    text = world.cluster.run("sinfo", "-h", "-N", "-p", "batch", "-O", "nodelist,cpusstate,allocmem,gresused")
    found: dict[str, Amounts] = {}
    for name, cpus, memory_mb, gpus in (line.split() for line in text.splitlines()):
        used = re.search(r":(\d+)", gpus)
        found[name] = (int(cpus.split("/")[0]), int(memory_mb), int(used[1]) if used else 0)
    return found


def counted_by_makeway(cluster: Cluster) -> dict[str, Amounts]:
    """The same, from what each job holds."""
    used: dict[str, list[Resources]] = {name: [] for name in cluster.capacities()}
    for job in cluster.jobs:
        for name, part in zip(job.nodes, job.allocation or (), strict=False):
            used[name].append(part)
    sums = {name: total(parts) for name, parts in used.items()}
    return {name: (part.amount(CPU), part.amount(MEMORY), part.amount(GPU)) for name, part in sums.items()}


def test_the_parts_of_all_jobs_are_what_slurm_counts_on_each_node(shared: SlurmWorld) -> None:
    """With an uneven job that claims to hold something else, an array, and a heterogeneous job."""
    submit = shared.cluster.submit
    hostile = submit(SLEEP, *UNEVEN)
    submit(SLEEP, "-n5", "--mem-per-cpu=400", f"--comment={HOSTILE_SHARE}")
    submit(SLEEP, "-n1", "--gres=gpu:a100:1", "--array=0-3")
    submit(f"#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n2 --mem=1000\n{SLEEP}")
    last = submit(SLEEP, "-n3", "--mem-per-cpu=200", "-w", "n5")
    running(shared, last)
    cluster = shared.adapter.snapshot()
    assert len(cluster.holders()) == 9
    assert counted_by_makeway(cluster) == counted_by_slurm(shared)
    job = job_of(cluster, hostile)
    assert job.allocation is not None
    assert sorted(part.amount(GPU) for part in job.allocation) == [1, 2]


CORES = "--exclude=n[5-6]"
"""Without the nodes of two threads a core, on which an odd number of CPUs is rounded up."""
REQUESTS = (
    f"-N2 {CORES}",
    f"-N2 -n6 {CORES}",
    f"-N2-4 -n8 {CORES}",
    f"-n3 {CORES}",
    f"-n2 -c3 {CORES}",
    f"-N2 -n4 -c2 {CORES}",
    f"-N2 --ntasks-per-node=3 --mem=3G {CORES}",
    f"-n4 --ntasks-per-node=2 {CORES}",
    f"-n2 --mem=700 {CORES}",
    f"-N2 -n3 -c2 --mem-per-cpu=300 --ntasks-per-node=2 {CORES}",
    f"-n3 --mem-per-cpu=1500 {CORES}",
    f"-N1 --mincpus=6 {CORES}",
    "-N1 --mem=0",
    "-N1 --exclusive",
    f"-n8 --ntasks-per-node=2 --exclusive {CORES}",
    "-N2 -n2 --exclusive --gpus-per-node=1",
    "--exclusive --gpus=8",
    "-n8 --exclusive --gpus-per-task=1",
    "-n2 --threads-per-core=2",
    "-N1 --gres=gpu:a100:1",
    "-N2 -n2 --gres=gpu:2",
    "-n2 --gpus=4",
    "-n2 --gpus=2 --mem-per-gpu=2G",
    "-n1 --gpus=2 --cpus-per-gpu=2",
    "--gpus=2 --cpus-per-gpu=2",
    "-N2 --gpus=4 --cpus-per-gpu=1",
    "--gpus-per-node=2 --cpus-per-gpu=2",
    "-N1 --gpus=a100:3",
    "-N2 --gpus-per-node=2",
    "-N1 -n2 --gpus-per-node=a100:1",
    "-n4 --gpus-per-task=1",
    "--gpus=3 --gpus-per-task=1",
    "--gpus=4 --gpus-per-node=2",
    "-N2 -n8 --gpus=8 --gpus-per-node=4 --gpus-per-task=1",
    "-N2 -n4 --gpus-per-task=a100:1",
    "-N1 -n1 -c2 --hint=nomultithread -C ht",
    "-N1 -n2 --hint=compute_bound -C ht",
    "-N1 -n3 --mem-per-cpu=200 -C ht",
    "-N1 -n2 --ntasks-per-core=1 -C ht",
    "-N1 -n2 -w n2 -x n3",
)


def leave(world: SlurmWorld, demand: Resources, names: tuple[str, ...]) -> None:
    """Start a job on each of these nodes that leaves so much of it."""
    capacities = world.adapter.snapshot().capacities()
    for name in names:
        rest = capacities[name].minus(demand)
        gpus = (f"--gres=gpu:{rest.amount(GPU)}",) if rest.amount(GPU) else ()
        amounts = ("-n1", f"-c{rest.amount(CPU)}", f"--mem={rest.amount(MEMORY)}", *gpus)
        running(world, world.cluster.submit(SLEEP, f"--nodelist={name}", *amounts))


def gets_what_was_read(world: SlurmWorld, asked: Job) -> None:
    """As many nodes are held as were read, each with no more left than was read. The job, which its user
    holds, starts there and holds just that.
    """
    serve = [name for name in world.nodes if asked.eligible_nodes is None or name in asked.eligible_nodes]
    held = tuple(serve[: asked.node_count])
    if asked.demand is not None:
        leave(world, asked.demand, held)
    world.adapter.apply(
        acts.reserve(world.prefix + asked.job_id, nodes=held, duration_s=600, job_id=asked.job_id)
    )
    world.cluster.run("scontrol", "release", asked.job_id)
    job = running(world, asked.job_id)
    assert sorted(job.nodes) == sorted(held)
    if asked.demand is None:
        assert job.allocation is None
    else:
        names = {name for name, _ in asked.demand.amounts}
        got = [{name: part.amount(name) for name in names} for part in job.allocation or ()]
        assert got == [dict(asked.demand.amounts)] * len(held)
    world.adapter.apply(acts.release(world.prefix + asked.job_id))


@pytest.mark.parametrize("request_options", REQUESTS)
def test_a_job_gets_on_held_nodes_what_it_was_read_to_ask_for(
    shared: SlurmWorld, request_options: str
) -> None:
    options = request_options.split()
    job_id = shared.cluster.submit(SLEEP, "--hold", URGENT, *options)
    asked = waiting(shared, job_id)
    assert not asked.blocked_by or asked.blocked_by.startswith("its release from a hold")
    told = shared.adapter.as_submitted((URGENT, *options), walltime_s=60.0)
    assert (told.node_count, told.demand) == (asked.node_count, asked.demand)
    assert told.eligible_nodes == asked.eligible_nodes
    gets_what_was_read(shared, asked)


@pytest.mark.parametrize("nodes", ["-N1", "-N2"])
def test_a_job_that_overcommits_gets_one_cpu_of_each_node(shared: SlurmWorld, nodes: str) -> None:
    options = (URGENT, nodes, "-n20", "--overcommit", CORES)
    asked = waiting(shared, shared.cluster.submit(SLEEP, "--hold", *options))
    assert asked.demand == Resources.of({CPU: 1, MEMORY: 500})
    assert shared.adapter.as_submitted(options, walltime_s=60.0).demand == asked.demand
    gets_what_was_read(shared, asked)


def test_each_node_of_a_range_has_the_cpus_of_a_task(shared: SlurmWorld) -> None:
    """Slurm shows one CPU of each node as long as it waits."""
    options = ("-N2-3", "-c4", CORES)
    job_id = shared.cluster.submit(SLEEP, "--hold", URGENT, *options)
    asked = waiting(shared, job_id)
    assert asked.demand == Resources.of({CPU: 4, MEMORY: 2000})
    told = shared.adapter.as_submitted((URGENT, *options), walltime_s=60.0)
    assert (told.node_count, told.demand) == (asked.node_count, asked.demand) == (2, asked.demand)
    gets_what_was_read(shared, asked)


@pytest.mark.one_release(on="26.05", only="Slurm shows that such a job starts nowhere")
def test_no_room_is_made_for_one_task_with_the_gpus_of_two_nodes(shared: SlurmWorld) -> None:
    """22.05 refuses such a job, and 24.11 shows the same of it as of one without `-n1`, which starts."""
    job_id = shared.cluster.submit(SLEEP, URGENT, "-n1", "--gpus=8", CORES)
    cluster = shared.wait(lambda cluster: job_of(cluster, job_id).examined, "Slurm has looked at it")
    assert "--gpus on more nodes than tasks" in job_of(cluster, job_id).blocked_by


def test_running_jobs_are_read_once_in_the_second_of_two_commands(shared: SlurmWorld) -> None:
    job_id = shared.cluster.submit(SLEEP, "-n1")
    running(shared, job_id)
    runner = CountingRunner(shared.cluster.runner)
    adapter = SlurmCliAdapter(SETTINGS, runner=runner)
    assert adapter.capabilities.name.startswith("makeway-dev")
    for _ in range(2):
        runner.calls.clear()
        assert job_of(adapter.snapshot(), job_id).allocation is not None
        assert [argv[0] for argv in runner.calls] == ["squeue", "scontrol"]


def test_many_jobs_are_read_at_once(shared: SlurmWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdings, "MOST_BY_ID", 5)
    shared.cluster.submit(SLEEP, "-n1", "--mem=100", "--array=1-20")
    shared.wait(lambda cluster: len(cluster.holders()) == 20, "all tasks run")
    cluster = SlurmCliAdapter(SETTINGS, runner=shared.cluster.runner).snapshot()
    assert counted_by_makeway(cluster) == counted_by_slurm(shared)


def test_a_job_that_completes_keeps_its_part_and_a_requeued_one_asks_again(shared: SlurmWorld) -> None:
    job_id = shared.cluster.submit(
        "trap '' TERM; while :; do sleep 1; done", "-n2", "--mem=600", "-w", "n1", URGENT
    )
    running(shared, job_id)
    shared.cluster.run("scontrol", "requeue", job_id)

    def has_left(cluster: Cluster) -> bool:
        job = job_of(cluster, job_id)
        if job.nodes:
            assert job.allocation == (Resources.of({CPU: 2, MEMORY: 600}),)
        return not job.nodes

    cluster = shared.wait(has_left, "the job has left its node")
    assert job_of(cluster, job_id).demand == Resources.of({CPU: 2, MEMORY: 600})


def test_a_job_without_its_licence_says_so_at_once(shared: SlurmWorld) -> None:
    holder = shared.cluster.submit(SLEEP, "-n1", "-L", "fluent:2")
    running(shared, holder)
    waits = waiting(shared, shared.cluster.submit(SLEEP, "-n1", "-L", "fluent:1", URGENT))
    assert waits.blocked_by == "a licence (fluent: it asks for 1, 0 free)"
    assert waits.eligible_s == NOT_BEFORE_S


def test_each_component_of_an_urgent_heterogeneous_job_asks_for_what_a_job_of_its_own_would(
    shared: SlurmWorld,
) -> None:
    asked = ("-n1 --mem=600", "-n4 --mem=700 --gres=gpu:1")
    script = f"#SBATCH {asked[0]}\n#SBATCH hetjob\n#SBATCH {asked[1]}\n{SLEEP}"
    leader = shared.cluster.submit(script, "--begin=now+1hour", URGENT)
    for number, options in enumerate(asked):
        component = waiting(shared, f"{leader}+{number}")
        alone = waiting(shared, shared.cluster.submit(SLEEP, "--hold", *options.split(), URGENT))
        assert component.het_job_id == leader
        assert alone.het_job_id == ""
        assert component.demand is not None
        assert (component.demand, component.eligible_nodes) == (alone.demand, alone.eligible_nodes)
