"""Policy "least-price", makeway's own: urgent jobs start on time at the least total price, up to a ceiling.

For an urgent job that free nodes do not serve, malleable jobs are shrunk first. If that is not enough, the
set of jobs leaves whose total price is least: lost work, setups that are done again, and the time of
requested checkpoints. A cheap start is made at once. A dear one waits as long as the deadline allows, if jobs
are likely enough to end meanwhile, and is priced again in each cycle: below the ceiling its nodes are held,
above it the urgent job is at the front of the queue. At the last moment the start is made if its price is
below the ceiling; else no job is evicted. Where a limit refuses the cheapest start, the one that loses least
is tried. A job whose deadline has passed is served like a new one, but without waiting.

Where jobs share nodes, the nodes are held at once. Jobs are killed at once if that costs little, else at the
last moment, as by policy "eviction".

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III: the eviction problem.
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III: shrinking, and the
    overhead of preemption.

Differs from the paper:
    The price is the sum of what the two papers count. It has a ceiling, which neither paper has: for a given
    number of starts on time, one ceiling on all of them leads to the least cost. Regular checkpoints are
    awaited side by side. For an urgent job that needs a part of its nodes, the choice is that of policy
    "eviction", the least lost work.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

from makeway.policies.common.departures import NodeRelease
from makeway.policies.common.losses import cost_node_s, evictions_node_s
from makeway.policies.common.proposals import (
    cheapest_place,
    decide_each,
    in_place,
    makes_room,
    no_place,
    no_room,
)
from makeway.policies.common.requests import Proposal, Request, loss_refusal, rationale, room_sooner_s
from makeway.policies.common.waiting import (
    Waiting,
    allowed_until_s,
    exceeds_hour,
    hold_only,
    serves_more,
    writing_s,
)
from makeway.policies.contract import Policy
from makeway.policies.joint.serving import jointly
from makeway.policies.least_price.bursts import OwnService, Terms
from makeway.policies.least_price.ceiling import CeilingUse, machine_node_s, refusal_of
from makeway.policies.least_price.chances import pays_to_wait
from makeway.policies.least_price.components import rules_of
from makeway.policies.least_price.ends import rooms_after_ends, wait_of
from makeway.policies.least_price.joint import decide_together
from makeway.policies.least_price.prices import lost_node_s
from makeway.policies.least_price.rooms import Rooms
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import Cluster, Decision, Memo, OperationKind, unchosen
from makeway.policies.safety.prices import hours_text, killed_node_s


def decide(cluster: Cluster, config: LeastPriceConfig) -> Decision:
    """Make way for every urgent job that needs nodes, in the order of `urgency`."""
    return decide_together(cluster, config, partial(_one_by_one, memo=Memo()))


def _one_by_one(cluster: Cluster, config: LeastPriceConfig, terms: Terms, memo: Memo) -> OwnService:
    """The decision in which each urgent job is served for itself."""

    def decided(pricing: _Pricing) -> Decision:
        return decide_each(
            cluster,
            LEAST_PRICE.name,
            pricing.serve,
            start_within_s=config.start_within_s,
            hold_slack_s=config.hold_slack_s,
            whole_placements=True,
            handover_s=config.margin_s + config.leave_s,
            order=lambda one: terms.turn(one, config),
            spared=terms.spared,
            jointly=partial(jointly, rules=rules_of(cluster, config)),
        )

    rooms = Rooms(cluster=cluster, config=config, memo=memo)
    pricing = _Pricing(cluster=cluster, config=config, terms=terms, rooms=rooms)
    decision = decided(pricing)
    if pricing.waits and pricing.lacking:
        # A job that waits keeps its nodes from the others.
        without = _Pricing(cluster=cluster, config=config, terms=terms, rooms=rooms, may_wait=False)
        at_once = decided(without)
        if serves_more(at_once, decision, pricing.lacking, cluster):
            pricing, decision = without, at_once
    return OwnService(decision=decision, refused=frozenset(pricing.refused))


@dataclass(slots=True, kw_only=True)
class _Pricing:
    """The starts of one decision, and the work that they lose."""

    cluster: Cluster
    config: LeastPriceConfig
    terms: Terms
    rooms: Rooms
    may_wait: bool = True
    """Whether a start below the ceiling may wait in its hold."""
    waits: bool = False
    """Whether a start waits in its hold."""
    lacking: set[str] = field(default_factory=set[str])
    """Urgent jobs for which there was no room, although they may get some."""
    refused: set[str] = field(default_factory=set[str])
    """Urgent jobs, not late, whose starts cost too much."""

    def serve(self, request: Request) -> Proposal:
        """What is done for one urgent job that free nodes do not serve."""
        if request.places:
            return self._serve_place(request)
        now_s, config, job = self.cluster.now_s, self.config, request.urgent.job
        latest_s, shares = self.rooms.latest_s(request), job.job_id in self.terms.sharing
        if config.kills == "late" and self.cluster.capacities() and not (shares or config.is_vital(job)):
            return self._serve_shared(request, latest_s)
        if shares and self._is_order_fixed() and self._is_too_dear(request, latest_s):
            # What is said of it counts only if it has room: no choice needs to be found.
            return no_room(request, "All evictions that make room cost more than the ceilings.")
        later = self._by_deadline(request, latest_s)
        if not makes_room(later):
            self._note_lack(request)
            return later
        until_s, best = self._wait_in_hold_until_s(request, later, latest_s), later
        # A dear start that waits is not to be at once: no job is killed for that, either.
        if until_s is None and (best := self._at_once_or(request, later, latest_s)) is not later:
            until_s = self._wait_in_hold_until_s(request, best, latest_s)
        self._see_whether_others_cost(request, best)
        if config.is_vital(job):
            return best
        if best.again_s is not None:
            return self._wait_for_ends(request, best, best.again_s)
        refusal, last_s = self._refusal(request, best), self._last_s(request, best, latest_s)
        if now_s < last_s and refusal is not None and not request.late:
            return self._wait(request, best, last_s)
        if until_s is not None:
            return self._wait_in_hold(request, best, until_s)
        return best if refusal is None else no_room(request, refusal, best.rationale.candidates)

    def _last_s(self, request: Request, given: Proposal, latest_s: float) -> float:
        """When the evictions of a proposal have to begin so that the jobs have left by `latest_s`."""
        sooner_s = room_sooner_s(request, given)
        return latest_s - sooner_s - self.config.leave_s - self._writing_s(request, given)

    def _wait_in_hold_until_s(self, request: Request, given: Proposal, latest_s: float) -> float | None:
        """Until when a dear start waits in its hold for jobs that may end. None: it does not wait there."""
        config, job = self.config, request.urgent.job
        at_once = config.is_vital(job) or job.job_id in self.terms.sharing or given.again_s is not None
        dear = self._cost_node_s(given) > machine_node_s(self.cluster, config.waiting_machine_hours)
        if at_once or request.late or not (dear and self.may_wait):
            return None
        last_s = self._last_s(request, given, latest_s)
        until_s = allowed_until_s(request, given, last_s, config.leave_s, self._refuses)
        return until_s if self.cluster.now_s < until_s and pays_to_wait(request, given, until_s) else None

    def _note_lack(self, request: Request) -> None:
        """There is no room for an urgent job."""
        if not request.late or self.config.late == "evict":
            self.lacking.add(request.urgent.job.job_id)

    def _at_once_or(self, request: Request, later: Proposal, latest_s: float) -> Proposal:
        """The start at once if it costs little more than `later` and no limit refuses it, else `later`."""
        now_s, job = self.cluster.now_s, request.urgent.job
        instant_s = job.waits_since_s + self.config.instant_s
        if not now_s < instant_s < latest_s or request.releasing_s > instant_s:
            return later
        if self._refuses(request, later, now_s) and self._is_too_dear(request, latest_s):
            return later
        at_once = self.rooms.by(request, instant_s)
        refused = exceeds_hour(request, at_once) or self._refuses(request, at_once, now_s)
        if refused or not makes_room(at_once):
            return later
        if self.config.is_vital(job):
            return at_once
        dearest_node_s = self._dearest_instant_node_s(request, later)
        return at_once if self._cost_node_s(at_once) <= dearest_node_s else later

    def _serve_place(self, request: Request) -> Proposal:
        """The same within the placement in which a start by the deadline costs least."""
        latest_s = self.rooms.latest_s(request)
        within = cheapest_place(
            request,
            lambda within: self._by_deadline(within, latest_s),
            lambda given: (self._refuses(request, given, given.again_s), self._total_node_s(request, given)),
        )
        if within is None:
            self._note_lack(request)
            return no_place(request)
        return in_place(request, within, self.serve(within))

    def _serve_shared(self, request: Request, latest_s: float) -> Proposal:
        """The same where jobs share nodes: the nodes are held at once, and dear kills wait (`kills`)."""
        config = self.config
        until_s = latest_s - config.leave_s
        waiting = Waiting(margin_s=config.margin_s, leave_s=config.leave_s, step_s=config.step_s)

        def room(request: Request, ending: Mapping[str, NodeRelease]) -> Proposal:
            found = self._allowed_room(request, latest_s, ending)
            if not makes_room(found):
                if not ending:
                    self._note_lack(request)
                return found
            self._see_whether_others_cost(request, found)
            refusal = self._refusal(request, found)
            if refusal is None:
                return found
            if self.cluster.now_s < until_s and not request.late:
                return self._wait(request, found, until_s)
            return no_room(request, refusal, found.rationale.candidates)

        given = waiting.make_room(request, room, self._refuses) if self.may_wait else room(request, {})
        if given.again_s is None:
            return given
        free = replace(given, again_s=None)  # One that waits may cost nothing in the end.
        if (best := self._at_once_or(request, free, latest_s)) is not free:
            self.refused.discard(request.urgent.job.job_id)
            return best
        # A start that is refused waits too, but without a hold.
        self.waits |= given.rationale.ready_s is not None
        return given

    def _allowed_room(
        self,
        request: Request,
        latest_s: float,
        ending: Mapping[str, NodeRelease] = MappingProxyType({}),
    ) -> Proposal:
        """The least price for which the jobs have left by `latest_s`. If a limit refuses it: the least cost,
        else the least lost work, if no limit refuses that.
        """
        given, now_s = self.rooms.by(request, latest_s, ending), self.cluster.now_s
        if not makes_room(given) or not self._refuses(request, given, now_s):
            return given
        if not ending and self._is_too_dear(request, latest_s):
            return given
        others = [cost_node_s] if self.rooms.has_past_evictions() else []
        for price in (*others, lost_node_s) if killed_node_s(given.actions, self.cluster) else others:
            other = self.rooms.by(request, latest_s, ending, price)
            if makes_room(other) and not self._refuses(request, other, now_s):
                return other
        return given

    def _dearest_instant_node_s(self, request: Request, later: Proposal) -> float:
        """What a start at once may cost, if a later one costs as much as the proposal."""
        return self._total_node_s(request, later) + machine_node_s(
            self.cluster, self.config.instant_machine_hours
        )

    def _by_deadline(self, request: Request, latest_s: float) -> Proposal:
        """The least price for which there is room by `latest_s`; with `again_s` if jobs are left to end."""
        given, after_ends = self._allowed_room(request, latest_s), self._after_ends(request, latest_s)
        if after_ends is None:
            return given
        dear = self._cost_node_s(given) > self._dearest_instant_node_s(request, after_ends)
        refused = self._refuses(request, given, self.cluster.now_s)
        return after_ends if dear or refused or not makes_room(given) else given

    def _after_ends(self, request: Request, latest_s: float) -> Proposal | None:
        """The least total if jobs whose time limits end in time are left to end, and until when no job leaves
        (`again_s`). Left to end are those that end by `latest_s`, or only those that end so soon that nodes
        are held for them. None: none ends, there is no room all the same, or it may not wait.
        """
        job, config = request.urgent.job, self.config
        at_once = config.is_vital(job) or job.job_id in self.terms.sharing
        may_wait = config.waits_for_ends and self.may_wait and not at_once
        if not may_wait or request.late or job.demand is not None or self.cluster.shared_nodes():
            return None
        soon_s = self.cluster.now_s + config.hold_ahead_s
        instants = (latest_s,) if latest_s <= soon_s else (soon_s, latest_s)
        found = [one for at_s in instants for one in self._after_ends_by(request, at_s)]
        return min(found, key=lambda given: self._total_node_s(request, given), default=None)

    def _after_ends_by(self, request: Request, latest_s: float) -> list[Proposal]:
        """The rooms after the ends of jobs by `latest_s` that nothing refuses."""
        found = rooms_after_ends(
            request,
            latest_s,
            lambda asked, ending: self.rooms.by(asked, latest_s, ending),
            lambda given: self._writing_s(request, given),
            # A job may outlive its limit as long as it takes to leave.
            self.config.leave_s,
        )
        return [given for given in found if not self._refuses(request, given, latest_s)]

    def _wait_for_ends(self, request: Request, given: Proposal, until_s: float) -> Proposal:
        """The hold of a start after jobs have ended, or the front of the queue until it is time for that."""
        self.waits = True
        held, now_s = hold_only(request, given, until_s, until_s), self.cluster.now_s
        text = (
            "Jobs are left to end whose time limits end in time. Then the start costs "
            f"{self._hours(given)} node-hours. No job leaves for {until_s - now_s:.0f} s."
        )
        wait = wait_of(request, given, self.config.hold_ahead_s)
        hold_s = wait.start_s - self.config.hold_ahead_s
        # The components of a heterogeneous job are held together.
        if now_s >= hold_s or request.urgent.job.het_job_id:
            return replace(held, rationale=replace(held.rationale, summary=text))
        text += f" The nodes are held in {hold_s - now_s:.0f} s."
        return replace(
            no_room(request, text, held.rationale.candidates),
            rationale=replace(held.rationale, summary=text),
            again_s=hold_s,
            planned=wait.nodes,
            planned_s=until_s,
        )

    def _hours(self, given: Proposal) -> str:
        return hours_text(self._cost_node_s(given))

    def _cost_node_s(self, given: Proposal) -> int:
        """What a proposal costs when its evictions begin: at `again_s` if it waits."""
        return evictions_node_s(given.actions, self.cluster, given.again_s)

    def _total_node_s(self, request: Request, given: Proposal) -> float:
        """The same with the nodes that stand idle while a proposal waits for jobs to end."""
        idle = given.again_s is not None
        ahead_s = self.config.hold_ahead_s
        return self._cost_node_s(given) + (wait_of(request, given, ahead_s).idle_node_s if idle else 0.0)

    def _writing_s(self, request: Request, given: Proposal) -> float:
        """How long requested checkpoints take, after those of other plans. 0: the proposal has none."""
        config = self.config
        return writing_s(request, given, config.step_s, parallel=config.checkpoints == "parallel")

    def _wait_in_hold(self, request: Request, given: Proposal, until_s: float) -> Proposal:
        """The hold of the proposal until `until_s`, without its evictions."""
        if not self.config.waiting_holds:
            return self._wait(request, given, until_s)
        self.waits = True
        held = hold_only(request, given, until_s, until_s)
        return replace(held, rationale=replace(held.rationale, summary=self._why_it_waits(given, until_s)))

    def _wait(self, request: Request, given: Proposal, until_s: float) -> Proposal:
        """The front of the queue until `until_s`. What is held for a job that was announced stays held."""
        text = self._why_it_waits(given, until_s)
        candidates = unchosen(given.rationale.candidates)
        operation = request.urgent.operation
        if operation is not None and operation.kind is OperationKind.ARRIVAL:
            return Proposal(rationale=rationale(request, text, candidates=candidates), again_s=until_s)
        return replace(no_room(request, text, candidates), again_s=until_s)

    def _why_it_waits(self, given: Proposal, until_s: float) -> str:
        return (
            f"A start now costs {self._hours(given)} node-hours. No job leaves for "
            f"{until_s - self.cluster.now_s:.0f} s, in which jobs may end. Else: {given.rationale.summary}"
        )

    def _refusal(self, request: Request, given: Proposal) -> str | None:
        """Why the urgent job may not cost so much now, with the figures. None: it may."""
        refusal = refusal_of(request, given, self.config, self.terms.sharing)
        if refusal is not None and not request.late:
            self.refused.add(request.urgent.job.job_id)
        return refusal

    def _refuses(self, request: Request, given: Proposal, at_s: float | None) -> bool:
        """Whether the ceiling, the budget or a limit of the site refuses the evictions of a proposal if they
        begin at `at_s`. None: now.
        """
        vital = self.config.is_vital(request.urgent.job)
        own = None if vital else refusal_of(request, given, self.config, self.terms.sharing, at_s)
        return own is not None or loss_refusal(request, given, at_s) is not None

    def _is_too_dear(self, request: Request, latest_s: float) -> bool:
        """Whether the ceiling refuses whatever could be chosen so that the jobs have left by `latest_s`, or
        sooner, unless some are left to end. False: that is not known without a choice.
        """
        if self.config.is_vital(request.urgent.job):
            return False
        least_node_s = self.rooms.least_cost_node_s(request, latest_s)
        return CeilingUse.of(request, self.config, self.terms.sharing).exceeds(least_node_s)

    def _is_order_fixed(self) -> bool:
        """Whether no urgent job can find room by coming before another one: all may have the same nodes."""
        return len({job.eligible_nodes for job in self.cluster.waiting_urgent_jobs()}) == 1

    def _see_whether_others_cost(self, request: Request, given: Proposal) -> None:
        """An urgent job finds no room either if a limit refuses it for what others may lose in the end."""
        alone = replace(request, spent_node_s=request.killed_node_s)
        now_s = self.cluster.now_s
        if self._refuses(request, given, now_s) and not self._refuses(alone, given, now_s):
            self._note_lack(request)


LEAST_PRICE = Policy(
    name="least-price",
    summary="Shrink, else evict at the least total price, late if that may save work, up to a ceiling.",
    config_type=LeastPriceConfig,
    decide=decide,
    shares_nodes=True,
    serves_components=True,
    whole_placements=True,
)
