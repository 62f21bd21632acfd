"""The story that runs on a real Slurm: a full cluster, an urgent job, and what is left at the end."""

import re
from collections.abc import Callable
from pathlib import Path

from makeway.adapters.devcluster.cluster import DevClusterError
from makeway.adapters.protocol import Unavailable
from makeway.adapters.slurm.build import FRONT_PRIORITY
from makeway.policies.model import QUEUE_POSITIONS
from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.world import SlurmWorld
from tests.waiting import await_that

WHOLE_NODES = ("--ntasks-per-node=2", "--time=30")
_WIDTH = 64
"""Of a column of squeue, in characters."""
_NOT_CONNECTED = "Transport endpoint is not connected"
"""What sbatch says that has not reached slurmctld, so that nothing was submitted."""

COUNT = """
id=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
id=${id:-$SLURM_JOB_ID}
step=$(cat "state-$id" 2>/dev/null || echo 0)
save() {
    echo "$step" >"state-$id"
}
rest() {
    while [ ! -e "over-$id" ] && [ ! -e "on-$id" ]; do
        sleep 1 &
        wait "$!"
    done
    [ ! -e "over-$id" ] || exit 0
}
count() {
    while [ ! -e "over-$id" ]; do
        echo "$((step += 1))" >>"steps-$id"
        sleep 1 &
        wait "$!"
    done
}
"""
"""Counts its steps until it has to end. A run resumes from the last checkpoint, so a repeated step shows.

A step is one command, which no signal divides, and no handler returns before its job is told to go on: what
was saved is what was done.
"""
SAVES = (
    COUNT
    + """
announce() {
    save
    scontrol update JobId="$SLURM_JOB_ID" Comment="makeway:ckpt=$(date +%s)"
    rest
}
trap announce USR1
count
"""
)
"""At the signal it saves, acknowledges, and stops working."""
SAVES_WHEN_TOLD = SAVES.replace(
    "announce() {", 'announce() {\n    while [ ! -e "may-save-$id" ]; do sleep 0.2; done'
)
"""It saves at the signal, but not before it may (`Story.may_save`)."""
EXITS = COUNT + "trap 'save; exit 0' USR1\ncount\n"
"""At the signal it saves and ends."""
REQUEUES = (
    COUNT
    + """
leave() {
    save
    scontrol requeue "$SLURM_JOB_ID"
    rest
}
trap leave USR1
count
"""
)
"""At the signal it saves and puts itself back into the queue."""
IGNORES = COUNT + "trap '' USR1\ncount\n"
"""It ignores the signal."""
URGENT = 'while [ ! -e "over-$SLURM_JOB_ID" ]; do sleep 1; done'


