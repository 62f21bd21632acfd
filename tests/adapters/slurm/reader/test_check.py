"""What `doctor` says of the reader."""

import sys
from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.site.checks import Check, Level
from makeway.adapters.slurm.reader.check import check_reader
from makeway.adapters.slurm.settings import Reader
from tests.adapters.slurm.fake_slurm import SETTINGS, FakeSlurm
from tests.adapters.slurm.reader.told import JOB, SAME_ROW, Told


def checked(told: Told, reader: Reader) -> Check:
    settings = replace(SETTINGS, reader=reader, pyslurm_python=sys.executable, timeout_s=60.0)
    found = check_reader(settings, runner=FakeSlurm(dict(SAME_ROW)), starter=told.starter)
    assert told.children() == set()
    return found


def test_the_commands(told: Told) -> None:
    check = checked(told, Reader.CLI)
    assert (check.name, check.level) == ("reader", Level.OK)
    assert check.text == "squeue and scontrol read the cluster (adapter.reader: cli)"


@pytest.mark.parametrize("reader", [Reader.PYSLURM, Reader.AUTO])
def test_pyslurm(told: Told, reader: Reader) -> None:
    check = checked(told, reader)
    assert check.level is Level.OK
    assert check.text.startswith("pyslurm 24.11.2 reads the cluster, in a process of its own")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"at_import": "raise"}, "ImportError"),
        ({"version": "25.11.2"}, "is for another release than 24.11"),
        ({"jobs": [JOB | {"priority": 2}]}, "job 17: priority is 2 instead of 1"),
    ],
)
@pytest.mark.parametrize(("reader", "level"), [(Reader.PYSLURM, Level.PROBLEM), (Reader.AUTO, Level.WARNING)])
def test_a_pyslurm_that_does_not_serve(
    told: Told, reader: Reader, level: Level, changes: dict[str, Any], words: str
) -> None:
    told.tell(**changes)
    check = checked(told, reader)
    assert (check.name, check.level) == ("reader", level)
    assert words in check.text
    assert f"adapter.reader: {reader}" in check.text
