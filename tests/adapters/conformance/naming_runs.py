"""Actions that name the run that they mean."""

import pytest

from makeway.adapters.protocol import Gone
from makeway.policies.model import JobKind, RunIdentity
from tests import acts
from tests.adapters.conformance.world import LONG_S, ConformanceBase, World, needs, over, running, waiting


class NamingRunsConformance(ConformanceBase):
    """Actions that name the run that they mean."""

    @needs("cancel", "checkpoint", "prioritise", "requeue", "shrink")
    def test_an_action_touches_no_other_run_than_the_one_it_names(self, world: World) -> None:
        first = running(world, world.submit(2, kind=JobKind.MALLEABLE, node_count_min=1))
        job_id, old = first.job_id, RunIdentity(requeue_count=first.requeue_count, start_s=first.start_s)
        brief = world.submit(1, runtime_s=5.0)
        world.wait(over(brief), "some seconds have passed, so that the next run begins at another one")
        world.adapter.apply(acts.requeue(job_id, run=old))
        assert waiting(world, job_id).requeue_count == 1
        with pytest.raises(Gone):
            world.adapter.apply(acts.cancel(job_id, run=old))
        world.adapter.apply(acts.prioritise(job_id))
        second = running(world, job_id)
        for action in (
            acts.requeue(job_id, run=old),
            acts.cancel(job_id, run=old),
            acts.checkpoint(job_id, signal="USR1", walltime_s=2 * LONG_S, run=old),
            acts.shrink(job_id, keep_nodes=second.nodes[:1], walltime_s=LONG_S, run=old),
        ):
            with pytest.raises(Gone):
                world.adapter.apply(action)
            assert running(world, job_id) == second, action.verb
        # The count alone does not name a run: a controller that crashed may have forgotten a requeue.
        earlier = RunIdentity(requeue_count=1, start_s=first.start_s)
        with pytest.raises(Gone):
            world.adapter.apply(acts.requeue(job_id, run=earlier))
        assert running(world, job_id) == second
        world.adapter.apply(acts.requeue(job_id, run=RunIdentity(requeue_count=1, start_s=second.start_s)))
        assert waiting(world, job_id).requeue_count == 2
