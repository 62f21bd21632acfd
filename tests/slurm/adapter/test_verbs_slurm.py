"""What a real Slurm does when it is told to, beyond what every adapter must do."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest

from makeway.adapters.devcluster.cluster import DevClusterError, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from makeway.adapters.protocol import Gone, Rejected, Unavailable, Unsupported
from makeway.adapters.slurm import build
from makeway.adapters.slurm.access import SlurmClient
from makeway.adapters.slurm.leaving.signals import Signals
from makeway.policies.model import JobKind, JobState, SignalTarget
from tests import acts
from tests.adapters.conformance import LONG_S, hold_of, job_of, over, running, runs, waiting, waits
from tests.slurm.support.world import SAVES, SETTINGS, SlurmWorld
from tests.waiting import limit_s

pytestmark = pytest.mark.slurm

NOBODY_USER = ("--uid=65534", "--gid=65534")
OTHER_USER = ("--uid=1", "--gid=1")
WHOLE = ("--ntasks-per-node=2", "--time=60", "--no-kill")

SIGNALLED = """
sleep 1000 &
child=$!
trap 'echo batch trapped; ! kill -0 $child || echo child lives' USR1
cat >task.sh <<'END'
trap 'echo step trapped' USR1
echo step ready
while :; do sleep 2 & wait; done
END
srun bash task.sh &
while :; do wait; done
"""


@pytest.fixture(scope="module", autouse=True)
def expiring(slurm_root: str | None) -> Iterator[SlurmWorld]:
    """A cluster whose one reservation ends at once while a job waits in it, and on which no daemon runs.

    Slurm clears such reservations every 30 s: it has the time of this module for that.
    """
    with dev_cluster(DevSpec(node_count=2, root=slurm_root)) as cluster:
        world = SlurmWorld(cluster)
        running(world, world.submit(2, runtime_s=LONG_S))
        urgent = world.submit(1, kind=JobKind.ON_DEMAND)
        waiting(world, urgent)
        world.adapter.apply(acts.reserve(hold_of(world), nodes=("n1",), duration_s=1.0, job_id=urgent))
        yield world


def await_output(world: SlurmWorld, job_id: str, text: str, times: int = 1) -> None:
    """Wait until the job has printed the text so many times."""
    world.wait(lambda _: world.cluster.output(job_id).count(text) >= times, f"job {job_id} prints {text!r}")


def test_a_job_that_has_just_ended_is_not_run_again(slurm_world: SlurmWorld) -> None:
    """It ends between the look and the command."""
    job_id = slurm_world.cluster.submit("echo started", "-N1")
    slurm_world.wait(over(job_id), "the job is over")
    slurm_world.cluster.run(*build.requeue(job_id))
    probe = slurm_world.cluster.submit("exec sleep 1000", "-N8")
    cluster = slurm_world.wait(runs(probe), "a later job runs")
    assert job_id not in cluster.jobs_by_id()
    assert slurm_world.cluster.output(job_id).count("started") == 1


def test_a_job_that_returns_at_once_is_not_killed_by_its_node(slurm_world: SlurmWorld) -> None:
    """A slurmd refuses a credential of the second in which it ended the job's last run."""
    job_id = slurm_world.cluster.submit("echo run $SLURM_RESTART_COUNT.\nexec sleep 1000", "-N2", *WHOLE)
    await_output(slurm_world, job_id, "run .")
    slurm_world.adapter.apply(acts.requeue(job_id))
    slurm_world.wait(waits(job_id), "it waits")
    slurm_world.adapter.apply(acts.prioritise(job_id))
    assert job_of(slurm_world.adapter.snapshot(), job_id).prioritised
    slurm_world.wait(runs(job_id), "it runs again")
    await_output(slurm_world, job_id, "run 1.")
    assert job_of(slurm_world.adapter.snapshot(), job_id).state is JobState.RUNNING


