"""The state folder of a development cluster: how a chroot shows it, what is in it, what its logs say."""

import dataclasses
import json
import os
import pwd
import socket
from pathlib import Path, PurePosixPath

from makeway.adapters.devcluster.conf import DevSpec, other_files, slurm_conf
from makeway.adapters.devcluster.ports import loopback_address

RECORD = "devcluster.json"
"""The file by which a folder is known to be one."""


def inner_folder(folder: Path, root: str | None) -> PurePosixPath:
    """The folder as the cluster's own processes see it; `root` is their chroot. None: they are in none."""
    if root is None:
        return PurePosixPath(folder)
    return PurePosixPath("/") / folder.resolve().relative_to(Path(root).resolve())


def write_files(spec: DevSpec, folder: Path, version: tuple[int, int], ports: range) -> None:
    """Write the record, the configuration and the key."""
    record = {"spec": dataclasses.asdict(spec), "version": version}
    (folder / RECORD).write_text(json.dumps(record, indent=2) + "\n")
    host = socket.gethostname().split(".")[0]
    if spec.root is not None:
        # Inside the chroot the name of this machine resolves to loopback, whatever it resolves to outside.
        (Path(spec.root) / "etc" / "hosts").write_text(f"127.0.0.1 localhost {host}\n")
    inner = inner_folder(folder, spec.root)
    text = slurm_conf(
        spec,
        folder=inner,
        host=host,
        address="127.0.0.1" if spec.root else loopback_address(host),
        user=pwd.getpwuid(os.getuid()).pw_name,
        ports=ports,
    )
    for name, content in {"slurm.conf": text, **other_files(spec, version, inner)}.items():
        (folder / name).write_text(content)
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))


def log_ends(folder: Path) -> str:
    """The last lines of the logs of a cluster that did not come up."""
    ends: list[str] = []
    for path in (folder / "munge.log", folder / "slurmctld.log", folder / "slurmd.n1.log"):
        if path.exists():
            ends += [f"{path.name}: {line}" for line in path.read_text(errors="replace").splitlines()[-5:]]
    return "\n".join(ends)