class Story:
    """Jobs on a cluster of eight nodes, by what each is in the story."""

    def __init__(self, world: SlurmWorld) -> None:
        self.world = world
        self.workers: list[str] = []
        """The jobs that may be asked to leave."""
        self.sizes: dict[str, int] = {}
        """How many nodes each job was submitted with."""
        self.urgent: list[str] = []

    @property
    def work(self) -> Path:
        """Where the jobs write."""
        return self.world.cluster.folder / "work"

    def submit(self, script: str, node_count: int, account: str, *options: str) -> str:
        """Submit a job; whole nodes unless `options` say otherwise. A killed slurmctld comes back."""
        options = (f"--nodes={node_count}", f"--account={account}", *(options or WHOLE_NODES))
        submitted: list[str] = []

        def submits() -> bool:
            try:
                submitted.append(self.world.cluster.submit(script, *options))
            except DevClusterError as error:
                if _NOT_CONNECTED not in str(error):
                    raise
            return bool(submitted)

        await_that("slurmctld takes a job", submits, self.world.cluster.log_end)
        self.sizes[submitted[0]] = node_count
        return submitted[0]

    def works(self, *workers: str) -> None:
        """These jobs are the workers: wait until they fill the cluster and each has done some steps."""
        self.workers += workers
        self.world.wait(lambda cluster: not cluster.free_nodes(), "the cluster is full")
        await_that("every worker works", lambda: all(len(self.steps(one)) > 1 for one in self.workers))

    def fill(self, script: str = SAVES, account: str = "saving") -> None:
        """Four workers of two nodes each fill the cluster."""
        self.works(*[self.submit(script, 2, account) for _ in range(4)])

    def fill_malleable(self, *options: str) -> str:
        """One worker of six nodes that may shrink to two, and a job that may not leave, fill the cluster."""
        worker = self.submit(COUNT + "count\n", 6, "malleable", "--no-kill", *WHOLE_NODES, *options)
        self.submit("exec sleep 600", 2, "other")
        self.works(worker)
        return worker

    def urgent_comes(self, node_count: int = 2, *options: str) -> str:
        """Submit an urgent job, with more options of sbatch. It runs until `ends` is called with its id."""
        self.urgent.append(self.submit(URGENT, node_count, "urgent", *WHOLE_NODES, *options))
        return self.urgent[-1]

    def ends(self, job_id: str) -> None:
        """Let a job of the story end by itself."""
        (self.work / f"over-{job_id}").touch()

    def may_save(self) -> None:
        """Let the workers save that were told to."""
        for job_id in self.workers:
            (self.work / f"may-save-{job_id}").touch()

    def steps(self, job_id: str) -> list[int]:
        """The steps that a worker has done, in order."""
        path = self.work / f"steps-{job_id}"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def ask(self, *argv: str) -> str:
        """The output of a command that changes nothing; repeated until slurmctld answers."""
        said: list[str] = []

        def answered() -> bool:
            try:
                said[:] = [self.world.cluster.run(*argv)]
            except (DevClusterError, Unavailable) as error:
                said[:] = [str(error)]
                return False
            return True

        await_that(f"{argv[0]} gets an answer", answered, lambda: said[0])
        return said[0]

    def field(self, job_id: str, column: str) -> str:
        """One column of squeue for one job. Empty: Slurm has forgotten the job."""
        return self.fields(job_id, column)[0]

    def fields(self, job_id: str, *columns: str) -> list[str]:
        """These columns of squeue for one job, by one command. Empty ones: Slurm has forgotten the job."""
        shape = ",".join(f"{column}:{_WIDTH}" for column in columns)
        line = self.ask("squeue", "-h", "--states=all", "--array", f"--jobs={job_id}", "-O", shape)
        return [line[start : start + _WIDTH].strip() for start in range(0, _WIDTH * len(columns), _WIDTH)]

    def state(self, job_id: str) -> str:
        return self.field(job_id, "State")

    def runs(self, job_id: str) -> bool:
        """Whether it runs, also where Slurm says that it has lost its reservation."""
        present, nodes = self.fields(job_id, "State", "NodeList")
        return present == "RUNNING" or (present == "RESV_DEL_HOLD" and nodes != "")

    def nodes(self, job_id: str) -> set[str]:
        return set(self.ask("scontrol", "show", "hostnames", self.field(job_id, "NodeList")).split())

    def restarts(self, job_id: str) -> int:
        return int(self.field(job_id, "RestartCnt"))

    def lenders(self) -> list[str]:
        """The workers that have been requeued."""
        return [job_id for job_id in self.workers if self.restarts(job_id)]

    def reservations(self) -> list[str]:
        """The names of makeway's reservations."""
        listed = self.ask("scontrol", "--oneliner", "show", "reservations")
        return re.findall(rf"ReservationName=({re.escape(self.world.prefix)}\S+)", listed)

    def deletion_of_hold(self, job_id: str) -> str:
        """The name that `DaemonProcess.steps` has for the deletion of a job's hold."""
        return re.sub(r"[^A-Za-z0-9]", "_", f"scontrol delete ReservationName={self.world.prefix}{job_id} ")

    def signalled(self) -> bool:
        """Whether a worker has acknowledged a checkpoint."""
        return any(self.field(job_id, "Comment").startswith("makeway:ckpt") for job_id in self.workers)

    def explain(self, daemon: DaemonProcess) -> Callable[[], str]:
        """Returns a function that reports what was seen, for a wait that failed."""
        return lambda: (
            daemon.run("explain", "last").stdout
            + daemon.log()
            + self.world.cluster.run("squeue")
            + self.world.cluster.log_end(40)
        )


def starts_on_the_held_nodes(story: Story, daemon: DaemonProcess, *urgent: str) -> None:
    """These urgent jobs start, each on exactly the nodes that were held for it last."""
    for job_id in urgent:
        await_start(story, daemon, job_id)
        assert story.nodes(job_id) == held_last(daemon, job_id)


def await_start(story: Story, daemon: DaemonProcess, urgent: str) -> None:
    """Wait until an urgent job runs, as long as it may wait for the jobs before it to save their work."""
    await_that(
        f"urgent job {urgent} runs",
        lambda: story.runs(urgent),
        story.explain(daemon),
        waits_s=daemon.start_within_s,
    )


