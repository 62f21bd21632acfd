"""What a policy is: a name, a type of settings, and a pure function from a snapshot to a decision."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from makeway.policies.model import Cluster, Decision, Plan

ConfigT = TypeVar("ConfigT")


class PolicyError(ValueError):
    """A policy cannot be used here. The message tells the user why, and what would be accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner(Generic[ConfigT]):
    """How a policy that plans makes its plans, beside the cycles: one may take minutes.

    Both are functions of their arguments alone. The last plan that is finished is part of every snapshot.
    """

    due: Callable[[Cluster, ConfigT], bool]
    """Whether a plan is to be made from this snapshot, in which the last one stands."""
    make: Callable[[Cluster, ConfigT], Plan]
    require: Callable[[], object]
    """Raises where plans cannot be made here, before the first one is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(Generic[ConfigT]):
    """One way to decide.

    `decide(cluster, config)` must depend on its arguments alone, must leave urgent jobs that have an operation without
    a shortfall alone, and must give the same answer twice: whatever it sorts, it sorts with the job id last.
    """

    name: str
    """The name in the configuration and on the command line."""
    summary: str
    """One line for `--help`."""
    config_type: type[ConfigT]
    """A frozen dataclass of plain values, every field with a default; the configuration is checked against it."""
    decide: Callable[[Cluster, ConfigT], Decision]
    collects: bool = False
    """Whether it holds nodes for announced jobs; if not, whatever is held for one goes back."""
    active: bool = True
    """False: it never wants anything done, so nobody needs to ask it."""
    learns: bool = False
    """Whether it goes by what finished runs took (`Cluster.usual_shares`), which is noted for it as they end."""
    arrivals_only: bool = True
    """Whether it acts for urgent jobs alone. False: every change of the queue or of the running jobs may concern it."""
    planner: Planner[ConfigT] | None = None
    """None: it needs no plan."""


def require_durations(**settings: float) -> None:
    """Refuse settings that are not durations in seconds; for `__post_init__` of a policy's settings.

    Raises:
        ValueError: names the first setting that is negative or not finite.
    """
    for name, value in settings.items():
        if not (math.isfinite(value) and value >= 0.0):
            raise ValueError(f"{name} is {value!r}, wants a number of seconds, not negative")
