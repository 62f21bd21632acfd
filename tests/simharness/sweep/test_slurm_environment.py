"""The environment of Slurm's commands when a sweep calls them."""

import os

import pytest

from makeway.simharness.sweep.slurm_environment import asking, submitting


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        *("SBATCH_ACCOUNT", "SBATCH_ARRAY_INX", "SBATCH_CPUS_PER_TASK", "SBATCH_TIMELIMIT", "SCANCEL_STATE"),
        *("SLURM_CONF", "SLURM_JOB_ID", "SLURM_MEM_PER_CPU", "SQUEUE_PARTITION", "SUBMITIT_EXECUTOR"),
    ):
        monkeypatch.setenv(name, "1")


@pytest.mark.usefixtures("variables")
def test_questions_have_no_filters_of_the_user() -> None:
    told = {name for name in asking() if name.startswith(("SCANCEL_", "SLURM_", "SQUEUE_", "SUBMITIT_"))}
    assert told == {"SLURM_CONF"}
    assert asking()["PATH"] == os.environ["PATH"]


@pytest.mark.usefixtures("variables")
def test_sbatch_is_given_nothing_of_a_job_and_no_other_value_of_an_option() -> None:
    before = dict(os.environ)
    with submitting(("array", "cpus-per-task", "time")):
        assert before.keys() - os.environ.keys() == {
            *("SBATCH_ARRAY_INX", "SBATCH_CPUS_PER_TASK", "SBATCH_TIMELIMIT"),
            *("SLURM_JOB_ID", "SLURM_MEM_PER_CPU", "SUBMITIT_EXECUTOR"),
        }
        assert os.environ["SBATCH_ACCOUNT"] == "1"
    assert dict(os.environ) == before
