"""The jobs that are considered for an urgent job that needs whole nodes, and which of them leave.

Urgent jobs of one decision often choose among the same jobs: one that is refused takes nothing from the next.
So a decision may remember three things (`Memo`): the groups (`remembered_groups`), what their leaving costs,
and the solutions of the programme. Each key has all that the result is worked out from: it is the same as if
it was worked out again. An urgent job for which a job leaves changes what the next one chooses among by that
job: what the leaving of each other one costs is remembered, too.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the items, and the problem.

Differs from the paper:
    The paper has one urgent job at a time.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from makeway.policies.common.departures import NodeRelease
from makeway.policies.common.victims import VictimGroup
from makeway.policies.model import Candidate, Memo, Method, Same
from makeway.policies.programme.candidates import Offers
from makeway.policies.programme.ends import ends_by_itself
from makeway.policies.programme.fixing import best_plans, in_steps, least_loss_node_s
from makeway.policies.programme.items import EvictionJob
from makeway.policies.programme.knapsack import EvictionPlan

Pricing = Callable[[EvictionJob, VictimGroup], EvictionJob]
"""Changes what leaving costs and how long it takes. One that is to be remembered is a value with equality."""
Releases = Mapping[str, NodeRelease]
"""Jobs that leave by themselves in time, by id."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Considered:
    """The groups that are considered for a request, and what their leaving costs."""

    groups: Mapping[tuple[str, ...], VictimGroup]
    """By their jobs."""
    able: tuple[VictimGroup, ...]
    """Those that may leave, or end by themselves."""
    items: tuple[EvictionJob, ...]
    """The same, as items of the programme."""
    offers: Offers
    beside: tuple[tuple[float, int, Method], ...]
    """The checkpoints that take no time of others, the soonest first: when each is complete, in seconds from
    now, the index of its item, and the way to leave. The programme counts no time for them, so those that are
    too late are left out before.
    """

    @classmethod
    def of(
        cls,
        groups: tuple[VictimGroup, ...],
        ending: Releases,
        item: Callable[[VictimGroup], EvictionJob],
        offer: Callable[[VictimGroup, EvictionJob | None], tuple[Candidate, ...]],
        *,
        priced: bool,
    ) -> "Considered":
        """`item`: what leaving costs. `offer`: see `candidates.offer`. `priced`: whether leaving costs more
        than the loss.
        """
        # A protected job may end by itself: its nodes serve, but nothing is done to it.
        able = tuple(
            group for group in groups if not group.protected_by or (ending and ends_by_itself(group, ending))
        )
        items = tuple(item(group) for group in able)
        prices = {one.job_ids: one for one in items} if priced else {}
        return cls(
            groups={group.job_ids: group for group in groups},
            able=able,
            items=items,
            offers={group.job_ids: offer(group, prices.get(group.job_ids)) for group in groups},
            beside=_beside(able, items, ending),
        )

    def best_plans(
        self, needed: int, within_s: float, deadlines_s: Sequence[float], step_s: float, memo: Memo
    ) -> list[EvictionPlan | None]:
        """The best choice that frees so many nodes by each deadline; see `fixing.best_plans`.

        `within_s`: in how many seconds the jobs must have left. The deadlines are no later.
        """
        items = self._in_time(within_s, memo)
        key = ("plans", Same(items), needed, in_steps(items, needed, deadlines_s, step_s), step_s)
        return memo.once(key, lambda: best_plans(items, needed, deadlines_s, step_s))

    def least_loss_node_s(
        self, needed: int, within_s: float, deadline_s: float, step_s: float, memo: Memo
    ) -> int:
        """No choice that frees so many nodes by the deadline loses less; see `fixing.least_loss_node_s`."""
        items = self._in_time(within_s, memo)
        key = ("least", Same(items), needed, math.floor(deadline_s / step_s), step_s)
        return memo.once(key, lambda: least_loss_node_s(items, needed, deadline_s, step_s))

    def _in_time(self, within_s: float, memo: Memo) -> tuple[EvictionJob, ...]:
        """The items without the checkpoints of `beside` that are not complete within this time."""
        count = bisect_right(self.beside, within_s, key=itemgetter(0))
        return memo.once(("in time", Same(self), count), lambda: self._without(self.beside[count:]))

    def _without(self, late: Iterable[tuple[float, int, Method]]) -> tuple[EvictionJob, ...]:
        """The items without some of their checkpoints."""
        items = list(self.items)
        for _, index, method in late:
            item, regular = items[index], method is Method.APPLICATION
            items[index] = replace(item, application_s=None) if regular else replace(item, system_s=None)
        return tuple(items)


def _beside(
    able: Iterable[VictimGroup], items: Iterable[EvictionJob], ending: Releases
) -> tuple[tuple[float, int, Method], ...]:
    """See `Considered.beside`. Jobs that end by themselves are in time."""
    found: list[tuple[float, int, Method]] = []
    for index, (group, item) in enumerate(zip(able, items, strict=True)):
        if group.application_s is None and group.system_s is None:
            continue
        if item.alone and not ends_by_itself(group, ending):
            durations_s = ((Method.APPLICATION, group.application_s), (Method.SYSTEM, group.system_s))
            found.extend(
                (complete_s, index, method)
                for method, complete_s in durations_s
                if complete_s is not None and method in item.alone
            )
    return tuple(sorted(found))
