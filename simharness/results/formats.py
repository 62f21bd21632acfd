"""Numbers in the words and units of a reader: shares in percent, durations in their largest unit."""

from enum import StrEnum
from typing import assert_never

from makeway.simharness.results.averages import Estimate
from makeway.simharness.results.measures import Number


class Unit(StrEnum):
    """What a number is, which is how it is written."""

    COUNT = "count"
    SHARE = "share"
    SECONDS = "seconds"
    MILLISECONDS = "milliseconds"
    NODE_HOURS = "node-hours"
    FACTOR = "factor"


def format_count(count: int, noun: str) -> str:
    """`1 node`, `2,000 nodes`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_number(value: Number, unit: Unit) -> str:
    """The number in words that people use: `-` for None, 66.7%, 2.31 h; node-hours go without their unit."""
    if value is None:
        return "-"
    match unit:
        case Unit.COUNT:
            return f"{value:,.0f}"
        case Unit.SHARE:
            return f"{100 * value:.1f}%"
        case Unit.SECONDS:
            return format_duration(value)
        case Unit.MILLISECONDS:
            return f"{_significant(value)} ms"
        case Unit.NODE_HOURS:
            return _significant(value)
        case Unit.FACTOR:
            return f"{value:,.2f}"
        case _:
            assert_never(unit)


def format_estimate(estimate: Estimate, unit: Unit) -> str:
    """The mean and half the width of its 95% confidence interval where there is one: 66.7% ± 1.2%."""
    if unit is Unit.COUNT and estimate.mean is not None and not estimate.mean.is_integer():
        unit = Unit.FACTOR
    spread = f" ± {format_number(estimate.ci95, unit)}" if estimate.ci95 else ""
    return format_number(estimate.mean, unit) + spread


def format_duration(duration_s: float) -> str:
    """A duration in the largest unit that gives at least 1: 45 s, 12.5 min, 6.20 h, 3.1 d."""
    size = abs(duration_s)
    if size < 60:
        return f"{_significant(duration_s)} s"
    if size < 3600:
        return f"{_significant(duration_s / 60)} min"
    if size < 48 * 3600:
        return f"{_significant(duration_s / 3600)} h"
    return f"{_significant(duration_s / 86400)} d"


def format_change(value: float, base: float, unit: Unit) -> str:
    """The signed change from `base`, which is not 0, to `value`.

    It is +12 for counts, +3.2 pts (percentage points) for shares, and else +5.1% of `base`.
    """
    change = value - base
    sign = "+" if change > 0 else "−"
    match unit:
        case Unit.COUNT:
            return f"{sign}{abs(change):,.0f}"
        case Unit.SHARE:
            return f"{sign}{abs(100 * change):.1f} pts"
        case Unit.SECONDS | Unit.MILLISECONDS | Unit.NODE_HOURS | Unit.FACTOR:
            return f"{sign}{format_percent(abs(change / base))}"
        case _:
            assert_never(unit)


def format_percent(share: float) -> str:
    """A share in two to three digits: 0.03%, 1.2%, 35%, 1,204%."""
    percent = 100 * share
    return f"{percent:,.0f}%" if percent >= 10 or not percent else f"{percent:.2g}%"


def _significant(value: float) -> str:
    """Three significant digits, thousands set apart, never an exponent."""
    size = abs(value)
    if size >= 100 or value == 0:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.1 else f"{value:.2g}"
