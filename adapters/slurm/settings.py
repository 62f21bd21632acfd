"""What a site says about its Slurm: where it is, and the classes of its jobs."""

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from makeway.adapters.protocol import Unavailable
from makeway.adapters.site.class_sections import JobClasses
from makeway.adapters.site.job_class import JobClass
from makeway.adapters.site.sections import AdapterSection, FilePath
from makeway.adapters.site.trust import distrust


class Placing(StrEnum):
    """Which nodes may serve a job as a whole, for policies that ask."""

    ANY = "any"  # any nodes
    TOPOLOGY = "topology"  # those of one switch, at whatever level, or of one block


class Price(StrEnum):
    """Which part of a node a job that shares it counts as."""

    DOMINANT_SHARE = "dominant_share"  # the largest of its parts of the node's CPUs, memory and GPUs
    BILLING_WEIGHTS = "billing_weights"  # by TRESBillingWeights, where the job's partition has some


class Reader(StrEnum):
    """What reads jobs, nodes, partitions and reservations."""

    CLI = "cli"  # squeue and scontrol
    PYSLURM = "pyslurm"  # pyslurm, in a process of its own
    AUTO = "auto"  # pyslurm as long as it works and agrees with squeue and scontrol, else those


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """Where Slurm is, and the classes of its jobs."""

    classes: tuple[JobClass, ...] = ()
    """The first class whose conditions a job fulfils is its class. A job of no class is rigid and never
    touched.
    """
    conf: str | None = None
    """The path of slurm.conf. None: where Slurm's commands look if SLURM_CONF is not set."""
    bin_dir: str | None = None
    """The folder of Slurm's commands. None: the usual ones of the system."""
    timeout_s: float = 20.0
    """How long a command may take."""
    placements: Placing = Placing.ANY
    """Whether an urgent job gets any nodes, or under policy `wcjs` the nodes of one switch or block."""
    price: Price = Price.DOMINANT_SHARE
    """What a job that shares a node counts as."""
    tell_jobs: bool = True
    """Whether a job that has to leave is told so by a line in its output."""
    instance: str | None = None
    """The name of this makeway among several on the cluster. None: the cluster's own name."""
    reader: Reader = Reader.CLI
    """What reads jobs, nodes, partitions and reservations. Slurm's commands make all changes."""
    pyslurm_python: str | None = None
    """The Python interpreter that has pyslurm. None: makeway's own."""
    sleeping_nodes: Literal["free", "down"] = "free"
    """What nodes count as that sleep to save power. Free: for urgent jobs that can wait until they are awake.
    """

    def require_paths(self) -> None:
        """Raises `Unavailable` if `bin_dir` has no scontrol, or else if there is no such slurm.conf. Else the
        commands of another Slurm would run, or scontrol would wait a minute for the file.

        What is in `bin_dir` may see other files than makeway does, as in a chroot.
        """
        if self.bin_dir is not None:
            if not os.access(f"{self.bin_dir}/scontrol", os.X_OK):
                raise Unavailable(f"adapter.bin_dir: {self.bin_dir} has no scontrol that can be run")
        elif self.conf is not None and not os.path.exists(self.conf):
            raise Unavailable(f"adapter.conf, or SLURM_CONF: there is no {self.conf}")


class SlurmAdapterSettings(AdapterSection):
    """A real Slurm, by its commands: `SlurmSettings`, with ranges."""

    type: Literal["slurm"] = Field(description="slurm")
    """Chooses this adapter."""
    classes: JobClasses = Field(
        default=(),
        description="a list of mappings, each a class of jobs with its name, conditions and properties",
    )
    conf: FilePath | None = Field(
        default=None,
        description=(
            "the path of slurm.conf, or null for that of SLURM_CONF in the environment, else where Slurm's "
            "commands look by themselves"
        ),
    )
    bin_dir: FilePath | None = Field(
        default=None, description="the folder of Slurm's commands, or null for the system's usual ones"
    )
    timeout_s: float = Field(default=20.0, ge=0.1, le=600, description="seconds from 0.1 to 600")
    placements: Placing = Field(
        default=Placing.ANY,
        description=(
            "any (nodes), or topology (urgent jobs that need whole nodes get those of one switch or "
            "block, where the policy is least-price, eviction or wcjs)"
        ),
    )
    price: Price = Field(
        default=Price.DOMINANT_SHARE,
        description=(
            "dominant_share (a job on part of a node counts as its largest part of the CPUs, the memory or "
            "the GPUs), or billing_weights (as its part by the partition's TRESBillingWeights)"
        ),
    )
    tell_jobs: bool = Field(
        default=True,
        description="true or false: whether a job that has to leave is told so by a line in its output",
    )
    instance: str | None = Field(
        default=None,
        pattern="^[A-Za-z0-9-]{1,32}$",
        description=(
            "a name of 1 to 32 letters, digits and hyphens, another one for each makeway on this cluster, or "
            "null for the name of the cluster"
        ),
    )
    reader: Reader = Field(
        default=Reader.CLI,
        description=(
            "cli (squeue and scontrol read the cluster), pyslurm (pyslurm does, in a process of its own), or "
            "auto (pyslurm if it works and reads the same as squeue and scontrol, else those)"
        ),
    )
    pyslurm_python: FilePath | None = Field(
        default=None, description="the path of the Python interpreter that has pyslurm, or null for makeway's"
    )
    sleeping_nodes: Literal["free", "down"] = Field(
        default="free",
        description=(
            "free (a node that sleeps to save power serves urgent jobs that can wait until it is awake), or "
            "down (it serves none)"
        ),
    )

    @field_validator("bin_dir", "pyslurm_python")
    @classmethod
    def _trusted(cls, path: Path | None) -> Path | None:
        if path is None or os.geteuid() != 0:
            return path
        try:
            path.stat()
            why = distrust(path)
        except (FileNotFoundError, NotADirectoryError):
            return path  # `makeway doctor` finds no command there
        except OSError as error:
            raise ValueError(
                f"{path} cannot be looked at: {error.strerror}; accepted: a path that root can reach"
            ) from error
        if why is not None:
            raise ValueError(f"commands are run from there: {why}")
        return path

    @field_validator("bin_dir")
    @classmethod
    def _one_folder(cls, path: Path | None) -> Path | None:
        if path is not None and ":" in str(path):
            raise ValueError("one folder is expected, without a colon in its name")
        return path

    def to_settings(self) -> SlurmSettings:
        """The same as the adapter has it. Without `conf`: SLURM_CONF of the environment."""
        return SlurmSettings(
            classes=tuple(one.to_class() for one in self.classes),
            conf=os.environ.get("SLURM_CONF") or None if self.conf is None else str(self.conf),
            bin_dir=None if self.bin_dir is None else str(self.bin_dir),
            timeout_s=self.timeout_s,
            placements=self.placements,
            price=self.price,
            tell_jobs=self.tell_jobs,
            instance=self.instance,
            reader=self.reader,
            pyslurm_python=None if self.pyslurm_python is None else str(self.pyslurm_python),
            sleeping_nodes=self.sleeping_nodes,
        )
