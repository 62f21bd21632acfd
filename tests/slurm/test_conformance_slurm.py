"""Slurm's commands on a real Slurm pass the suite that every adapter passes."""

import pytest

from tests.adapters.conformance import AdapterConformance

pytestmark = pytest.mark.slurm


class TestSlurmCliAdapter(AdapterConformance):
    """The fixture `world` is the folder's."""

    world = None
