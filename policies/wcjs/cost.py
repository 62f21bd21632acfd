"""What P1 goes by: the slowdown that a job is heading for, thresholds by category, and what its preemption would cost.

A job is narrow or wide by its nodes, and short or long by its time limit. Each of the four categories has a threshold of
slowdown above which an urgent job is of high priority, and one above which a batch job is preempted no more.

Reference:
    Nickolay et al., "Towards Accommodating Real-time Jobs on HPC Platforms" (arXiv 2021), sections 6.1 and 6.3 and
    eq. 56 to 58; categories: section 7.1.1.

Differs from the paper:
    The paper gives neither thresholds nor factors. Each factor is a quantity of at least 1 to the power of its weight, so
    that weight 0 leaves it out. The defaults come from a sweep on Mira's third trace (`makeway reproduce p1 --sweep`,
    docs/wcjs-sweep.md): the thresholds of batch jobs are eight times as far above 1 as in the authors' public simulator
    (github.com/samnickolay/qsim-scheduling-january-paper-v2), because theirs keep too much from being cleared. What an urgent job waits may be bounded by a limit of its own, and then counts from its submission.
    Work of earlier runs that is saved counts as running time. A job that will be killed has the checkpoint factor even if it
    never checkpoints: then all of its run would be lost.
"""

import math
from dataclasses import dataclass

from makeway.policies.common.losses import loss_node_s, system_s
from makeway.policies.contract import require_durations
from makeway.policies.model import Job

MOST_WEIGHT = 10.0
"""Costs stay finite up to here."""
LEAST_REMAINING = 0.02
"""A job that has less of its time limit left than this share counts as having this: the factor stays finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WcjsConfig:
    """Settings of policy "wcjs". Thresholds are slowdowns, 1 or more; an infinite one is never exceeded."""

    narrow_max_nodes: int = 4096
    """A job of so many nodes at the most is narrow, a larger one wide."""
    short_max_s: float = 7200.0
    """A job with this time limit at the most is short, else long."""
    urgent_narrow_short: float = 1.1
    urgent_narrow_long: float = 1.1
    urgent_wide_short: float = 1.1
    urgent_wide_long: float = 1.1
    batch_narrow_short: float = 17.0
    batch_narrow_long: float = 3.4
    batch_wide_short: float = 73.0
    batch_wide_long: float = 9.0
    spare_larger: bool = True
    """Whether a job larger than the urgent one is never preempted for it."""
    just_in_time: bool = True
    """Whether a job that can checkpoint on a signal does so before it leaves. False: everybody is killed."""
    slowdown_weight: float = 1.0
    checkpoint_weight: float = 2.0
    remaining_weight: float = 1.0
    evict_within_s: float = 3600.0
    """For so long after it became one of high priority others may be asked to leave for an urgent job."""
    hold_slack_s: float = 600.0
    """How much longer than the checkpoints and the time limit together a hold may last."""

    def __post_init__(self) -> None:
        require_durations(
            short_max_s=self.short_max_s, evict_within_s=self.evict_within_s, hold_slack_s=self.hold_slack_s
        )
        if self.narrow_max_nodes < 0:
            raise ValueError(
                f"narrow_max_nodes is {self.narrow_max_nodes!r}, wants a number of nodes, not negative"
            )
        for kind in ("urgent", "batch"):
            for category in ("narrow_short", "narrow_long", "wide_short", "wide_long"):
                threshold = getattr(self, f"{kind}_{category}")
                if not threshold >= 1.0:
                    raise ValueError(f"{kind}_{category} is {threshold!r}, wants a slowdown of at least 1")
        for name in ("slowdown_weight", "checkpoint_weight", "remaining_weight"):
            weight = getattr(self, name)
            if not 0.0 <= weight <= MOST_WEIGHT:
                raise ValueError(f"{name} is {weight!r}, wants a number from 0 to {MOST_WEIGHT:g}")

    def urgent_threshold(self, job: Job) -> float:
        """The slowdown from which an urgent job is of high priority (Algorithm 1, line 1)."""
        return self._of(
            job,
            (
                self.urgent_narrow_short,
                self.urgent_narrow_long,
                self.urgent_wide_short,
                self.urgent_wide_long,
            ),
        )

    def batch_threshold(self, job: Job) -> float:
        """The slowdown above which a batch job is not preempted (section 6.3, third rule)."""
        return self._of(
            job,
            (self.batch_narrow_short, self.batch_narrow_long, self.batch_wide_short, self.batch_wide_long),
        )

    def _of(self, job: Job, thresholds: tuple[float, float, float, float]) -> float:
        """The one of the job's category."""
        wide, long = job.node_count > self.narrow_max_nodes, job.walltime_s > self.short_max_s
        return thresholds[2 * wide + long]


def estimated_slowdown(job: Job, now_s: float) -> float:
    """The slowdown if the job ran from now to its time limit (eq. 56), or runs on to it (eq. 57 and 58); at least 1."""
    walltime_s = max(1.0, job.walltime_s)
    if not math.isfinite(walltime_s):
        return 1.0
    from_s = now_s if job.start_s is None else job.start_s - job.saved_s
    return max(1.0, (walltime_s + from_s - job.submit_s) / walltime_s)


def high_priority_s(job: Job, config: WcjsConfig) -> float:
    """When an urgent job that goes on waiting becomes one of high priority (Algorithm 1, lines 3 and 4).

    At once if its own limit would be over by then.
    """
    patience_s = (config.urgent_threshold(job) - 1.0) * max(1.0, job.walltime_s)
    if job.start_within_s is not None and job.start_within_s <= patience_s:
        return job.submit_s
    return job.submit_s + patience_s


def just_in_time_s(job: Job, config: WcjsConfig) -> float | None:
    """How long the job saves itself before it leaves. None: it is killed."""
    return system_s(job) if config.just_in_time else None


def cost(job: Job, now_s: float, config: WcjsConfig) -> float:
    """The price of preempting one job (Algorithm 2, lines 20 to 23): its nodes times three factors of at least 1.

    Higher slowdown, a longer time since the last checkpoint (in hours; only of a job that is killed), and less time left are
    dearer.
    """
    factors: tuple[float, ...] = (
        estimated_slowdown(job, now_s) ** config.slowdown_weight,
        (1.0 + _unsaved_hours(job, now_s, config)) ** config.checkpoint_weight,
        (1.0 / _remaining_share(job, now_s)) ** config.remaining_weight,
    )
    return job.node_count * math.prod(factors)


def _unsaved_hours(job: Job, now_s: float, config: WcjsConfig) -> float:
    """Hours of the run that its preemption would lose."""
    if just_in_time_s(job, config) is not None:
        return 0.0
    return loss_node_s(job, now_s) / max(1, job.node_count) / 3600.0


def _remaining_share(job: Job, now_s: float) -> float:
    """How much of its time limit the job has left, work of earlier runs taken off."""
    walltime_s = max(1.0, job.walltime_s)
    if job.start_s is None or not math.isfinite(walltime_s):
        return 1.0
    left_s = walltime_s - job.saved_s - (now_s - job.start_s)
    return min(1.0, max(LEAST_REMAINING, left_s / walltime_s))
