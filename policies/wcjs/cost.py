"""P1's measures: the expected slowdown of a job, thresholds by category, and the cost of preempting a job.

A job is narrow or wide by its nodes, and short or long by its time limit. Each of the four categories has two
thresholds of slowdown: above one of them an urgent job has high priority, above the other a batch job is no
longer preempted.

Reference:
    Nickolay et al., "Towards Accommodating Real-time Jobs on HPC Platforms" (arXiv 2021), sections 6.1 and
    6.3 and eq. 56 to 58; categories: section 7.1.1.

Differs from the paper:
    The paper gives neither thresholds nor factors. Each factor is a quantity of at least 1 to the power of
    its weight, so that weight 0 leaves it out. The defaults come from a sweep on Mira's third trace (`makeway
    reproduce p1 --sweep`, docs/wcjs-sweep.md): the thresholds of batch jobs are eight times as far above 1 as
    in the authors' public simulator (github.com/samnickolay/qsim-scheduling-january-paper-v2), because with
    theirs too few placements can be cleared. An urgent job may declare a limit of its own on its wait,
    counted from its submission. Saved work of earlier runs counts as run time. A job that will be killed has
    the checkpoint factor even if it never checkpoints, because all of its run would be lost. In that factor
    the lost work has its price, which past evictions raise, so that it is not always the same job that leaves
    (`safety.prices`). With the limit `price_past_evictions: false`, as in replays, the price is the loss.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from makeway.policies.common.losses import system_s
from makeway.policies.contract import require_durations
from makeway.policies.model import Job
from makeway.policies.safety.prices import hours_text, loss_node_s, price_node_s

MOST_WEIGHT = 10.0
"""Costs stay finite up to here."""
LEAST_REMAINING = 0.02
"""A job with a smaller share of its time limit left counts as having this share, so that the factor is
finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WcjsConfig:
    """Settings of policy "wcjs". Thresholds are slowdowns, 1 or more; an infinite one is never exceeded."""

    narrow_max_nodes: int = 4096
    """A job of at most this many nodes is narrow, a larger one is wide."""
    short_max_s: float = 7200.0
    """A job with at most this time limit is short, else long."""
    urgent_narrow_short: float = 1.1
    """An urgent job that is narrow and short has high priority from this slowdown on."""
    urgent_narrow_long: float = 1.1
    """An urgent job that is narrow and long has high priority from this slowdown on."""
    urgent_wide_short: float = 1.1
    """An urgent job that is wide and short has high priority from this slowdown on."""
    urgent_wide_long: float = 1.1
    """An urgent job that is wide and long has high priority from this slowdown on."""
    batch_narrow_short: float = 17.0
    """A batch job that is narrow and short is not preempted if its slowdown passes this."""
    batch_narrow_long: float = 3.4
    """A batch job that is narrow and long is not preempted if its slowdown passes this."""
    batch_wide_short: float = 73.0
    """A batch job that is wide and short is not preempted if its slowdown passes this."""
    batch_wide_long: float = 9.0
    """A batch job that is wide and long is not preempted if its slowdown passes this."""
    spare_larger: bool = True
    """Whether jobs larger than the urgent one are never preempted for it."""
    just_in_time: bool = True
    """Whether a job that can checkpoint on a signal does so before it leaves. False: all jobs are killed."""
    slowdown_weight: float = 1.0
    """The exponent of the slowdown in the cost of a preemption."""
    checkpoint_weight: float = 2.0
    """The exponent of 1 plus the hours since the last checkpoint in that cost, for a job that is killed; past
    evictions raise these hours."""
    remaining_weight: float = 1.0
    """The exponent of the inverse share of the time limit that is left in that cost."""
    evict_within_s: float = 3600.0
    """How long after an urgent job got high priority other jobs may be evicted for it."""
    hold_slack_s: float = 600.0
    """How much longer than the checkpoints and the time limit together a hold may last."""

    def __post_init__(self) -> None:
        require_durations(
            short_max_s=self.short_max_s, evict_within_s=self.evict_within_s, hold_slack_s=self.hold_slack_s
        )
        if self.narrow_max_nodes < 0:
            raise ValueError(
                f"narrow_max_nodes is {self.narrow_max_nodes!r}; accepted: a number of nodes, not negative"
            )
        for kind in ("urgent", "batch"):
            for category in ("narrow_short", "narrow_long", "wide_short", "wide_long"):
                threshold = getattr(self, f"{kind}_{category}")
                if not threshold >= 1.0:
                    raise ValueError(
                        f"{kind}_{category} is {threshold!r}; accepted: a slowdown of at least 1"
                    )
        for name in ("slowdown_weight", "checkpoint_weight", "remaining_weight"):
            weight = getattr(self, name)
            if not 0.0 <= weight <= MOST_WEIGHT:
                raise ValueError(f"{name} is {weight!r}; accepted: a number from 0 to {MOST_WEIGHT:g}")

    def urgent_threshold(self, job: Job) -> float:
        """The slowdown from which an urgent job has high priority (Algorithm 1, line 1)."""
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
        """The threshold of the job's category."""
        wide, long = job.node_count > self.narrow_max_nodes, job.walltime_s > self.short_max_s
        return thresholds[2 * wide + long]


