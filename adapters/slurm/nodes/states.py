"""What a node's state and flags mean, and how long a node that sleeps takes until a job can run on it.

A node sleeps to save power: it is switched off, on its way there, or boots. Slurm wakes it when a job gets
it, and lets it sleep again when it has been idle for long enough, also while a reservation keeps it (tried on
22.05 and 24.11).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from makeway.adapters.slurm.parse_cluster import RawNode, RawPartition
from makeway.adapters.slurm.partitions.times import PartitionTimes
from makeway.policies.model import Node, NodeState, Resources

_DOWN = frozenset(
    {"DOWN", "FUTURE", "INVAL", "INVALID_REG", "REBOOT_ISSUED", "REBOOT_REQUESTED", "REBOOT", "ERROR"}
)
_DRAINED = frozenset({"DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "MAINTENANCE", "MAINT", "BLOCKED"})
_FALLS_ASLEEP = frozenset({"POWER_DOWN", "POWERING_DOWN"})
_ASLEEP = _FALLS_ASLEEP | {"POWERED_DOWN", "POWERING_UP", "POWER_UP"}
_SILENT = frozenset({"UNKNOWN", "NOT_RESPONDING"})
"""Every node is UNKNOWN for some seconds after slurmctld has started. Tried on 22.05 and 24.11."""
_NO_PROGRAM = frozenset({"", "(null)"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeTimes:
    """How long it takes at most, in seconds, until Slurm has woken a node."""

    resume_s: float
    """ResumeTimeout: one that sleeps or boots."""
    suspend_s: float
    """SuspendTimeout: how much longer one takes that is on its way to sleep."""
    of_partitions: Mapping[str, PartitionTimes] = field(default_factory=dict[str, PartitionTimes])
    """The times of the partitions that have some of their own, by name."""

    def in_partitions(self, partitions: Iterable[RawPartition]) -> "WakeTimes":
        """The same times with those of these partitions."""
        own = {one.name: one.times for one in partitions if _wakes_otherwise(one.times)}
        return replace(self, of_partitions=own) if own else self

    @property
    def longest_s(self) -> float:
        """How long a node takes at most, in any partition, that sleeps or boots."""
        return max([self.resume_s, *(one.resume_s or 0.0 for one in self.of_partitions.values())])

    def wake_s(self, raw: RawNode) -> float:
        """How long it takes to wake a node that sleeps. Of its partitions' own times the longest counts, as
        for Slurm.
        """
        own = [times for name, times in self.of_partitions.items() if name in raw.partitions]
        resume_s = max((one.resume_s for one in own if one.resume_s is not None), default=self.resume_s)
        if not raw.states & _FALLS_ASLEEP:
            return resume_s
        suspend_s = max((one.suspend_s for one in own if one.suspend_s is not None), default=self.suspend_s)
        return resume_s + suspend_s


def _wakes_otherwise(times: PartitionTimes) -> bool:
    return times.resume_s is not None or times.suspend_s is not None


def wake_times(settings: Mapping[str, str]) -> WakeTimes | None:
    """What `scontrol show config` says of them. None: no program wakes nodes, or it says no time."""
    if settings.get("ResumeProgram", "") in _NO_PROGRAM:
        return None
    resume_s, suspend_s = (_seconds(settings.get(f"{key}Timeout", "")) for key in ("Resume", "Suspend"))
    if resume_s is None or suspend_s is None:
        return None
    return WakeTimes(resume_s=resume_s, suspend_s=suspend_s)


def node(raw: RawNode, capacity: Resources | None = None, wakes: WakeTimes | None = None) -> Node:
    """A node as the model has it.

    Args:
        raw: what scontrol shows of it.
        capacity: see `Node.capacity`.
        wakes: how long nodes that sleep take. None: they count as down.
    """
    states = ((_DOWN, NodeState.DOWN), (_DRAINED, NodeState.DRAINED))
    state = next((state for flags, state in states if raw.states & flags), None)
    if state is not None:
        return Node(name=raw.name, state=state, capacity=capacity)
    if sleeps(raw):
        if wakes is None:
            return Node(name=raw.name, state=NodeState.DOWN, capacity=capacity)
        return Node(
            name=raw.name,
            state=NodeState.UP,
            capacity=capacity,
            wake_s=wakes.wake_s(raw),
            sleeps_first=not raw.states.isdisjoint(_FALLS_ASLEEP),
        )
    return Node(
        name=raw.name, state=NodeState.SILENT if raw.states & _SILENT else NodeState.UP, capacity=capacity
    )


def sleeps(raw: RawNode) -> bool:
    """Whether the node is switched off to save power, on its way there, or boots. It answers nothing then."""
    return not raw.states.isdisjoint(_ASLEEP)


def _seconds(text: str) -> float | None:
    """A time such as `60 sec`. None: it is no such time."""
    found = re.fullmatch(r"(\d+)( sec)?", text)
    return float(found[1]) if found else None


def down_nodes(nodes: Iterable[RawNode], wakes: WakeTimes | None) -> frozenset[str]:
    """The names of the nodes that are not up. `wakes` None: see `node`."""
    return frozenset(one.name for one in nodes if node(one, wakes=wakes).state is not NodeState.UP)
