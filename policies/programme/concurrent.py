"""The eviction problem where checkpoints are written at the same time and share the file system, solved
exactly.

The model: all jobs are signalled at once. A checkpoint has a volume, counted in the seconds that it would
take at the full bandwidth of the file system, and a share of that bandwidth, which is the most that its nodes
can write. It begins at once, or after its wait if it is a regular one, and is written at a constant rate from
then until the deadline. A set of checkpoints meets a deadline if no rate exceeds its share and all rates
together do not exceed the full bandwidth. For signalled checkpoints alone this means that the time is at
least

    max(sum of sizes / bandwidth of the file system, greatest size / bandwidth of its nodes),

which is the paper's eq. 1 for all their nodes as if they belonged to one job. The bandwidth is divided into
equal parts, and a rate is rounded up to whole parts; deadlines are whole steps. For one deadline, each
checkpoint needs a number of parts, of which there is a fixed number: this is the serial problem
(`fixing.best_plans`) with parts in place of time. One pass solves it for one deadline.

The best of several choices has, in this order: the least loss, the earliest deadline that it meets, the
fewest parts, and then the criteria of `knapsack`.

A file system may share its bandwidth in another way, and then the same set may take longer. `fair_end_s` is
the time with equal shares; `plan_fair` finds a plan that also meets the deadline with equal shares.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-A (eq. 1) and section III-B (concurrent checkpoints as a refinement), Algorithm
    1.

Differs from the paper:
    It names concurrent checkpoints as a possible refinement and has no model of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from makeway.policies.model import Method
from makeway.policies.programme.fixing import best_plans
from makeway.policies.programme.items import Departure, EvictionJob
from makeway.policies.programme.knapsack import EvictionPlan, make_plan

PARTS = 1000
"""The number of parts into which the bandwidth is divided by default."""


def parts_needed(item: EvictionJob, method: Method, deadline_s: float, parts: int) -> int | None:
    """How many parts of the bandwidth a checkpoint needs to meet the deadline. None: it cannot meet it."""
    end_s = item.duration_s(method)
    if end_s is None or end_s > deadline_s:
        return None
    begin_s = item.application_wait_s if method is Method.APPLICATION else 0.0
    volume_s = item.bandwidth_share * (end_s - begin_s)
    return math.ceil(parts * volume_s / (deadline_s - begin_s)) if volume_s > 0.0 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    """The problem without its deadline."""

    items: tuple[EvictionJob, ...]
    needed: int
    step_s: float
    parts: int

    def plan(self, step: int) -> EvictionPlan | None:
        """The best choice for the deadline of this step, with the deadline as its end."""
        deadline_s = step * self.step_s
        in_parts = [
            replace(
                item,
                system_s=_as_duration(parts_needed(item, Method.SYSTEM, deadline_s, self.parts)),
                application_s=_as_duration(parts_needed(item, Method.APPLICATION, deadline_s, self.parts)),
                application_wait_s=0.0,
            )
            for item in self.items
        ]
        (found,) = best_plans(in_parts, self.needed, (float(self.parts),), 1.0)
        if found is None:
            return None
        originals = {item.job_ids: item for item in self.items}
        departures = [replace(leaver, item=originals[leaver.item.job_ids]) for leaver in found.departures]
        saves = any(map(_saves, departures))
        return make_plan(departures, step if saves else 0, self.step_s)

    def earliest(self, step: int) -> EvictionPlan | None:
        """The best choice for a step, with the earliest end of all choices of the same loss."""
        found = self.plan(step)
        if found is None or found.checkpoint_steps == 0:
            return found
        low, high = 0, step  # losses fall with time: the first step of this loss lies between them
        while low < high:
            middle = (low + high) // 2
            earlier = self.plan(middle)
            if earlier is not None and earlier.loss_node_s == found.loss_node_s:
                found, high = earlier, middle
            else:
                low = middle + 1
        return found


def _as_duration(parts: int | None) -> float | None:
    return None if parts is None else float(parts)


def _saves(leaver: Departure) -> bool:
    return leaver.method in (Method.APPLICATION, Method.SYSTEM)


def plans_concurrent(
    items: Sequence[EvictionJob], node_count_needed: int, horizon_s: float, step_s: float, parts: int = PARTS
) -> tuple[EvictionPlan | None, ...]:
    """The best choice for each deadline 0, step, 2 * step, ... up to the horizon; None: there is none.

    At most O(steps * items * nodes * parts).

    Args:
        items: the jobs that may leave or shrink. Their order does not matter.
        node_count_needed: at least this many nodes are freed.
        horizon_s: the last deadline, in seconds from now. Negative: the result is empty.
        step_s: the resolution of deadlines.
        parts: the resolution of bandwidth.

    Raises:
        ValueError: a step that is not positive, fewer than one part, or losses beyond 62 bits.
    """
    problem = _problem(items, node_count_needed, step_s, parts)
    found: list[EvictionPlan | None] = []
    for step in range(_steps(horizon_s, step_s) + 1):
        before = found[-1] if found else None
        plan = before if before is not None and before.loss_node_s == 0 else problem.plan(step)
        if before is not None and plan is not None and plan.loss_node_s == before.loss_node_s:
            plan = before
        found.append(plan)
    return tuple(found)


def plan_fair(
    items: Sequence[EvictionJob], node_count_needed: int, deadline_s: float, step_s: float, parts: int = PARTS
) -> EvictionPlan | None:
    """The best choice for any deadline up to `deadline_s` that also meets it with equal shares of the
    bandwidth.
    """
    problem = _problem(items, node_count_needed, step_s, parts)
    step = _steps(deadline_s, step_s)
    while step >= 0:
        found = problem.earliest(step)
        if found is None or fair_end_s(found) <= deadline_s:
            return found
        step = found.checkpoint_steps - 1
    return None


def _problem(items: Sequence[EvictionJob], needed: int, step_s: float, parts: int) -> _Problem:
    if not (step_s > 0.0 and parts >= 1):
        raise ValueError(f"step_s is {step_s!r} and parts {parts!r}; accepted: positive numbers")
    return _Problem(items=tuple(items), needed=needed, step_s=step_s, parts=parts)


def _steps(deadline_s: float, step_s: float) -> int:
    return math.floor(deadline_s / step_s) if deadline_s >= 0.0 else -1


def fair_end_s(plan: EvictionPlan) -> float:
    """When the last checkpoint of a plan is complete, in seconds from now, if all writers have equal shares.

    A writer that cannot use its share leaves the rest to the others (max-min fairness).
    """
    waiting: list[tuple[float, int]] = []
    left_s: dict[int, float] = {}
    caps: dict[int, float] = {}
    for key, leaver in enumerate(filter(_saves, plan.departures)):
        item = leaver.item
        begin_s = item.application_wait_s if leaver.method is Method.APPLICATION else 0.0
        waiting.append((begin_s, key))
        caps[key] = item.bandwidth_share
        left_s[key] = item.bandwidth_share * ((item.duration_s(leaver.method) or 0.0) - begin_s)
    waiting.sort(reverse=True)
    now_s = 0.0
    writing: list[int] = []
    while waiting or writing:
        if not writing:
            now_s = max(now_s, waiting[-1][0])
        while waiting and waiting[-1][0] <= now_s:
            writing.append(waiting.pop()[1])
        rates = _fair_rates({key: caps[key] for key in writing})
        ends_s = {key: left_s[key] / rates[key] for key in writing}
        next_s = min(ends_s.values())
        if waiting:
            next_s = min(next_s, waiting[-1][0] - now_s)
        for key in writing:
            left_s[key] -= rates[key] * next_s
        writing = [key for key in writing if ends_s[key] > next_s]
        now_s += next_s
    return now_s


def _fair_rates(caps: dict[int, float]) -> dict[int, float]:
    """The max-min fair rates of the writers at a bandwidth of 1, by key."""
    rates: dict[int, float] = {}
    left = 1.0
    for key in sorted(caps, key=lambda key: (caps[key], key)):
        rates[key] = min(caps[key], left / (len(caps) - len(rates)))
        left -= rates[key]
    return rates
