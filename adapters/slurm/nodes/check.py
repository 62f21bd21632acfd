"""Checks whether urgent jobs can use nodes that sleep to save power. A pure function of a `Survey`."""

from makeway.adapters.site.checks import Check, ok, warning
from makeway.adapters.site.text import printable
from makeway.adapters.slurm.nodes.hidden import hides_nodes
from makeway.adapters.slurm.nodes.states import wake_times
from makeway.adapters.slurm.settings import SlurmAdapterSettings
from makeway.adapters.slurm.survey import Survey


def check_power_saving(
    survey: Survey, section: SlurmAdapterSettings, start_within_s: float | None
) -> Check | None:
    """Whether nodes may sleep, and whether urgent jobs can wait for them.

    `start_within_s`: how soon urgent jobs have to start that do not say so themselves. None: unknown.
    """
    if survey.settings.get("SuspendProgram", "(null)") in {"", "(null)"}:
        return None
    found = wake_times(survey.settings)
    wakes = None if found is None else found.in_partitions(survey.layout)
    awake = (
        "keep the nodes of urgent jobs awake with SuspendExcNodes (now "
        f"{printable(survey.settings.get('SuspendExcNodes', '(null)'))}) or SuspendExcParts"
    )
    if wakes is None or section.sleeping_nodes == "down":
        return warning(
            "power saving",
            f"a node that sleeps or boots counts as down: jobs may leave although it could be woken; {awake}",
        )
    if start_within_s is not None and wakes.longest_s > start_within_s:
        return warning(
            "power saving",
            f"a node that sleeps may take ResumeTimeout, {wakes.longest_s:g} s, to wake: too long for urgent "
            f"jobs that have to start within {start_within_s:g} s, for which other jobs may leave; {awake}",
        )
    cloud = (
        "; cloud nodes only where PrivateData has `cloud`: without it Slurm does not show those that sleep"
    )
    return ok(
        "power saving",
        "nodes that sleep serve urgent jobs that can wait until they are awake (ResumeTimeout "
        f"{wakes.longest_s:g} s){cloud if hides_nodes(survey.settings, survey.release) else ''}",
    )