def test_the_signal_reaches_the_batch_shell_and_no_step(slurm_world: SlurmWorld) -> None:
    script = "trap 'echo trapped' USR1\nsrun sleep 1000 &\necho started\nwhile :; do wait; sleep 0.1; done"
    job_id = slurm_world.cluster.submit(script, "-N2", *WHOLE)
    await_output(slurm_world, job_id, "started")
    steps = ("squeue", "-h", "-s", "-o", "%i", "-j", job_id)
    slurm_world.wait(lambda _: f"{job_id}.0" in slurm_world.cluster.run(*steps), "the step runs")
    slurm_world.adapter.apply(acts.checkpoint(job_id, signal="USR1", walltime_s=2 * LONG_S))
    await_output(slurm_world, job_id, "trapped")
    slurm_world.adapter.apply(acts.checkpoint(job_id, signal="USR1", walltime_s=0.0))
    await_output(slurm_world, job_id, "trapped", times=2)
    assert f"{job_id}.0" in slurm_world.cluster.run(*steps)
    assert job_of(slurm_world.adapter.snapshot(), job_id).walltime_s == 2 * LONG_S


def test_the_signal_goes_where_it_is_to_go(slurm_world: SlurmWorld) -> None:
    """To the batch shell and none of its children, to every process of the steps, or to both."""
    job_id = slurm_world.cluster.submit(SIGNALLED, "-N2", *WHOLE)
    await_output(slurm_world, job_id, "step ready", times=4)
    for target, shells, tasks in (
        (SignalTarget.BATCH, 1, 0),
        (SignalTarget.STEPS, 1, 4),
        (SignalTarget.BOTH, 2, 8),
    ):
        slurm_world.adapter.apply(acts.checkpoint(job_id, signal="USR1", signal_to=target, walltime_s=0.0))
        await_output(slurm_world, job_id, "batch trapped", times=shells)
        await_output(slurm_world, job_id, "step trapped", times=tasks)
    output = slurm_world.cluster.output(job_id)
    assert (output.count("batch trapped"), output.count("step trapped")) == (2, 8)
    assert output.count("child lives") == 2


def test_a_job_whose_step_saves_is_signalled_there(slurm_world: SlurmWorld) -> None:
    """Its comment says where; its batch shell has no trap and would be ended by the signal."""
    script = f"cat >step.sh <<'END'\n{SAVES}END\nsrun --nodes=1 --ntasks=1 bash step.sh"
    options = ("-N2", "--account=saving", "--comment=makeway:signal-steps")
    job_id = slurm_world.cluster.submit(script, *options, *WHOLE)
    await_output(slurm_world, job_id, "ready")
    spec = job_of(slurm_world.adapter.snapshot(), job_id).checkpoint
    assert spec is not None
    slurm_world.adapter.apply(
        acts.checkpoint(job_id, signal=spec.signal, signal_to=spec.signal_to, walltime_s=2 * LONG_S)
    )
    cluster = slurm_world.wait(
        lambda cluster: job_of(cluster, job_id).last_checkpoint_s is not None, "its step acknowledges"
    )
    assert job_of(cluster, job_id).state is JobState.RUNNING


def test_a_scancel_that_slurmctld_keeps_waiting_says_that_it_has_signalled_nobody(
    slurm_world: SlurmWorld,
) -> None:
    """It is ended before slurmctld gives it the list of jobs, and so before it names the job."""
    world = slurm_world
    job_id = world.cluster.submit(
        "trap 'echo trapped' USR1\necho ready\nwhile :; do sleep 1; done", "-N1", *WHOLE
    )
    await_output(world, job_id, "ready")
    signals = Signals(SlurmClient(replace(SETTINGS, timeout_s=limit_s(3.0)), runner=world.cluster.runner))
    action = acts.checkpoint(job_id, signal="USR1", walltime_s=0.0)
    signals.send(action)
    await_output(world, job_id, "trapped")

    controller = int((world.cluster.folder / "slurmctld.pid").read_text())
    os.kill(controller, signal.SIGSTOP)
    try:
        with pytest.raises(Unavailable) as caught:
            signals.send(action)
    finally:
        os.kill(controller, signal.SIGCONT)
    assert not caught.value.sent
    world.wait(runs(job_id), "slurmctld answers")
    signals.send(action)
    await_output(world, job_id, "trapped", times=2)
    assert world.cluster.output(job_id).count("trapped") == 2


