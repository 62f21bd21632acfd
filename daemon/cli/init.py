"""The command `init`: the files that a site installs, with its own partitions, QOS and paths in them."""

import sys
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING

import click

from makeway.daemon.errors import UserError, printable

if TYPE_CHECKING:
    from makeway.adapters.registry import ClusterNames

SAMPLE_FOLDER = "/opt/makeway"
"""Where the shipped files say that they are."""
SAMPLE_URGENT = "qos: [realtime]"
SAMPLE_EVICTABLE = "partitions: [preemptible]"
SAMPLE_CONF = "conf: null "
JOB_SUBMIT = "job_submit.lua"
SAMPLE_LUA_QOS = 'local urgent_qos = { ["realtime"] = true }'
SAMPLE_LUA_PARTITIONS = "local urgent_partitions = {}"
COPIED = ("alerts.yaml", "grafana-dashboard.json", "makeway-job.sh", "makeway-done", "JOBS.md")
EXAMPLES = "examples"
HOMES = ("/home", "/root", "/run/user")
"""What a unit with ProtectHome=yes does not see."""
PLAIN = "/_.-+@,:="
"""What a path may have besides letters and digits."""
EXECUTABLE = 0o755
READABLE = 0o644


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--urgent-qos", multiple=True, metavar="QOS", help="A QOS that makes jobs urgent.")
@click.option(
    "--urgent-partition",
    "urgent_partitions",
    multiple=True,
    metavar="NAME",
    help="A partition whose jobs are urgent.",
)
@click.option(
    "--evictable-partition",
    "evictable_partitions",
    multiple=True,
    metavar="NAME",
    help="A partition whose jobs may be interrupted.",
)
@click.option(
    "--conf",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The slurm.conf of this Slurm [default: where Slurm's commands look].",
)
def init(
    folder: Path,
    urgent_qos: tuple[str, ...],
    urgent_partitions: tuple[str, ...],
    evictable_partitions: tuple[str, ...],
    conf: Path | None,
) -> None:
    """Write a configuration for this Slurm into DIR, with all files of an installation.

    They are the unit, the dashboard, the alerts, the job helper, the page for users, and a job_submit.lua by
    which makeway sees an urgent job at once.

    Partitions and QOS are read from the cluster if it answers. What no option says is asked for on a
    terminal. Existing files are left alone. The mode is observe.
    """
    from makeway.daemon.config.load import load

    folder = folder.absolute()
    _require_plain(folder, conf)
    _require_free(folder)
    names = _cluster_names(conf)
    if urgent_qos and urgent_partitions:
        raise UserError("--urgent-qos and --urgent-partition: accepted: one of the two, add more in the file")
    if not urgent_qos and not urgent_partitions:
        urgent_qos = _asked(
            "Which QOS makes a job urgent; Enter if a partition does",
            "--urgent-qos or --urgent-partition",
            names.qos,
        )
        if not urgent_qos:
            urgent_partitions = _asked(
                "Which partitions are for urgent jobs", "--urgent-partition", names.partitions
            )
    evictable = evictable_partitions or _asked(
        "In which partitions may jobs be interrupted", "--evictable-partition", names.partitions
    )
    if not evictable or not (urgent_qos or urgent_partitions):
        raise UserError(
            "init: a QOS or partition of urgent jobs and a partition to take nodes from are needed"
        )
    _require_known("--urgent-qos", urgent_qos, names.qos)
    _require_known("--urgent-partition", urgent_partitions, names.partitions)
    _require_known("--evictable-partition", evictable, names.partitions)
    _require_apart(urgent_partitions, evictable)
    urgent = f"qos: {_listed(urgent_qos)}" if urgent_qos else f"partitions: {_listed(urgent_partitions)}"
    _write(folder, urgent, f"partitions: {_listed(evictable)}", conf)
    _write_job_submit(folder, urgent_qos, urgent_partitions)
    load(folder / "makeway.yaml")
    _tell(folder, conf)


def program() -> Path:
    """The command `makeway` of this installation."""
    return Path(sys.executable).parent / "makeway"


def _tell(folder: Path, conf: Path | None) -> None:
    """Say what comes next, and which files the unit hides from the daemon. `conf` None: slurm.conf is at its
    usual place.
    """
    click.echo(f"Written to {folder}. Next: makeway doctor --config {folder / 'makeway.yaml'}")
    places = [
        ("configuration", folder, "write it into /etc/makeway"),
        ("program", Path(sys.executable), f"install it in {SAMPLE_FOLDER}"),
        *([] if conf is None else [("slurm.conf", conf.absolute(), "put it into /etc/slurm")]),
    ]
    for what, place, instead in places:
        for path in (place, place.resolve()):
            if any(path.is_relative_to(home) for home in HOMES):
                click.echo(
                    f"makeway.service cannot start like this: its ProtectHome=yes hides the {what} in "
                    f"{path}. Instead, {instead}."
                )
                break


def _cluster_names(conf: Path | None) -> "ClusterNames":
    """The partitions and QOS of the cluster; empty where none answers."""
    from makeway.adapters.registry import find_adapter

    adapter = find_adapter("slurm")
    names = adapter.names(adapter.section(type="slurm", conf=conf))
    if not names.partitions:
        click.echo("makeway: no Slurm answers here: names of partitions and QOS are not checked", err=True)
    return names


def _require_plain(folder: Path, conf: Path | None) -> None:
    """Raises `UserError` if a path means something else in one of the files: systemd, sh, Lua and YAML read
    them.
    """
    for option, path in (("DIR", folder), ("--conf", folder if conf is None else conf.absolute())):
        if wrong := next((one for one in str(path) if not one.isalnum() and one not in PLAIN), None):
            raise UserError(
                f"{option} {printable(str(path))}: the unit and the scripts cannot have the character "
                f"'{printable(wrong)}' in a path; accepted: letters, digits, and {PLAIN}"
            )


def _require_free(folder: Path) -> None:
    """Raises `UserError` if the folder cannot be made, or has one of the files already."""
    written = ("makeway.yaml", "makeway.service", JOB_SUBMIT, *COPIED)
    try:
        present = S_ISDIR(folder.parent.stat().st_mode)
        there = [name for name in written if (folder / name).exists()]
    except (FileNotFoundError, NotADirectoryError):
        present, there = False, []
    except OSError as error:
        raise UserError(f"{folder}: cannot be looked at: {error.strerror}; choose another folder") from error
    if not present:
        raise UserError(f"{folder}: there is no folder {folder.parent}; make it first")
    if there:
        raise UserError(f"{folder / there[0]}: it exists; choose another folder, or move it away")


def _asked(question: str, option: str, known: Sequence[str]) -> tuple[str, ...]:
    """The answer to a question on the terminal, as names. Raises `UserError` if there is no terminal."""
    if not sys.stdin.isatty():
        raise UserError(f"{option}: missing; it is asked for only on a terminal")
    hint = f" ({', '.join(known)})" if known else ""
    answer: str = click.prompt(f"{question}{hint}", default="", show_default=False)
    return tuple(answer.replace(",", " ").split())


def _require_known(option: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if known and name not in known:
            raise UserError(
                f"{option} {printable(name)}: the cluster has none of this name; it has {', '.join(known)}"
            )
        if not name or any(not (letter.isalnum() or letter in "_.-") for letter in name):
            raise UserError(f"{option} {printable(name)}: accepted: letters, digits, and _.-")


def _require_apart(urgent_partitions: Sequence[str], evictable: Sequence[str]) -> None:
    """Raises `UserError` if every job that may be interrupted would be urgent."""
    if set(evictable) <= set(urgent_partitions):
        raise UserError(
            f"--evictable-partition {', '.join(evictable)}: all jobs there are urgent (--urgent-partition), "
            "and no urgent job is interrupted; accepted: another partition, or --urgent-qos"
        )


def _listed(names: Sequence[str]) -> str:
    """A list in YAML, of names that YAML would not take for anything else."""
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def _write(folder: Path, urgent: str, evictable: str, conf: Path | None) -> None:
    shipped = files("makeway.deploy")
    try:
        folder.mkdir(exist_ok=True)
        text = (shipped / "makeway-slurm.yaml").read_text(encoding="utf-8")
        text = text.replace(SAMPLE_URGENT, urgent).replace(SAMPLE_EVICTABLE, evictable)
        if conf is not None:
            text = text.replace(SAMPLE_CONF, f'conf: "{conf.absolute()}" ')
        (folder / "makeway.yaml").write_text(text, encoding="utf-8")
        unit = (shipped / "makeway.service").read_text(encoding="utf-8")
        unit = unit.replace(f"{SAMPLE_FOLDER}/bin/makeway", str(program()))
        unit = unit.replace("/etc/makeway/makeway.yaml", str(folder / "makeway.yaml"))
        (folder / "makeway.service").write_text(unit, encoding="utf-8")
        for name in COPIED:
            _copy(shipped / name, folder / name, folder)
        (folder / EXAMPLES).mkdir(exist_ok=True)
        for one in (shipped / EXAMPLES).iterdir():
            if one.is_file():
                _copy(one, folder / EXAMPLES / one.name, folder)
    except OSError as error:
        raise UserError(f"{error.filename or folder}: cannot be written ({error.strerror})") from error


def _write_job_submit(folder: Path, urgent_qos: Sequence[str], urgent_partitions: Sequence[str]) -> None:
    """Write the script for slurmctld, with the names that make a job urgent."""
    text = (files("makeway.deploy") / JOB_SUBMIT).read_text(encoding="utf-8")
    text = text.replace(SAMPLE_LUA_QOS, f"local urgent_qos = {_lua_set(urgent_qos)}")
    text = text.replace(SAMPLE_LUA_PARTITIONS, f"local urgent_partitions = {_lua_set(urgent_partitions)}")
    text = text.replace(f"{SAMPLE_FOLDER}/bin/makeway", str(program()))
    text = text.replace("/etc/makeway/makeway.yaml", str(folder / "makeway.yaml"))
    try:
        (folder / JOB_SUBMIT).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{folder / JOB_SUBMIT}: cannot be written ({error.strerror})") from error


def _lua_set(names: Sequence[str]) -> str:
    """A table of Lua that has these names as keys. The names were checked: none has a quote."""
    return "{ " + ", ".join(f'["{name}"] = true' for name in names) + " }" if names else "{}"


def _copy(source: Traversable, target: Path, folder: Path) -> None:
    """Copy a shipped file, with the folder in which it is now."""
    text = source.read_text(encoding="utf-8").replace(SAMPLE_FOLDER, str(folder))
    target.write_text(text, encoding="utf-8")
    target.chmod(EXECUTABLE if text.startswith("#!") else READABLE)
