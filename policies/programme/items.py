"""What the eviction problem chooses among: jobs that leave, or shrink, and what each way costs.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: a job with its loss and the durations of its checkpoints.

Differs from the paper:
    A way to leave may cost something besides the work that a kill loses. Jobs may shrink.
"""

import math
from dataclasses import dataclass

from makeway.policies.common.victims import VictimGroup
from makeway.policies.model import Method

METHODS = (Method.APPLICATION, Method.SYSTEM, Method.KILL)
"""The ways to leave, in the order that breaks ties; way i has code i + 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionJob:
    """One item of the eviction problem: a job, or jobs that can only leave together."""

    job_ids: tuple[str, ...]
    node_count: int
    """Nodes that its leaving frees for the urgent job; at least 1."""
    loss_node_s: int
    """Node-seconds that a kill loses, or its price; never negative."""
    setup_node_s: int = 0
    """What its leaving costs in any way, in the same unit: a setup that is done again. 0 in the paper."""
    saving_node_s: int = 0
    """What a checkpoint that a signal starts costs besides: the time that it takes. 0 in the paper."""
    system_s: float | None = None
    """Duration of a checkpoint that a signal starts. None: there is none."""
    application_s: float | None = None
    """Wait for the next regular checkpoint plus its duration. None: there is none."""
    spare_node_count: int = 0
    """How many of its nodes it can give at once by shrinking, if it stays."""
    past_evictions: int = 0
    """How often it left before."""
    bandwidth_share: float = 1.0
    """The share of the bandwidth that its checkpoint uses if no other job writes; above 0, at most 1."""
    application_wait_s: float = 0.0
    """How much of `application_s` is the wait."""
    alone: frozenset[Method] = frozenset()
    """The ways to leave that take no time of other jobs' checkpoints. Empty: the paper's."""

    def __post_init__(self) -> None:
        durations = [duration for duration in (self.system_s, self.application_s) if duration is not None]
        if (
            self.node_count < 1
            or not 0 <= self.spare_node_count <= self.node_count
            or min(self.loss_node_s, self.setup_node_s, self.saving_node_s, self.past_evictions) < 0
            or not 0.0 < self.bandwidth_share <= 1.0
            or not 0.0 <= self.application_wait_s <= (self.application_s or 0.0)
            or any(not (math.isfinite(duration) and duration >= 0.0) for duration in durations)
        ):
            raise ValueError(
                f"no eviction job: {self!r} (wants node_count >= 1, no more spare nodes than nodes, "
                "no negative number, no infinite duration, a share of the bandwidth, no wait beyond its end)"
            )

    @property
    def extra_node_count(self) -> int:
        """Nodes that its leaving frees beyond those that shrinking it frees."""
        return self.node_count - self.spare_node_count

    def cost_node_s(self, method: Method) -> int:
        """What leaving by `method` loses and costs, in node-seconds."""
        match method:
            case Method.KILL:
                return self.setup_node_s + self.loss_node_s
            case Method.SHRINK:
                return 0
            case Method.APPLICATION:
                return self.setup_node_s
            case Method.SYSTEM:
                return self.setup_node_s + self.saving_node_s

    def turn_s(self, method: Method) -> float | None:
        """How long leaving by `method` keeps others from their checkpoints. None: it cannot leave so."""
        duration_s = self.duration_s(method)
        return 0.0 if duration_s is not None and method in self.alone else duration_s

    def duration_s(self, method: Method) -> float | None:
        """How long leaving by `method` takes. None: it cannot leave in this way."""
        match method:
            case Method.KILL:
                return 0.0
            case Method.SHRINK:
                return 0.0 if self.spare_node_count else None
            case Method.APPLICATION:
                return self.application_s
            case Method.SYSTEM:
                return self.system_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """One item that leaves, or shrinks, and how."""

    item: EvictionJob
    method: Method
    given_node_count: int = 0
    """How many nodes it gives by shrinking. 0: it leaves."""

    @property
    def node_count(self) -> int:
        """How many nodes it frees."""
        return self.given_node_count if self.method is Method.SHRINK else self.item.node_count

    @property
    def loss_node_s(self) -> int:
        """Node-seconds that its departure loses, and costs besides."""
        return self.item.cost_node_s(self.method)


def duration_steps(item: EvictionJob, method: Method, step_s: float) -> int | None:
    """The duration of leaving by `method` in whole steps, rounded up. None: the item cannot leave in this
    way.
    """
    duration_s = item.turn_s(method)
    return None if duration_s is None else math.ceil(duration_s / step_s)


def eviction_job(group: VictimGroup) -> EvictionJob:
    """A group as an item of the paper's eviction problem: no job shrinks, checkpoints are serial."""
    return EvictionJob(
        job_ids=group.job_ids,
        node_count=len(group.nodes),
        loss_node_s=group.price_node_s,
        past_evictions=group.past_evictions,
        system_s=group.system_s,
        application_s=group.application_s,
    )
