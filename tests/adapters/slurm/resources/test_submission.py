"""Options of sbatch are read as Slurm reads them: they ask for what the job asks that was submitted so."""

import pytest

from makeway.adapters.slurm import parse, parse_cluster
from makeway.adapters.slurm.parse_cluster import NO_JOB_DEFAULTS, JobDefaults, RawPartition, job_defaults
from makeway.adapters.slurm.partitions.memory import MemoryDefault
from makeway.adapters.slurm.resources.details import MemoryPer
from makeway.adapters.slurm.resources.submission import Submission, submission
from tests.adapters.slurm.resources.captured_sharing import Shared, shared
from tests.adapters.slurm.test_parse import RELEASES, captured
from tests.slurm.support.sharing import REQUESTS

UNKNOWN = {"-n1 -L fluent:2", "-n2 --gpus-per-socket=1 --sockets-per-node=1"}
"""Requests whose options are refused."""
PARTITIONS = (
    RawPartition(name="batch", state="UP", by_default=True),
    RawPartition(name="gpu", state="UP", default_memory=MemoryDefault(per_cpu=False, amount_mb=4000.0)),
)


@pytest.fixture(scope="module", params=sorted(RELEASES))
def found(request: pytest.FixtureRequest) -> Shared:
    return shared(request.param)


def defaults_of(release: str) -> JobDefaults:
    return job_defaults(parse.config(captured(release, "shared-config")))


@pytest.mark.parametrize("text", sorted(set(REQUESTS) - UNKNOWN))
def test_options_ask_for_what_the_job_asked(found: Shared, text: str) -> None:
    """Each captured job has its options as its name."""
    resources = found.resources()
    asked = resources.asked(found.job(text), urgent=True)
    told = resources.submitted(submission(text.split(), found.partitions, defaults_of(found.release)))
    assert (told.node_count, told.demand) == (asked.node_count, asked.demand)
    assert told.eligible_nodes == asked.eligible_nodes


def read(text: str, memory: MemoryDefault | None = None) -> Submission:
    return submission(text.split(), PARTITIONS, JobDefaults(memory=memory))


def test_every_unknown_option_is_refused() -> None:
    for text in UNKNOWN:
        with pytest.raises(
            ValueError, match=r"unrecognized arguments: .*accepted: .*--gpus-per-node, .*--nodes"
        ):
            read(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-n many", "-n/--ntasks: 'many' is not accepted; accepted: a number above 0"),
        ("-n 0", "-n/--ntasks: '0' is not accepted; accepted: a number above 0"),
        ("-N 4-2", "-N/--nodes: '4-2' is not accepted; accepted: a number of nodes, or a range such as 2-4"),
        ("--mem=much", "--mem: 'much' is not accepted; accepted: an amount such as 500, 4000M or 64G"),
        ("--mem=1G --mem-per-cpu=1G", "--mem-per-cpu: not allowed with argument --mem"),
        ("-t soon", "-t/--time: 'soon' is not accepted; accepted: a time such as 90, 1:30:00 or 2-12"),
        ("-w n[", "-w/--nodelist: 'n[' is not accepted; accepted: node names such as n[1-3]"),
        ("-p fast", "--partition: there is no partition 'fast'; accepted: batch, gpu"),
        ("job.sh", "unrecognized arguments: job.sh; accepted: "),
    ],
)
def test_what_sbatch_would_not_accept_is_named(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"accepted|allowed") as error:
        read(text)
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("UNLIMITED", 31_536_000),
        ("infinite", 31_536_000),
        ("90", 5400),
        ("1:30", 90),
        ("2:00:30", 7230),
        ("1-2", 93_600),
        ("1-2:3", 93_780),
        ("1-2:3:4", 93_784),
    ],
)
def test_times_are_those_of_sbatch(text: str, seconds: float) -> None:
    assert read(f"-t {text}").limit_s == seconds
    assert read("-n1").limit_s is None


