"""The unit and the sample configuration as they are shipped."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from makeway.adapters.site.class_sections import CheckpointSettings, JobClassSettings
from makeway.adapters.slurm.settings import SlurmAdapterSettings
from makeway.daemon.config.load import load
from makeway.daemon.config.mode import Mode
from makeway.daemon.config.schema import SOCKET_PATH_LIMIT
from makeway.daemon.errors import CANNOT_GO_ON, TRY_AGAIN
from makeway.policies.model import JobKind
from tests.paths import DEPLOY

UNIT = DEPLOY / "makeway.service"
EXPOSURE = 1.5
"""What `systemd-analyze security` may say at the most: 0 is nothing exposed, 10 everything."""


class _Unit(configparser.RawConfigParser):
    def optionxform(self, optionstr: str) -> str:
        return optionstr


def service() -> dict[str, str]:
    unit = _Unit(strict=False)
    unit.read_string(UNIT.read_text())
    return dict(unit["Service"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_the_unit_is_hardened() -> None:
    threshold = str(round(EXPOSURE * 10))
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={threshold}", str(UNIT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


def test_the_unit_hides_nothing_that_the_daemon_reads() -> None:
    said = service()
    assert "ProcSubset" not in said, "which boot it is, and the memory that the daemon uses, are not told"


def test_the_unit_fits_the_service() -> None:
    said = service()
    assert said["Type"] == "notify"
    assert said["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert said["User"] == "makeway"
    assert said["Restart"] == "on-failure"
    assert said["RestartPreventExitStatus"] == str(CANNOT_GO_ON)
    assert (said["StateDirectoryMode"], said["UMask"]) == ("0700", "0077")
    assert said["Group"] != said["User"], "who may use the socket may not read the journal"
    assert str(TRY_AGAIN) not in said["RestartPreventExitStatus"].split()
    assert said["KillMode"] == "mixed", "the Slurm command under way is not ended with the daemon"
    assert int(said["WatchdogSec"]) > 0
    assert said["MemoryMax"]


@pytest.mark.parametrize("name", ["makeway.yaml", "makeway-slurm.yaml"])
def test_the_sample_configurations_fit_the_unit(name: str) -> None:
    settings = load(DEPLOY / name).settings
    said = service()
    assert settings.mode is Mode.OBSERVE
    assert settings.journal.parent == Path("/var/lib") / said["StateDirectory"]
    assert settings.socket.parent == Path("/run") / said["RuntimeDirectory"]
    assert len(bytes(settings.socket)) <= SOCKET_PATH_LIMIT
    assert said["ExecStart"].endswith("run --config /etc/makeway/makeway.yaml")


def test_the_sample_for_slurm_touches_only_jobs_that_opted_in() -> None:
    sample = DEPLOY / "makeway-slurm.yaml"
    settings = load(sample).settings
    assert settings.mode is Mode.OBSERVE
    assert isinstance(settings.adapter, SlurmAdapterSettings)
    by_name = {one.name: one for one in settings.adapter.to_settings().classes}
    (urgent,) = (one for one in by_name.values() if one.kind is JobKind.ON_DEMAND)
    assert urgent.qos
    taken_from = [one for one in by_name.values() if one.preemptible]
    assert taken_from
    assert all(one.partitions == {"preemptible"} for one in taken_from)
    saving = by_name["saving"].checkpoint
    assert saving is not None
    assert saving.system_s is not None
    # The sample has every setting of the Slurm adapter.
    named = set(re.findall(r"\b(\w+)\b", sample.read_text()))
    for section in (SlurmAdapterSettings, JobClassSettings, CheckpointSettings):
        assert named >= set(section.model_fields)
