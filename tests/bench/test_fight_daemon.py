"""The daemon's configuration in a fight is one that makeway accepts."""

import json
from pathlib import Path

import pytest
from bench.fight.arms import ARMS, GRACE_S, START_WITHIN_S
from bench.fight.daemon import configuration
from bench.fight.workload import Quality

from makeway.adapters.slurm.settings import SlurmAdapterSettings
from makeway.daemon.config.load import load
from makeway.daemon.config.mode import Mode


@pytest.mark.parametrize("policy", sorted({arm.policy for arm in ARMS if arm.policy}))
def test_makeway_accepts_the_configuration(tmp_path: Path, policy: str) -> None:
    path = tmp_path / "makeway.yaml"
    path.write_text(json.dumps(configuration(tmp_path / "slurm.conf", policy), indent=2))
    settings = load(path).settings
    assert settings.mode is Mode.ACT
    assert settings.policy.name == policy
    assert isinstance(settings.adapter, SlurmAdapterSettings)
    urgent, saving, fixed = (one.to_class() for one in settings.adapter.classes)
    assert sorted(urgent.qos) == [Quality.URGENT.value]
    assert urgent.start_within_s == START_WITHIN_S
    assert sorted(saving.qos) == sorted(fixed.qos) == [Quality.NORMAL.value]
    assert saving.checkpoint is not None
    assert saving.checkpoint.grace_s == GRACE_S
    assert fixed.checkpoint is None
