"""The command line. Only click is imported here: each command imports what it needs when it runs.

`run_cli` is the whole program: it turns the user's errors into one line on standard error and exit status 2.
"""

import atexit
import gc
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from makeway.daemon.cli.control import handover, pause, poke, resume
from makeway.daemon.cli.ending import (
    complain,
    ended_by,
    open_standard_streams,
    show_any_character,
    usage_text,
)
from makeway.daemon.cli.joined import JoinedCommands
from makeway.daemon.cli.options import (
    CONFIG_PATH,
    FILE,
    JOURNAL_PATH,
    SOCKET_PATH,
    Shell,
    config_option,
    duration,
    from_config,
    resources,
    socket_option,
)
from makeway.daemon.errors import CANNOT_GO_ON
from makeway.daemon.service.pacing import COLLECT_AFTER

if TYPE_CHECKING:
    from makeway.daemon.config.load import AdapterFactory

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(
    cls=JoinedCommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(package_name="makeway", message="makeway %(version)s")
def cli() -> None:
    """Make way for urgent jobs on a Slurm cluster, at the least loss of the work already running."""


@cli.command()
@config_option
@click.pass_obj
def run(shell: Shell, config: Path | None) -> int:
    """Run the daemon in the foreground.

    SIGHUP reads the configuration again, SIGTERM ends it after the present cycle.
    """
    from makeway.daemon.service.service import serve

    return serve(config or CONFIG_PATH, shell.factories)


@cli.command("check-config")
@click.argument("file", type=FILE)
def check_config(file: Path) -> None:
    """Check a configuration FILE and print it with every default written out."""
    from makeway.daemon.config.load import effective, load

    click.echo(effective(load(file)), nl=False)


@cli.command()
@config_option
@_json_option
@click.pass_obj
def doctor(shell: Shell, config: Path | None, as_json: bool) -> int:
    """Look for problems that would keep makeway from working here.

    Checks the configuration, the folders, the cluster, and the settings of Slurm that matter to makeway.
    Changes nothing. Exit status 1 if there is a problem.
    """
    from makeway.daemon.cli import doctor as cli_doctor

    return cli_doctor.show(shell.factories, config or CONFIG_PATH, as_json=as_json)


@cli.command()
@click.option("--nodes", type=click.IntRange(min=1), help="How many nodes the urgent job wants.")
@click.option(
    "--per-node",
    type=resources,
    metavar="TRES",
    help="What it wants of each node, such as cpu=8,mem=16G,gres/gpu=2 [default: whole nodes].",
)
@click.option(
    "--like", metavar="JOB", help="The request of this job, which waits or runs, instead of --nodes."
)
@click.option(
    "--deadline", type=duration, default="15m", show_default=True, help="Time from now until it has to start."
)
@click.option(
    "--walltime", type=duration, help="How long it may run [default: 1h, or the time limit of --like]."
)
@click.option("--step", type=duration, help="Resolution of the deadlines [default: at most 60 steps].")
@click.option(
    "--shrink/--no-shrink",
    default=None,
    help=(
        "Whether malleable jobs may give nodes instead of leaving [default: as policy eviction is "
        "configured]."
    ),
)
@config_option
@click.option(
    "--journal", type=FILE, help="Use a stored snapshot of this journal instead of the present cluster."
)
@click.option(
    "--decision",
    type=click.IntRange(min=1),
    help="The decision whose snapshot to use [default: the latest; needs --journal].",
)
@_json_option
@click.argument("submission", metavar="[-- SBATCH OPTIONS]", nargs=-1)
@click.pass_obj
def whatif(shell: Shell, /, **options: Any) -> None:
    """What making room for an urgent job now would cost.

    The job is given by --nodes, by --like, or after -- as for sbatch: makeway whatif -- -p gpu --gres=gpu:2.

    Prints the least loss of work for every deadline up to --deadline, and for each loss which jobs would have
    to leave, and how, when checkpoints are written one after another. Changes nothing.
    """
    from makeway.daemon.cli import whatif as cli_whatif

    cli_whatif.show(shell.factories, cli_whatif.WhatIfOptions(**options))


@cli.command()
@click.argument("decision", required=False)
@config_option
@click.option("--job", "job_id", metavar="JOB", help="What happened to this job, instead of one decision.")
@click.option("--journal", type=FILE, help="The journal [default: the configuration's].")
@_json_option
def explain(
    decision: str | None, job_id: str | None, config: Path | None, journal: Path | None, as_json: bool
) -> None:
    """Why a DECISION was taken: its candidates, their costs, and what became of its actions.

    DECISION is its number in the log, or `last`. Without it, the latest decisions are listed.
    """
    from makeway.daemon.cli import explain as cli_explain

    path = journal or from_config(config, "journal", JOURNAL_PATH)
    if job_id is None:
        cli_explain.show(path, decision, as_json=as_json)
    elif decision is None:
        cli_explain.show_job(path, job_id, as_json=as_json)
    else:
        raise click.UsageError("accepted: a DECISION or --job, not both")


@cli.command()
@click.option(
    "--since", type=duration, help="How far back from the newest decision [default: all that is kept]."
)
@config_option
@click.option("--journal", type=FILE, help="The journal [default: the configuration's].")
@_json_option
def summary(since: float | None, config: Path | None, journal: Path | None, as_json: bool) -> None:
    """The decisions of some days, and what became of them.

    In observe mode: which urgent jobs would have been served, which jobs would have had to leave at what
    loss, and when plain Slurm started the urgent jobs.
    """
    from makeway.daemon.cli import summary as cli_summary

    cli_summary.show(journal or from_config(config, "journal", JOURNAL_PATH), since, as_json=as_json)


@cli.command()
@click.option("--nodes", type=click.IntRange(min=1), required=True, help="How many nodes it will want.")
@click.option("--walltime", type=duration, required=True, help="How long it may run.")
@click.option("--in", "in_s", type=duration, required=True, help="When it is expected, from now.")
@click.option(
    "--user", help="User of the job [default: you; another user only for root and the daemon's user]."
)
@click.option(
    "--per-node",
    type=resources,
    metavar="TRES",
    help="What it will want of each node, such as cpu=8,mem=16G,gres/gpu=2 [default: whole nodes].",
)
@socket_option
@config_option
def notice(
    nodes: int,
    walltime: float,
    in_s: float,
    user: str | None,
    per_node: Mapping[str, int] | None,
    socket: Path | None,
    config: Path | None,
) -> None:
    """Announce an urgent job to the running daemon. Prints the id of the announcement."""
    from makeway.daemon.cli import control as cli_control

    path = socket or from_config(config, "socket", SOCKET_PATH)
    cli_control.notice(path, nodes=nodes, walltime_s=walltime, in_s=in_s, user=user, per_node=per_node)


for _command in (poke, pause, resume, handover):
    cli.add_command(_command)


@cli.group()
def devcluster() -> None:
    """A real Slurm on this machine, on loopback, for development and demonstrations."""


_FOLDER = click.Path(path_type=Path, file_okay=False)
_folder_option = click.option(
    "--folder",
    type=_FOLDER,
    help="State folder [default: /tmp/makeway-devcluster-UID, in the chroot if there is one].",
)
_root_option = click.option(
    "--version-root",
    type=_FOLDER,
    help="Chroot with another Slurm, as deploy/install-slurm-chroot.sh makes it.",
)


@devcluster.command()
@click.option("--nodes", type=click.IntRange(1, 4096), default=8, show_default=True, help="How many nodes.")
@click.option("--cpus", type=click.IntRange(1, 1024), default=2, show_default=True, help="CPUs of a node.")
@click.option(
    "--memory-mb", type=click.IntRange(1), default=1000, show_default=True, help="Memory of a node."
)
@click.option("--threads", type=click.IntRange(1, 8), default=1, show_default=True, help="CPUs of a core.")
@click.option("--gpus", metavar="[TYPE:]COUNT", help="GPUs of a node, such as a100:4 [default: none].")
@click.option("--memory-counts", is_flag=True, help="Give memory to jobs by amounts, not only cores.")
@_root_option
@_folder_option
@click.option(
    "--expansion/--no-expansion", default=True, show_default=True, help="Whether running jobs may grow."
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A line of slurm.conf that replaces the default one.",
)
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="LINE",
    help="A partition line that replaces the default one.",
)
def up(**options: Any) -> None:
    """Start a cluster of nodes n1, n2, ... and wait until every node is idle."""
    from makeway.daemon.cli import devcluster as cli_devcluster

    cli_devcluster.up(cli_devcluster.UpOptions(**options))


