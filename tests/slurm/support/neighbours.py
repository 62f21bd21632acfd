"""Jobs that share nodes with an urgent job: one of them leaves, or none, and the others run on."""

from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.story import SAVES, URGENT, Story, nothing_is_left, starts_on_the_held_nodes
from tests.waiting import await_that

MORE_CYCLES = 4
"""After so many more cycles, a daemon that has not acted does not act."""


def shares(story: Story, node: str, *options: str, account: str = "saving", script: str = SAVES) -> str:
    """A job on a part of one node, which works until the test is over."""
    job_id = story.submit(script, 1, account, f"--nodelist={node}", *options)
    story.workers.append(job_id)
    await_that(f"job {job_id} works", lambda: len(story.steps(job_id)) > 3, lambda: story.ask("squeue"))
    return job_id


def urgent_comes(story: Story, *options: str) -> str:
    """An urgent job, which runs until the test lets it end."""
    story.urgent.append(story.submit(URGENT, 1, "urgent", "--time=30", *options))
    return story.urgent[-1]


def fits_beside_its_neighbours(story: Story, daemon: DaemonProcess, urgent: str, victims: set[str]) -> None:
    """The urgent job runs; one of these jobs has left, and all others have run on without a break."""
    starts_on_the_held_nodes(story, daemon, urgent)
    (left,) = story.lenders()
    assert left in victims
    assert all(story.runs(one) and not story.restarts(one) for one in story.workers if one != left)
    await_that("the hold is over while it runs", lambda: not story.reservations(), story.explain(daemon))
    assert story.runs(urgent)
    story.ends(urgent)
    await_that("the lender works again", lambda: story.runs(left), story.explain(daemon))
    nothing_is_left(story, daemon)


def looks_again(daemon: DaemonProcess) -> None:
    """Wait until the daemon has looked so often that it would have acted."""
    cycles = daemon.status()["cycles"]
    await_that("more cycles pass", lambda: daemon.status()["cycles"] >= cycles + MORE_CYCLES, daemon.log)


def waits_and_none_leaves(story: Story, daemon: DaemonProcess, urgent: str, *whys: str) -> None:
    """The urgent job waits, `explain` says why in some of these words, and all workers run on without a
    break.
    """
    await_that(
        f"it is explained why {urgent} waits",
        lambda: any(why in daemon.run("explain", "last").stdout for why in whys),
        story.explain(daemon),
    )
    looks_again(daemon)
    # A heterogeneous job has a state for each of its components.
    assert set(story.state(urgent).split()) == {"PENDING"}
    assert all(story.runs(one) and not story.restarts(one) for one in story.workers)
    assert daemon.commands() == ()
