"""A fake pyslurm for each test."""

from pathlib import Path

import pytest

from tests.adapters.slurm.reader.told import Told


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)
