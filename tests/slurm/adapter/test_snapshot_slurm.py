"""The snapshot of a real cluster: what other releases, hostile users and administrators put into it."""

from collections.abc import Iterator

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from makeway.adapters.protocol import Unavailable
from makeway.adapters.site.times import NOT_BEFORE_S
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.adapters.slurm.reader.alike import SHOWN
from makeway.policies.model import Cluster, JobKind, JobState, NodeState
from tests import acts
from tests.adapters.conformance import job_of, running, runs, waits
from tests.slurm.support.capture import HOSTILE_COMMENT, HOSTILE_NAME, LONG_COMMENT, SPEC
from tests.slurm.support.crowd import CountingRunner
from tests.slurm.support.world import SETTINGS, SlurmWorld, slurm_settings

pytestmark = pytest.mark.slurm

URGENT = "--account=urgent"
SLEEP = "exec sleep 1000"


@pytest.fixture(scope="module")
def mixed_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """Nodes of two sorts, three partitions, generic resources."""
    spec = DevSpec(
        root=slurm_root,
        partitions=SPEC.partitions,
        node_options=SPEC.node_options,
        gres=SPEC.gres,
        settings=slurm_settings(**SPEC.settings),
    )
    with dev_cluster(spec) as cluster:
        yield cluster


@pytest.fixture
def mixed(mixed_nodes: DevCluster) -> Iterator[SlurmWorld]:
    world = SlurmWorld(mixed_nodes)
    yield world
    world.clear()


def test_hostile_text_neither_breaks_nor_forges_a_snapshot(mixed: SlurmWorld) -> None:
    job_id = mixed.cluster.submit(SLEEP, f"--job-name={HOSTILE_NAME}", f"--comment={HOSTILE_COMMENT}", "-N1")
    long_id = mixed.cluster.submit(SLEEP, f"--comment={LONG_COMMENT}", "-N1", "--account=malleable")
    named = mixed.cluster.submit(
        SLEEP, "--account=a\nb\x1b[31m\udcff=urgent", "--comment=makeway:\nckpt=1", "-N1"
    )
    running(mixed, job_id)
    running(mixed, named)
    cluster = mixed.wait(runs(long_id), "the job with the long comment runs")
    assert set(cluster.jobs_by_id()) == {job_id, long_id, named}
    assert job_of(cluster, named).account.isprintable()
    assert all(job_of(cluster, hostile).kind is JobKind.RIGID for hostile in (job_id, named))
    assert not job_of(cluster, named).preemptible
    assert job_of(cluster, long_id).kind is JobKind.MALLEABLE


def test_a_snapshot_is_two_commands(mixed: SlurmWorld) -> None:
    """With an urgent job whose excluded nodes 22.05 tells in no other way."""
    mixed.cluster.submit(SLEEP, "-N4", "--array=1-50")
    urgent = mixed.cluster.submit(SLEEP, "-N2", "-p", "urgent", URGENT, "--exclude=n[3-4]", "--hold")
    # A job that starts between the two commands is looked for by a third one.
    mixed.wait(lambda cluster: len(cluster.free_nodes()) == 0, "the first tasks run")
    runner = CountingRunner(mixed.cluster.runner)
    adapter = SlurmCliAdapter(SETTINGS, runner=runner)
    assert adapter.capabilities.name.startswith("makeway-dev, Slurm ")
    runner.calls.clear()
    cluster = adapter.snapshot()
    assert [argv[0] for argv in runner.calls] == ["squeue", "scontrol"]
    assert len(cluster.jobs) == 51
    job = job_of(cluster, urgent)
    assert job.kind is JobKind.ON_DEMAND
    assert job.eligible_nodes == frozenset({"n5", "n6", "n7", "n8"})


def test_what_a_job_asks_for_decides_which_nodes_may_serve_it(mixed: SlurmWorld) -> None:
    asked = {
        ("--constraint=big&fast",): {"n5", "n6", "n7", "n8"},
        ("--constraint=[small|big]",): None,  # one node may be either
        ("--gres=fpga:2",): {"n1", "n2", "n3", "n4"},
        ("--gres=fpga:large:1",): {"n5", "n6", "n7", "n8"},
        ("--partition=urgent",): {"n3", "n4", "n5", "n6", "n7", "n8"},
        ("--nodelist=n2",): {"n2"},
        ("--mem=900",): None,
    }
    jobs = {mixed.cluster.submit(SLEEP, "-N1", "--hold", *options): names for options, names in asked.items()}
    cluster = mixed.adapter.snapshot()
    for job_id, names in jobs.items():
        assert job_of(cluster, job_id).eligible_nodes == names, job_id


def test_jobs_that_wait_for_no_node_may_not_start(mixed: SlurmWorld) -> None:
    first = mixed.cluster.submit(SLEEP, "-N1")
    running(mixed, first)
    waiting = {
        "held": mixed.cluster.submit(SLEEP, "-N1", "--hold", URGENT),
        "dependent": mixed.cluster.submit(SLEEP, "-N1", f"--dependency=afterok:{first}", URGENT),
        "closed": mixed.cluster.submit(SLEEP, "-N1", "--partition=closed", URGENT),
    }
    later = mixed.cluster.submit(SLEEP, "-N1", "--begin=now+1hour", URGENT)
    cluster = mixed.wait(
        lambda cluster: all(job_of(cluster, job).eligible_s == NOT_BEFORE_S for job in waiting.values()),
        "Slurm tells why they wait",
    )
    begin_s = job_of(cluster, later).eligible_s
    assert begin_s is not None
    assert 3000 < begin_s - cluster.now_s <= 3600
    assert job_of(cluster, waiting["closed"]).eligible_nodes == frozenset()


