"""How Slurm's commands are run, and what the controller that answers them can do."""

import secrets

from makeway.adapters.command import SEARCH_PATH, CommandRunner, CompletedCommand
from makeway.adapters.protocol import Capabilities, Unreadable
from makeway.adapters.slurm import build, parse
from makeway.adapters.slurm.settings import SlurmSettings


def runner_of(settings: SlurmSettings) -> CommandRunner:
    """What runs the commands of the Slurm that the settings name."""
    environment = {} if settings.conf is None else {"SLURM_CONF": settings.conf}
    if settings.bin_dir is not None:
        environment["PATH"] = f"{settings.bin_dir}:{SEARCH_PATH}"
    return CommandRunner(environment=environment)


def new_token() -> str:
    """Nothing that a user could have written; it begins with no digit, which would be read as a width."""
    return f"mw{secrets.token_hex(8)}"


def known(done: CompletedCommand, *, superuser: bool) -> tuple[Capabilities, tuple[int, int]]:
    """What the configuration tells of the cluster, and the release as year and month.

    Jobs can grow where slurm.conf permits it and we may act as their users, but not on 22.05, whatever it permits: see
    `slurm_build.RESIZES_CLEANLY`. Places can be taken back where Slurm computes priorities: with priority/basic, a job whose
    priority is set anew comes behind all others.

    Args:
        done: `scontrol show config`, as it answered.
        superuser: whether we may act as any user.

    Raises:
        Unreadable: it tells no version.
    """
    settings = parse.config(done.stdout)
    try:
        version = settings["SLURM_VERSION"]
        release = parse.release(version)
    except (KeyError, ValueError) as error:
        message = f"no version in the configuration ({error})"
        raise Unreadable(message, command=done.argv, text=done.stdout) from None
    permitted = "permit_job_expansion" in settings.get("SchedulerParameters", "").split(",")
    capabilities = Capabilities(
        name=f"{settings.get('ClusterName', 'cluster')}, Slurm {version}",
        expand=permitted and release >= build.RESIZES_CLEANLY and superuser,
        recomputes_priority=settings.get("PriorityType") == "priority/multifactor",
    )
    return capabilities, release
