"""What is said of what could not be given back."""

from dataclasses import replace

from makeway.daemon.operation.kept.remaining import remaining
from makeway.policies.model import JobKind, LostNodes, TakenFromJob
from tests.builders import cluster, held, node_names, pending, running

LOST = LostNodes(node_count=6, kept_count=3, walltime_s=1800.0, since_s=400.0)
TAKEN = TakenFromJob(run=0, for_job_id="u", walltime_s=1800.0, raised_to_s=5400.0)


def test_nothing_of_makeways_is_left() -> None:
    assert remaining(cluster(8, running("a", node_names(3)), pending("b", 2))) == ()


def test_a_hold_is_named() -> None:
    assert remaining(replace(cluster(8), reservations=(held("u", node_names(2)),))) == ("hold mw_u is there",)


def test_what_jobs_miss() -> None:
    small = running("a", node_names(3), kind=JobKind.MALLEABLE, node_count_min=2, walltime_s=5400.0)
    longer = running("b", node_names(1, 4), walltime_s=5400.0)
    behind = replace(pending("c", 2), requeue_count=1, taken=TAKEN)
    view = cluster(
        8,
        replace(small, taken=replace(TAKEN, lost_nodes=LOST)),
        replace(longer, taken=TAKEN),
        behind,
        replace(behind, job_id="d", prioritised=True),
        replace(running("e", node_names(1, 6)), requeue_count=1, taken=replace(TAKEN, lost_nodes=LOST)),
    )
    assert set(remaining(view)) == {
        "job a runs on 3 of 6 nodes",
        "job b has a time limit of 90 minutes in this run, not of 30",
        "job c waits and is not first in the queue",
    }
