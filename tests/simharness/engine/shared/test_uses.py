"""What the checker reads only where something has changed is the same as read from all jobs."""

from math import inf
from random import Random

import pytest

from makeway.adapters.protocol import AdapterError
from makeway.policies.model import JobKind, Resources, total
from makeway.simharness.engine.event_queue import NodeFailure
from makeway.simharness.engine.invariants import InvariantViolated
from makeway.simharness.engine.shared import uses as uses_module
from makeway.simharness.engine.shared.machine import SharedMachine
from makeway.simharness.engine.shared.uses import NodeUses
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.partitions import members
from tests import acts
from tests.simharness.engine.shared.test_machine import NODE, job, res, shared

DEMANDS = (None, res(cpu=1), res(cpu=3, mem=40), res(cpu=8, gpu=4), res(cpu=9))
CAPACITIES = (NODE, NODE, res(cpu=4, mem=100), res(cpu=9, mem=60, gpu=2))


def ready_s(machine: SharedMachine, demand: Resources | None) -> list[float]:
    """When the demand fits on each node, worked out from all jobs."""
    found = list[float]()
    for node, capacity in enumerate(machine.capacities):
        held = list[tuple[float, Resources]]()
        for live in machine.live.values():
            nodes = (*members(live.batch_host), *members(live.nodes & ~live.batch_host))
            if node in nodes:
                parts = machine.allocation(live)
                held.append((live.limit_s, capacity if parts is None else parts[nodes.index(node)]))
        held.sort(key=lambda part: part[0])
        needed, at_s = demand or capacity, machine.now_s
        while held and not capacity.minus(total([part for _, part in held])).covers(needed):
            at_s = held.pop(0)[0]
        never = machine.down >> node & 1 or not capacity.covers(needed)
        found.append(inf if never else at_s)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_when_nodes_have_room_is_the_same_as_worked_out_from_all_jobs(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    monkeypatch.setattr(uses_module, "_WHOLE_EVERY", 50)
    monkeypatch.setattr(uses_module, "_MOST_DEMANDS", random.choice((2, 64)))
    jobs = [
        job(
            str(number),
            float(random.randint(0, 60)),
            float(random.randint(1, 30)),
            random.choice((None, res(cpu=random.randint(1, 4), mem=random.choice((0, 30))))),
            random.randint(1, 2),
        )
        for number in range(40)
    ]
    failures = (NodeFailure(at_s=random.uniform(5.0, 60.0), node=random.randrange(4), repair_s=20.0),)
    cluster, adapter = shared(*jobs, capacities=CAPACITIES, failures=failures)
    machine = cluster.machine
    assert isinstance(machine, SharedMachine)
    uses, looks = NodeUses(machine), 0
    while cluster.next_event_s() is not None:
        cluster.step()
        running = [live for live in machine.live.values() if live.nodes]
        assert uses.look(running) is None
        for demand in random.sample(DEMANDS, 3):
            assert uses.ready_s(demand) == ready_s(machine, demand)
            looks += 1
        if running and random.random() < 0.3:
            leaving = random.choice(running).job.job_id
            try:
                adapter.apply(acts.requeue(leaving))
            except AdapterError:
                continue
    assert looks > 100


def test_nodes_that_a_job_gives_up_and_another_time_limit_are_read() -> None:
    grown = SimJob("m", 0.0, 100.0, 100.0, 2, kind=JobKind.MALLEABLE, node_count_min=1, save_s=0.0)
    cluster, adapter = shared(grown, job("b", 0.0, 50.0, res(cpu=2)), capacities=(NODE, NODE, NODE))
    cluster.advance(1.0)
    machine = cluster.machine
    assert isinstance(machine, SharedMachine)
    uses = NodeUses(machine)

    def ready() -> list[float]:
        assert uses.look([live for live in machine.live.values() if live.nodes]) is None
        assert uses.ready_s(None) == ready_s(machine, None)
        return uses.ready_s(None)

    assert ready() == [100.0, 100.0, 50.0]
    adapter.apply(acts.shrink("m", keep_nodes=("n1",), walltime_s=300.0))
    assert ready() == [300.0, 1.0, 50.0]
    next(live for live in machine.live.values() if live.job.job_id == "b").limit_s = 70.0
    assert ready() == [300.0, 1.0, 70.0]


def test_what_a_job_holds_is_read_again_where_another_one_comes_and_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def damaged(*later: tuple[float, Resources]) -> None:
        others = [job(str(at_s), at_s, 1.0, demand) for at_s, demand in later]
        cluster, _ = shared(job("a", 0.0, 100.0, res(cpu=8)), *others, capacities=(NODE, res(cpu=4, mem=200)))
        cluster.advance(0.0)
        machine = cluster.machine
        assert isinstance(machine, SharedMachine)
        machine.nodes.give_back(0, 1)
        machine.nodes.take(0, 1, machine.nodes.amounts(res(cpu=1)), 100.0)
        cluster.run()

    wrong = "job 'a' holds"
    with pytest.raises(InvariantViolated, match=wrong):
        damaged((1.0, res(cpu=3, gpu=1)))
    elsewhere = [(float(at_s), res(cpu=2, mem=150)) for at_s in range(1, 9)]
    monkeypatch.setattr(uses_module, "_WHOLE_EVERY", 5)
    with pytest.raises(InvariantViolated, match=wrong):
        damaged(*elsewhere)
