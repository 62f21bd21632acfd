"""The command `swarm`: the daemon in random troubles, and whether it keeps the laws."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from makeway.daemon.errors import UserError

if TYPE_CHECKING:
    from makeway.simharness.swarm.campaign import Campaign
    from makeway.simharness.swarm.law import Violation
    from makeway.simharness.swarm.story import Story

_SHOWN = 10
_PROGRESS_STORIES = 200


@click.command()
@click.option(
    "--stories", type=click.IntRange(min=1), default=200, show_default=True, help="How many stories."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the first story."
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    help="Only these policies [default: all that take nodes from jobs and need no solver].",
)
@click.option("--trouble", "troubles", multiple=True, help="Only these kinds of trouble [default: all].")
@click.option(
    "--jobs", "workers", type=click.IntRange(min=1), default=1, show_default=True, help="Stories at a time."
)
@click.option(
    "--story",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Play the story in this file instead of random ones.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    help="Shorten each story that breaks a law, and write it into this folder.",
)
def swarm(
    stories: int,
    seed: int,
    policies: tuple[str, ...],
    troubles: tuple[str, ...],
    workers: int,
    files: tuple[Path, ...],
    keep: Path | None,
) -> int:
    """Run the whole daemon on simulated clusters in random troubles, and check every law.

    Each story is a random workload under one policy, in which answers get lost, the controller hangs, the
    daemon is killed, journals are lost, users hold and cancel jobs, and more. Equal seeds give equal stories.
    The exit status is 1 if a law was broken.
    """
    from makeway.simharness.swarm.campaign import Campaign, tell_all

    if keep is not None:
        _require_folder(keep)
    chosen = [_read(path) for path in files] or _drawn(stories, seed, policies, troubles)
    campaign, failures = Campaign(), 0
    try:
        for campaign in tell_all(chosen, workers):
            for story, violation in campaign.failures[failures:]:
                click.echo(_broken(story, violation), err=True)
            failures = len(campaign.failures)
            _progress(campaign)
    except KeyboardInterrupt:
        click.echo(f"interrupted: {campaign.stories} of {len(chosen)} stories are told", err=True)
        if campaign.stories:
            _print(campaign, troubles, drawn=not files)
        raise
    _print(campaign, troubles, drawn=not files)
    if keep is not None:
        _keep(campaign, keep)
    return 1 if campaign.failures else 0


def _print(campaign: "Campaign", troubles: tuple[str, ...], *, drawn: bool) -> None:
    """The figures and the first failures. `drawn`: the stories are drawn from seeds, not read from files."""
    from makeway.simharness.swarm.campaign import KEPT_IN, kept_line

    for line in campaign.lines():
        click.echo(line)
    by_seed = sorted(campaign.failures, key=lambda failure: failure[0].seed)
    for story, violation in by_seed[:_SHOWN]:
        click.echo(_broken(story, violation))
        if drawn:
            click.echo(f"  once it is mended, keep it in {KEPT_IN}:\n{kept_line(story, violation, troubles)}")
    if len(campaign.failures) > _SHOWN:
        click.echo(f"and {len(campaign.failures) - _SHOWN} stories more")


def _broken(story: "Story", violation: "Violation") -> str:
    return f"seed {story.seed}, {story.policy}: {violation.law} at {violation.at_s:.0f} s: {violation.text}"


def _drawn(count: int, seed: int, policies: tuple[str, ...], troubles: tuple[str, ...]) -> "list[Story]":
    from makeway.simharness.swarm.drawing import POLICIES, draw
    from makeway.simharness.swarm.story import TroubleKind

    unknown = [name for name in policies if name not in POLICIES]
    if unknown:
        raise UserError(f"--policy {unknown[0]}: accepted: {', '.join(POLICIES)}")
    kinds = tuple(TroubleKind)
    wrong = [name for name in troubles if name not in kinds]
    if wrong:
        raise UserError(f"--trouble {wrong[0]}: accepted: {', '.join(kinds)}")
    chosen = tuple(kind for kind in kinds if not troubles or kind in troubles)
    return [draw(one, policies=policies or POLICIES, kinds=chosen) for one in range(seed, seed + count)]


def _require_folder(keep: Path) -> None:
    """Make the folder of `--keep`. Raises `UserError` if that cannot be done, or it cannot be written."""
    if not keep.parent.is_dir():
        raise UserError(f"--keep {keep}: there is no folder {keep.parent}; make it first")
    try:
        keep.mkdir(exist_ok=True)
        tempfile.TemporaryFile(dir=keep).close()
    except OSError as error:
        raise UserError(f"--keep {keep}: cannot be written ({error.strerror})") from error


def _read(path: Path) -> "Story":
    from pydantic import ValidationError

    from makeway.policies.registry import find
    from makeway.simharness.swarm.daemons import cluster_of
    from makeway.simharness.swarm.story import decode

    try:
        story = decode(path.read_text(encoding="utf-8"))
        find(story.policy)
        cluster_of(story)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise UserError(f"{path}: no story of the swarm: {where}: {first['msg']}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: no story of the swarm: {error}") from None
    return story


def _progress(campaign: "Campaign") -> None:
    if campaign.stories % _PROGRESS_STORIES == 0:
        click.echo(f"{campaign.stories} stories, {len(campaign.failures)} broke a law", err=True)


def _keep(campaign: "Campaign", folder: Path) -> None:
    from makeway.simharness.results.files import write_file
    from makeway.simharness.swarm.campaign import shortest
    from makeway.simharness.swarm.story import encode

    for story, violation in campaign.failures:
        short = shortest(story, violation.law)
        path = folder / f"{violation.law.replace('_', '-')}-{story.seed}.json"
        write_file(path, encode(short) + "\n")
        click.echo(f"{path}: {len(short.jobs)} jobs, {len(short.troubles)} troubles")