def test_two_urgent_jobs_start_each_on_its_own_nodes(slurm_world: SlurmWorld) -> None:
    victims = [running(slurm_world, slurm_world.submit(4)) for _ in range(2)]
    urgent = [slurm_world.submit(2, kind=JobKind.ON_DEMAND, walltime_s=600.0) for _ in range(2)]
    for job_id, victim in zip(urgent, reversed(victims), strict=True):
        waiting(slurm_world, job_id)
        slurm_world.adapter.apply(
            acts.reserve(
                slurm_world.prefix + job_id, nodes=victim.nodes[1:3], duration_s=LONG_S, job_id=job_id
            )
        )
    rival = slurm_world.submit(2)
    for victim in victims:
        slurm_world.adapter.apply(acts.requeue(victim.job_id))
    for job_id, victim in zip(urgent, reversed(victims), strict=True):
        assert sorted(running(slurm_world, job_id).nodes) == sorted(victim.nodes[1:3])
    assert set(running(slurm_world, rival).nodes).isdisjoint(victims[0].nodes[1:3] + victims[1].nodes[1:3])


def test_a_reservation_is_for_the_user_of_its_job(slurm_world: SlurmWorld) -> None:
    """A job of a third user that asks for the reservation does not get in; root's might, on some releases."""
    victim = running(slurm_world, slurm_world.submit(8))
    urgent = slurm_world.cluster.submit("exec sleep 1000", "-N2", "--account=urgent", *WHOLE, *NOBODY_USER)
    job = waiting(slurm_world, urgent)
    assert job.user == "nobody"
    slurm_world.adapter.apply(
        acts.reserve(hold_of(slurm_world), nodes=victim.nodes[:2], duration_s=LONG_S, job_id=urgent)
    )
    with pytest.raises(DevClusterError, match="reservation"):
        slurm_world.cluster.submit(
            "exec sleep 1000", "-N2", f"--reservation={hold_of(slurm_world)}", *WHOLE, *OTHER_USER
        )
    slurm_world.adapter.apply(acts.requeue(victim.job_id))
    assert sorted(running(slurm_world, urgent).nodes) == sorted(victim.nodes[:2])


def test_an_urgent_job_that_is_cancelled_leaves_a_reservation_that_can_go(slurm_world: SlurmWorld) -> None:
    victim = running(slurm_world, slurm_world.submit(8))
    urgent = slurm_world.submit(2, kind=JobKind.ON_DEMAND)
    waiting(slurm_world, urgent)
    slurm_world.adapter.apply(
        acts.reserve(hold_of(slurm_world), nodes=victim.nodes[:2], duration_s=LONG_S, job_id=urgent)
    )
    slurm_world.adapter.apply(acts.cancel(urgent))
    slurm_world.wait(over(urgent), "the urgent job is gone")
    slurm_world.adapter.apply(acts.release(hold_of(slurm_world)))
    assert slurm_world.adapter.snapshot().reservations == ()
    with pytest.raises(Gone):
        slurm_world.adapter.apply(acts.release(hold_of(slurm_world)))


def test_a_shrunk_job_comes_back_in_its_full_size(slurm_world: SlurmWorld) -> None:
    """22.05 requeues it with the size that it was shrunk to."""
    job = running(slurm_world, slurm_world.submit(6, kind=JobKind.MALLEABLE, node_count_min=1))
    slurm_world.adapter.apply(acts.shrink(job.job_id, keep_nodes=job.nodes[:2], walltime_s=2 * LONG_S))
    slurm_world.wait(lambda cluster: job_of(cluster, job.job_id).node_count == 2, "the job has two nodes")
    slurm_world.adapter.apply(acts.requeue(job.job_id))
    cluster = slurm_world.wait(waits(job.job_id), "it waits")
    assert job_of(cluster, job.job_id).node_count == 6
    slurm_world.adapter.apply(acts.prioritise(job.job_id))
    again = running(slurm_world, job.job_id)
    assert (again.node_count, again.node_count_max, again.requeue_count) == (6, 6, 1)


def test_the_nodes_that_a_job_gave_away_stay_usable(slurm_world: SlurmWorld) -> None:
    """Not so on 22.05 for exclusive jobs, which therefore count as rigid there."""
    options = ("-N4", "--exclusive", "--account=malleable", "--time=60")
    job = running(slurm_world, slurm_world.cluster.submit("exec sleep 1000", *options))
    if job.kind is JobKind.MALLEABLE:
        slurm_world.adapter.apply(acts.shrink(job.job_id, keep_nodes=job.nodes[:1], walltime_s=LONG_S))
    else:
        assert slurm_world.cluster.version < build.RESIZES_CLEANLY
        with pytest.raises(Rejected, match="exclusive"):
            slurm_world.adapter.apply(acts.shrink(job.job_id, keep_nodes=job.nodes[:1], walltime_s=LONG_S))
    for _ in range(2):
        slurm_world.clear()
        running(slurm_world, slurm_world.cluster.submit("exec sleep 1000", "-N8", "--exclusive"))


