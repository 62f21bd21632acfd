"""The ceiling of loss that a daemon applies to one urgent job, and the settings that give it.

A configuration has an amount of node-hours and a share of the machine; the larger one counts. A replay of a
history has one number.
"""

from dataclasses import replace

from makeway.policies.model import Limits
from makeway.policies.safety.prices import job_ceiling

_AMOUNT, _SHARE = "limits.max_loss_node_hours", "limits.max_loss_machine_share"


def daemon_ceiling(limits: Limits, node_count: int) -> float | None:
    """Node-hours that evictions for one urgent job may lose under these limits. None: no limit.

    Args:
        limits: of a configuration.
        node_count: of the machine.
    """
    ceiling = job_ceiling(limits, node_count)
    return None if ceiling is None else ceiling[0] / 3600.0


def ceiling_text(max_loss_node_hours: float | None) -> str:
    """A ceiling of loss in words."""
    return "no limit" if max_loss_node_hours is None else f"{max_loss_node_hours:g}"


def ceiling_settings(max_loss_node_hours: float | None, limits: Limits | None, node_count: int) -> str:
    """The settings by which a daemon applies this ceiling, for people.

    Args:
        max_loss_node_hours: the ceiling. None: no limit.
        limits: those of the configuration that is to be changed. None: there is none, and the defaults hold.
        node_count: of the machine.
    """
    value = "null" if max_loss_node_hours is None else f"{max_loss_node_hours:g}"
    if limits is not None and daemon_ceiling(limits, node_count) == max_loss_node_hours:
        return (
            "no ceiling, as configured"
            if value == "null"
            else f"the configured ceiling of {value} node-hours"
        )
    changed = replace(limits or Limits(), max_loss_node_hours=max_loss_node_hours)
    if daemon_ceiling(changed, node_count) == max_loss_node_hours:
        return f"{_AMOUNT}: {value}"
    return f"{_AMOUNT}: {value} and {_SHARE}: 0"
