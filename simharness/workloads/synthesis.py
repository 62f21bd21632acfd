"""Workloads with urgent jobs, made of plain ones: P5's mix of kinds, and P1's urgent share.

A trace says when jobs come, how large they are and how long they run. Which of them are urgent, which can be
resized, when they checkpoint and what that costs is drawn here, from a seed.

Reference:
    P5 (on-demand, rigid and malleable jobs on one machine), sections III-A, IV-A and IV-B.
    P1 (real-time jobs on a batch machine), section 7.1.3. P2 (the eviction problem), eq. 1 and section IV-B.
    J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22 (2006),
    eq. 37.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, sqrt
from types import MappingProxyType
from typing import Literal, NamedTuple, assert_never

import numpy as np

from makeway.policies.model import JobKind, changed
from makeway.simharness.workloads.job import SimJob, WorkloadError

Range = tuple[float, float]
"""Both ends of a uniform distribution."""

_SHORTEST_INTERVAL_S = 60.0
"""No job checkpoints more often, nor so often that it checkpoints for more than half of its time."""


def _check_number(key: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise WorkloadError(f"{key}: {value}; accepted: a number from {low:g} to {high:g}")


def _check_range(key: str, ends: Range, high: float) -> None:
    if len(ends) != 2 or not 0 <= ends[0] <= ends[1] <= high:
        raise WorkloadError(f"{key}: {ends}; accepted: two ascending numbers from 0 to {high:g}")


def _check_choice(key: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise WorkloadError(f"{key}: {value!r}; accepted: {', '.join(choices)}")


def _check_shares(what: str, shares: Mapping[str, float]) -> None:
    for key, share in shares.items():
        _check_number(key, share, 0.0, 1.0)
    total = sum(shares.values())
    if not abs(total - 1) <= 1e-6:
        raise WorkloadError(f"{what}: {' + '.join(shares)} = {total:g}; accepted: shares that sum to 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeShares:
    """Shares of the on-demand jobs by their notice (P5, figure 1). They sum to 1."""

    none: float
    accurate: float
    early: float
    late: float

    def __post_init__(self) -> None:
        _check_shares(
            "notices", {"none": self.none, "accurate": self.accurate, "early": self.early, "late": self.late}
        )


NOTICE_MIXES: Mapping[str, NoticeShares] = MappingProxyType(
    {
        "W1": NoticeShares(none=0.7, accurate=0.1, early=0.1, late=0.1),
        "W2": NoticeShares(none=0.1, accurate=0.7, early=0.1, late=0.1),
        "W3": NoticeShares(none=0.1, accurate=0.1, early=0.7, late=0.1),
        "W4": NoticeShares(none=0.1, accurate=0.1, early=0.1, late=0.7),
        "W5": NoticeShares(none=0.25, accurate=0.25, early=0.25, late=0.25),
    }
)
"""P5's five workloads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridSettings:
    """How `synthesise` draws.

    The defaults are P5's, and P2's for sizes and bandwidths, unless stated otherwise.

    Raises `WorkloadError` on a value that cannot be.
    """

    on_demand_share: float = 0.10
    """The share of on-demand groups (see `group_by`), not jobs.

    All jobs of a group have one kind, so urgent jobs come in bursts.
    """
    rigid_share: float = 0.60
    malleable_share: float = 0.30
    group_by: Literal["user", "account"] = "user"
    """`account` where the trace has projects, as P5's had. A job without such a name is a group of its own.
    """
    on_demand_max_share: float = 0.5
    """The largest on-demand job, as a share of the machine.

    A larger one becomes rigid or malleable, with equal chances.
    """
    notices: NoticeShares = NOTICE_MIXES["W5"]
    notice_lead_s: Range = (900.0, 1800.0)
    """From the announcement to the expected arrival."""
    late_by_max_s: float = 1800.0
    start_within_s: float | None = None
    """On-demand jobs: when a start is on time. None: the policy's default."""
    rigid_setup_share: Range = (0.05, 0.10)
    """Setup at each start, as a share of the trace's run time, which includes it."""
    malleable_setup_share: Range = (0.0, 0.05)
    malleable_min_share: float = 0.2
    """Smallest size of a malleable job as a share of what it asked for, rounded up to whole nodes."""
    malleable_save_s: float = 120.0
    """The two-minute warning."""
    mtbf_s: float = 86_400.0
    """Mean time between failures for Daly's interval, the same for every job. The paper gives none: one day.
    """
    checkpoint_frequency: float = 1.0
    """How often rigid jobs checkpoint, in multiples of Daly's optimum (P5, figure 7: 0.5 to 2)."""
    checkpoint_cost: Literal["fixed", "by_size"] = "fixed"
    """`fixed`: by the two costs below. `by_size`: P2's eq. 1 on the application size and the bandwidths."""
    small_checkpoint_s: float = 600.0
    large_checkpoint_s: float = 1200.0
    large_from_nodes: int = 1000
    node_memory_gb: float = 208.0
    system_size_share: Range = (0.4, 0.9)
    """Memory in use on a node, as a share of it: the size of a checkpoint that a signal starts."""
    application_size_share: Range = (0.2, 0.6)
    """The part of the memory in use that a regular checkpoint writes."""
    aggregate_gb_per_s: float = 250.0
    node_gb_per_s: float = 20.0

    def __post_init__(self) -> None:
        _check_shares(
            "kinds",
            {
                "on_demand_share": self.on_demand_share,
                "rigid_share": self.rigid_share,
                "malleable_share": self.malleable_share,
            },
        )
        _check_choice("group_by", self.group_by, ("user", "account"))
        _check_choice("checkpoint_cost", self.checkpoint_cost, ("fixed", "by_size"))
        for key, low, high in (
            ("on_demand_max_share", 0.0, 1.0),
            ("late_by_max_s", 0.0, 1e7),
            ("malleable_min_share", 0.0, 1.0),
            ("malleable_save_s", 0.0, 1e7),
            ("mtbf_s", 1.0, 1e12),
            ("checkpoint_frequency", 0.01, 100.0),
            ("small_checkpoint_s", 0.0, 1e7),
            ("large_checkpoint_s", 0.0, 1e7),
            ("large_from_nodes", 1.0, 1e8),
            ("node_memory_gb", 0.0, 1e6),
            ("aggregate_gb_per_s", 1e-6, 1e9),
            ("node_gb_per_s", 1e-6, 1e9),
        ):
            _check_number(key, getattr(self, key), low, high)
        if self.start_within_s is not None:
            _check_number("start_within_s", self.start_within_s, 0.0, 1e7)
        _check_range("notice_lead_s", self.notice_lead_s, 1e7)
        for key in (
            "rigid_setup_share",
            "malleable_setup_share",
            "system_size_share",
            "application_size_share",
        ):
            _check_range(key, getattr(self, key), 1.0)