def test_array_tasks_are_jobs_and_keep_their_ids(mixed: SlurmWorld) -> None:
    array = mixed.cluster.submit(SLEEP, "-N1", "--array=3-5%1", "--account=batch")
    cluster = mixed.wait(runs(f"{array}_3"), "the first task runs")
    assert set(cluster.jobs_by_id()) == {f"{array}_3", f"{array}_4", f"{array}_5"}
    mixed.adapter.apply(acts.cancel(f"{array}_3"))
    cluster = mixed.wait(runs(f"{array}_4"), "the second task runs")
    assert set(cluster.jobs_by_id()) <= {f"{array}_3", f"{array}_4", f"{array}_5"}
    mixed.adapter.apply(acts.requeue(f"{array}_4"))
    cluster = mixed.wait(waits(f"{array}_4"), "the second task waits again")
    assert job_of(cluster, f"{array}_4").requeue_count == 1


def test_a_heterogeneous_job_is_never_touched(mixed: SlurmWorld) -> None:
    job_id = mixed.cluster.submit(f"#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N2\n{SLEEP}", "--account=batch")
    cluster = mixed.wait(runs(f"{job_id}+0"), "the job runs")
    parts = [job for job in cluster.jobs if job.job_id.startswith(f"{job_id}+")]
    assert sorted(job.node_count for job in parts) == [1, 2]
    assert not any(job.preemptible for job in parts)


def test_jobs_that_share_a_node_are_both_on_it(mixed: SlurmWorld) -> None:
    jobs = [mixed.cluster.submit(SLEEP, "-N1", "-n1", "--nodelist=n1") for _ in range(2)]
    running(mixed, jobs[0])
    running(mixed, jobs[1])
    cluster = mixed.adapter.snapshot()
    assert [job_of(cluster, job).nodes for job in jobs] == [("n1",), ("n1",)]
    assert "n1" not in cluster.free_nodes()


def test_the_states_of_nodes(mixed: SlurmWorld) -> None:
    """A node that does not answer for a moment, as on a busy machine, is down until it does."""
    expected = dict.fromkeys([f"n{number}" for number in range(1, 9)], NodeState.UP)
    expected |= {"n1": NodeState.DRAINED, "n2": NodeState.DOWN, "n3": NodeState.DRAINED}
    update = ("scontrol", "update")
    mixed.cluster.run(*update, "NodeName=n1", "State=DRAIN", "Reason=a disk State=IDLE\nNodeName=n9")
    mixed.cluster.run(*update, "NodeName=n3", "State=FAIL", "Reason=soon")

    def every_node_has_its_state(cluster: Cluster) -> bool:
        states = {node.name: node.state for node in cluster.nodes}
        if states["n2"] is NodeState.UP:
            # At first, and again if it answers late: slurmctld then returns it to service.
            mixed.cluster.run(*update, "NodeName=n2", "State=DOWN", "Reason=gone")
        return states == expected

    try:
        mixed.wait(every_node_has_its_state, "every node has its state")
    finally:
        mixed.cluster.run(*update, "NodeName=n[1-3]", "State=RESUME")
        mixed.cluster.await_idle()


def test_reservations_of_others(mixed: SlurmWorld) -> None:
    create = ("scontrol", "create", "reservation", "ReservationName=their own", "Users=root", "Nodes=n[4,6]")
    mixed.cluster.run(*create, "StartTime=now+1hour", "Duration=60")
    cluster = mixed.adapter.snapshot()
    (theirs,) = cluster.reservations
    assert (theirs.name, theirs.nodes, theirs.by_makeway) == ("their own", ("n4", "n6"), False)
    assert theirs.end_s - theirs.start_s == 3600
    assert 3000 < theirs.start_s - cluster.now_s <= 3600
    assert len(cluster.free_nodes()) == 8


def test_a_controller_that_is_down_costs_a_snapshot_and_no_more(mixed: SlurmWorld) -> None:
    job_id = mixed.cluster.submit(SLEEP, "-N1", "--account=batch")
    before = running(mixed, job_id)
    mixed.cluster.stop_controller()
    with pytest.raises(Unavailable):
        mixed.adapter.snapshot()
    with pytest.raises(Unavailable):
        mixed.adapter.apply(acts.requeue(job_id))
    mixed.cluster.start_controller()
    after = job_of(mixed.wait(runs(job_id), "the job is there again"), job_id)
    assert (after.state, after.start_s, after.nodes) == (JobState.RUNNING, before.start_s, before.nodes)


def test_the_first_waiting_tasks_of_an_array_stand_for_the_others_unless_it_is_urgent(
    mixed: SlurmWorld,
) -> None:
    """slurmctld keeps the waiting tasks of an array as one record, which squeue prints for each of them."""
    whole = ("--hold", "-N1")
    batch = mixed.cluster.submit(SLEEP, "--array=1-600", *whole)
    urgent = mixed.cluster.submit(SLEEP, "--array=1-150", URGENT, *whole)
    # Slurm keeps a task that was changed by itself as another record.
    mixed.cluster.run("scontrol", "update", f"JobId={batch}_300", "Comment=mine")

    def tasks(array: str) -> list[int]:
        found = mixed.adapter.snapshot().jobs_by_id()
        return sorted(int(one.partition("_")[2]) for one in found if one.startswith(f"{array}_"))

    assert tasks(urgent) == [*range(1, 151)]
    shown = tasks(batch)
    assert 300 in shown
    assert shown[:SHOWN] == [*range(1, SHOWN + 1)]
    assert len(shown) <= 2 * SHOWN + 1
