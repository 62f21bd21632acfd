"""What the command `replay` says on standard error before it begins."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from makeway.simharness.cli.output import measure_settings

if TYPE_CHECKING:
    from makeway.simharness.run.experiment import Experiment, Workload


def warn(workload: "Workload", experiments: "Sequence[Experiment]") -> None:
    """Say on standard error how the trace was read, which jobs were left out, and whether none is urgent."""
    from makeway.simharness.run.remarks import none_urgent, workload_remarks

    for remark in workload_remarks(workload):
        click.echo(f"makeway: {remark}", err=True)
    if not workload.urgent and any(experiment.policy != "none" for experiment in experiments):
        why = none_urgent(workload, experiments[0].synthesis)
        text = "no job of this workload is urgent: see --workload, --urgent and --class"
        click.echo(f"makeway: {text if why is None else f'{why}: see --urgent and --class'}", err=True)
    _warn_of_deadlines(workload, experiments)


def _warn_of_deadlines(workload: "Workload", experiments: "Sequence[Experiment]") -> None:
    """Say on standard error where a policy works towards another deadline than the one that is measured."""
    from makeway.policies.model import JobKind
    from makeway.simharness.run.deadlines import deadline_remark

    limits_s = {job.start_within_s for job in workload.jobs if job.kind is JobKind.ON_DEMAND}
    for one in experiments:
        measured_s = measure_settings(one.start_within_s).start_within_s
        remark = deadline_remark(
            one.policy,
            one.policy_settings,
            limits_s,
            measured_s,
            called=one.label,
            sets_both="--start-within",
        )
        if remark is not None:
            click.echo(f"makeway: {remark}", err=True)
