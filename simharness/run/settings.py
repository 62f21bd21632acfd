"""The section of a configuration that describes a simulated cluster."""

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from makeway.adapters.site.sections import AdapterSection, below_folder


class SimulatedSettings(AdapterSection):
    """A cluster that replays a trace."""

    type: Literal["simulated"] = Field(description="simulated")
    """Chooses this adapter."""
    trace: str = Field(default="sample", min_length=1, description="`sample`, or the path of an SWF file")
    """The workload."""
    nodes: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="a whole number of nodes from 1 to 1000000, or null for the trace's own",
    )
    """How many nodes the cluster has."""
    backfill: Literal["none", "easy", "conservative"] = Field(
        default="easy", description="none, easy or conservative"
    )
    """The backfill of the base scheduler."""
    order: Literal["fcfs", "wfp"] = Field(default="fcfs", description="fcfs or wfp")
    """The order of the base scheduler's queue."""
    speed: float = Field(
        default=60.0,
        gt=0,
        le=1e6,
        description="simulated seconds in one real second, above 0 and at most 1000000",
    )
    """How fast the simulated time passes."""
    start_s: float = Field(
        default=0.0,
        ge=0,
        le=1e9,
        description="seconds after the trace's first event, from 0 to 1000000000, that are over at the start",
    )
    """Where in the trace the simulation starts."""
    seed: int = Field(default=0, ge=0, lt=2**32, description="a whole number from 0 to 4294967295")
    """Of the random choices of `workload`."""
    workload: Literal["W1", "W2", "W3", "W4", "W5"] | None = Field(
        default="W5",
        description="W1, W2, W3, W4 or W5 (kinds of jobs and notices), or null for the trace as it is",
    )
    """Which mix of job kinds and advance notices the jobs of the trace get."""

    @field_validator("trace")
    @classmethod
    def _below_folder(cls, trace: str, info: ValidationInfo) -> str:
        return trace if trace == "sample" else str(below_folder(Path(trace), info))
