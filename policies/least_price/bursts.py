"""What is decided for several urgent jobs at once: the choice for one urgent job of the summed size, and the
decision by it.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III: the eviction problem.

Differs from the paper:
    The paper has one urgent job at a time.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from makeway.policies.common.departures import committed
from makeway.policies.common.losses import departures
from makeway.policies.common.urgent_jobs import Urgency, UrgentJob, urgency
from makeway.policies.least_price.ceiling import SharedCeiling
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import (
    Action,
    Cluster,
    Decision,
    Job,
    LateDeparture,
    Method,
    OperationKind,
    Rationale,
    Reserve,
)
from makeway.policies.safety.protection import protection


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What holds for certain urgent jobs of a decision besides the settings."""

    spared: Mapping[str, AbstractSet[str]] = field(default_factory=dict[str, AbstractSet[str]])
    """By urgent job: the jobs that do not leave for it, though the site allows it."""
    sharing: Mapping[str, SharedCeiling] = field(default_factory=dict[str, SharedCeiling])
    """By urgent job: the ceiling that it shares with others. Such a job is served after all others, and does
    not wait. What is said of it counts only if it has room."""

    def turn(self, urgent: UrgentJob, config: LeastPriceConfig) -> Urgency:
        """Sorts the urgent jobs of the decision."""
        key = urgency(urgent, config.start_within_s, vital=config.is_vital(urgent.job))
        return (*key[:2], math.inf, *key[3:]) if urgent.job.job_id in self.sharing else key


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnService:
    """A decision in which each urgent job is served for itself."""

    decision: Decision
    refused: frozenset[str] = frozenset()
    """The urgent jobs whose starts could be on time and cost too much."""


OneByOne = Callable[[Cluster, LeastPriceConfig, Terms], OwnService]
"""The decision in which each urgent job is served for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """Urgent jobs that may have the same nodes, in the order in which they are decided on."""

    jobs: tuple[Job, ...]
    deadline_s: float
    """The earliest of theirs."""

    @classmethod
    def of(cls, members: Iterable[tuple[Job, Rationale]]) -> "Burst":
        """The urgent jobs, each with its rationale."""
        jobs, whys = zip(*members, strict=True)
        return cls(jobs=jobs, deadline_s=min(why.deadline_s for why in whys))

    @property
    def job_ids(self) -> tuple[str, ...]:
        """The ids of the urgent jobs."""
        return tuple(job.job_id for job in self.jobs)

    def as_one(self) -> Job:
        """One urgent job of the summed size, with the id of the first."""
        first = self.jobs[0]
        return replace(
            first,
            node_count=sum(job.node_count for job in self.jobs),
            node_count_max=None,
            walltime_s=max(job.walltime_s for job in self.jobs),
            start_within_s=self.deadline_s - first.waits_since_s,
            quotas=(),
        )


def may_join(job: Job, cluster: Cluster) -> bool:
    """Whether an urgent job needs whole nodes and has no components, and no job is leaving for it yet: it has
    nothing but a hold, in which its start waits.
    """
    if job.demand is not None or job.het_job_id:
        return False
    operation = cluster.operations_by_job().get(job.job_id)
    if operation is None or (operation.observe and not operation.kind.holds_nodes):
        return True
    only_held = all(isinstance(task.action, Reserve) for task in operation.tasks)
    return operation.kind is OperationKind.MAKE_WAY and only_held


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstChoice:
    """The joint choice for a burst."""

    decision: Decision
    """The decision with one urgent job of the summed size."""
    actions: tuple[Action, ...]
    """Those for that job."""
    staying: frozenset[str]
    """The jobs that may leave, and stay."""
    killed: frozenset[str]
    """The jobs that leave without saving their work."""


def choice_for(
    burst: Burst,
    cluster: Cluster,
    config: LeastPriceConfig,
    one_by_one: OneByOne,
    *,
    terms: Terms,
    without: AbstractSet[str],
) -> BurstChoice | None:
    """The joint choice for a burst. None: there is no room for all of it.

    Args:
        burst: the burst.
        cluster: the snapshot.
        config: the settings.
        one_by_one: the decision in which each urgent job is served for itself.
        terms: what holds for certain urgent jobs. What holds for the first of the burst holds for all of it.
        without: the urgent jobs that are left out, besides those of the burst.
    """
    together = burst.as_one()
    view = _with_one(cluster, burst, together, without)
    joint = one_by_one(view, config, terms).decision
    why = next((one for one in joint.rationale if one.for_job_id == together.job_id), None)
    if why is None or why.ready_s is None:
        return None
    actions = tuple(action for action in joint.actions if action.for_job_id == together.job_id)
    held = frozenset(name for action in actions if isinstance(action, Reserve) for name in action.nodes)
    now = (job.job_id for job, method in departures(actions, cluster) if method is Method.KILL)
    later = (late.job_id for late in late_departures((why,)) if late.method is Method.KILL)
    return BurstChoice(
        decision=joint,
        actions=actions,
        staying=frozenset(
            job.job_id
            for job in cluster.holders()
            if held.isdisjoint(job.nodes) and protection(job, cluster) is None
        ),
        killed=frozenset((*now, *later)),
    )


def _with_one(cluster: Cluster, burst: Burst, together: Job, without: AbstractSet[str]) -> Cluster:
    """The snapshot with one urgent job instead of the burst, and without others.

    No limit on what one urgent job or its user may lose holds in it.
    """
    left_out = {*without, *burst.job_ids}
    holds = {one.reservation for one in cluster.operations if one.for_job_id in burst.job_ids}
    return replace(
        cluster,
        jobs=(*(job for job in cluster.jobs if job.job_id not in left_out), together),
        operations=tuple(one for one in cluster.operations if one.for_job_id not in burst.job_ids),
        reservations=tuple(one for one in cluster.reservations if one.name not in holds),
        limits=replace(
            cluster.limits,
            max_loss_node_hours=None,
            max_loss_node_hours_per_user_per_day=None,
            max_loss_node_hours_per_account_per_day=None,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The decision that counts so far, and how it came about."""

    outcome: OwnService
    cluster: Cluster
    """The snapshot that it was made on."""
    terms: Terms = field(default_factory=Terms)

    @property
    def decision(self) -> Decision:
        """The decision."""
        return self.outcome.decision

    def by(
        self, burst: Burst, choice: BurstChoice, config: LeastPriceConfig, one_by_one: OneByOne, terms: Terms
    ) -> "Chosen":
        """The decision in which each of a burst is decided on among the jobs that leave by a joint choice.

        `terms`: what holds besides for certain urgent jobs.
        """
        spared = {**terms.spared, **dict.fromkeys(burst.job_ids, choice.staying)}
        terms, view = replace(terms, spared=spared), _without_signals(self.cluster, choice.killed)
        return Chosen(outcome=one_by_one(view, config, terms), cluster=view, terms=terms)

    def explained(self, burst: Burst, choice: BurstChoice, text: str) -> "Chosen":
        """The same with the reason for what is done for a burst, and why the other jobs stay."""

        def explained(why: Rationale) -> Rationale:
            candidates = tuple(
                replace(one, note="stays by the joint choice")
                if choice.staying.issuperset(one.job_ids)
                else one
                for one in why.candidates
            )
            return replace(why, candidates=candidates, summary=f"{text}. {why.summary}")

        rationale = tuple(
            explained(why) if why.for_job_id in burst.job_ids else why for why in self.decision.rationale
        )
        decision = replace(self.decision, rationale=rationale)
        return replace(self, outcome=replace(self.outcome, decision=decision))


