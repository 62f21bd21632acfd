"""The settings of policy "least-price", and what each of them moves.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section IV: instant starts.

Differs from the paper:
    Urgent jobs have deadlines, and what a start may cost has a ceiling.
"""

from dataclasses import dataclass
from typing import Literal

from makeway.policies.contract import require_durations, require_step
from makeway.policies.model import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastPriceConfig:
    """Settings of policy "least-price". A machine-hour is one hour of all nodes that are up."""

    start_within_s: float = 600.0
    """How long after it became eligible the start of an urgent job is on time, unless the job declares its
    own limit. More: more starts are cheap, because jobs end or complete checkpoints meanwhile."""
    ceiling_machine_hours: float | Literal["auto"] | None = "auto"
    """What the start of one urgent job may cost; jobs of a burst may share their ceilings. Less: less is
    lost, and more urgent jobs are late. auto: 2, and 200 node-hours on a machine of fewer than 100 nodes.
    None: no ceiling, so every urgent job that can be on time is (the strict mode)."""
    instant_machine_hours: float | None = 0.02
    """How much more a start at once may cost than one by the deadline; where jobs share nodes and kills wait,
    how much at all. More: more urgent jobs start at once, by kills instead of checkpoints. None: at once if
    at all possible."""
    waiting_machine_hours: float | None = 2.0
    """A start that costs more waits until its deadline, if enough jobs may end until then (`pays_to_wait`).
    Less: fewer urgent jobs start at once, and sometimes less is lost. None: no start waits whose price is
    below the ceiling."""
    waiting_holds: bool = True
    """Whether the nodes of a start that waits are held meanwhile, if its price is below the ceiling. False:
    other jobs may start on them, fewer nodes stay empty, and more urgent jobs are late."""
    waits_for_ends: bool = True
    """Whether jobs whose time limits end in time are left to end, if that saves more than a start at once may
    cost. False: more urgent jobs start at once, and work is lost that was nearly done."""
    hold_ahead_s: float = 3600.0
    """How long before the last of these jobs ends the nodes are held. More: fewer jobs have to leave in the
    end, and more nodes stand idle."""
    late: Literal["queue", "evict"] = "queue"
    """After the deadline: evict no job, or make room as if the job had been submitted now, but without
    waiting."""
    kills: Literal["late", "at_once"] = "late"
    """Where jobs share nodes. late: kills that cost more than `instant_machine_hours` wait for the deadline,
    since there may be room without them. at_once: they wait only where those of whole nodes would. A few more
    urgent jobs start at once, and more is lost."""
    instant_s: float = 170.0
    """A start so long after the job became eligible counts as at once."""
    budget_machine_hours: float | None = None
    """How much work all urgent jobs of 24 hours may lose together. Less: after expensive hours, more urgent
    jobs are late. None: no limit."""
    vital_users: frozenset[str] = frozenset()
    """Urgent jobs of these users have neither ceiling nor budget, and do not wait."""
    vital_accounts: frozenset[str] = frozenset()
    """The same for accounts."""
    vital_qos: frozenset[str] = frozenset()
    """The same for QOS. A job that asks for several has to have vital ones alone."""
    checkpoints: Literal["serial", "parallel"] = "serial"
    """Whether requested checkpoints are planned one after another, or all at once, each as long as alone.
    parallel: more jobs can save their work, if the file system has room for it; else they lose it."""
    shrink: bool = True
    """Whether malleable jobs give nodes before any job leaves. False: they leave like other jobs."""
    margin_s: float = 30.0
    """How long before the deadline the last job must have left. Kills are still allowed within the margin."""
    leave_s: float = 60.0
    """How long a job that is killed may take to leave its nodes. This long before the margin, waiting ends,
    and a job whose checkpoint is overdue is killed. It should be no less than Slurm's KillWait, the epilog
    and two polls together."""
    step_s: float = 10.0
    """The resolution of time: durations are rounded up to it. Less: tighter plans, more computing time."""
    hold_slack_s: float = 600.0
    """How much longer than the deadline and the walltime together a hold may last."""

    def __post_init__(self) -> None:
        require_durations(
            start_within_s=self.start_within_s,
            instant_s=self.instant_s,
            hold_ahead_s=self.hold_ahead_s,
            margin_s=self.margin_s,
            leave_s=self.leave_s,
            hold_slack_s=self.hold_slack_s,
        )
        require_step(self.step_s)
        ceiling = self.ceiling_machine_hours
        for name, value in (
            ("ceiling_machine_hours", None if ceiling == "auto" else ceiling),
            ("instant_machine_hours", self.instant_machine_hours),
            ("waiting_machine_hours", self.waiting_machine_hours),
            ("budget_machine_hours", self.budget_machine_hours),
        ):
            if value is not None and not value >= 0.0:
                raise ValueError(f"{name} is {value!r}; accepted: a number of machine-hours, not negative")

    def is_vital(self, job: Job) -> bool:
        """Whether the urgent job starts whatever it costs."""
        by_qos = self.vital_qos.issuperset(job.qos.split(","))
        return job.user in self.vital_users or job.account in self.vital_accounts or by_qos
