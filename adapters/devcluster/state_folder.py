"""The state folder of a development cluster: how it is seen in a chroot, and what its logs say."""

from pathlib import Path, PurePosixPath


def inner_folder(folder: Path, root: str | None) -> PurePosixPath:
    """The folder as the cluster's own processes see it; `root` is their chroot. None: they are in none."""
    if root is None:
        return PurePosixPath(folder)
    return PurePosixPath("/") / folder.resolve().relative_to(Path(root).resolve())


def log_ends(folder: Path) -> str:
    """The last lines of the logs of a cluster that did not come up."""
    ends: list[str] = []
    for path in (folder / "munge.log", folder / "slurmctld.log", folder / "slurmd.n1.log"):
        if path.exists():
            ends += [f"{path.name}: {line}" for line in path.read_text(errors="replace").splitlines()[-5:]]
    return "\n".join(ends)
