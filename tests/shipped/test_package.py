"""The sources of the packages. `make deb-test` and `make rpm-test` install the packages themselves."""

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import click
import pytest

from makeway.daemon.cli.main import cli
from tests.paths import DEPLOY
from tests.shipped.rpm_header import RpmTag, read_header

PACKAGE = DEPLOY / "package"


def test_every_command_has_a_man_page_with_its_whole_summary(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(PACKAGE / "man_pages.py"), str(tmp_path)], check=True)
    names = cli.list_commands(click.Context(cli))
    assert {f"makeway-{name}.1" for name in names} | {"makeway.1"} <= {one.name for one in tmp_path.iterdir()}
    assert (tmp_path / "makeway-devcluster-up.1").is_file()
    page = (tmp_path / "makeway.1").read_text()
    assert "makeway \\- Make way for urgent jobs on a Slurm cluster, at the least loss of the work" in page
    assert "\\fBstop\\fP\n  End the running daemon." in page


def test_shellcheck_finds_nothing(shellcheck: str) -> None:
    scripts = sorted(map(str, PACKAGE.glob("*.sh")))
    done = subprocess.run([shellcheck, *scripts], capture_output=True, text=True, check=False)
    assert done.stdout == ""


def pack(packager: str, architecture: str, folder: Path) -> Path:
    """A package as build.sh makes it, with one file in each place."""
    shutil.copytree(PACKAGE, folder, dirs_exist_ok=True)
    for name in (
        "stage/opt/makeway/bin/makeway",
        "stage/usr/bin/makeway",
        "stage/usr/lib/systemd/system/a.service",
    ):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(name)
    (folder / "files").mkdir()
    for name in ("makeway.yaml", "_makeway", "LICENSE"):
        (folder / "files" / name).write_text(name)
    settings = {"MAKEWAY_VERSION": "1.2.3", "MAKEWAY_PYTHON": "3.11", "MAKEWAY_ARCHITECTURE": architecture}
    nfpm = Path(sys.executable).with_name("nfpm")
    command = [str(nfpm), "package", "--config", "nfpm.yaml", "--packager", packager, "--target", "."]
    subprocess.run(command, cwd=folder, env={**os.environ, **settings}, check=True, capture_output=True)
    (made,) = folder.glob(f"*.{packager}")
    return made


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg here")
def test_a_debian_package_has_the_names_and_folders_of_debian(tmp_path: Path) -> None:
    made = pack("deb", "arm64", tmp_path)
    assert made.name == "makeway_1.2.3_arm64.deb"
    fields = dict.fromkeys(("Architecture", "Depends", "Recommends"), "")
    for field in fields:
        done = subprocess.run(["dpkg-deb", "-f", made, field], check=True, capture_output=True, text=True)
        fields[field] = done.stdout.strip()
    needs = "python3.11, libstdc++6, passwd"
    assert fields == {"Architecture": "arm64", "Depends": needs, "Recommends": "slurm-client"}
    tar = subprocess.run(["dpkg-deb", "--fsys-tarfile", made], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(tar)) as files:
        names = {one.name.removeprefix(".") for one in files.getmembers() if one.isfile()}
    assert names >= {"/etc/makeway/makeway.yaml", "/usr/bin/makeway", "/usr/share/doc/makeway/copyright"}
    assert [name for name in names if name.endswith("/_makeway")] == [
        "/usr/share/zsh/vendor-completions/_makeway"
    ]


def test_an_rpm_has_the_names_and_folders_of_el(tmp_path: Path) -> None:
    made = pack("rpm", "arm64", tmp_path)
    assert made.name == "makeway-1.2.3-1.aarch64.rpm"
    header = read_header(made)
    assert header.texts[RpmTag.ARCHITECTURE] == ["aarch64"]
    assert header.texts[RpmTag.LICENCE] == ["Apache-2.0"]
    assert header.texts[RpmTag.SUMMARY] == ["Makes way for urgent jobs on a Slurm cluster"]
    needs = {name for name in header.texts[RpmTag.NEEDS] if not name.startswith("rpmlib(")}
    assert needs == {"python3.11", "libstdc++", "shadow-utils"}
    assert header.texts[RpmTag.RECOMMENDS] == ["slurm"]
    files = header.files()
    assert "/usr/lib/systemd/system/a.service" in files
    assert "/usr/share/doc/makeway/LICENSE" in files
    assert [name for name in files if name.endswith("/_makeway")] == [
        "/usr/share/zsh/site-functions/_makeway"
    ]
    assert {name for name, one in files.items() if one.kept} == {"/etc/makeway/makeway.yaml"}
    folders = {name for name, one in files.items() if one.folder}
    assert folders == {"/etc/makeway", "/opt/makeway", "/opt/makeway/bin"}, "others are of EL's own packages"