def _without_signals(cluster: Cluster, job_ids: AbstractSet[str]) -> Cluster:
    """The snapshot in which these jobs cannot save their work when asked: the time is for others."""

    def without(job: Job) -> Job:
        if job.job_id not in job_ids or job.checkpoint is None:
            return job
        return replace(job, checkpoint=replace(job.checkpoint, system_s=None))

    return replace(cluster, jobs=tuple(map(without, cluster.jobs)))


def keeps_room(other: Decision, decision: Decision, cluster: Cluster) -> bool:
    """Whether another decision makes room for all urgent jobs that had it, no later than on time, makes none
    wait that did not, and makes no more jobs leave than the site allows.
    """
    before, after = rooms(decision), rooms(other)
    if not before.keys() <= after.keys():
        return False
    pairs = [(why, after[job_id]) for job_id, why in before.items()]
    if any(is_on_time(old) > is_on_time(new) or waits(old) < waits(new) for old, new in pairs):
        return False
    return _keeps_to_the_hour(other, decision, cluster)


def rooms(decision: Decision) -> dict[str, Rationale]:
    """The rationale of each urgent job that has room, by its id."""
    return {why.for_job_id: why for why in decision.rationale if why.ready_s is not None}


def is_on_time(why: Rationale) -> bool:
    """Whether the nodes are ready by the deadline."""
    return why.ready_s is not None and why.ready_s <= why.deadline_s


def waits(why: Rationale) -> bool:
    """Whether the start waits in its hold."""
    return why.postponed is not None


def late_departures(rationale: Iterable[Rationale]) -> tuple[LateDeparture, ...]:
    """The jobs that leave at the last moments of starts that wait."""
    return tuple(late for why in rationale if why.postponed is not None for late in why.postponed.departures)


def _keeps_to_the_hour(other: Decision, decision: Decision, cluster: Cluster) -> bool:
    """Whether the other decision makes no more jobs leave, or no more than the site allows in an hour."""
    limit, leaving = cluster.limits.evictions_per_hour, _leaving(other)
    if limit is None or leaving <= _leaving(decision):
        return True
    return len(cluster.evictions) + len(committed(cluster)) + leaving <= limit


def _leaving(decision: Decision) -> int:
    """How many jobs leave or shrink, now or at the last moment."""
    now = {action.job_id for action in decision.actions if action.job_id != action.for_job_id}
    return len(now | {late.job_id for late in late_departures(decision.rationale)})
