"""The sdist is enough: a wheel built from it alone works in an empty virtual environment, without extras."""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.paths import ROOT

FOLDERS = ("adapters", "daemon", "deploy", "policies", "simharness")
"""The folders whose files are installed below `makeway`."""
NOT_INSTALLED = ("deploy/Containerfile", "deploy/package/", "deploy/pyslurm/")
"""For a checkout only."""
MADE = shutil.ignore_patterns("__pycache__", "*.egg-info", ".?*", "build", "dist", "out")
"""What is made in a checkout: an sdist built next to it could take its files from an earlier list."""


def run(*argv: str | Path, folder: Path) -> str:
    """Run a program in a folder, without the checkout on its path. Returns its output; it has to succeed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    # Without a Slurm of this machine. Its commands wait for a missing file, and refuse an empty one at once.
    environment["SLURM_CONF"] = os.devnull
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{argv}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel that pip builds from the sdist, and what it requires."""
    folder = tmp_path_factory.mktemp("wheel")
    source = shutil.copytree(ROOT, folder / "source", ignore=MADE)
    run(sys.executable, "-m", "build", "--sdist", "--outdir", folder, source, folder=folder)
    shutil.rmtree(source)
    (sdist,) = folder.glob("*.tar.gz")
    venv = folder / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv, folder=folder)
    pip = (sys.executable, "-m", "pip", "--python", venv / "bin/python")
    run(*pip, "install", "--quiet", "--no-compile", sdist, folder=folder)
    return venv


def shipped() -> Iterator[str]:
    """The files of the checkout that an installation has, as paths below `makeway`."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.is_file() and "__pycache__" not in name and not name.startswith(NOT_INSTALLED):
                yield name


def test_a_wheel_from_the_sdist_has_every_file(installed: Path) -> None:
    (makeway,) = installed.glob("lib/python*/site-packages/makeway")
    found = {path.relative_to(makeway).as_posix() for path in makeway.rglob("*") if path.is_file()}
    assert {name for name in found if "__pycache__" not in name} == set(shipped())


def test_an_installation_without_extras_works(installed: Path, tmp_path: Path) -> None:
    makeway = installed / "bin/makeway"
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert run(makeway, "--version", folder=tmp_path) == f"makeway {version}\n"
    assert "cannot be loaded" not in run(makeway, "--help", folder=tmp_path)
    options = ("--urgent-qos", "urgent", "--evictable-partition", "scavenge")
    run(makeway, "init", "site", *options, folder=tmp_path)
    assert f"ExecStart={makeway} run" in (tmp_path / "site/makeway.service").read_text()
    checked = run(makeway, "check-config", "site/makeway.yaml", folder=tmp_path)
    assert "mode: observe" in checked.splitlines()
    assert "of 20 urgent jobs started on time" in " ".join(run(makeway, "demo", folder=tmp_path).split())
