"""A real Slurm as the `World` of the conformance suite: jobs go in by sbatch, time passes by itself.

Jobs take whole nodes by their tasks and not by `--exclusive`: 22.05 loses the nodes that an exclusive job
gives away.
"""

from collections.abc import Callable
from math import ceil

from makeway.adapters.devcluster.cluster import DevCluster
from makeway.adapters.devcluster.conf import CLUSTER_NAME
from makeway.adapters.protocol import Unavailable
from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.adapters.slurm.holds import hold_prefix
from makeway.adapters.slurm.settings import SlurmSettings
from makeway.policies.model import (
    Acknowledgement,
    CheckpointSpec,
    Cluster,
    JobKind,
    JobState,
    NodeState,
    SignalTarget,
)
from tests.slurm.support.controller import revive_controller
from tests.waiting import await_that, limit_s

KEEPS_ENDED_S = 3600
"""MinJobAge: squeue shows a job that has ended for longer than any test lasts."""
_MESSAGE_TIMEOUT_MOST_S = 20
"""A command to a dead slurmctld fails by itself, before the test that waits for it gives up."""
SOON_S = 100.0
"""A shorter job ends a second after it was seen running: no test needs its duration, only its end."""
BRIEF = 'while [ ! -e "seen-$SLURM_JOB_ID" ]; do sleep 0.3; done; sleep 1'

SAVES = """
save() {
    words="$(squeue -h -j "$SLURM_JOB_ID" -o %k) makeway:ckpt=$(date +%s)"
    scontrol update JobId="$SLURM_JOB_ID" Comment="$words"
}
trap save USR1
echo ready
while :; do sleep 2 & wait; done
"""
"""At the signal it reports its checkpoint as complete; before it prints "ready" the signal would end it. (A
step waits for the last sleep of a shell that was ended.)
"""

CLASSES = (
    JobClass(name="urgent", accounts=frozenset({"urgent"}), kind=JobKind.ON_DEMAND, start_within_s=60.0),
    JobClass(
        name="malleable",
        accounts=frozenset({"malleable"}),
        kind=JobKind.MALLEABLE,
        preemptible=True,
        node_count_min=1,
    ),
    JobClass(
        name="saving",
        accounts=frozenset({"saving"}),
        preemptible=True,
        checkpoint=CheckpointSpec(system_s=1.0),
    ),
    JobClass(
        name="submitit",
        words=frozenset({"submitit"}),
        preemptible=True,
        checkpoint=CheckpointSpec(
            system_s=1.0,
            signal="USR2",
            signal_to=SignalTarget.STEPS,
            acknowledgement=Acknowledgement.REQUEUE,
        ),
    ),
    JobClass(name="batch", accounts=frozenset({"batch"}), preemptible=True),
)
SETTINGS = SlurmSettings(classes=CLASSES, timeout_s=300.0)
ACCOUNTS = {JobKind.RIGID: "batch", JobKind.MALLEABLE: "malleable", JobKind.ON_DEMAND: "urgent"}


def slurm_settings(**settings: str) -> dict[str, str]:
    """Lines of slurm.conf for a cluster of tests: a command to a dead slurmctld fails soon, but not on a busy
    machine. The end of a job does not read all processes of the machine, which has those of many clusters.
    """
    message_timeout_s = min(_MESSAGE_TIMEOUT_MOST_S, ceil(limit_s(2.0)))
    return {
        "MessageTimeout": str(message_timeout_s),
        "MinJobAge": str(KEEPS_ENDED_S),
        "ProctrackType": "proctrack/pgid",
        **settings,
    }


class SlurmWorld:
    """A cluster of real nodes."""

    def __init__(self, cluster: DevCluster) -> None:
        self.cluster = cluster
        self.adapter = SlurmCliAdapter(SETTINGS, runner=cluster.runner)
        self.nodes = cluster.spec.nodes
        self.prefix = hold_prefix(CLUSTER_NAME, None)
        """What the names of makeway's holds begin with."""
        self._brief: set[str] = set()
        """The jobs that end soon after they were seen running."""
        self._saving: set[str] = set()
        """The jobs that can be asked to save."""

    def submit(
        self,
        node_count: int,
        *,
        kind: JobKind = JobKind.RIGID,
        runtime_s: float = 3600.0,
        walltime_s: float = 3600.0,
        node_count_min: int | None = None,
        saves: bool = False,
    ) -> str:
        brief = runtime_s < SOON_S
        account = "saving" if saves else ACCOUNTS[kind]
        words = () if node_count_min is None else (f"--comment=makeway:min-nodes={node_count_min}",)
        job_id = self.cluster.submit(
            SAVES if saves else BRIEF if brief else f"exec sleep {runtime_s}",
            f"--nodes={node_count}",
            f"--ntasks-per-node={self.cluster.spec.cpus_per_node}",
            "--no-kill",
            f"--time={int(walltime_s / 60)}",
            f"--account={account}",
            *words,
        )
        if brief:
            self._brief.add(job_id)
        if saves:
            self._saving.add(job_id)
        return job_id

    def wait(self, condition: Callable[[Cluster], bool], what: str) -> Cluster:
        """The first snapshot that meets the condition, when every running job that saves is ready to be
        signalled. Fails if there is none within the limit.
        """
        seen: list[Cluster] = []

        def met() -> bool:
            try:
                seen[:] = [self.adapter.snapshot()]
            except Unavailable:
                return False  # slurmctld has just started
            running = {job.job_id for job in seen[0].jobs if job.state is JobState.RUNNING}
            for job_id in running & self._brief:
                (self.cluster.folder / "work" / f"seen-{job_id}").touch()
            return condition(seen[0]) and all(map(self._is_ready, running & self._saving))

        await_that(what, met, lambda: f"{seen}\n{self.cluster.log_end()}")
        return seen[0]

    def _is_ready(self, job_id: str) -> bool:
        return "ready" in self.cluster.output(job_id)

    def clear(self) -> None:
        """Cancel every job, remove every reservation, and return the nodes that Slurm has drained.

        slurmctld is started again if a test has left it dead.
        """
        revive_controller(self.cluster)
        self.cluster.cancel_all()
        left = self.wait(lambda _: True, "the nodes have answered")
        for lease in left.leader_leases:
            self.adapter.remove_lease(lease.term)
        for reservation in left.reservations:
            self.cluster.run("scontrol", "delete", f"ReservationName={reservation.name}")
        self.return_drained(left)

    def return_drained(self, seen: Cluster) -> None:
        """Return the nodes that Slurm has drained."""
        for node in seen.nodes:
            if node.state is NodeState.DRAINED:
                self.cluster.run("scontrol", "update", f"NodeName={node.name}", "State=RESUME")