def held_last(daemon: DaemonProcess, urgent: str) -> set[str] | None:
    """The nodes that were held for an urgent job last. None: it never had a hold."""
    holds = [
        command.action.nodes
        for command in daemon.commands()
        if command.action.verb == "reserve" and command.action.job_id == urgent
    ]
    return set(holds[-1]) if holds else None


def works_again(story: Story, daemon: DaemonProcess, *lenders: str, once: bool = True) -> None:
    """These workers run again and go on where they had saved: every step was done exactly once.

    Without `once`: every step that was saved. A slurmctld that is killed may lose a signal, or start a job
    twice. A job that has saved for an urgent job which was cancelled is told to go on.
    """
    explain = story.explain(daemon)
    for job_id in lenders:
        if not once:
            (story.work / f"on-{job_id}").touch()
        before = len(story.steps(job_id))
        await_that(
            f"lender {job_id} works again",
            lambda one=job_id, done=before: story.runs(one) and len(story.steps(one)) > done,  # type: ignore[misc]
            explain,
        )
        done = story.steps(job_id)
        state = story.work / f"state-{job_id}"
        saved = len(done) if once else int(state.read_text()) if state.exists() else 0
        assert [step for step in done if step <= saved] == list(range(1, saved + 1)), explain()


def nothing_is_left(story: Story, daemon: DaemonProcess) -> None:
    """Wait until no operation, reservation, hold, priority, binding or size of makeway's is left."""
    explain = story.explain(daemon)
    await_that("nothing is held", lambda: story.reservations() == [], explain)
    jobs = (*story.workers, *story.urgent)
    await_that(
        "no job has anything of makeway's",
        lambda: not any(_has_makeways(story, job_id) for job_id in jobs),
        explain,
    )
    # Last: the command that removed the last of it is answered in the journal once its operation is closed.
    await_that("no operation is open", lambda: daemon.operations() == (), explain)


def makes_room_and_gives_it_back(story: Story, daemon: DaemonProcess, *, once: bool = True) -> str:
    """The urgent job starts on the nodes that were held; its one lender goes on where it had saved. Returns
    the lender.
    """
    (urgent,) = story.urgent
    starts_on_the_held_nodes(story, daemon, urgent)
    # A slurmctld that was killed may have forgotten that the lender was requeued, but not the daemon.
    (lender,) = {command.action.job_id for command in daemon.commands() if command.action.verb == "requeue"}
    story.ends(urgent)
    works_again(story, daemon, lender, once=once)
    nothing_is_left(story, daemon)
    await_that("every worker works", lambda: all(map(story.runs, story.workers)), story.explain(daemon))
    return lender


def clears_and_gives_back(story: Story, daemon: DaemonProcess, urgent: str, nodes: set[str]) -> None:
    """The urgent job starts on these nodes, which two lenders left for it. Both go on where they had
    saved.
    """
    starts_on_the_held_nodes(story, daemon, urgent)
    assert story.nodes(urgent) == nodes
    lenders = story.lenders()
    assert len(lenders) == 2
    story.ends(urgent)
    works_again(story, daemon, *lenders)
    nothing_is_left(story, daemon)


def shrinks_and_grows_back(story: Story, daemon: DaemonProcess, worker: str) -> None:
    """An urgent job starts on nodes that the malleable worker gave up; it has them again where jobs
    can grow.
    """
    before = story.nodes(worker)
    others = [job_id for job_id in story.sizes if job_id != worker]
    urgent = story.urgent_comes()
    starts_on_the_held_nodes(story, daemon, urgent)
    assert story.nodes(worker) == before - story.nodes(urgent)
    assert all(map(story.runs, others))
    assert not story.lenders()
    story.ends(urgent)
    if "expand" in story.world.adapter.capabilities.actions:
        await_that("it has its nodes again", lambda: story.nodes(worker) == before, story.explain(daemon))
    else:
        # Here jobs cannot grow: it goes on smaller, and that is what the operation says.
        story.sizes[worker] = len(before) - 2
    nothing_is_left(story, daemon)


def _has_makeways(story: Story, job_id: str) -> bool:
    """Whether a job is held, bound, in front or of another size because of makeway."""
    state, reason, reservation, priority, node_count = story.fields(
        job_id, "State", "Reason", "Reservation", "PriorityLong", "NumNodes"
    )
    if state not in ("RUNNING", "PENDING"):
        return False
    asked = story.sizes.get(job_id.split("_")[0])
    return (
        reason.startswith("JobHeld")
        or reservation not in ("", "(null)")
        or (state == "RUNNING" and int(priority) >= FRONT_PRIORITY - 1 - QUEUE_POSITIONS)
        or (asked is not None and int(node_count) != asked)
    )
