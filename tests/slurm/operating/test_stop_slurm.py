"""`makeway stop --restore` on a real Slurm."""

import re

import pytest

from makeway.adapters.slurm.build import FRONT_PRIORITY
from makeway.policies.model import QUEUE_POSITIONS
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.story import Story, nothing_is_left, starts_on_the_held_nodes, works_again
from tests.waiting import await_that

pytestmark = pytest.mark.slurm

LEASE_S = 90.0


@pytest.mark.one_release(on="22.05")
def test_a_requeued_job_gets_its_turn_and_the_urgent_job_runs_on_without_a_hold(
    story: Story, start_daemon: StartDaemon
) -> None:
    story.fill()
    daemon = start_daemon(lease_s=LEASE_S)
    urgent = story.urgent_comes()
    starts_on_the_held_nodes(story, daemon, urgent)
    assert story.reservations()
    assert "makeway-lease" in story.ask("scontrol", "show", "reservations")
    status = daemon.status()
    assert status["leader"] == "leads (term 1)"
    assert re.fullmatch(rf"mark \d+, lasts {LEASE_S:.0f} s", status["lease"])
    done = daemon.run("stop", "--restore")
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "The daemon has stopped."
    assert daemon.ends_by_itself() == 0
    assert "makeway" not in story.ask("scontrol", "show", "reservations")
    (lender,) = story.lenders()
    assert story.runs(urgent)
    assert story.field(urgent, "Reservation") in ("", "(null)")
    assert int(story.field(lender, "PriorityLong")) >= FRONT_PRIORITY - 1 - QUEUE_POSITIONS
    story.ends(urgent)
    works_again(story, daemon, lender)


@pytest.mark.one_release(on="24.11")
def test_nodes_that_others_use_are_named_and_go_back_in_the_next_life(
    story: Story, start_daemon: StartDaemon
) -> None:
    worker = story.fill_malleable()
    daemon = start_daemon(policy="n-spaa")
    urgent = story.urgent_comes()
    starts_on_the_held_nodes(story, daemon, urgent)
    done = daemon.run("stop", "--restore")
    assert (done.status, done.stderr) == (0, "")
    assert f"job {worker} runs on 4 of 6 nodes" in done.stdout
    assert daemon.ends_by_itself() == 0
    assert story.reservations() == []
    story.ends(urgent)
    daemon.start()
    if "expand" in story.world.adapter.capabilities.actions:
        await_that("it has its nodes again", lambda: len(story.nodes(worker)) == 6, story.explain(daemon))
    else:
        story.sizes[worker] = 4
    nothing_is_left(story, daemon)