def notice_mix(name: str) -> NoticeShares:
    """P5's mix of that name, `W1` to `W5`. Raises `WorkloadError` for another name."""
    _check_choice("notices", name, tuple(NOTICE_MIXES))
    return NOTICE_MIXES[name]


def daly_interval_s(checkpoint_s: float, mtbf_s: float) -> float:
    """The work between two checkpoints that loses least (Daly, eq. 37).

    A checkpoint takes `checkpoint_s`; a failure comes every `mtbf_s`.
    """
    if checkpoint_s >= 2 * mtbf_s:
        return mtbf_s
    ratio = checkpoint_s / (2 * mtbf_s)
    return sqrt(2 * checkpoint_s * mtbf_s) * (1 + sqrt(ratio) / 3 + ratio / 9) - checkpoint_s


def checkpoint_duration_s(
    node_count: int, gb_per_node: float, *, aggregate_gb_per_s: float, node_gb_per_s: float
) -> float:
    """How long a checkpoint of `gb_per_node` on each node takes (P2, eq. 1).

    The slower of the file system and the nodes decides.
    """
    return max(node_count * gb_per_node / aggregate_gb_per_s, gb_per_node / node_gb_per_s)


def synthesise(
    trace_jobs: Sequence[SimJob], node_count: int, settings: HybridSettings, seed: int
) -> list[SimJob]:
    """P5's workload on the jobs of a trace.

    Their ids, submit times, sizes, run times and limits do not change. Kinds that they have already, and what
    came with those, do not count.

    The groups are dealt out in a random order: the first tenth is on-demand, and so on, at least one group
    for every share above 0 as long as there are groups. An on-demand job arrives when the trace says; its
    notice is set back from that, never before second 0. Regular checkpoints are part of the run time of the
    trace, so a job too short for an interval has none.

    Each job's draws depend on the seed and its place alone, so that two settings differ in nothing else.

    Args:
        trace_jobs: the jobs, in any order; the answer has the same order.
        node_count: nodes of the machine.
        settings: the mix.
        seed: of all draws; 0 or more.

    Raises:
        WorkloadError: a seed below 0, or a machine without nodes.
    """
    _check_number("node_count", node_count, 1, 1e8)
    rng = _generator(seed)
    kinds = _kinds(trace_jobs, settings, rng)
    rows: list[list[float]] = rng.random((len(trace_jobs), len(_Draw._fields))).tolist()
    largest = settings.on_demand_max_share * node_count
    jobs: list[SimJob] = []
    for given, row in zip(trace_jobs, rows, strict=True):
        job, draw = given.plain(), _Draw(*row)
        kind = kinds[_group(job, settings)]
        if kind is JobKind.ON_DEMAND and job.node_count > largest:
            kind = JobKind.RIGID if draw.kind < 0.5 else JobKind.MALLEABLE
        match kind:
            case JobKind.ON_DEMAND:
                jobs.append(_on_demand(job, settings, draw))
            case JobKind.RIGID:
                jobs.append(_rigid(job, settings, draw))
            case JobKind.MALLEABLE:
                jobs.append(_malleable(job, settings, draw))
            case _:
                assert_never(kind)
    return jobs


