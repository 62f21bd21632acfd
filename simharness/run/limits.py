"""The site's limits in a replay: none, or those of a daemon whose configuration says nothing about them."""

from dataclasses import replace
from enum import StrEnum

from makeway.policies.model import Limits


class ReplayLimits(StrEnum):
    """Which limits of a site hold in a replay."""

    NONE = "none"
    """None: policies are compared by what they do. So are the papers."""
    DEFAULT = "default"
    """Those that a daemon has without a section `limits`."""


def limits_of(kind: ReplayLimits, max_loss_node_hours: float | None = None) -> Limits:
    """The limits of this kind.

    `max_loss_node_hours`: the ceiling of a start instead of the kind's own. None: that one.
    """
    from makeway.simharness.run.replay import UNPRICED

    if kind is ReplayLimits.NONE:
        return with_ceiling(UNPRICED, max_loss_node_hours)
    from makeway.daemon.config.schema import LimitsSettings

    limits = LimitsSettings().to_limits()
    return limits if max_loss_node_hours is None else with_ceiling(limits, max_loss_node_hours)


def with_ceiling(limits: Limits, max_loss_node_hours: float | None) -> Limits:
    """The limits with this ceiling of a start, whatever the size of the machine. None: without a ceiling."""
    return replace(limits, max_loss_node_hours=max_loss_node_hours, max_loss_machine_share=0.0)
