"""What a job that has to leave is told, and that telling it never delays or fails the command."""

import pytest

from makeway.adapters.protocol import Gone
from makeway.adapters.slurm import build
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.adapters.slurm.leaving.notices import notify, text_of
from makeway.adapters.slurm.settings import SlurmSettings
from makeway.policies.model import Action, RunIdentity
from tests import acts
from tests.adapters.slurm.fake_slurm import NOW_S, RUNNING, FakeSlurm, adapter_of

RUN = RunIdentity(requeue_count=0, start_s=1_795_249_000.0)
SIGNAL = acts.checkpoint("17", signal="USR1", walltime_s=0, run=RUN)
ASKED = (
    "makeway (policy test) asks this job by signal USR1 to save its work and leave for job urgent, by "
    "2026-11-21 08:34:20 UTC at the latest"
)


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (SIGNAL, ASKED),
        (acts.requeue("17"), "makeway (policy test) requeues this job now for job urgent"),
        (acts.cancel("17"), "makeway (policy test) ends this job now for job urgent"),
        (
            acts.shrink("17", keep_nodes=("n1", "n2"), walltime_s=60),
            "makeway (policy test) takes nodes from this job now for job urgent; it keeps n[1-2]",
        ),
        (acts.requeue("17", forgotten_run=0), None),
        (acts.requeue("17", ended_by="USR1"), None),
        (acts.prioritise("17"), None),
        (acts.release("mw_1"), None),
    ],
)
def test_a_job_is_told_who_asks_for_which_job_and_by_when(action: Action, text: str | None) -> None:
    assert text_of(action, NOW_S) == text


def test_each_job_is_told_once() -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm)
    for _ in range(3):
        adapter.apply(SIGNAL)
    adapter.close()
    assert slurm.notices == [notify("17", ASKED)]


def test_a_notice_without_an_answer_delays_nothing() -> None:
    slurm = FakeSlurm(RUNNING)
    slurm.may_notify.clear()
    adapter = adapter_of(slurm)
    adapter.apply(SIGNAL)
    adapter.apply(acts.requeue("17"))
    assert slurm.acts == [build.signal_batch("17", "USR1"), build.requeue("17")]
    assert slurm.notices == []
    slurm.may_notify.set()
    adapter.close()
    assert len(slurm.notices) == 2


def test_a_notice_that_fails_fails_nothing() -> None:
    slurm = FakeSlurm(RUNNING)
    slurm.notify_answer = (1, "", "scontrol: error: Unable to contact slurm controller (connect failure)")
    adapter = adapter_of(slurm)
    adapter.apply(SIGNAL)
    adapter.apply(acts.requeue("17"))
    adapter.close()
    assert len(slurm.notices) == 2
    assert slurm.acts == [build.signal_batch("17", "USR1"), build.requeue("17")]


def test_a_user_who_may_not_tell_jobs_tries_it_once() -> None:
    slurm = FakeSlurm(RUNNING)
    slurm.notify_answer = (1, "", "scontrol: error: Access/permission denied")
    adapter = adapter_of(slurm)
    for action in (SIGNAL, acts.requeue("17"), acts.cancel("17")):
        adapter.apply(action)
    adapter.close()
    assert len(slurm.notices) == 1
    assert len(slurm.acts) == 3


def test_a_task_of_an_array_is_told_by_its_own_number() -> None:
    slurm = FakeSlurm(RUNNING | {"JobArrayID": "17_1", "JobID": "18"})
    adapter = adapter_of(slurm)
    adapter.apply(acts.checkpoint("17_1", signal="USR1", walltime_s=0))
    adapter.close()
    assert [argv[2] for argv in slurm.notices] == ["18"]


LATER_RUN = RunIdentity(requeue_count=1, start_s=1_795_249_100.0)


@pytest.mark.parametrize(
    "action",
    [
        acts.checkpoint("17", signal="USR1", walltime_s=0, run=LATER_RUN),
        acts.requeue("17", run=LATER_RUN),
        acts.cancel("17", run=LATER_RUN),
        acts.shrink("17", keep_nodes=("n1",), walltime_s=60, run=LATER_RUN),
    ],
)
def test_another_run_than_the_one_that_is_meant_is_not_told(action: Action) -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm)
    with pytest.raises(Gone):
        adapter.apply(action)
    adapter.close()
    assert slurm.notices == []


def test_a_site_may_leave_its_jobs_untold() -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = SlurmCliAdapter(SlurmSettings(tell_jobs=False), runner=slurm, now=lambda: NOW_S)
    adapter.apply(SIGNAL)
    adapter.close()
    assert slurm.notices == []
    assert slurm.acts == [build.signal_batch("17", "USR1")]