def mark_urgent(
    jobs: Sequence[SimJob],
    share: float,
    seed: int,
    *,
    max_runtime_s: float | None = None,
    start_within_s: float | None = None,
) -> list[SimJob]:
    """P1's workload (section 7.1.3): a random share of the jobs is on-demand.

    The choice alone decides: a job that was on-demand before and is not chosen becomes rigid.

    Args:
        jobs: the jobs; the answer has the same order.
        share: of all jobs; fewer if fewer may be chosen.
        seed: of the choice; 0 or more.
        max_runtime_s: only jobs that run for less may be chosen (P1's second variant: 90 minutes). None: any.
        start_within_s: when the start of an urgent job is on time. None: the policy's default.

    Raises:
        WorkloadError: a value that cannot be.
    """
    _check_number("share", share, 0.0, 1.0)
    for key, value in (("max_runtime_s", max_runtime_s), ("start_within_s", start_within_s)):
        if value is not None:
            _check_number(key, value, 0.0, 1e10)
    places = [i for i, job in enumerate(jobs) if max_runtime_s is None or job.runtime_s < max_runtime_s]
    count = min(round(share * len(jobs)), len(places))
    chosen = set(_generator(seed).permutation(places)[:count].tolist())
    others = [job.plain() if job.kind is JobKind.ON_DEMAND else job for job in jobs]
    return [
        changed(job.plain(), kind=JobKind.ON_DEMAND, start_within_s=start_within_s) if i in chosen else job
        for i, job in enumerate(others)
    ]


class _Draw(NamedTuple):
    """One job's uniform numbers from 0 to 1, in the order in which they are drawn."""

    kind: float
    notice: float
    lead: float
    shift: float
    setup: float
    system_size: float
    application_size: float


def _generator(seed: int) -> np.random.Generator:
    if seed < 0:
        raise WorkloadError(f"seed: {seed}; accepted: a whole number from 0")
    return np.random.default_rng(seed)


def _group(job: SimJob, settings: HybridSettings) -> tuple[str, str]:
    """The group that decides the job's kind. A job without a group is a group of its own."""
    owner = job.user if settings.group_by == "user" else job.account
    return (owner, "") if owner else ("", job.job_id)


