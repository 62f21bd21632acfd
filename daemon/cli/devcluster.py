"""The commands `devcluster up|down|status`: a real Slurm on this machine, for development and
demonstrations.
"""

import os
import re
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click

from makeway.adapters.devcluster import cluster as devcluster
from makeway.adapters.devcluster.cluster import DevClusterError
from makeway.adapters.devcluster.conf import DevSpec
from makeway.adapters.protocol import AdapterError
from makeway.daemon.errors import UserError, printable


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """The options of `up`, as click gives them."""

    nodes: int
    cpus: int
    memory_mb: int
    threads: int
    gpus: str | None
    memory_counts: bool
    version_root: Path | None
    folder: Path | None
    expansion: bool
    settings: tuple[str, ...]
    partitions: tuple[str, ...]


def up(options: UpOptions) -> None:
    """Start a cluster and print how to use it. An interrupted start leaves nothing behind.

    Raises:
        UserError: it cannot be started.
    """
    if options.cpus % options.threads:
        raise UserError(f"--threads {options.threads}: a divisor of --cpus {options.cpus} is expected")
    root = None if options.version_root is None else str(options.version_root.absolute())
    spec = DevSpec(
        node_count=options.nodes,
        cpus_per_node=options.cpus,
        memory_mb=options.memory_mb,
        threads_per_core=options.threads,
        memory_counts=options.memory_counts,
        root=root,
        expansion=options.expansion,
        settings=dict(_setting(text) for text in options.settings),
        partitions=options.partitions or DevSpec().partitions,
    )
    if options.gpus is not None:
        spec = replace(spec, gpus=dict.fromkeys(spec.nodes, _gpus(options.gpus)))
    folder = options.folder or default_folder(options.version_root)
    _require_own(folder)
    if not folder.parent.is_dir():
        where, above = printable(str(folder)), printable(str(folder.parent))
        raise UserError(f"{where}: there is no folder {above}; make it first")
    with _user_errors():
        cluster = devcluster.up(spec, folder)
    year, month = cluster.version
    given = "" if options.folder is None and root is None else f" --folder {cluster.folder}"
    inside = f", inside {root}" if root else ""
    click.echo(
        f"Slurm {year}.{month:02} with {options.nodes} nodes runs in "
        f"{printable(str(cluster.folder))}{inside}."
    )
    click.echo(f"    export SLURM_CONF={cluster.inner_folder}/slurm.conf       # for sinfo, sbatch and so on")
    click.echo(f"    adapter: {{type: slurm, conf: {cluster.inner_folder}/slurm.conf}}       # for makeway")
    click.echo(f"    makeway devcluster down{given}")


def down(folder: Path | None, version_root: Path | None) -> None:
    """Stop the cluster and remove its folder. It is no error if there is none.

    Raises:
        UserError: the folder does not belong to a cluster, or a process does not end.
    """
    folder = folder or default_folder(version_root)
    _require_own(folder)
    if not folder.exists():
        click.echo(f"no cluster in {printable(str(folder))}")
    with _user_errors():
        for sentence in devcluster.down(folder):
            click.echo(printable(sentence), err=True)


def status(folder: Path | None, version_root: Path | None) -> int:
    """Print which daemons run. Returns 1 if slurmctld does not run, else 0."""
    folder = folder or default_folder(version_root)
    if not folder.exists():
        click.echo(f"no cluster in {printable(str(folder))}")
        return 1
    _require_own(folder)
    with _user_errors():
        found = devcluster.status(folder)
    names = [process.name for process in found.running]
    listed = ", ".join(f"{names.count(name)} {name}" for name in sorted(set(names))) or "nothing"
    click.echo(printable(f"{found.folder}: {listed} running"))
    click.echo("\n".join(printable(line) for line in found.answer.splitlines()))
    return 0 if "slurmctld" in names else 1


def default_folder(version_root: Path | None) -> Path:
    """The default state folder of this user, inside the chroot if there is one."""
    return (version_root or Path("/")) / "tmp" / f"makeway-devcluster-{os.geteuid()}"


def _require_own(folder: Path) -> None:
    """Raise `UserError` if the folder belongs to another user, who could change what is started from it."""
    try:
        found = folder.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise UserError(
            f"{printable(str(folder))}: this must be a folder of your own; choose another with --folder"
        )


def _gpus(text: str) -> str:
    if not re.fullmatch(r"(?:\w+:)?[1-9]\d{0,2}", text, re.ASCII):
        raise UserError(
            f"--gpus {printable(text)}: a number such as 4, or a type and a number such as a100:4"
        )
    return text


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (equals and key.isalnum() and value.isprintable()):
        raise UserError(f"--set {printable(text)}: KEY=VALUE as in slurm.conf is expected")
    return key, value


@contextmanager
def _user_errors() -> Generator[None]:
    """Turn errors of the cluster into user errors."""
    try:
        yield
    except (DevClusterError, AdapterError) as error:
        raise UserError(str(error)) from error