@devcluster.command()
@_root_option
@_folder_option
def down(version_root: Path | None, folder: Path | None) -> None:
    """Cancel the jobs, stop the cluster and remove its folder, also after an interrupted start."""
    from makeway.daemon.cli import devcluster as cli_devcluster

    cli_devcluster.down(folder, version_root)


@devcluster.command("status")
@_root_option
@_folder_option
def devcluster_status(version_root: Path | None, folder: Path | None) -> int:
    """Print which daemons run, and the output of sinfo. Exit status 1 if there is no cluster."""
    from makeway.daemon.cli import devcluster as cli_devcluster

    return cli_devcluster.status(folder, version_root)


@cli.command()
@click.argument("shell_name", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell_name: str) -> None:
    """Print the completion script for SHELL (bash, zsh or fish).

    \b
    bash:  makeway completion bash > ~/.local/share/bash-completion/completions/makeway
    zsh:   makeway completion zsh > ~/.zfunc/_makeway     (with ~/.zfunc in fpath)
    fish:  makeway completion fish > ~/.config/fish/completions/makeway.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell_name)
    assert kind is not None
    click.echo(kind(cli, {}, "makeway", "_MAKEWAY_COMPLETE").source())


def main() -> int:
    """Run `makeway` with the arguments of the process. Returns the exit status.

    SIGTERM ends a command as Ctrl-C does. Afterwards the process ends by that signal, so that its parent sees
    why.
    """
    terminated = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        # Batch systems end a job by SIGTERM: no worker and no command of Slurm may be left behind.
        nonlocal terminated
        terminated = True
        raise KeyboardInterrupt

    def end() -> None:
        if terminated:
            with suppress(OSError):  # the reader of the output may be gone
                sys.stdout.flush()
            signal.raise_signal(signal.SIGTERM)

    open_standard_streams()
    atexit.register(end)  # the first one is called last: process pools have tidied up then
    before, thresholds = signal.signal(signal.SIGTERM, interrupt), gc.get_threshold()
    gc.set_threshold(*COLLECT_AFTER)
    try:
        return run_cli(sys.argv[1:])
    finally:
        gc.set_threshold(*thresholds)
        signal.signal(signal.SIGTERM, before)


def run_cli(
    arguments: Sequence[str], *, factories: "Mapping[str, AdapterFactory]" = MappingProxyType({})
) -> int:
    """Run one command. Returns the exit status: for the user's errors 2, or what the error itself says; each
    of them is one line.

    Args:
        arguments: the command line without the program's name.
        factories: ways to open a cluster, by the adapter's name, that replace its own.
    """
    show_any_character(sys.stdout, sys.stderr)
    try:
        result = cli.main(
            args=list(arguments), prog_name="makeway", standalone_mode=False, obj=Shell(factories=factories)
        )
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return CANNOT_GO_ON
    except click.UsageError as error:
        where = f" (see `{error.ctx.command_path} --help`)" if error.ctx is not None else ""
        return complain([usage_text(error) + where])
    except click.ClickException as error:
        return complain([" ".join(error.format_message().split())])
    except click.Abort:
        return 130
    except Exception as error:
        if (status := ended_by(error)) is None:
            raise
        return status
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    sys.exit(main())
