"""What every adapter must do, whatever cluster is behind it: one suite, written against a small `World`.

A test module makes a class of its own out of `AdapterConformance` and gives it a fixture `world`: an empty
cluster of six or more nodes that are up, on which a requeued job is held back for a while.
"""

from tests.adapters.conformance.giving_back import GivingBackConformance
from tests.adapters.conformance.keeping import KeepingConformance
from tests.adapters.conformance.leasing import LeasingConformance
from tests.adapters.conformance.making_way import MakingWayConformance
from tests.adapters.conformance.naming_runs import NamingRunsConformance
from tests.adapters.conformance.reading import ReadingConformance
from tests.adapters.conformance.refusing import RefusingConformance
from tests.adapters.conformance.resizing import ResizingConformance
from tests.adapters.conformance.world import (
    LONG_S,
    World,
    hold_of,
    job_of,
    over,
    running,
    runs,
    waiting,
    waits,
)

__all__ = [
    "LONG_S",
    "AdapterConformance",
    "World",
    "hold_of",
    "job_of",
    "over",
    "running",
    "runs",
    "waiting",
    "waits",
]


class AdapterConformance(
    ReadingConformance,
    MakingWayConformance,
    ResizingConformance,
    GivingBackConformance,
    KeepingConformance,
    RefusingConformance,
    NamingRunsConformance,
    LeasingConformance,
):
    """The suite. Subclasses say what `world` is."""
