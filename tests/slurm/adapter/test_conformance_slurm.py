"""Slurm's commands on a real Slurm pass the suite that every adapter passes."""

import pytest

from tests.adapters.conformance import AdapterConformance, World
from tests.slurm.support.world import SlurmWorld

pytestmark = pytest.mark.slurm


class TestSlurmCliAdapter(AdapterConformance):
    @pytest.fixture
    def world(self, slurm_world: SlurmWorld) -> World:
        return slurm_world
