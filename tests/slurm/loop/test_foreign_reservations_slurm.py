"""The daemon on a real Slurm leaves reservations alone that only look like its own."""

import pytest

from makeway.policies.model import Release
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.story import Story
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="24.11")]

AS_MAKEWAY = ("Flags=IGNORE_JOBS,NO_HOLD_JOBS_AFTER", "Users=root", "StartTime=now", "Duration=60")


def reserve(story: Story, node: str, name: str, *options: str) -> None:
    """Make a reservation of one node, as an administrator would."""
    create = ("scontrol", "create", "reservation", f"ReservationName={name}", f"Nodes={node}")
    story.world.cluster.run(*create, *options)


def names(story: Story) -> set[str]:
    return {one.name for one in story.world.adapter.snapshot().reservations}


def test_a_name_alone_does_not_make_a_reservation_an_orphan(story: Story, start_daemon: StartDaemon) -> None:
    """Only what has makeway's name, instance, flags and shape is released."""
    prefix = story.world.prefix
    plain = ("Users=root", "StartTime=now", "Duration=60")
    reserve(story, "n1", "mw_1", *plain)  # as Slurm calls an unnamed reservation of a user `mw`
    reserve(story, "n2", f"{prefix}17", *plain)
    reserve(story, "n3", "makeway_test.17", *AS_MAKEWAY)  # another makeway's
    reserve(story, "n4", "mw_17", *AS_MAKEWAY)  # no job 17 is bound to it
    theirs = names(story)
    assert len(theirs) == 4
    orphans = {f"{prefix}18", f"{prefix}notice-1-2-3", "mw_notice-1-2-3"}
    for number, name in enumerate(sorted(orphans), start=5):
        reserve(story, f"n{number}", name, *AS_MAKEWAY)
    daemon = start_daemon()
    await_that("the orphans are released", lambda: names(story) == theirs, story.explain(daemon))
    cycles = daemon.status()["cycles"]
    await_that("it looks again", lambda: daemon.status()["cycles"] > cycles + 2, story.explain(daemon))
    assert names(story) == theirs
    released = [one.action.reservation for one in daemon.commands() if isinstance(one.action, Release)]
    assert sorted(released) == sorted(orphans)
