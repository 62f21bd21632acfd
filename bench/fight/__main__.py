"""`make bench-fight`: plain Slurm, its own preemption and makeway, on the same workload on a real Slurm."""

import shutil
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

import click
from bench.fight.arms import ARMS, Arm
from bench.fight.measure import measure
from bench.fight.picture import picture_html
from bench.fight.play import Interrupted, play, read_played, was_played
from bench.fight.progress import BadProgress
from bench.fight.report import Round, as_json, grids, markdown, targets
from bench.fight.service import NotServing
from bench.fight.workload import workload
from rich.console import Console

from makeway.adapters.devcluster.cluster import DevClusterError
from makeway.adapters.protocol import AdapterError
from makeway.simharness.papers.common.page import grid_table

_NAMES = tuple(arm.name for arm in ARMS)


@click.command()
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of the first round.")
@click.option(
    "--rounds",
    "count",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="How often every arm is played, each time with the next seed.",
)
@click.option("--arm", "names", type=click.Choice(_NAMES), multiple=True, help="Only this arm; repeatable.")
@click.option(
    "--at-once",
    type=click.IntRange(1, len(ARMS)),
    default=2,
    show_default=True,
    help="How many arms are played at the same time, each on a cluster of its own.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/fight"),
    show_default=True,
    help="The folder of the report, and of what each arm leaves.",
)
@click.option("--report-only", is_flag=True, help="Play nothing: measure again what the folder has.")
def fight(
    seed: int, count: int, names: tuple[str, ...], at_once: int, out: Path, *, report_only: bool
) -> None:
    """Play the same workload under every arm, and compare what urgent jobs cost the others."""
    arms = [arm for arm in ARMS if not names or arm.name in names]
    seeds = range(seed, seed + count)
    try:
        if not report_only:
            _play_all([(arm, one) for one in seeds for arm in arms], at_once, out)
        rounds = [_round(one, arms, out) for one in seeds]
    except (NotServing, DevClusterError, AdapterError, BadProgress, OSError) as error:
        raise click.ClickException(str(error)) from None
    _report([one for one in rounds if one.outcomes], out)


def _folder(out: Path, seed: int, arm: Arm) -> Path:
    return out / f"seed-{seed}" / arm.name


def _play_all(plays: Sequence[tuple[Arm, int]], at_once: int, out: Path) -> None:
    """Play each arm with its seed. An interrupt or a failure stops all that are being played."""
    stop = threading.Event()

    def play_one(arm: Arm, seed: int) -> None:
        def say(text: str) -> None:
            click.echo(f"{time.strftime('%X')} seed {seed}, {arm.name}: {text}", err=True)

        keep = _folder(out, seed, arm)
        shutil.rmtree(keep, ignore_errors=True)
        try:
            play(arm, workload(seed), keep, say, stop)
        except Interrupted:
            say("interrupted")
        except BaseException:
            stop.set()
            raise

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    # Threads cannot be interrupted: they look at `stop`.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    with ThreadPoolExecutor(at_once) as pool:
        for done in [pool.submit(play_one, arm, seed) for arm, seed in plays]:
            done.result()
    if stop.is_set():
        sys.exit(130)


def _round(seed: int, arms: Sequence[Arm], out: Path) -> Round:
    """What the arms with that seed left in the folder, measured."""
    folders = [(arm, _folder(out, seed, arm)) for arm in arms]
    outcomes = [(arm, measure(read_played(folder))) for arm, folder in folders if was_played(folder)]
    return Round(seed=seed, outcomes=tuple(outcomes))


def _report(rounds: Sequence[Round], out: Path) -> None:
    """Print the report, and write it into the folder."""
    if not rounds:
        raise click.ClickException(f"{out} has no results of these arms and seeds")
    console = Console()
    for grid in grids(rounds):
        console.print(grid_table(grid))
        console.print()
    for target in targets(rounds):
        console.print(f"{target.says}: {target.verdict} ({'; '.join(target.measured)})", highlight=False)
    for name, text in (
        ("fight.md", markdown(rounds)),
        ("fight.json", as_json(rounds)),
        ("fight.html", picture_html(rounds)),
    ):
        (out / name).write_text(text)
        click.echo(f"wrote {out / name}")


if __name__ == "__main__":
    fight()
