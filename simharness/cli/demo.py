"""The command `demo`: one workload with and without makeway, explained step by step."""

from dataclasses import replace
from pathlib import Path

import click

from makeway.simharness.cli.options import NAMED_FILE
from makeway.simharness.cli.output import require_outputs, show, write_page


@click.command()
@click.option("--policy", default="least-price", show_default=True, help="The policy that decides.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the workload."
)
@click.option("--report", type=NAMED_FILE, help="Write the HTML report there.")
def demo(policy: str, seed: int, report: Path | None) -> None:
    """Replay a small workload on a simulated cluster with and without makeway.

    Sixty-four nodes, two and a half busy days, twenty urgent jobs. The daemon's own loop takes every
    decision, in virtual time.
    """
    require_outputs(report, {"--report": report})
    from makeway.simharness.run.demo import tell
    from makeway.simharness.run.experiment import Experiment, run
    from makeway.simharness.run.loading import load_workload

    base = Experiment(seed=seed)
    workload = load_workload(base)
    plain = run(base, workload)
    acted = tell(replace(base, policy=policy), workload, click.echo)
    records = [plain, acted]
    show(records, None, None, None)
    if report is not None:
        write_page(report, records, "makeway demo", None)
