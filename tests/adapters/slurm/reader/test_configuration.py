"""The configuration of Slurm is read again: every few minutes, and when a controller has come back."""

import pytest

from makeway.adapters.protocol import Unavailable
from makeway.adapters.slurm import build
from makeway.adapters.slurm.access import CONFIGURATION_KNOWN_S
from makeway.policies.model import CPU, MEMORY, Resources
from tests.adapters.slurm.fake_slurm import RUNNING, Answer, FakeSlurm, adapter_of
from tests.adapters.slurm.test_parse import ROW

NO_CONTROLLER: Answer = (1, "", "Unable to contact slurm controller (connect failure)")
SHARED = {"SelectType": "select/cons_tres", "SelectTypeParameters": "CR_CORE"}


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def commands(slurm: FakeSlurm) -> list[str]:
    """The reading commands since the last look."""
    names = {build.show_config(): "config", build.show_cluster(): "cluster"}
    found = [names.get(argv, argv[0]) for argv in slurm.calls]
    slurm.calls.clear()
    return found


def test_the_configuration_is_read_again_after_a_while(clock: Clock) -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm, clock)
    adapter.snapshot()
    assert commands(slurm) == ["config", "squeue", "cluster"]
    clock.now_s += CONFIGURATION_KNOWN_S - 1
    adapter.snapshot()
    assert commands(slurm) == ["squeue", "cluster"]
    clock.now_s += 1
    adapter.snapshot()
    assert commands(slurm) == ["config", "squeue", "cluster"]
    adapter.snapshot()
    assert commands(slurm) == ["squeue", "cluster"]


def test_memory_that_counts_from_now_on_is_counted(clock: Clock) -> None:
    slurm = FakeSlurm(RUNNING)
    slurm.settings = dict(SHARED)
    adapter = adapter_of(slurm, clock)
    capacity = adapter.snapshot().nodes[0].capacity
    assert capacity == Resources.of({CPU: 2})
    slurm.settings["SelectTypeParameters"] = "CR_CORE_MEMORY"
    assert adapter.snapshot().nodes[0].capacity == capacity
    clock.now_s += CONFIGURATION_KNOWN_S
    assert adapter.snapshot().nodes[0].capacity == Resources.of({CPU: 2, MEMORY: 1000})


def test_what_running_jobs_hold_is_read_again_with_another_configuration(clock: Clock) -> None:
    slurm = FakeSlurm(RUNNING)
    slurm.settings = dict(SHARED)
    adapter = adapter_of(slurm, clock)
    adapter.snapshot()
    assert slurm.inputs[-1].count(b"show job") == 1
    adapter.snapshot()
    clock.now_s += CONFIGURATION_KNOWN_S
    adapter.snapshot()
    assert slurm.inputs[-1].count(b"show job") == 0, "nothing has changed"
    slurm.settings["SelectTypeParameters"] = "CR_CORE_MEMORY"
    clock.now_s += CONFIGURATION_KNOWN_S
    adapter.snapshot()
    assert slurm.inputs[-1].count(b"show job") == 1


def test_limits_that_hold_from_now_on_are_asked_for(clock: Clock) -> None:
    slurm = FakeSlurm(
        *(ROW | {"QOS": "urgent", "Account": "a", "JobArrayID": str(number)} for number in (21, 22))
    )
    adapter = adapter_of(slurm, clock)
    adapter.snapshot()
    assert b"assoc_mgr" not in slurm.inputs[-1]
    slurm.settings["AccountingStorageEnforce"] = "associations,limits"
    clock.now_s += CONFIGURATION_KNOWN_S
    adapter.snapshot()
    assert b"assoc_mgr" in slurm.inputs[-1]


def test_a_controller_that_has_come_back_is_asked_what_it_is(clock: Clock) -> None:
    slurm = FakeSlurm(RUNNING | {"OverSubscribe": "NO"}, release="22.05.8")
    adapter = adapter_of(slurm, clock)
    before = adapter.snapshot().jobs[0]
    slurm.squeue_answer = slurm.config_answer = NO_CONTROLLER
    commands(slurm)
    for _ in range(2):
        with pytest.raises(Unavailable):
            adapter.snapshot()
        assert commands(slurm) == ["squeue"], "no time-out is waited for twice"
    slurm.squeue_answer = slurm.config_answer = None
    slurm.release = "24.11.5"
    after = adapter.snapshot()
    assert commands(slurm) == ["squeue", "config", "squeue", "cluster"]
    assert adapter.capabilities.name == "c, Slurm 24.11.5"
    assert after.jobs[0].kind is not before.kind, "an exclusive job may be shrunk there"
    adapter.snapshot()
    assert commands(slurm) == ["squeue", "cluster"]


def test_a_controller_that_has_come_back_as_it_was_costs_one_command(clock: Clock) -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm, clock)
    adapter.snapshot()
    slurm.squeue_answer = NO_CONTROLLER
    with pytest.raises(Unavailable):
        adapter.snapshot()
    slurm.squeue_answer = None
    commands(slurm)
    adapter.snapshot()
    assert commands(slurm) == ["squeue", "config", "cluster"]


@pytest.mark.parametrize("answer", [NO_CONTROLLER, (1, "", "Access/permission denied"), (0, "x = y\n", "")])
def test_what_cannot_be_read_again_stays_as_it_is_known(clock: Clock, answer: Answer) -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm, clock)
    before = adapter.snapshot()
    slurm.config_answer = answer
    clock.now_s += CONFIGURATION_KNOWN_S
    commands(slurm)
    assert adapter.snapshot() == before
    assert adapter.snapshot() == before
    assert commands(slurm) == ["config", "squeue", "cluster", "squeue", "cluster"]
    assert adapter.capabilities.name == "c, Slurm 24.11.5"