def _kinds(
    jobs: Sequence[SimJob], settings: HybridSettings, rng: np.random.Generator
) -> dict[tuple[str, str], JobKind]:
    """A kind for every group, by the shares of groups."""
    groups = sorted({_group(job, settings) for job in jobs})
    shares = (settings.on_demand_share, settings.rigid_share, settings.malleable_share)
    ends = [round(sum(shares[: i + 1]) * len(groups)) for i in range(len(shares))]
    counts = [end - start for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    for i, share in enumerate(shares):
        if share > 0 and counts[i] == 0 and max(counts) > 1:
            counts[counts.index(max(counts))] -= 1
            counts[i] = 1
    kinds = [
        kind
        for kind, count in zip((JobKind.ON_DEMAND, JobKind.RIGID, JobKind.MALLEABLE), counts, strict=True)
        for _ in range(count)
    ]
    order = rng.permutation(len(groups)).tolist()
    return {groups[place]: kind for place, kind in zip(order, kinds, strict=True)}


def _on_demand(job: SimJob, settings: HybridSettings, draw: _Draw) -> SimJob:
    """An on-demand job that arrives at its submit time, announced earlier (P5, section IV-B)."""
    urgent = changed(job, kind=JobKind.ON_DEMAND, start_within_s=settings.start_within_s)
    shares = settings.notices
    if draw.notice < shares.none:
        return urgent
    lead_s = _between(settings.notice_lead_s, draw.lead)
    if draw.notice < shares.none + shares.accurate:
        expected_s = job.submit_s
    elif draw.notice < shares.none + shares.accurate + shares.early:
        expected_s = job.submit_s + (1 - draw.shift) * lead_s
    else:
        expected_s = job.submit_s - draw.shift * settings.late_by_max_s
    announced_s = max(_whole(expected_s - lead_s), 0.0)
    return changed(urgent, announced_s=announced_s, expected_s=max(_whole(expected_s), 0.0))


def _rigid(job: SimJob, settings: HybridSettings, draw: _Draw) -> SimJob:
    """A rigid job that checkpoints at Daly's interval.

    A checkpoint that a signal starts writes the memory in use.
    """
    system_gb = settings.node_memory_gb * _between(settings.system_size_share, draw.system_size)
    if settings.checkpoint_cost == "by_size":
        cost_s = checkpoint_duration_s(
            job.node_count,
            system_gb * _between(settings.application_size_share, draw.application_size),
            aggregate_gb_per_s=settings.aggregate_gb_per_s,
            node_gb_per_s=settings.node_gb_per_s,
        )
    elif job.node_count < settings.large_from_nodes:
        cost_s = settings.small_checkpoint_s
    else:
        cost_s = settings.large_checkpoint_s
    interval_s = daly_interval_s(cost_s, settings.mtbf_s) / settings.checkpoint_frequency
    return changed(
        job,
        kind=JobKind.RIGID,
        setup_s=float(floor(job.runtime_s * _between(settings.rigid_setup_share, draw.setup))),
        checkpoint_interval_s=_whole(max(interval_s, cost_s, _SHORTEST_INTERVAL_S)),
        checkpoint_cost_s=_whole(cost_s),
        system_gb_per_node=round(system_gb, 3),
    )


def _malleable(job: SimJob, settings: HybridSettings, draw: _Draw) -> SimJob:
    """A malleable job that saves itself within the warning."""
    smallest = ceil(round(settings.malleable_min_share * job.node_count, 6))
    return changed(
        job,
        kind=JobKind.MALLEABLE,
        node_count_min=max(smallest, 1),
        setup_s=float(floor(job.runtime_s * _between(settings.malleable_setup_share, draw.setup))),
        save_s=settings.malleable_save_s,
    )


def _between(ends: Range, draw: float) -> float:
    return ends[0] + (ends[1] - ends[0]) * draw


def _whole(value_s: float) -> float:
    """Whole seconds, as in the traces."""
    return float(round(value_s))