def test_a_job_of_another_user_grows(slurm_world: SlurmWorld) -> None:
    options = ("-N2", "--account=malleable", *WHOLE, *NOBODY_USER)
    job = running(slurm_world, slurm_world.cluster.submit("exec sleep 1000", *options))
    free = tuple(name for name in slurm_world.nodes if name not in job.nodes)[:2]
    if "expand" not in slurm_world.adapter.capabilities.actions:
        assert slurm_world.cluster.version < build.RESIZES_CLEANLY
        with pytest.raises(Unsupported):
            slurm_world.adapter.apply(acts.expand(job.job_id, nodes=free, reservation=None))
        return
    slurm_world.adapter.apply(acts.expand(job.job_id, nodes=free, reservation=None))
    cluster = slurm_world.wait(lambda cluster: job_of(cluster, job.job_id).node_count == 4, "it has grown")
    assert sorted(job_of(cluster, job.job_id).nodes) == sorted((*job.nodes, *free))
    assert set(cluster.jobs_by_id()) == {job.job_id}


def test_growth_to_a_node_that_is_in_use_is_refused(slurm_world: SlurmWorld) -> None:
    """It is no command without an answer, and leaves no job behind that waits for the node."""
    options = ("-N1", "--account=malleable", *WHOLE)
    first, second = (
        running(slurm_world, slurm_world.cluster.submit("exec sleep 1000", *options)) for _ in range(2)
    )
    grows = "expand" in slurm_world.adapter.capabilities.actions
    error, words = (Rejected, "waiting for resources") if grows else (Unsupported, "expand")
    with pytest.raises(error, match=words):
        slurm_world.adapter.apply(acts.expand(first.job_id, nodes=second.nodes, reservation=None))
    assert set(slurm_world.adapter.snapshot().jobs_by_id()) == {first.job_id, second.job_id}


def test_a_job_without_a_time_limit_keeps_none(slurm_world: SlurmWorld) -> None:
    options = ("-N2", "--account=malleable", *WHOLE, "--time=UNLIMITED")
    script = "trap : USR1; echo ready; while :; do sleep 1; done"
    job = running(slurm_world, slurm_world.cluster.submit(script, *options))
    # The signal would end a job that has not come to its trap yet.
    await_output(slurm_world, job.job_id, "ready")
    longer_s = job.walltime_s + 300.0
    slurm_world.adapter.apply(acts.checkpoint(job.job_id, signal="USR1", walltime_s=longer_s))
    slurm_world.adapter.apply(acts.shrink(job.job_id, keep_nodes=job.nodes[:1], walltime_s=longer_s))
    slurm_world.wait(lambda cluster: job_of(cluster, job.job_id).node_count == 1, "the job has one node")
    told = slurm_world.cluster.run("squeue", "--noheader", "--jobs", job.job_id, "--Format=TimeLimit")
    assert told.strip() == "UNLIMITED"


def test_a_held_job_is_not_let_loose(slurm_world: SlurmWorld) -> None:
    job_id = slurm_world.cluster.submit("exec sleep 1000", "-N1", "--hold")
    with pytest.raises(Rejected, match="is held"):
        slurm_world.adapter.apply(acts.prioritise(job_id))
    assert job_of(slurm_world.adapter.snapshot(), job_id).state is JobState.PENDING


def test_a_hold_that_nobody_ends_ends_by_itself(expiring: SlurmWorld) -> None:
    """As if makeway had died: the urgent job is neither held nor bound, and starts when there is room."""
    cluster = expiring.wait(
        lambda cluster: all(job.reservation is None for job in cluster.jobs), "no job is bound any more"
    )
    (urgent,) = [job for job in cluster.jobs if job.kind is JobKind.ON_DEMAND]
    (other,) = [job for job in cluster.jobs if job.kind is JobKind.RIGID]
    assert (urgent.state, urgent.eligible_s) == (JobState.PENDING, None)
    expiring.adapter.apply(acts.cancel(other.job_id))
    running(expiring, urgent.job_id)
