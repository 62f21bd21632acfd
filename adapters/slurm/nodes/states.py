"""What a node's state and flags mean, and how long a node that sleeps takes until a job can run on it.

A node sleeps to save power: it is switched off, on its way there, or boots. Slurm wakes it when a job gets
it, and lets it sleep again when it has been idle for long enough, also while a reservation keeps it (tried on
22.05 and 24.11).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from makeway.adapters.slurm.parse_cluster import RawNode
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
        wake_s = wakes.resume_s + (wakes.suspend_s if raw.states & _FALLS_ASLEEP else 0.0)
        return Node(name=raw.name, state=NodeState.UP, capacity=capacity, wake_s=wake_s)
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
