"""The job of a workload: everything that is true of it, also what no scheduler may know."""

from dataclasses import dataclass
from operator import attrgetter

from makeway.daemon.errors import OneProblem
from makeway.policies.model import JobKind, Resources, changed


class WorkloadError(OneProblem):
    """A setting of a workload that is not valid.

    The message names the key, the value and what is accepted.
    """


@dataclass(slots=True)
class SimJob:
    """One job of a workload. It is never changed, but not frozen: hundreds of thousands are made.

    `runtime_s` is what one uninterrupted run on `node_count` nodes takes, setup and regular checkpoints
    included, so that a replay without evictions has exactly the runtimes of the trace.
    """

    job_id: str
    submit_s: float
    runtime_s: float
    walltime_s: float
    """The limit that the user asked for; at least `runtime_s`."""
    node_count: int
    user: str = ""
    account: str = ""
    kind: JobKind = JobKind.RIGID
    node_count_min: int | None = None
    """Malleable jobs: the smallest size; `node_count` is the largest. None: it cannot shrink."""
    setup_s: float = 0.0
    """Spent at every start before any work is done."""
    restart_s: float = 0.0
    """Spent at every start that goes on from saved work, before the setup."""
    checkpoint_interval_s: float | None = None
    """Work between two regular checkpoints. None: there are none."""
    checkpoint_cost_s: float = 0.0
    """Duration of one regular checkpoint."""
    system_gb_per_node: float | None = None
    """Size of a checkpoint that a signal starts. None: see `save_s`.

    Its duration follows from the storage (P2, eq. 1).
    """
    save_s: float | None = None
    """Fixed duration of a checkpoint that a signal starts.

    If `system_gb_per_node` is None too, a signal has no effect.
    """
    announced_s: float | None = None
    """When an on-demand job was announced. None: it comes without notice."""
    expected_s: float | None = None
    """When the announcement said that it would arrive."""
    start_within_s: float | None = None
    """On-demand jobs: a start up to this long after the job became eligible is on time. None: the policy's
    default."""
    queue: str = ""
    """The queue that the trace names; in a snapshot, the job's QOS."""
    partition: str = ""
    preemptible: bool = True
    """Whether makeway may evict or shrink it. Urgent jobs never are, whatever this says."""
    het_job_id: str = ""
    """The heterogeneous job that it is a component of: its components start at one instant. Empty: none."""
    demand: Resources | None = None
    """What it asks for on each node. None: whole nodes."""

    def plain(self) -> "SimJob":
        """The job as an SWF file has it: rigid, with nothing that comes with a kind.

        A job that gets another kind starts from it, so that no trait of the old kind is left. A job that is
        plain already is returned itself.
        """
        if self.kind is JobKind.RIGID and _traits(self) == _NO_TRAITS:
            return self
        return changed(
            self,
            kind=JobKind.RIGID,
            node_count_min=None,
            setup_s=0.0,
            restart_s=0.0,
            checkpoint_interval_s=None,
            checkpoint_cost_s=0.0,
            system_gb_per_node=None,
            save_s=None,
            announced_s=None,
            expected_s=None,
            start_within_s=None,
        )


_traits = attrgetter(
    "node_count_min",
    "setup_s",
    "restart_s",
    "checkpoint_interval_s",
    "checkpoint_cost_s",
    "system_gb_per_node",
    "save_s",
    "announced_s",
    "expected_s",
    "start_within_s",
)
_NO_TRAITS = (None, 0.0, 0.0, None, 0.0, None, None, None, None, None)
