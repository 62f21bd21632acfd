"""Policy "wcjs": an urgent job whose slowdown grows too large gets the placement whose jobs are cheapest to
preempt.

While its slowdown is below the threshold of its category, an urgent job waits in the queue like any other
job. From then on it has high priority: of the smallest placements that are large enough, it gets one that is
free, else the one whose jobs have the least total cost. A job costs more the more nodes it has, the higher
its slowdown, the longer ago its last checkpoint and the less time it has left. Urgent jobs, jobs larger than
the urgent one and batch jobs whose own slowdown is too high are not preempted. If no placement can be
cleared, no job is evicted, and the urgent job goes to the front of the queue.

If there are no placements, or a placement is larger than the job, the set of jobs of least total cost is
found exactly, by P2's programme.

Reference:
    Nickolay et al., "Towards Accommodating Real-time Jobs on HPC Platforms" (arXiv 2021), section 6,
    Algorithms 1 and 2.

Differs from the paper:
    The nodes are held before any job is evicted. All other jobs are left to the cluster's scheduler, which
    goes on starting them while a job of high priority waits. A job has high priority at its threshold, not
    only above it, and jobs are evicted for it until `evict_within_s` after that. Jobs that can checkpoint on
    a signal do so before they leave (the paper's JIT-CKPT) if there is time; the others are killed and resume
    from their last checkpoint. Past evictions raise the cost of a job (`wcjs.cost`). With all weights 0,
    thresholds of 1 for urgent jobs and infinite ones for batch jobs, and `spare_larger: false`, the policy is
    the preemptive scheduling of section 4.2: the placement that keeps most nodes in use. A placement is
    always freed as a whole, even for a job that needs parts of its nodes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from makeway.policies.common.commitments import Commitments
from makeway.policies.common.departures import LEAVE_S
from makeway.policies.common.holds import site_set
from makeway.policies.common.losses import system_s
from makeway.policies.common.placements import ANYWHERE, confined, fitting
from makeway.policies.common.proposals import affordable, eviction_actions, fits, hold, no_room
from makeway.policies.common.requests import Proposal, Request, needed, rationale, request_for
from makeway.policies.common.urgent_jobs import (
    UrgentJob,
    asleep_too_late,
    blocked_rationales,
    keeping_until,
    urgent_jobs,
)
from makeway.policies.common.victims import VictimGroup, leavers, remembered_groups, stays
from makeway.policies.contract import Policy
from makeway.policies.model import (
    Action,
    Candidate,
    Cluster,
    Decision,
    Job,
    Memo,
    Method,
    NodeSet,
    Placement,
    changed,
)
from makeway.policies.safety.prices import loss_node_s
from makeway.policies.wcjs.cost import (
    WcjsConfig,
    cost,
    estimated_slowdown,
    high_priority_s,
    just_in_time_s,
    price_note,
)
from makeway.policies.wcjs.offers import Offer, PricedGroup, offer_of

SHOWN = 12
"""How many placements the rationale lists: the cheapest of those that could be cleared."""


def decide(cluster: Cluster, config: WcjsConfig) -> Decision:
    """Serve the urgent jobs of high priority, the highest slowdown first (Algorithm 1)."""
    now_s = cluster.now_s
    commitments, memo = Commitments(cluster=cluster), Memo()
    proposals: list[Proposal] = []
    later_s: list[float] = []
    urgents = sorted(
        urgent_jobs(cluster),
        key=lambda urgent: (-estimated_slowdown(urgent.job, now_s), urgent.job.job_id),
    )
    for urgent in urgents:
        due_s = high_priority_s(urgent.job, config)
        if urgent.operation is None and now_s < due_s:
            later_s += [due_s] if math.isfinite(due_s) else []
            continue
        proposal = _PlacementSearch.begin(commitments, urgent, due_s, config, memo).proposal()
        commitments.add(proposal.actions)
        proposals.append(proposal)
    return Decision(
        policy=WCJS.name,
        actions=tuple(action for proposal in proposals for action in proposal.actions),
        rationale=(
            *(proposal.rationale for proposal in proposals),
            *blocked_rationales(cluster, config.evict_within_s),
        ),
        again_s=min(later_s, default=None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlacementSearch:
    """The search for the best placement for one request."""

    commitments: Commitments
    urgent: UrgentJob
    config: WcjsConfig
    memo: Memo
    """What the same decision has worked out already."""
    deadline_s: float
    duration_s: float
    unusable: NodeSet
    free: NodeSet
    """Nodes that are free, or that its operation keeps."""
    releasing: Mapping[str, float]
    """Nodes that other jobs leave in time anyway, and when."""

    @classmethod
    def begin(
        cls, commitments: Commitments, urgent: UrgentJob, due_s: float, config: WcjsConfig, memo: Memo
    ) -> "_PlacementSearch":
        """The search for an urgent job, with what does not depend on the placement."""
        cluster, job = commitments.cluster, urgent.job
        deadline_s = urgent.deadline_s(max(0.0, due_s - job.waits_since_s) + config.evict_within_s)
        grace_s = max(
            (_grace_s(other, config) for other in cluster.holders() if other.preemptible), default=0.0
        )
        wait_s = min(grace_s, max(0.0, deadline_s - cluster.now_s))
        duration_s = wait_s + job.walltime_s + config.hold_slack_s
        by_s = deadline_s if cluster.now_s <= deadline_s else math.inf
        ends_s = cluster.now_s + wait_s + LEAVE_S + job.walltime_s
        if site_set(cluster, by_s + LEAVE_S + job.walltime_s) != site_set(cluster, ends_s):
            by_s = cluster.now_s + wait_s  # of a later start the job may not end before the site needs a node
        urgent = keeping_until(cluster, urgent, ends_s)
        sets, eligible = cluster.node_sets(), job.eligible_nodes
        unusable = commitments.unusable(urgent, ends_s)
        if too_late := asleep_too_late(cluster, job, deadline_s):
            unusable = NodeSet(sets, unusable.bits | too_late)
        suitable = ~(unusable.bits | sets.of(urgent.kept_nodes))
        if eligible is not None:
            suitable &= sets.of(eligible)
        ready_s = commitments.releasing()
        return cls(
            commitments=commitments,
            urgent=urgent,
            config=config,
            memo=memo,
            deadline_s=deadline_s,
            duration_s=duration_s,
            unusable=unusable,
            free=NodeSet(sets, (commitments.free & suitable) | sets.of(urgent.kept_nodes)),
            releasing={
                name: ready_s[name] for name in sets.among(tuple(ready_s), suitable) if ready_s[name] <= by_s
            },
        )

    def proposal(self) -> Proposal:
        """The best placement for the request (Algorithm 2)."""
        node_count = self.urgent.job.node_count
        places = fitting(self.commitments.cluster, node_count, self.urgent.job.eligible_nodes)
        ready = [
            (at_s, index) for index, place in enumerate(places) if (at_s := self.ready_s(place)) is not None
        ]
        if ready:
            return fits(self.request(places[min(ready)[1]]))
        anywhere = self.request(None)
        if anywhere.late:
            return no_room(
                anywhere, f"No placement of {node_count} nodes is free and it is too late to evict."
            )
        priced_groups = self.priced_groups()
        if places[0].name == ANYWHERE:
            missing = node_count - len(self.free) - len(self.releasing)
            parts = [(priced, priced.group.nodes) for priced in priced_groups if not priced.protected_by]
            offered = [offer_of(places[0], missing, parts)]
        else:
            sets = self.free.sets
            open_to = [(sets.of(one.group.nodes), one) for one in priced_groups if not one.protected_by]
            offered = [self.within(place, open_to) for place in places]
        offers = [offer for offer in offered if offer is not None]
        offers.sort(key=lambda offer: offer.cost)  # of several at one cost the first in the cluster's order
        best = offers[0] if offers else None
        candidates = (
            self.placement_candidates(offers) if len(places) > 1 else self.job_candidates(priced_groups, best)
        )
        if best is None:
            text = (
                f"None of {len(places)} placements of the right size can be cleared for {node_count} nodes."
            )
            return no_room(anywhere, text, candidates)
        return affordable(anywhere, self.clear(best, len(places), candidates), self.commitments)

    def ready_s(self, place: Placement) -> float | None:
        """When the placement has enough nodes without an eviction, now at the earliest. None: never."""
        anywhere = place.name == ANYWHERE
        sets = self.free.sets
        free = len(self.free) if anywhere else (self.free.bits & sets.of(place.nodes)).bit_count()
        missing = self.urgent.job.node_count - free
        now_s = self.commitments.cluster.now_s
        if missing <= 0:
            return now_s
        soon = self.releasing if anywhere else [name for name in place.nodes if name in self.releasing]
        soon_s = sorted(self.releasing[name] for name in soon)
        return max(now_s, soon_s[missing - 1]) if len(soon_s) >= missing else None

    def request(self, place: Placement | None) -> Request:
        """The request within one placement. None: within all of them."""
        urgent = self.urgent
        if place is not None and len(place.nodes) < len(self.commitments.cluster.nodes):
            urgent = confined(urgent, place)
        return request_for(
            self.commitments,
            urgent,
            WCJS.name,
            self.deadline_s,
            self.duration_s,
            unusable=self.unusable,
        )

    def priced_groups(self) -> list[PricedGroup]:
        """The groups on nodes that would serve, each with its cost (Algorithm 2, lines 18 to 24)."""
        now_s = self.commitments.cluster.now_s
        found = remembered_groups(
            self.commitments.cluster,
            self.urgent,
            unusable=self.unusable.union(self.releasing),
            excluded=self.commitments.excluded,
            memo=self.memo,
        )
        spared_by = self.memo.for_each(("spared", self.urgent.job.node_count), self.protected_by)

        def cost_alone(group: VictimGroup) -> float:
            return sum(cost(job, now_s, self.config) for job in group.jobs)

        cost_of = self.memo.for_each("cost", cost_alone)
        return [
            PricedGroup(group=group, protected_by=group.protected_by or spared_by(group), cost=cost_of(group))
            for group in found
        ]

    def protected_by(self, group: VictimGroup) -> str:
        """Why the group is not preempted for this job (section 6.3, rules 2 and 3; rule 1 always holds)."""
        now_s = self.commitments.cluster.now_s
        for job in group.jobs:
            if self.config.spare_larger and job.node_count > self.urgent.job.node_count:
                return f"job {job.job_id} is larger"
            if estimated_slowdown(job, now_s) > self.config.batch_threshold(job):
                return f"the slowdown of job {job.job_id} is too high"
        return ""

    def within(self, place: Placement, open_to: list[tuple[int, PricedGroup]]) -> Offer | None:
        """The cheapest way to clear one placement. None: it cannot be cleared.

        `open_to`: the groups that may leave, in the order of their jobs, each with the set of its nodes.
        """
        sets = self.free.sets
        there = sets.of(place.nodes)
        ready = there & (self.free.bits | sets.of_new(self.releasing))
        busy = there & ~ready
        parts = [(one, sets.among(place.nodes, busy & nodes)) for nodes, one in open_to if busy & nodes]
        return offer_of(place, self.urgent.job.node_count - ready.bit_count(), parts)

    def clear(self, offer: Offer, places: int, candidates: tuple[Candidate, ...]) -> Proposal:
        """The hold on the placement, and the evictions (Algorithm 2, line 28)."""
        request = self.request(offer.placement)
        held = hold(request, offer.freed)
        actions: list[Action] = [held]
        now_s = request.cluster.now_s
        lost_node_s, ready_s = 0, request.releasing_s
        leaving = [job for group in offer.leaving for job in leavers(group, held)]
        for job in leaving:
            method = self.method(job)
            not_after_s = now_s
            if method is Method.SYSTEM:
                not_after_s = min(self.deadline_s, now_s + _grace_s(job, self.config))
                ready_s = max(ready_s, now_s + (system_s(job) or 0.0))
            else:
                lost_node_s += loss_node_s(job, now_s)
            actions.extend(eviction_actions(request, job, method, not_after_s))
        named = ", ".join(job.job_id for job in leaving)
        where = f"{offer.placement.name}, the cheapest of {places}" if places > 1 else offer.placement.name
        text = f"{needed(request)}: {named} leave {where}, at a cost of {offer.cost:.1f}."
        return Proposal(
            actions=tuple(actions),
            rationale=rationale(
                request, text, candidates=candidates, loss_node_s=lost_node_s, ready_s=ready_s
            ),
        )

    def method(self, job: Job) -> Method:
        """A checkpoint just in time if the job can complete it by the deadline, else a kill."""
        duration_s = just_in_time_s(job, self.config)
        in_time = duration_s is not None and self.commitments.cluster.now_s + duration_s <= self.deadline_s
        return Method.SYSTEM if in_time else Method.KILL

    def placement_candidates(self, offers: list[Offer]) -> tuple[Candidate, ...]:
        """The cheapest placements, beginning with the chosen one."""
        return tuple(
            self.candidate(
                offer.leaving, len(offer.freed), place == 0, f"{offer.placement.name}: cost {offer.cost:.1f}"
            )
            for place, offer in enumerate(offers[:SHOWN])
        )

    def job_candidates(self, priced_groups: list[PricedGroup], best: Offer | None) -> tuple[Candidate, ...]:
        """All groups on the only placement, with the cost, or the reason why the group stays."""
        taken = frozenset(map(id, () if best is None else best.leaving))

        def alone(group: VictimGroup, way: Method) -> Candidate:
            # Its way to leave depends on the deadline, and all else on the group.
            return self.candidate((group,), len(group.nodes))

        known = self.memo.for_each("candidate", alone)

        def offered(priced: PricedGroup) -> Candidate:
            group = priced.group
            one = (
                known(group, self.method(group.jobs[0]))
                if len(group.jobs) == 1
                else self.candidate((group,), len(group.nodes))
            )
            return changed(one, chosen=id(group) in taken, note=f"cost {priced.cost:.1f}{one.note}")

        return tuple(
            stays(replace(one.group, protected_by=one.protected_by)) if one.protected_by else offered(one)
            for one in priced_groups
        )

    def candidate(
        self, leaving: tuple[VictimGroup, ...], node_count: int, chosen: bool = False, note: str = ""
    ) -> Candidate:
        """Groups that could leave together, as one candidate."""
        now_s = self.commitments.cluster.now_s
        jobs = [job for group in leaving for job in group.jobs]
        ways = [self.method(job) for job in jobs]
        saved = [job for job, way in zip(jobs, ways, strict=True) if way is Method.SYSTEM]
        killed = [job for job, way in zip(jobs, ways, strict=True) if way is Method.KILL]
        return Candidate(
            job_ids=tuple(job.job_id for job in jobs),
            method=Method.KILL if killed else Method.SYSTEM,
            node_count=node_count,
            loss_node_s=sum(loss_node_s(job, now_s) for job in killed),
            delay_s=max((system_s(job) or 0.0 for job in saved), default=0.0),
            chosen=chosen,
            note=f"{note}{price_note(jobs, now_s, self.config)}",
        )


def _grace_s(job: Job, config: WcjsConfig) -> float:
    """How long the job may take to leave: its grace, and never less than its checkpoint takes."""
    duration_s = just_in_time_s(job, config)
    return 0.0 if duration_s is None or job.checkpoint is None else max(duration_s, job.checkpoint.grace_s)


WCJS = Policy(
    name="wcjs",
    summary="Urgent jobs wait up to a slowdown, then get the placement that is cheapest to clear (P1).",
    config_type=WcjsConfig,
    decide=decide,
    whole_placements=True,
)
