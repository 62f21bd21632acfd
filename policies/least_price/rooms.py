"""The starts among which policy "least-price" chooses: room for an urgent job by an instant.

What one decision has worked out for one urgent job serves the others, in all of its passes (`Memo`).

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III: the eviction problem.

Differs from the paper:
    Not the loss counts, but a price.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from makeway.policies.common.departures import NodeRelease
from makeway.policies.common.losses import cost_node_s
from makeway.policies.common.requests import Proposal, Request
from makeway.policies.eviction.policy import EvictionConfig, least_price_node_s, make_room
from makeway.policies.least_price.prices import Price, TotalPricing, price_node_s
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import Cluster, Memo


@dataclass(frozen=True, slots=True, kw_only=True)
class Rooms:
    """The rooms on one snapshot."""

    cluster: Cluster
    config: LeastPriceConfig
    memo: Memo

    def latest_s(self, request: Request) -> float:
        """When the jobs must have left. A late job is served as if it had been submitted now, if at all."""
        config = self.config
        late = request.late and config.late == "evict"
        deadline_s = self.cluster.now_s + config.start_within_s if late else request.deadline_s
        return deadline_s - config.margin_s

    def by(
        self,
        request: Request,
        latest_s: float,
        ending: Mapping[str, NodeRelease] = MappingProxyType({}),
        price: Price = price_node_s,
    ) -> Proposal:
        """The least price for which the jobs have left by `latest_s`. Without a hold: there is no way.

        `ending`: jobs that leave by themselves in time, by id. `price`: what counts; on shared nodes, any
        other one is lost work.
        """
        by_loss = price is not price_node_s
        asked, settings, pricing = self._asked(request, latest_s, price)
        given = make_room(asked, settings, ending, pricing, by_loss=by_loss, memo=self.memo)
        return replace(given, rationale=replace(given.rationale, deadline_s=request.latest_start_s))

    def least_cost_node_s(self, request: Request, latest_s: float) -> int:
        """What every start costs at least for which the jobs have left by `latest_s`, if none is left to end.
        0: that is not known, as where there is no way, or where jobs that share nodes leave in part.
        """
        if self.cluster.shared_nodes():
            return 0
        price = cost_node_s if self.has_past_evictions() else price_node_s
        return least_price_node_s(*self._asked(request, latest_s, price), self.memo)

    def has_past_evictions(self) -> bool:
        """Whether prices are not what evictions cost."""
        return any(job.past_evictions for job in self.cluster.jobs)

    def _asked(
        self, request: Request, latest_s: float, price: Price
    ) -> tuple[Request, EvictionConfig, TotalPricing]:
        """What policy "eviction" is asked."""
        config = self.config
        settings = EvictionConfig(
            start_within_s=config.start_within_s,
            margin_s=config.margin_s,
            # What of it does not lie between a start at an instant and the deadline.
            leave_s=max(0.0, config.leave_s - (self.latest_s(request) - latest_s)),
            step_s=config.step_s,
            hold_slack_s=config.hold_slack_s,
            # Jobs that share nodes leave one by one, as by policy "eviction", only if none may shrink.
            shrink=config.shrink and not self.cluster.shared_nodes(),
        )
        pricing = TotalPricing(
            now_s=self.cluster.now_s, parallel=config.checkpoints == "parallel", price=price
        )
        return replace(request, deadline_s=latest_s + config.margin_s), settings, pricing
