"""The section of a configuration that describes a PBS Pro."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from makeway.adapters.site.class_sections import JobClasses
from makeway.adapters.site.sections import AdapterSection, FilePath


class PbsAdapterSettings(AdapterSection):
    """A PBS Pro, by its commands. Of the conditions of a class, `partitions` are queues and `accounts` -A or
    -P.

    A PBS job has no QOS and no features: a class that asks for one has no jobs.
    """

    type: Literal["pbs"] = Field(description="pbs")
    """Chooses this adapter."""
    classes: JobClasses = Field(
        default=(),
        description="a list of mappings, each a class of jobs with its name, conditions and properties",
    )
    """The first class whose conditions a job fulfils is its class. A job of no class is rigid and never
    touched."""
    bin_dir: FilePath = Field(
        default=Path("/opt/pbs/bin"),
        description="the path of the directory with qstat and pbsnodes",
    )
    """The folder of qstat and pbsnodes."""
    timeout_s: float = Field(default=20.0, ge=0.1, le=600, description="seconds from 0.1 to 600")
    """How long a command may take."""
