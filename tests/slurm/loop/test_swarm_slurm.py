"""Random stories on a real Slurm while the daemon and slurmctld are killed, hang, and lose their files.

Each story follows from a seed. `make swarm-slurm` plays many: MAKEWAY_SWARM_SEED is the first seed (default
0), MAKEWAY_SWARM_STORIES says how many (default 2).
"""

import os
from collections import Counter
from random import Random
from typing import Literal

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.controller import controller_restarted
from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.story import IGNORES, REQUEUES, SAVES, Story, nothing_is_left, works_again
from tests.slurm.support.troubles import Troubles
from tests.waiting import await_that

pytestmark = pytest.mark.slurm

FIRST = int(os.environ.get("MAKEWAY_SWARM_SEED", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("MAKEWAY_SWARM_STORIES", "2")))
POLICIES = ("eviction", "n-spaa", "cua-spaa")
WORKERS = ((SAVES, "saving"), (REQUEUES, "requeueing"), (IGNORES, "saving"))
URGENT_JOBS = 2
_WHOLE_LOG = 100_000
_REQUEUE_DELAY_S = 120.0
"""How long Slurm keeps a job in the queue that it has requeued by itself (`cred_expire`)."""


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=pytest.mark.one_release(on=("22.05", "24.11")[seed % 2])) for seed in SEEDS],
)
def test_nobody_is_stuck_and_nothing_is_left(story: Story, start_daemon: StartDaemon, seed: int) -> None:
    random = Random(seed)
    kinds = random.choices(WORKERS, k=4)
    story.works(*[story.submit(script, 2, account) for script, account in kinds])
    limits = time_limits_s(story)
    daemon = start_daemon(policy=random.choice(POLICIES))
    troubles = Troubles(story, daemon, seed)
    with daemon.restarted(), controller_restarted(story.world.cluster):
        urgent_jobs = [urgent_comes_and_goes(story, daemon, troubles, random) for _ in range(URGENT_JOBS)]
        explain = story.explain(daemon)
        await_that(
            "every worker works", lambda: all_work(story, urgent_jobs), explain, waits_s=_REQUEUE_DELAY_S
        )
        nothing_is_left(story, daemon)
        works_again(story, daemon, *story.workers, once=False)
    print(
        f"seed {seed}: {dict(troubles.happened)}, restarts {[story.restarts(one) for one in story.workers]}"
    )
    # A limit that a checkpoint has raised stays raised.
    most_s = URGENT_JOBS * (daemon.start_within_s + 60)
    for asked_s, left_s in zip(limits, time_limits_s(story), strict=True):
        assert asked_s <= left_s <= asked_s + most_s
    assert no_run_was_signalled_twice(daemon)


def urgent_comes_and_goes(story: Story, daemon: DaemonProcess, troubles: Troubles, random: Random) -> str:
    """An urgent job comes, starts and ends, or is cancelled before. Troubles happen at every stage.

    Returns its id.
    """
    urgent = story.urgent_comes()
    troubles.happen(random.randint(1, 4))
    if random.random() < 0.2:
        story.ask("scancel", "--quiet", urgent)
        return urgent
    await_that(
        f"urgent job {urgent} runs",
        lambda: story.runs(urgent) or ended_by_slurm(story, urgent) or slurm_is_helped(story),
        story.explain(daemon),
        waits_s=daemon.start_within_s + _REQUEUE_DELAY_S,
    )
    troubles.happen(random.randint(0, 2))
    story.ends(urgent)
    troubles.happen(random.randint(0, 3))
    return urgent


def all_work(story: Story, urgent_jobs: list[str]) -> bool:
    """Whether every worker runs. Otherwise Slurm is helped.

    A slurmctld that was killed may have forgotten that a user cancelled an urgent job: it is done again. It
    may also have ended a worker whose start it has forgotten: that is requeued.
    """
    for job_id in filter(story.runs, urgent_jobs):
        story.ask("scancel", "--quiet", job_id)
    for job_id in story.workers:
        if ended_by_slurm(story, job_id) and not story.ask("squeue", "-h", "-j", job_id):
            story.ask("scontrol", "requeue", job_id)
    return all(map(story.runs, story.workers)) or slurm_is_helped(story)


def slurm_is_helped(story: Story) -> Literal[False]:
    """Do what an administrator does where Slurm has forgotten a start. False: the jobs are looked at again.

    A slurmctld that was killed and has forgotten the start of a job starts it once more: the node has the job
    already, so that Slurm drains the node and holds the job.
    """
    for line in story.ask("squeue", "-h", "-o", "%A|%r").splitlines():
        job_id, _, reason = line.partition("|")
        if reason == "launch failed requeued held":
            story.ask("scontrol", "release", job_id)
    story.world.return_drained(story.world.wait(lambda _: True, "there is a view"))
    return False


def ended_by_slurm(story: Story, job_id: str) -> bool:
    """Whether a slurmctld that was killed has forgotten the start of a job, started it once more, and ended
    it, because its node had it already.
    """
    return f"Killing non-startable batch JobId={job_id}:" in story.world.cluster.log_end(_WHOLE_LOG)


def time_limits_s(story: Story) -> list[int]:
    """The time limit of each worker; Slurm prints them as [[D-]H:]M:S."""
    texts = [story.field(job_id, "TimeLimit") for job_id in story.workers]
    return [sum(int(part) * 60**power for power, part in enumerate(text.split(":")[::-1])) for text in texts]


def no_run_was_signalled_twice(daemon: DaemonProcess) -> bool:
    """Whether the journal has at most one signal for each run and urgent job."""
    signals = Counter(
        (command.action.job_id, command.action.run, command.action.for_job_id)
        for command in daemon.commands()
        if command.action.verb == "checkpoint"
    )
    return all(count == 1 for count in signals.values())
