"""What sacctmgr alone says of QOS: whose limits come first, and what scales those of associations.

Reference: 22.05, 24.11 as tried: `scontrol show assoc_mgr` prints neither.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class QosRules:
    """What sacctmgr alone says of QOS."""

    before_partitions: frozenset[str] = frozenset()
    """The QOS whose limits come before those of the partition's QOS (OverPartQOS)."""
    factors: Mapping[str, float] = field(default_factory=dict[str, float])
    """The LimitFactor of the QOS that have one."""
    other_prices: frozenset[str] = frozenset()
    """The QOS whose jobs use more or fewer minutes than they last (UsageFactor), also for limits
    (UsageFactorSafe).
    """

    @classmethod
    def of(cls, lines: Iterable[str]) -> "QosRules":
        """The rules in lines of a QOS's name, its flags, its LimitFactor and its UsageFactor, such as
        `high|NoReserve|2.0|1.0`.
        """
        rows = [line.split("|") for line in lines if line.count("|") == 3]
        factors = ((name, limit_factor(text)) for name, _, text, _ in rows)
        return cls(
            before_partitions=_with_flag("OverPartQOS", rows),
            factors={name: factor for name, factor in factors if factor is not None},
            other_prices=_with_flag("UsageFactorSafe", [row for row in rows if limit_factor(row[3]) != 1.0]),
        )


def _with_flag(flag: str, rows: Iterable[list[str]]) -> frozenset[str]:
    return frozenset(name for name, flags, *_ in rows if flag in flags.split(","))


def limit_factor(text: str) -> float | None:
    """The LimitFactor that sacctmgr has printed. None: there is none."""
    try:
        factor = float(text)
    except ValueError:
        return None
    return factor if math.isfinite(factor) and factor > 0.0 else None