def estimated_slowdown(job: Job, now_s: float) -> float:
    """The slowdown if the job runs from now to its time limit (eq. 56), or on to it (eq. 57 and 58); at least
    1.
    """
    walltime_s = max(1.0, job.walltime_s)
    if not math.isfinite(walltime_s):
        return 1.0
    from_s = now_s if job.start_s is None else job.start_s - job.saved_s
    return max(1.0, (walltime_s + from_s - job.waits_since_s) / walltime_s)


def high_priority_s(job: Job, config: WcjsConfig) -> float:
    """When an urgent job that goes on waiting gets high priority (Algorithm 1, lines 3 and 4).

    At once if its own limit would be over by then.
    """
    wait_s = (config.urgent_threshold(job) - 1.0) * max(1.0, job.walltime_s)
    if job.start_within_s is not None and job.start_within_s <= wait_s:
        return job.waits_since_s
    return job.waits_since_s + wait_s


def just_in_time_s(job: Job, config: WcjsConfig) -> float | None:
    """How long the job checkpoints before it leaves. None: it is killed."""
    return system_s(job) if config.just_in_time else None


def cost(job: Job, now_s: float, config: WcjsConfig) -> float:
    """The cost of preempting one job (Algorithm 2, lines 20 to 23): its nodes times three factors of at least
    1.

    The cost rises with the slowdown, with the time since the last checkpoint (in hours, raised by past
    evictions; only of a job that is killed), and as less of the time limit is left.
    """
    factors: tuple[float, ...] = (
        estimated_slowdown(job, now_s) ** config.slowdown_weight,
        (1.0 + _priced_hours(job, now_s, config)) ** config.checkpoint_weight,
        (1.0 / _remaining_share(job, now_s)) ** config.remaining_weight,
    )
    return job.node_count * math.prod(factors)


def _priced_hours(job: Job, now_s: float, config: WcjsConfig) -> float:
    """Hours of its run that the preemption would lose, at their price: past evictions raise them."""
    if just_in_time_s(job, config) is not None:
        return 0.0
    return price_node_s(job, now_s) / max(1, job.node_count) / 3600.0


def price_note(jobs: Iterable[Job], now_s: float, config: WcjsConfig) -> str:
    """For the note of a candidate: as what the lost work of its jobs counts in the cost.

    Empty: past evictions do not raise it.
    """
    if not config.checkpoint_weight:
        return ""
    killed = [job for job in jobs if just_in_time_s(job, config) is None]
    counted_node_s = sum(price_node_s(job, now_s) for job in killed)
    if counted_node_s == sum(loss_node_s(job, now_s) for job in killed):
        return ""
    return f"; lost work counts as {hours_text(counted_node_s)} node-hours after past evictions"


def _remaining_share(job: Job, now_s: float) -> float:
    """The share of its time limit that the job has left, less the saved work of earlier runs."""
    walltime_s = max(1.0, job.walltime_s)
    if job.start_s is None or not math.isfinite(walltime_s):
        return 1.0
    left_s = walltime_s - job.saved_s - (now_s - job.start_s)
    return min(1.0, max(LEAST_REMAINING, left_s / walltime_s))