def test_without_an_amount_of_memory_the_default_counts() -> None:
    per_cpu = MemoryDefault(per_cpu=True, amount_mb=500.0)
    asked = read("-n4", per_cpu).request
    assert (asked.memory_per, asked.memory_mb) == (MemoryPer.CPU, 500.0)
    asked = read("-n4 -p gpu", per_cpu).request
    assert (asked.memory_per, asked.memory_mb) == (MemoryPer.NODE, 4000.0)
    asked = read("-n4").request
    assert (asked.memory_per, asked.memory_mb) == (MemoryPer.NODE, 0.0)


def test_the_largest_number_of_nodes() -> None:
    sizes = [(one.node_count, one.most_nodes) for one in (read(text).request for text in ("-N2", "-N2-4"))]
    assert sizes == [(2, 2), (2, 4)]
    assert read("-n4").request.most_nodes is None


@pytest.mark.parametrize(
    ("text", "node_count", "most", "tasks", "required"),
    [
        ("-w n[1-3]", 3, None, 3, "n1 n2 n3"),
        ("-w n[1-3] -n6", 3, None, 6, "n1 n2 n3"),
        ("-w n[1-3] -n2", 2, None, 2, "n1 n2"),
        ("-w n[1-3] -n1", 1, None, 1, "n1"),
        ("-w n[1-2] -N3", 3, 3, 3, "n1 n2"),
        ("-w n[1-2] -N1-4", 2, 4, 2, "n1 n2"),
        ("-w n[1-2] -N1", 1, 1, 1, "n1"),
        ("-w n[1-2] --ntasks-per-node=2", 2, None, 4, "n1 n2"),
    ],
)
def test_nodes_that_are_named_are_that_many(
    text: str, node_count: int, most: int | None, tasks: int, required: str
) -> None:
    """Tried on 22.05 and 24.11; 22.05 refuses two nodes with -N1."""
    asked = read(text).request
    assert (asked.node_count, asked.most_nodes, asked.task_count) == (node_count, most, tasks)
    assert asked.required == tuple(required.split())


def test_overcommitted_tasks_have_one_cpu_of_each_node() -> None:
    asked = read("-N2 -n20 -O").request
    assert (asked.node_count, asked.task_count, asked.cpu_count) == (2, 2, 2)
    asked = read("-n1 -c3 --overcommit").request
    assert (asked.node_count, asked.task_count, asked.cpu_count) == (1, 1, 3)
    with pytest.raises(ValueError, match="never start such a job"):
        read("-N2 -n20 -c2 --overcommit")


def test_options_that_change_nothing_are_read_over() -> None:
    more = "--export=ALL --signal=B:USR1@60 --requeue -k --open-mode=append --parsable -i /dev/null --wckey=w"
    assert read(f"-N2 {more}") == read("-N2")


@pytest.mark.parametrize("text", ["64g", "64G", "64GB", "64gb", "65536", "65536m"])
def test_amounts_of_memory(text: str) -> None:
    asked = read(f"--mem={text}").request
    assert (asked.memory_per, asked.memory_mb) == (MemoryPer.NODE, 65_536.0)
    assert read(f"--tmp={text}").request.temporary_disk_mb == 65_536.0


@pytest.mark.parametrize("text", ["64x", "64Gc", "B", "1.5G", ""])
def test_what_is_no_amount_of_memory(text: str) -> None:
    with pytest.raises(ValueError, match="accepted: an amount such as 500"):
        read(f"--mem={text}")


