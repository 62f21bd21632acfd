"""Before each command of an action the adapter asks whether it may still be sent."""

from collections.abc import Callable

import pytest

from makeway.adapters.protocol import AdapterError, GatedAdapter, Unavailable
from makeway.adapters.slurm import build
from makeway.policies.model import Action, LeaderLease, SignalTarget
from tests import acts
from tests.adapters.slurm.fake_slurm import OK, RUNNING, Answer, FakeSlurm, adapter_of
from tests.adapters.slurm.test_parse import ROW

IN_USE: Answer = (1, "", "Requested reservation is in use")
GRANTED: Answer = (0, "", "salloc: Granted job allocation 40")
WAITING = ROW | {"JobArrayID": "18"}
BOUND = ROW | {"JobArrayID": "19", "Reservation": "makeway_c.9"}
ACTIONS: dict[str, tuple[Action, tuple[Answer, ...]]] = {
    "checkpoint": (
        acts.checkpoint("17", signal="USR1", walltime_s=9e5, signal_to=SignalTarget.BOTH),
        (),
    ),
    "requeue": (acts.requeue("17"), ()),
    "cancel": (acts.cancel("17"), ()),
    "shrink": (acts.shrink("17", keep_nodes=("n1",), walltime_s=9e5), ()),
    "expand": (
        acts.expand("17", nodes=("n1", "n2", "n3"), reservation="makeway_c.1"),
        (OK, GRANTED, (1, "", "x")),
    ),
    "reserve": (
        acts.reserve("makeway_c.1", nodes=("n3",), duration_s=60, job_id="18"),
        ((1, "", "Duplicate reservation name"), OK, (1, "", "Invalid")),
    ),
    "release": (acts.release("makeway_c.9"), (IN_USE,)),
    "prioritise": (acts.prioritise("18"), ()),
    "restore_priority": (acts.restore_priority("17"), ()),
}


@pytest.fixture(autouse=True)
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Growing a job needs the right to act as any user."""
    monkeypatch.setattr("os.geteuid", lambda: 0)


class Gate:
    """Lets so many commands pass."""

    def __init__(self, most: int) -> None:
        self.left = most

    def __call__(self) -> bool:
        self.left -= 1
        return self.left >= 0


def is_change(argv: tuple[str, ...]) -> bool:
    return argv[0] != "squeue" and "show" not in argv and argv != build.show_cluster()


def sent(verb: str, may_send: Callable[[], bool]) -> tuple[list[tuple[str, ...]], AdapterError | None]:
    """The changing commands of an action, and how it failed."""
    action, script = ACTIONS[verb]
    slurm = FakeSlurm(RUNNING, WAITING, BOUND, script=script)
    adapter = adapter_of(slurm)
    assert isinstance(adapter, GatedAdapter)
    adapter.ask_before_commands(may_send)
    failure = None
    try:
        adapter.apply(action)
    except AdapterError as error:
        failure = error
    return [argv for argv in slurm.calls if is_change(argv)], failure


@pytest.mark.parametrize("verb", ACTIONS)
def test_no_command_of_an_action_is_sent_after_the_lease(verb: str) -> None:
    commands, _ = sent(verb, lambda: True)
    assert commands
    for most in range(len(commands)):
        passed, error = sent(verb, Gate(most))
        assert passed == commands[:most]
        assert isinstance(error, Unavailable)
        assert "the lease may end first" in str(error)
        kept_only = verb in {"checkpoint", "requeue"} and most == 1
        assert error.sent is (most > 0 and not kept_only), "what is only kept with the job takes nothing"


def test_actions_are_several_commands() -> None:
    counts = {verb: len(sent(verb, lambda: True)[0]) for verb in ACTIONS}
    assert counts == {
        "checkpoint": 3,
        "requeue": 2,
        "cancel": 1,
        "shrink": 1,
        "expand": 4,
        "reserve": 4,
        "release": 3,
        "prioritise": 1,
        "restore_priority": 1,
    }


def test_the_cluster_is_read_and_leases_are_written_without_one() -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm)
    adapter.ask_before_commands(lambda: False)
    adapter.snapshot()
    adapter.create_lease(LeaderLease(term=1, mark=2, lasts_s=60.0))
    adapter.renew_lease(LeaderLease(term=1, mark=3, lasts_s=60.0))
    adapter.remove_lease(1)
    assert [argv[1] for argv in slurm.acts] == ["create", "update", "delete"]


def test_no_job_is_told_to_leave_after_the_lease() -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm)
    slurm.may_notify.clear()
    passes = Gate(2)
    adapter.ask_before_commands(passes)
    adapter.apply(acts.requeue("17"))
    slurm.may_notify.set()
    adapter.close()
    assert slurm.notices == []
