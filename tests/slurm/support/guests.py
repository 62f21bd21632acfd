"""An announced urgent job, for which nodes are collected, and a guest that uses these nodes meanwhile."""

from dataclasses import dataclass

from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.story import (
    COUNT,
    SAVES,
    URGENT,
    WHOLE_NODES,
    Story,
    nothing_is_left,
    starts_on_the_held_nodes,
    works_again,
)
from tests.waiting import await_that

COUNTS = COUNT + "count\n"


def announce(daemon: DaemonProcess, node_count: int) -> str:
    """Announce an urgent job that comes in ten minutes. Returns the id of the notice."""
    told = daemon.run("notice", f"--nodes={node_count}", "--walltime=10m", "--in=10m")
    assert told.status == 0, told.stderr
    return told.stdout.strip()


def held_for(story: Story, notice_id: str) -> set[str]:
    """The nodes of a notice's reservation. Empty: there is none."""
    name = story.world.prefix + notice_id
    held = [one for one in story.world.adapter.snapshot().reservations if one.name == name]
    return {node for one in held for node in one.nodes}


def comes(story: Story, node_count: int, notice_id: str) -> str:
    """The announced job arrives. Its comment names the notice."""
    told = story.submit(URGENT, node_count, "urgent", f"--comment=makeway:notice={notice_id}", *WHOLE_NODES)
    story.urgent.append(told)
    return told


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldNodesQueue:
    """Two jobs fill the cluster. Two wait, and only the second of these may be evicted."""

    short: str
    other: str
    batch: str
    guest: str


def queue_for_held_nodes(story: Story) -> HeldNodesQueue:
    """Fill the cluster and queue the two."""
    short, other = (story.submit(COUNTS, 4, "other") for _ in range(2))
    story.works(short, other)
    batch = story.submit("exec sleep 600", 2, "other")
    guest = story.submit(SAVES, 2, "elastic")
    return HeldNodesQueue(short=short, other=other, batch=batch, guest=guest)


def guest_runs_and_leaves(
    story: Story, daemon: DaemonProcess, queue: HeldNodesQueue, *, once: bool = True
) -> None:
    """The guest runs on held nodes until the announced job comes, and resumes from its checkpoint later.

    `once`: see `works_again`.
    """
    freed = story.nodes(queue.short)
    guest = queue.guest
    explain = story.explain(daemon)
    notice_id = announce(daemon, 4)
    await_that("the hold spans every node", lambda: len(held_for(story, notice_id)) == 8, explain)
    story.ends(queue.short)
    await_that("the guest works", lambda: story.runs(guest) and len(story.steps(guest)) > 1, explain)
    story.workers.append(guest)
    await_that(
        "its own hold is gone", lambda: story.reservations() == [story.world.prefix + notice_id], explain
    )
    await_that("the free nodes are held", lambda: held_for(story, notice_id) == freed, explain)
    assert story.nodes(guest) < freed
    assert story.state(queue.batch) == "PENDING", "it may not be evicted, and it would be first"

    urgent = comes(story, 4, notice_id)
    starts_on_the_held_nodes(story, daemon, urgent)
    assert story.nodes(urgent) == freed
    assert (story.state(guest), story.restarts(guest)) == ("PENDING", 1)
    assert story.runs(queue.other)
    assert story.state(queue.batch) == "PENDING"

    story.ends(urgent)
    works_again(story, daemon, guest, once=once)
    nothing_is_left(story, daemon)
