"""What `makeway doctor` says of the reader: which one it is, and why."""

from contextlib import closing

from makeway.adapters.command import CommandRunner, Runner
from makeway.adapters.protocol import AdapterError
from makeway.adapters.site.checks import Check, ok, problem, warning
from makeway.adapters.site.text import printable
from makeway.adapters.slurm.access import SlurmClient, runner_of
from makeway.adapters.slurm.reader.source import AutomaticSource, pyslurm_source
from makeway.adapters.slurm.settings import Reader, SlurmSettings

_COMMANDS = "squeue and scontrol read the cluster"


def check_reader(
    settings: SlurmSettings, *, runner: Runner | None = None, starter: CommandRunner | None = None
) -> Check:
    """Read the cluster once as the settings ask for, and say what has read it.

    Where pyslurm is asked for, it is compared with the commands, also if nothing falls back to them.

    Args:
        settings: where Slurm is, and the reader.
        runner: what runs the commands. None: one that follows the settings.
        starter: what starts the process with pyslurm. None: as for the commands.
    """
    if settings.reader is Reader.CLI:
        return ok("reader", f"{_COMMANDS} (adapter.reader: cli)")
    client = SlurmClient(settings, runner)
    pyslurm = pyslurm_source(settings, client, starter or runner_of(settings))
    why = ""
    with closing(AutomaticSource(client, pyslurm)) as source:
        try:
            source.read()
            why = source.why
        except AdapterError as error:
            why = printable(" ".join(str(error).split()))
    if not why:
        text = f"pyslurm {printable(pyslurm.version)} reads the cluster, in a process of its own"
        return ok("reader", f"{text}; it reads the same as squeue and scontrol")
    if settings.reader is Reader.AUTO:
        return warning("reader", f"{_COMMANDS} (adapter.reader: auto): {why}")
    return problem(
        "reader",
        f"pyslurm does not serve (adapter.reader: pyslurm): {why}; set adapter.pyslurm_python to the "
        "interpreter that has pyslurm of Slurm's own release, or adapter.reader to cli",
    )