@pytest.mark.parametrize(
    ("of_partition", "of_cluster"),
    [
        ("DefCpuPerGPU=2,DefMemPerGPU=500", "(null)"),
        ("(null)", "DefCpuPerGPU=2,DefMemPerGPU=500"),
        ("DefMemPerGPU=500", "DefCpuPerGPU=2,DefMemPerGPU=8000"),
    ],
)
def test_the_defaults_for_each_gpu(of_partition: str, of_cluster: str) -> None:
    """Tried on 22.05 and 24.11 with DefCpuPerGPU=2 and DefMemPerGPU=500."""
    line = f"PartitionName=batch Default=YES State=UP JobDefaults={of_partition} Nodes=n1"
    there = parse_cluster.partitions([line], command=("scontrol",))
    defaults = job_defaults({"DefMemPerCPU": "100", "JobDefaults": of_cluster})

    def asked(text: str) -> tuple[int, MemoryPer, float]:
        found = submission(text.split(), there, defaults).request
        return found.cpus_per_gpu, found.memory_per, found.memory_mb

    assert asked("--gpus=2") == asked("--gres=gpu:2") == (2, MemoryPer.GPU, 500.0)
    assert asked("--gpus=2 -c1") == (0, MemoryPer.GPU, 500.0)
    assert asked("--gpus=2 --mem=300") == (2, MemoryPer.NODE, 300.0)
    assert asked("--gpus=2 --mem-per-cpu=150") == (2, MemoryPer.CPU, 150.0)
    assert asked("--gpus=1 --cpus-per-gpu=3 --mem-per-gpu=700") == (3, MemoryPer.GPU, 700.0)
    assert asked("-n1") == (0, MemoryPer.CPU, 100.0)


def test_the_default_partition_is_meant() -> None:
    assert read("-n1").request.partitions == ("batch",)
    with pytest.raises(ValueError, match="the cluster has no default partition"):
        submission(["-n1"], PARTITIONS[1:], NO_JOB_DEFAULTS)


def test_options_that_choose_no_nodes_are_accepted() -> None:
    assert read("-n1 -J name --output=x.log -A physics") == read("-n1")


def test_the_defaults_of_the_cluster_are_read(found: Shared) -> None:
    assert [one.name for one in found.partitions if one.by_default] == ["batch"]
    by_cpu = MemoryDefault(per_cpu=True, amount_mb=500.0)
    assert defaults_of(found.release) == JobDefaults(memory=by_cpu)


@pytest.mark.parametrize(
    ("options", "tasks"), [("--gpus=4 --gpus-per-task=2", 2), ("--gpus=3 --gpus-per-task=2", 2)]
)
def test_as_many_tasks_as_the_gpus_make(options: str, tasks: int) -> None:
    assert read(options).request.task_count == tasks


@pytest.mark.parametrize(
    ("options", "node_counts"),
    [
        ("--gpus=4 --gpus-per-node=2", (2, 2)),
        ("--gpus=4 --gres=gpu:4", (1, 1)),
        ("-N2 --gpus=8 --gpus-per-node=4", (2, 2)),
        ("-N1-4 --gpus=4 --gpus-per-node=2", (2, 2)),
        ("-n8 --gpus=4 --gpus-per-node=2", (2, 2)),
        ("-w n1,n2 --gpus=4 --gpus-per-node=2", (2, 2)),
        ("--gpus=8", (1, None)),
        ("-n3 --gpus=8", (1, 3)),
        ("-N1-2 -n3 --gpus=8", (1, 2)),
    ],
)
def test_gpus_of_each_node_make_the_number_of_nodes(
    options: str, node_counts: tuple[int, int | None]
) -> None:
    request = read(options).request
    assert (request.node_count, request.most_nodes) == node_counts


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("-N3 --gpus=4 --gpus-per-node=2", "--nodes: accepted with these GPUs: 2, which they need"),
        ("-N1 --gpus=4 --gpus-per-node=2", "--nodes: accepted with these GPUs: 2, which they need"),
        ("-w n1,n2,n3 --gpus=4 --gpus-per-node=2", "--nodes: accepted with these GPUs: 2, which they need"),
        ("--gpus=3 --gpus-per-node=2", "--gpus: 3 is not accepted; accepted: a multiple of the 2 of a node"),
        ("-n1 --gpus=4 --gpus-per-node=2", "fewer tasks than nodes: 24.11 never starts such a job"),
        ("-n2 --gpus=8 --gpus-per-node=2", "fewer tasks than nodes: 24.11 never starts such a job"),
    ],
)
def test_gpus_that_slurm_refuses_or_never_gives_are_refused(options: str, said: str) -> None:
    """As tried on 22.05, 24.11 and 26.05; of fewer tasks than nodes 22.05 starts a job."""
    with pytest.raises(ValueError, match=said):
        read(options)
