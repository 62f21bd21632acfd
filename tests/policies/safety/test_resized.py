"""What a job loses whose size has changed in its run: each time counts with the size of then."""

from dataclasses import replace

import pytest

from makeway.policies.common.losses import cost_node_s
from makeway.policies.model import CheckpointSpec, Job, Method, PastSize
from makeway.policies.safety.prices import loss_node_s, price_node_s, unsaved_work_s
from tests.policies.common.operations import NOW_S, Build

SHRUNK_ONCE = (PastSize(node_count=8, until_s=NOW_S - 100.0),)
SHRUNK_TWICE = (PastSize(node_count=8, until_s=NOW_S - 700.0), PastSize(node_count=4, until_s=NOW_S - 100.0))
GROWN = (PastSize(node_count=1, until_s=NOW_S - 100.0),)


@pytest.fixture
def job(running: Build) -> Job:
    """On two nodes, for 1,000 s; its setup took 50 s, and a requested checkpoint takes 30 s."""
    found: Job = running("a", "n0 n1", setup_s=50.0, checkpoint=CheckpointSpec(system_s=30.0))
    return found


@pytest.mark.parametrize(
    ("past_sizes", "saved_ago_s", "loss", "setup"),
    [
        ((), None, 2000, 100),
        (SHRUNK_ONCE, None, 7200 + 200, 400),
        (SHRUNK_TWICE, None, 2400 + 2400 + 200, 400),
        ((*SHRUNK_ONCE, PastSize(node_count=1, until_s=NOW_S - 60.0)), None, 7200 + 40 + 120, 400),
        (GROWN, None, 900 + 200, 50),
        (SHRUNK_ONCE, 300.0, 1600 + 200, 400),
        (SHRUNK_ONCE, 100.0, 200, 400),
        (SHRUNK_ONCE, 40.0, 80, 400),
        (SHRUNK_TWICE, 400.0, 1200 + 200, 400),
        ((PastSize(node_count=8, until_s=NOW_S - 980.0),), 40.0, 80, 160 + 60),
        ((PastSize(node_count=8, until_s=NOW_S + 60.0),), None, 8000, 400),
    ],
    ids=[
        *("one size", "shrunk", "shrunk twice", "grown back in part", "started small"),
        *("checkpoint before", "checkpoint at the shrink", "checkpoint after", "checkpoint between"),
        *("shrunk in its setup", "the clock was set back"),
    ],
)
def test_work_counts_at_the_size_at_which_it_was_done(
    job: Job, past_sizes: tuple[PastSize, ...], saved_ago_s: float | None, loss: int, setup: int
) -> None:
    saved_s = None if saved_ago_s is None else NOW_S - saved_ago_s
    resized = replace(job, past_sizes=past_sizes, last_checkpoint_s=saved_s)
    assert loss_node_s(resized, NOW_S) == loss
    assert unsaved_work_s(resized, NOW_S) == loss / 2
    assert price_node_s(replace(resized, past_evictions=1), NOW_S) == 4 * loss
    # Without a checkpoint, the lost work contains the setup.
    assert cost_node_s(resized, Method.KILL, NOW_S) == loss + (setup if saved_s is not None else 0)
    assert cost_node_s(resized, Method.APPLICATION, NOW_S) == setup
    assert cost_node_s(resized, Method.SYSTEM, NOW_S) == setup + 60
    assert cost_node_s(resized, Method.SHRINK, NOW_S) == 0


def test_what_is_usual_in_its_class_bounds_the_loss(job: Job) -> None:
    silent = replace(job, past_sizes=SHRUNK_ONCE, usual_unsaved_s=150.0)
    assert loss_node_s(silent, NOW_S) == 400 + 200
    assert cost_node_s(silent, Method.KILL, NOW_S) == 400 + 200 + 400


def test_a_job_on_shared_nodes_counts_its_share_of_them(job: Job) -> None:
    shared = replace(job, past_sizes=SHRUNK_ONCE, node_equivalents=0.5)
    assert loss_node_s(shared, NOW_S) == (7200 + 200) / 4
    assert cost_node_s(shared, Method.SYSTEM, NOW_S) == 400 / 4 + 15


def test_a_job_that_has_not_worked_loses_nothing(job: Job) -> None:
    starting = replace(job, past_sizes=SHRUNK_ONCE, start_s=NOW_S)
    assert loss_node_s(starting, NOW_S) == cost_node_s(starting, Method.KILL, NOW_S) == 0
    assert unsaved_work_s(starting, NOW_S) == 0.0
