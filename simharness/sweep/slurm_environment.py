"""The environment of Slurm's commands when a sweep calls them.

Slurm's commands take options from variables. Inside a job there are the variables of that job, and sbatch
prefers `SBATCH_TIMELIMIT` to the line in the script. So those variables are left out that would change what
the sweep asks for.
"""

import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager

_OF_A_JOB = ("SLURM_", "SLURMD_", "SRUN_", "SUBMITIT_")
"""What Slurm and submitit set in a job. sbatch and srun take options from some: `SLURM_MEM_PER_CPU`."""
_OF_CLIENTS = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"})
"""How Slurm is reached: these are no job's."""
_OF_ANSWERS = ("SQUEUE_", "SCANCEL_")
"""The user's filters and formats."""
_NAMES = {"array": "ARRAY_INX", "mem": "MEM_PER_NODE", "time": "TIMELIMIT"}
"""The variables of sbatch that are not called as their option."""


def asking() -> dict[str, str]:
    """The environment of squeue and scancel: this one, without variables that change which jobs they mean."""
    left_out = (*_OF_ANSWERS, *_OF_A_JOB)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return kept | {name: os.environ[name] for name in _OF_CLIENTS & os.environ.keys()}


@contextmanager
def submitting(options: Iterable[str]) -> Generator[None]:
    """Within the block, this process has no variable of a job, and none by which sbatch would be given
    another value of these options (long names). Other variables of sbatch, such as `SBATCH_ACCOUNT`, hold.
    """
    given = {f"SBATCH_{_NAMES.get(one, one.replace('-', '_').upper())}" for one in options}
    ours = [
        name
        for name in os.environ
        if name in given or (name.startswith(_OF_A_JOB) and name not in _OF_CLIENTS)
    ]
    before = {name: os.environ.pop(name) for name in ours}
    try:
        yield
    finally:
        os.environ.update(before)
