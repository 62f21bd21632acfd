"""What the leaving of each job costs, as integers.

Two objectives are used. The first is the loss alone, on a fine scale on which it can be shared out among the
nodes of a job: proofs use it. The second is the loss, then the checkpoint steps, then the number of jobs: the
search uses it.
"""

from dataclasses import dataclass, replace

import numpy as np

from makeway.policies.choice.instance import Occupant, WayToLeave
from makeway.policies.choice.table import ChoiceTable, Integers
from makeway.policies.model import Method

ROUNDED_DOWN = 1.0 - 1e-12
"""Keeps sums of whole prices from being too large by the rounding of floating-point numbers."""
_SCALE = 1 << 16
"""The finest scale on which losses are shared out."""
_MOST = 1 << 62
"""What no sum of costs may reach."""
_METHODS = (Method.APPLICATION, Method.SYSTEM, Method.KILL, Method.SHRINK)
"""In the order that breaks ties."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CostObjective:
    """The cost of each job's leaving, without serial steps and with them."""

    plain: Integers
    """The cost of the best way that uses no serial steps."""
    serial: Integers
    """The cost of the way that uses serial steps; `plain` where there is none, or where it is not cheaper."""
    steps: Integers
    """How many serial steps that way uses; 0 where there is none, or where it is not cheaper."""
    budget_steps: int
    scale: int
    """What one node-second costs."""

    @property
    def timed(self) -> bool:
        """Whether serial steps make any job cheaper."""
        return bool(self.steps.any())

    def prices(self, step_price: int) -> Integers:
        """The least cost of each job if a serial step costs `step_price`."""
        least: Integers = np.minimum(self.plain, self.serial + step_price * self.steps)
        return least

    def clipped(self, limit: int) -> "CostObjective":
        """The same where no cost exceeds `limit`, for choices that cost less than that."""
        return replace(self, plain=np.minimum(self.plain, limit), serial=np.minimum(self.serial, limit))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pricing:
    """The two ways of each job between which is chosen, and the two objectives."""

    plain: tuple[WayToLeave, ...]
    """The best way that uses no serial steps."""
    serial: tuple[WayToLeave | None, ...]
    """The way that uses serial steps. None: there is none, or it is no better or too long."""
    loss: CostObjective
    full: CostObjective


def price_jobs(table: ChoiceTable, node_count: int, budget_steps: int) -> Pricing:
    """The ways and the objectives of the jobs of a table, for a choice of so many of its nodes.

    Raises:
        ValueError: losses that 62 bits do not hold.
    """
    plain = [job.ways[0] if len(job.ways) == 1 else _plain(job) for job in table.jobs]
    losses_of_all = [way.loss_node_s for way in plain]
    loss = np.array(losses_of_all, dtype=np.int64)
    duration = np.array([way.checkpoint_steps for way in plain], dtype=np.int64)
    serial_loss, serial_duration, steps = loss.copy(), duration.copy(), np.zeros_like(loss)
    serial: list[WayToLeave | None] = [None] * len(plain)
    for number, job in enumerate(table.jobs):
        way = None if len(job.ways) == 1 else _serial(job, plain[number], budget_steps)
        if way is not None:
            serial[number], steps[number] = way, way.serial_steps
            serial_loss[number], serial_duration[number] = way.loss_node_s, way.checkpoint_steps
    losses = sum(losses_of_all)
    if losses >= _MOST:
        raise ValueError(f"losses of {losses} node-seconds in all are beyond what can be weighed")
    # In a choice without needless jobs no more of them leave than its nodes have places.
    most = min(len(plain), node_count * int(np.diff(table.first_place).max(initial=0)))
    job_weight, step_weight = 1, most + 1
    loss_weight = step_weight * (most * int(max(duration.max(initial=0), serial_duration.max(initial=0))) + 1)
    if loss_weight * (losses + 1) >= _MOST:
        job_weight, step_weight, loss_weight = 0, 0, 1
    fine = min(_SCALE, _MOST // (losses + 1))
    return Pricing(
        plain=tuple(plain),
        serial=tuple(serial),
        loss=CostObjective(
            plain=fine * loss,
            serial=fine * serial_loss,
            steps=np.where(serial_loss < loss, steps, 0),
            budget_steps=budget_steps,
            scale=fine,
        ),
        full=CostObjective(
            plain=loss_weight * loss + step_weight * duration + job_weight,
            serial=loss_weight * serial_loss + step_weight * serial_duration + job_weight,
            steps=steps,
            budget_steps=budget_steps,
            scale=loss_weight,
        ),
    )


def _plain(job: Occupant) -> WayToLeave:
    """The best way without serial steps: a job that may leave has one."""
    return min((way for way in job.ways if not way.serial_steps), key=_tie)


def _serial(job: Occupant, plain: WayToLeave, budget_steps: int) -> WayToLeave | None:
    """The way with serial steps. None: there is none, it is no better than `plain`, or it is too long."""
    return next(
        (way for way in job.ways if 0 < way.serial_steps <= budget_steps and _rank(way) < _rank(plain)), None
    )


def _rank(way: WayToLeave) -> tuple[int, int]:
    return way.loss_node_s, way.checkpoint_steps


def _tie(way: WayToLeave) -> tuple[int, int, int]:
    return way.loss_node_s, way.checkpoint_steps, _METHODS.index(way.method)
