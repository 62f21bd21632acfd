"""The drop-in of docs/security.md by which shrunk jobs grow back: it gives what that needs, and no more."""

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from makeway.adapters.slurm.build import allocate_expander
from tests.adapters.slurm.jobs.raw_jobs import RUNNING
from tests.paths import DEPLOY, ROOT

EXPOSURE = 2.3
"""What `systemd-analyze security` may say at the most, as the page says."""


@pytest.fixture
def drop_in() -> str:
    page = (ROOT / "docs" / "security.md").read_text()
    (block,) = re.findall(r"^```ini\n\[Service\]\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert f"`systemd-analyze security` says {EXPOSURE}" in page
    return str(block)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_drop_in_lets_root_act_as_the_users_of_jobs(drop_in: str, tmp_path: Path) -> None:
    said = dict(line.split("=", 1) for line in drop_in.splitlines())
    assert (said["User"], said["SystemCallFilter"]) == ("root", "@setuid capset"), "setpriv calls capset"
    kept = [f"+{name.removeprefix('CAP_').lower()}" for name in said["CapabilityBoundingSet"].split()]
    service = ("setpriv", f"--bounding-set={','.join(['-all', *kept])}", "--inh-caps=-all", "--no-new-privs")
    job = replace(RUNNING, user_id="5", group_id="60")
    as_user = " ".join(allocate_expander(job, ("n1",), reservation=None)[:5])
    os.mkfifo(runs := tmp_path / "runs")
    script = (
        f'{as_user} sh -c \'echo; exec sleep 60\' >"$1" & read -r _ <"$1"; kill -KILL $! && {as_user} id -u'
    )
    argv = [*service, "sh", "-c", script, "sh", str(runs)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "5"), done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_the_unit_stays_hardened_with_it(drop_in: str, tmp_path: Path) -> None:
    unit = tmp_path / "makeway.service"
    unit.write_text(
        (DEPLOY / "makeway.service").read_text().replace("\n[Install]", f"\n{drop_in}\n[Install]")
    )
    threshold = str(round(EXPOSURE * 10))
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={threshold}", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr
    assert "Service runs as root" in done.stdout
