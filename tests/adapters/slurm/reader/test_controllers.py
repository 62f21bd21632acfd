"""What `scontrol show config` says of several slurmctld."""

import pytest

from makeway.adapters.site.checks import Level
from makeway.adapters.slurm.reader.controllers import check_controllers, controllers
from tests.adapters.slurm.test_parse import RELEASES, captured

TWO = "Configuration data as of 1000\nSlurmctld(primary) at a is {}\nSlurmctld(backup) at b is {}\n"


@pytest.mark.parametrize("release", sorted(RELEASES))
def test_one_that_is_alone_is_not_mentioned(release: str) -> None:
    found = controllers(captured(release, "config"))
    assert found == (("host", True),)
    assert check_controllers(found) is None


@pytest.mark.parametrize(
    ("primary", "backup", "level", "words"),
    [
        ("UP", "UP", Level.OK, "every slurmctld answers: a, b"),
        ("DOWN", "UP", Level.WARNING, "slurmctld on a, the primary one, does not answer"),
        ("UP", "DOWN", Level.WARNING, "slurmctld on b, a backup, does not answer"),
    ],
)
def test_one_of_two_that_does_not_answer(primary: str, backup: str, level: Level, words: str) -> None:
    found = check_controllers(controllers(TWO.format(primary, backup)))
    assert found is not None
    assert (found.level, words in found.text) == (level, True)
