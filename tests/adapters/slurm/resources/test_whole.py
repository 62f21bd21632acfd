"""Urgent jobs that get whole nodes: on which nodes, and on how many, what they ask for fits."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.slurm.nodes.choice import Asked
from makeway.adapters.slurm.nodes.network import Network, Networks
from makeway.adapters.slurm.nodes.reach import Reach
from makeway.adapters.slurm.parse import gres
from makeway.adapters.slurm.parse_cluster import NO_JOB_DEFAULTS, RawNode, RawPartition, nodes
from makeway.adapters.slurm.resources.counting import WHOLE_NODES, Counting, counting
from makeway.adapters.slurm.resources.details import JobDetails, details
from makeway.adapters.slurm.resources.submission import submission
from makeway.adapters.slurm.resources.view import SnapshotResources
from tests.adapters.slurm.jobs.raw_jobs import PENDING, raw_node
from tests.adapters.slurm.resources.test_details import COUNTS, JOB, printed

PARTITIONS = (RawPartition(name="batch", state="UP", by_default=True),)


def node(name: str, **changes: Any) -> RawNode:
    """A node of 8 cores and 16,000 MB."""
    shape: dict[str, Any] = {"cpu_count": 8, "usable_cpu_count": 8, "core_count": 8, "memory_mb": 16_000.0}
    found = replace(raw_node(1), name=name, usable_memory_mb=16_000.0, **shape)
    return replace(found, **changes)


GPUS = gres("gpu:a100:4")
NODES = (node("c1"), node("c2"), node("g1", gres=GPUS), node("g2", gres=GPUS))


def told(**changes: Any) -> JobDetails:
    """The details of an exclusive job on any number of nodes, with 100 MB for each CPU."""
    found = details(printed(JOB, ""), JOB)
    assert found is not None
    return replace(found, held=None, exclusive=True, takes_all=True, **changes)


def asked(there: tuple[RawNode, ...], found: JobDetails, counts: Counting = COUNTS, **changes: Any) -> Asked:
    """What an urgent job of one task asks that has these changes."""
    small: dict[str, Any] = {
        "node_count": 1,
        "cpu_count": 1,
        "task_count": 1,
        "tres": "cpu=1,mem=100M,node=1",
    }
    job = replace(PENDING, memory_mb=100.0, **(small | changes))
    resources = SnapshotResources(there, PARTITIONS, counts=counts, details={job.job_id: found})
    return resources.asked(job, urgent=True)


def test_segments_of_a_job_that_fits_into_no_block_are_not_counted() -> None:
    """A job whose segments are single nodes may have any nodes."""
    there = tuple(node(f"c{number}") for number in range(1, 9))
    blocks = Network(parts=(frozenset({"c1", "c2", "c3"}), frozenset({"c4", "c5", "c6"})), block_size=3)

    def of(node_count: int, segment_size: int) -> Asked:
        job = replace(
            PENDING, node_count=node_count, cpu_count=node_count, tres=f"cpu={node_count},node={node_count}"
        )
        known = {job.job_id: told(segment_size=segment_size)}
        resources = SnapshotResources(there, PARTITIONS, counts=COUNTS, details=known)
        return resources.within(Reach, Networks(default=blocks)).asked(job, urgent=True)

    assert [of(*one).uncounted for one in ((4, 2), (2, 2), (4, 0), (4, 1))] == ["--segment", "", "", ""]
    assert [of(2, size).eligible_nodes for size in (1, 2)] == [None, blocks.parts[0]]


@pytest.mark.parametrize(
    ("job_takes", "partition_takes", "uncounted"),
    [(False, False, ""), (True, False, "--exclusive=topo"), (False, True, "--exclusive=topo")],
)
def test_a_job_that_shares_no_block_is_not_counted(
    job_takes: bool, partition_takes: bool, uncounted: str
) -> None:
    """Other jobs of the block would have to leave as well."""
    partition = RawPartition(name="batch", state="UP", takes_blocks=partition_takes)
    job = replace(PENDING, node_count=1, cpu_count=1, tres="cpu=1,node=1", partitions=("batch",))
    known = {job.job_id: told(takes_blocks=job_takes)}
    resources = SnapshotResources(NODES, (partition,), counts=COUNTS, details=known)
    blocks = Network(parts=(frozenset({"c1", "c2"}), frozenset({"g1", "g2"})), block_size=2)
    assert resources.within(Reach, Networks(default=blocks)).asked(job, urgent=True).uncounted == uncounted
    assert resources.asked(job, urgent=True).uncounted == "", "without blocks it is an exclusive job"


@pytest.mark.parametrize("select", ["select/linear", "select/cons_tres"])
@pytest.mark.parametrize(("said", "uncounted"), [("defer,Extra_Constraints", "--extra"), ("defer", "")])
def test_a_filter_of_nodes_by_their_extra_is_not_counted(select: str, said: str, uncounted: str) -> None:
    """Slurm reads it only with `extra_constraints`; elsewhere it is a note of the user."""
    counts = counting({"SelectType": select, "SchedulerParameters": said})
    assert asked(NODES, told(names_extra=True), counts).uncounted == uncounted
    assert asked(NODES, told(), counts).uncounted == ""


@pytest.mark.parametrize(
    ("printed_nodes", "tasks", "gpus", "reason", "uncounted"),
    [
        # 26.05, of `-n1 --gpus=6`
        ("1-1", 1, "gres/gpu:6", "Resources", "--gpus on more nodes than tasks"),
        ("1-1", 1, "gres/gpu:6", "Priority", "--gpus on more nodes than tasks"),
        ("1-1", 1, "gres/gpu:6", "ReqNodeNotAvail, UnavailableNodes:n1", "--gpus on more nodes than tasks"),
        # also of `--gpus=6`
        ("1-1", 1, "gres/gpu:6", "JobHeldUser", ""),
        ("1-1", 1, "gres/gpu:6", "None", ""),
        # with `--gpus-per-node=3`
        ("2-2", 1, "gres/gpu:6", "Resources", "--gpus on more nodes than tasks"),
        ("2-2", 2, "gres/gpu:6", "Resources", ""),
        # `--gpus=6` gets a task for each node; 24.11 prints the same of `-n1`
        ("2", 1, "gres/gpu:6", "Resources", ""),
        ("1-1", 1, "gres/gpu:4", "Resources", ""),
        ("2-2", 1, "", "Resources", ""),
    ],
)
def test_no_room_is_made_for_gpus_on_more_nodes_than_tasks(
    printed_nodes: str, tasks: int, gpus: str, reason: str, uncounted: str
) -> None:
    """24.11 and 26.05 take such a job, and never start it, also on free nodes."""
    record = printed(JOB, "").replace("NumNodes=2", f"NumNodes={printed_nodes}")
    found = details(record, JOB)
    assert found is not None
    size = 1 if gpus.endswith("4") else 2
    known = replace(found, held=None, memory_mb=100.0, most_nodes=None)
    wanted: dict[str, Any] = {
        "node_count": size,
        "cpu_count": tasks,
        "task_count": tasks,
        "gres_per_job": gres(gpus),
        "reason": reason,
    }
    found_of = asked(NODES, known, **wanted, tres=f"cpu={tasks},mem=100M,node=1")
    assert found_of.uncounted == uncounted


def submitted(options: str, counts: Counting = COUNTS) -> Asked:
    resources = SnapshotResources(NODES, PARTITIONS, counts=counts)
    return resources.submitted(submission(options.split(), PARTITIONS, NO_JOB_DEFAULTS))


def size_and_nodes(found: Asked) -> tuple[int, str]:
    names = {one.name for one in NODES} if found.eligible_nodes is None else found.eligible_nodes
    return found.node_count, " ".join(sorted(names))


def test_gpus_of_tasks_are_asked_for() -> None:
    tasks: dict[str, Any] = {"cpu_count": 8, "task_count": 8, "gres_per_task": gres("gres:gpu:1")}
    both = asked(NODES, told(), node_count=2, tres="cpu=8,mem=800M,node=2", **tasks)
    assert size_and_nodes(both) == (2, "g1 g2")
    assert size_and_nodes(asked(NODES, told(), **tasks)) == (2, "g1 g2")
    assert size_and_nodes(submitted("-N2 -n8 --gpus-per-task=1 --exclusive --mem=0")) == (2, "g1 g2")
    assert size_and_nodes(submitted("-n8 --gpus-per-task=1 --exclusive --mem=0")) == (2, "g1 g2")


@pytest.mark.parametrize(
    ("shown", "resources", "found"),
    [(3, "cpu=10,node=1", 4), (4, "cpu=10,node=4", 4), (1, "cpu=3,node=1", 1), (2, "cpu=4,node=2", 2)],
)
def test_as_many_nodes_as_the_tasks_of_a_node_make(shown: int, resources: str, found: int) -> None:
    """22.05 and 24.11 show three nodes of `-n10 --ntasks-per-node=3`, and count one; it runs on four."""
    tasks = int(resources.removeprefix("cpu=").partition(",")[0])
    job: dict[str, Any] = {"cpu_count": tasks, "task_count": tasks, "tasks_per_node": 3}
    given = asked(NODES, told(most_nodes=None), node_count=shown, tres=resources, **job)
    assert size_and_nodes(given) == (found, "c1 c2 g1 g2")
    options = f"-n{tasks} --ntasks-per-node=3 --exclusive"
    assert size_and_nodes(submitted(f"{options} -N2" if found == 2 else options))[0] == found


def test_as_many_nodes_as_have_the_gpus() -> None:
    eight: dict[str, Any] = {"gres_per_job": gres("gres:gpu:8")}
    found = asked(NODES, told(), **eight)
    assert (size_and_nodes(found), found.node_count_max) == ((2, "g1 g2"), 2)
    assert size_and_nodes(asked(NODES, told(most_nodes=1), **eight)) == (1, "")
    assert size_and_nodes(asked(NODES, told(), gres_per_job=gres("gres:gpu:9"))) == (1, "")
    assert size_and_nodes(submitted("--gpus=8 --exclusive --mem=0")) == (2, "g1 g2")
    assert size_and_nodes(submitted("-N1 --gpus=8 --exclusive --mem=0")) == (1, "")


def test_an_exclusive_job_gets_the_memory_of_every_cpu_and_gpu() -> None:
    """Tried on 22.05 and 24.11: with 2,100 MB a CPU it never starts on a node of 8 CPUs and 16,000 MB."""
    assert asked(NODES, told(memory_mb=2000.0)).eligible_nodes is None
    assert asked(NODES, told(memory_mb=2100.0)).eligible_nodes == frozenset()
    assert asked(NODES, told(memory_mb=2100.0), replace(COUNTS, memory=False)).eligible_nodes is None
    by_user = replace(told(memory_mb=2100.0), takes_all=False)
    assert asked(NODES, by_user).eligible_nodes is None
    for amount_mb, names in ((4000, {"g1", "g2"}), (5000, set[str]())):
        found = asked(NODES, told(), gres_per_node=gres("gres:gpu:1"), memory_per_gpu_mb=amount_mb)
        assert found.eligible_nodes == frozenset(names)


def test_the_memory_of_options_counts_for_whole_nodes() -> None:
    assert size_and_nodes(submitted("--exclusive --mem-per-cpu=2100")) == (1, "")
    assert size_and_nodes(submitted("--exclusive --mem-per-cpu=2000")) == (1, "c1 c2 g1 g2")
    assert size_and_nodes(submitted("--exclusive=user -n8 --mem-per-cpu=2100 -N1")) == (1, "")
    assert size_and_nodes(submitted("--exclusive=user -n4 --mem-per-cpu=2100 -N1")) == (1, "c1 c2 g1 g2")
    assert size_and_nodes(submitted("--exclusive --gpus-per-node=1 --mem-per-gpu=5G")) == (1, "")
    assert size_and_nodes(submitted("--exclusive=user --gpus-per-node=1 --mem-per-gpu=5G")) == (1, "g1 g2")
    assert size_and_nodes(submitted("--exclusive=user --gpus-per-node=4 --mem-per-gpu=5G")) == (1, "")


def test_the_threads_of_a_core_are_those_of_the_hardware() -> None:
    """Slurm counts cores as CPUs where the node line says so."""
    shape = "Sockets=1 CoresPerSocket=4 CPUTot=4 RealMemory=100 State=IDLE ActiveFeatures=(null) Gres=(null)"
    lines = [f"NodeName=n1 ThreadsPerCore=2 {shape}", f"NodeName=n2 {shape}"]
    assert [one.threads_per_core for one in nodes(lines, command=("scontrol",))] == [2, 1]


@pytest.mark.parametrize(("words", "usable"), [("CPUEfctv=6", 6), ("CoreSpecCount=1", 14), ("", 16)])
def test_what_is_set_aside_for_the_system_is_not_there_for_jobs(words: str, usable: int) -> None:
    """A release that does not say how many CPUs are left says how many cores are set aside."""
    line = (
        "NodeName=n1 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 CPUTot=16 RealMemory=1000 MemSpecLimit=200 "
        f"TmpDisk=500 State=IDLE ActiveFeatures=(null) Gres=(null) {words}"
    )
    (found,) = nodes([line], command=("scontrol",))
    assert (found.cpu_count, found.usable_cpu_count, found.core_count) == (16, usable, 8)
    assert (found.memory_mb, found.usable_memory_mb, found.temporary_disk_mb) == (1000.0, 800.0, 500.0)


def test_threads_that_a_core_has_to_have() -> None:
    there = (node("s1"), node("t1", core_count=4, threads_per_core=2))
    for found in (told(threads_per_core=2), replace(told(threads_per_core=2), exclusive=False)):
        assert asked(there, found, node_count=1).eligible_nodes == frozenset({"t1"})
    assert asked(there, told(threads_per_core=1)).eligible_nodes is None
    resources = SnapshotResources(there, PARTITIONS, counts=COUNTS)
    for options in ("--threads-per-core=2 --mem=10", "--threads-per-core=2 --mem=10 --exclusive"):
        wanted = submission(options.split(), PARTITIONS, NO_JOB_DEFAULTS)
        assert resources.submitted(wanted).eligible_nodes == frozenset({"t1"})


@pytest.mark.parametrize("counts", [COUNTS, WHOLE_NODES], ids=["cores count", "select/linear"])
@pytest.mark.parametrize("exclusive", [True, False])
def test_where_cores_count_as_cpus_no_job_gets_two_threads_of_one(counts: Counting, exclusive: bool) -> None:
    """As of `-N1 -n4 --threads-per-core=2` on nodes with `CPUs=8` and with `CPUs=4`, of four cores and eight
    threads each, tried on 22.05, 24.11 and 26.05. With select/linear it starts on both.
    """
    there = (
        node("t1", core_count=4, threads_per_core=2),
        node("e1", core_count=4, threads_per_core=2, cpu_count=4, usable_cpu_count=4),
    )
    eligible = frozenset({"t1"}) if counts is COUNTS else None
    found = replace(told(threads_per_core=2), exclusive=exclusive)
    assert asked(there, found, counts, node_count=1).eligible_nodes == eligible
    options = ["-N1", "-n4", "--threads-per-core=2", "--mem=10", *(["--exclusive"] if exclusive else [])]
    resources = SnapshotResources(there, PARTITIONS, counts=counts)
    wanted = resources.submitted(submission(options, PARTITIONS, NO_JOB_DEFAULTS))
    assert wanted.eligible_nodes == eligible


def test_a_job_that_uses_one_thread_of_each_core_needs_as_many_cores() -> None:
    """As of `--exclusive -n8 --hint=nomultithread`, tried on 22.05 and 24.11."""
    small = {"core_count": 4, "threads_per_core": 2}
    large = {"core_count": 8, "threads_per_core": 2, "cpu_count": 16, "usable_cpu_count": 16}
    there = (node("s1", **small), node("s2", **small), node("l1", **large))
    wanted: dict[str, Any] = {"cpu_count": 8, "task_count": 8}
    assert size_and_nodes(asked(there, told(), **wanted)) == (1, "c1 c2 g1 g2"), "every node"
    one_thread = told(threads_per_core=1)
    assert size_and_nodes(asked(there, one_thread, **wanted)) == (1, "l1")
    assert size_and_nodes(asked(there, told(tasks_per_core=1), **wanted)) == (1, "l1")
    assert size_and_nodes(asked(there[:2], one_thread, **wanted)) == (2, "s1 s2")
    assert size_and_nodes(asked(there[:2], told(tasks_per_core=1), **wanted)) == (2, "s1 s2")
    assert asked(there, one_thread, WHOLE_NODES, **wanted).eligible_nodes is None, "select/linear has threads"
    cores_are_cpus = node("e1", core_count=8, threads_per_core=2, cpu_count=8, usable_cpu_count=8)
    for found in (one_thread, told(tasks_per_core=1)):
        assert size_and_nodes(asked((*there[:2], cores_are_cpus), found, **wanted)) == (1, "e1")
    options = submission(
        ["-N1", "-n8", "--ntasks-per-core=1", "--exclusive", "--mem=0"], PARTITIONS, NO_JOB_DEFAULTS
    )
    assert SnapshotResources(there, PARTITIONS, counts=COUNTS).submitted(options).eligible_nodes == frozenset(
        {"l1"}
    )
    linear = SnapshotResources(there, PARTITIONS, counts=WHOLE_NODES).submitted(options)
    assert linear.eligible_nodes is None


def test_nodes_of_different_sizes_hold_a_job_together() -> None:
    """As of `-n28` of whole nodes of 16, 8, 8 and 4 CPUs, tried on 22.05 and 24.11."""
    sizes = {"a": 16, "b": 8, "c": 8, "d": 4}
    there = tuple(
        node(name, cpu_count=size, usable_cpu_count=size, core_count=size) for name, size in sizes.items()
    )
    wanted: dict[str, Any] = {"cpu_count": 28, "task_count": 28, "node_count": 2}
    for counts in (COUNTS, WHOLE_NODES):
        assert size_and_nodes(asked(there, told(), counts, **wanted)) == (3, "a b c")
        refused = asked(there, told(most_nodes=2), counts, **wanted)
        assert refused.eligible_nodes is not None
        assert refused.node_count > len(refused.eligible_nodes)
        pair = {**wanted, "cpu_count": 20, "task_count": 20, "tres": "cpu=20,mem=100M,node=2"}
        assert size_and_nodes(asked(there, told(most_nodes=2), counts, **pair)) == (2, "a b")
    cores_are_cpus = tuple(replace(one, threads_per_core=2) for one in there)
    one_thread = asked(cores_are_cpus, told(threads_per_core=1), **wanted)
    assert size_and_nodes(one_thread) == (3, "a b c")
    resources = SnapshotResources(there, PARTITIONS, counts=WHOLE_NODES)
    for options, expected in (("-n28", (3, "a b c")), ("-n36", (4, "a b c d"))):
        found = resources.submitted(submission(options.split(), PARTITIONS, NO_JOB_DEFAULTS))
        names = (
            sorted(one.name for one in there)
            if found.eligible_nodes is None
            else sorted(found.eligible_nodes)
        )
        assert (found.node_count, " ".join(names)) == expected
