"""The choice on shared nodes as values: what is known, and what is chosen.

An urgent job needs a number of nodes and, on each of them, an amount of every resource. Each running job
holds amounts on its nodes. It stays, or it leaves in one of its ways and frees what it holds on all of its
nodes. Which nodes the urgent job gets is a part of the choice.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from makeway.policies.model import Method, Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class WayToLeave:
    """One way in which a running job can leave, and what that costs."""

    method: Method
    loss_node_s: int = 0
    """Node-seconds of work that are lost; never negative."""
    checkpoint_steps: int = 0
    """How long it takes until the job's checkpoint is complete; of two choices with the same loss, the one
    with fewer such steps in all is better."""
    serial_steps: int = 0
    """How much it uses of the time for checkpoints that run one after another."""

    def __post_init__(self) -> None:
        if min(self.loss_node_s, self.checkpoint_steps, self.serial_steps) < 0:
            raise ValueError(f"no way to leave: {self!r} (wants no negative loss and no negative duration)")


def ways_to_leave(
    loss_node_s: int, *, system_s: float | None, application_s: float | None, within_s: float, step_s: float
) -> tuple[WayToLeave, ...]:
    """The ways of a job that may be evicted: a kill, and the checkpoints that are complete in time.

    A regular checkpoint of the application is awaited and needs no turn. Checkpoints that a signal starts run
    one after another.

    Args:
        loss_node_s: what a kill loses.
        system_s: duration of a checkpoint that a signal starts. None: there is none.
        application_s: wait for the next regular checkpoint plus its duration. None: there is none.
        within_s: the time left.
        step_s: the resolution of time: durations are rounded up to it, the time left down.

    Raises:
        ValueError: a step that is not positive.
    """
    steps = serial_budget(within_s, step_s)
    ways = all_ways_to_leave(loss_node_s, system_s=system_s, application_s=application_s, step_s=step_s)
    return in_time(ways, steps)


def all_ways_to_leave(
    loss_node_s: int, *, system_s: float | None, application_s: float | None, step_s: float
) -> tuple[WayToLeave, ...]:
    """The same, however long the checkpoints take. `step_s`: a positive number."""
    ways = [WayToLeave(method=Method.KILL, loss_node_s=loss_node_s)]
    if application_s is not None:
        steps = math.ceil(application_s / step_s)
        ways.append(WayToLeave(method=Method.APPLICATION, checkpoint_steps=steps))
    if system_s is not None:
        steps = math.ceil(system_s / step_s)
        ways.append(WayToLeave(method=Method.SYSTEM, checkpoint_steps=steps, serial_steps=steps))
    return tuple(ways)


def in_time(ways: tuple[WayToLeave, ...], steps: int) -> tuple[WayToLeave, ...]:
    """Those of the ways whose checkpoints are complete in so many steps: the same value if all are."""
    found = tuple([way for way in ways if way.checkpoint_steps <= steps])
    return ways if len(found) == len(ways) else found


def serial_budget(within_s: float, step_s: float) -> int:
    """How many whole steps are left for checkpoints one after another; 0 if the time is over.

    Raises:
        ValueError: a step that is not positive.
    """
    if not step_s > 0.0:
        raise ValueError(f"step_s is {step_s!r}; accepted: a positive number of seconds")
    return max(0, math.floor(within_s / step_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """A running job on candidate nodes."""

    job_id: str
    nodes: tuple[str, ...]
    """All of its nodes; those that are no candidates do not matter."""
    allocation: tuple[Resources, ...]
    """What it holds on each of `nodes`, in the same order."""
    ways: tuple[WayToLeave, ...]
    """How it can leave. Empty: it is protected and stays. Else at least one way uses no serial steps, and at
    most one uses some."""

    def __post_init__(self) -> None:
        if len(self.nodes) != len(self.allocation):
            raise ValueError(
                f"job {self.job_id}: {len(self.allocation)} allocations; accepted: one for each of "
                f"{len(self.nodes)} nodes"
            )
        serial = sum(1 for way in self.ways if way.serial_steps)
        if self.ways and (serial == len(self.ways) or serial > 1):
            raise ValueError(
                f"job {self.job_id}: {serial} of {len(self.ways)} ways to leave use serial steps, "
                "wants at most one, and one that uses none"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceInstance:
    """One urgent job's nodes to choose. The order of nodes and of jobs does not matter."""

    free: Mapping[str, Resources]
    """The candidate nodes, and what no job uses of each."""
    demand: Resources | None
    """What the urgent job needs on each of its nodes. None: nodes that no other job uses."""
    node_count: int
    """How many nodes it needs."""
    occupants: tuple[Occupant, ...]
    """The running jobs, each once; one that holds nothing on a candidate node does not matter."""
    budget_steps: int = 0
    """How many serial steps all that leave may use together."""
    alternatives: Mapping[str, tuple[Resources, ...]] = field(
        default_factory=dict[str, tuple[Resources, ...]]
    )
    """The nodes that can meet the demand in several ways, and what each way needs. One way is enough."""

    def __post_init__(self) -> None:
        if self.node_count < 0 or self.budget_steps < 0:
            raise ValueError(
                f"{self.node_count} nodes in {self.budget_steps} steps; accepted: numbers from 0 on"
            )
        if len({occupant.job_id for occupant in self.occupants}) < len(self.occupants):
            raise ValueError("the choice on shared nodes wants each running job once")


class ChoiceProof(StrEnum):
    """How it is known that no other choice loses less."""

    BOUNDS = "bounds"  # the cheapest nodes, jobs on several nodes shared out, lose as much; or node by node
    SOLVER = "solver"  # an integer programme of the nodes and jobs that the bounds leave over
    NONE = "none"  # it is not known: the effort ended before


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingOccupant:
    """A running job that leaves, and how."""

    occupant: Occupant
    way: WayToLeave


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The nodes for the urgent job, and the jobs that leave for it."""

    nodes: tuple[str, ...]
    """As many as were needed, sorted by name."""
    leaving: tuple[LeavingOccupant, ...]
    """Sorted by job id. The other jobs on the nodes stay."""
    loss_node_s: int
    """Node-seconds of work that are lost."""
    bound_node_s: int
    """No choice loses less than this. It equals `loss_node_s` where the choice is proven to be a best one."""
    proof: ChoiceProof
    ended_by_time: bool = False
    """Whether the search was ended by its time limit, so that another run may choose otherwise."""

    @property
    def proven(self) -> bool:
        """Whether no choice loses less."""
        return self.proof is not ChoiceProof.NONE

    @property
    def checkpoint_steps(self) -> int:
        """The sum of the steps until each checkpoint is complete."""
        return sum(leaving.way.checkpoint_steps for leaving in self.leaving)

    @property
    def serial_steps(self) -> int:
        """Steps used of the budget for checkpoints one after another."""
        return sum(leaving.way.serial_steps for leaving in self.leaving)
