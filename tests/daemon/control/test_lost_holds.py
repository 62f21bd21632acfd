"""A waiting job that the cluster keeps from starting, because it has lost the hold of the job, is freed."""

from dataclasses import replace
from pathlib import Path

import pytest

from makeway.adapters.protocol import Rejected
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.kept.lost_holds import REMEMBERED_S
from makeway.policies.model import Cluster, Job, LastHold, Release
from makeway.policies.none import NONE, NoneConfig
from tests.builders import cluster, held, node_names, urgent
from tests.daemon.control.loops import busy, daemon
from tests.fakes import FakeAdapter

NOW_S = 1000.0


def waits(**changes: object) -> Job:
    return replace(urgent("u", 2, submit_s=990.0), **changes)  # type: ignore[arg-type]


def lost(now_s: float = NOW_S) -> Cluster:
    """The nodes are free, and the cluster has lost what the job was bound to."""
    return cluster(4, waits(reservation_lost=True), now_s=now_s)


def given_back(
    journal: Journal, *, own: str | None = None, mode: Mode = Mode.ACT
) -> tuple[FakeAdapter, Reconciler]:
    """Urgent job u was bound to a hold, which was released; it waits."""
    view = busy()
    jobs = tuple(replace(job, reservation=own) if job.job_id == "u" else job for job in view.jobs)
    adapter = FakeAdapter(replace(view, jobs=jobs))
    loop = daemon(adapter, journal)
    loop.reconcile()
    loop.reconfigure(NONE, NoneConfig(), LoopSettings(mode=Mode.ACT, restoring=True))
    for _ in range(3):
        loop.reconcile()
    assert ("release", "mw_u") in adapter.calls
    assert journal.open_operations() == ()
    adapter.calls.clear()
    adapter.actions.clear()
    loop.reconfigure(NONE, NoneConfig(), LoopSettings(mode=mode))
    return adapter, loop


def freed(adapter: FakeAdapter) -> list[str | None]:
    """The reservations that jobs of lost holds get back."""
    return [one.own_reservation for one in adapter.actions if isinstance(one, Release) and one.lost]


@pytest.mark.parametrize("stored", [True, False])
def test_it_goes_back_to_the_queue(tmp_path: Path, stored: bool) -> None:
    journal = Journal(tmp_path / "journal.sqlite" if stored else None)
    adapter, loop = given_back(journal)
    adapter.view = lost()
    assert loop.reconcile().sentence
    assert (adapter.calls, freed(adapter)) == ([("release", "mw_u")], [None])
    adapter.view = cluster(4, waits())
    loop.reconcile()
    loop.reconcile()
    assert len(adapter.calls) == 1
    assert journal.open_operations() == ()


def test_it_is_asked_for_again_if_it_does_not_show() -> None:
    adapter, loop = given_back(Journal(None))
    for now_s, count in ((NOW_S, 1), (NOW_S + 1.0, 1), (NOW_S + 60.0, 2)):
        adapter.view = lost(now_s)
        loop.reconcile()
        assert len(freed(adapter)) == count


def test_a_refusal_is_not_answered_at_once() -> None:
    adapter, loop = given_back(Journal(None), own="theirs")
    adapter.errors["release"] = Rejected("Requested reservation is invalid")
    for now_s, count in ((NOW_S, 1), (NOW_S + 1.0, 1), (NOW_S + 59.0, 1), (NOW_S + 61.0, 2)):
        adapter.view = lost(now_s)
        loop.reconcile()
        assert freed(adapter) == ["theirs"] * count


def test_observe_mode_only_says_so() -> None:
    journal = Journal(None)
    adapter, loop = given_back(journal, mode=Mode.OBSERVE)
    adapter.view = lost()
    loop.reconcile()
    loop.reconcile()
    assert adapter.calls == []
    assert len(journal.open_operations()) == 1


def test_a_hold_that_is_made_again_frees_it() -> None:
    """The operation is still open: it binds the job once more."""
    adapter = FakeAdapter(busy())
    loop = daemon(adapter)
    loop.reconcile()
    loop.reconcile()
    adapter.calls.clear()
    jobs = tuple(
        replace(job, reservation=None, reservation_lost=True) if job.job_id == "u" else job
        for job in adapter.view.jobs
    )
    adapter.view = replace(adapter.view, jobs=jobs, reservations=(), now_s=NOW_S + 10.0)
    loop.reconcile()
    assert adapter.calls == [("reserve", "mw_u")]


def test_a_job_that_was_never_bound_to_a_hold_is_left_alone() -> None:
    adapter = FakeAdapter(lost())
    daemon(adapter).reconcile()
    assert freed(adapter) == []


@pytest.mark.parametrize(
    "before",
    [{"reservation": "theirs"}, {"blocked_by": "its release from a hold"}],
    ids=["bound elsewhere", "held"],
)
def test_a_job_that_was_bound_elsewhere_or_held_since_is_left_alone(before: dict[str, object]) -> None:
    adapter, loop = given_back(Journal(None))
    adapter.view = cluster(4, waits(**before))
    loop.reconcile()
    for second in (0, 1):
        adapter.view = lost(NOW_S + second)
        loop.reconcile()
    assert freed(adapter) == []


def test_a_job_that_waits_for_its_own_reservation_gets_it_back() -> None:
    adapter, loop = given_back(Journal(None), own="theirs")
    adapter.view = cluster(4, waits(reservation="theirs"))
    loop.reconcile()
    adapter.view = lost()
    loop.reconcile()
    assert freed(adapter) == ["theirs"]


def test_a_hold_of_long_ago_does_not_count() -> None:
    adapter, loop = given_back(Journal(None))
    adapter.view = lost(NOW_S + REMEMBERED_S + 1.0)
    loop.reconcile()
    assert freed(adapter) == []


def test_a_hold_that_is_there_is_released_first() -> None:
    adapter, loop = given_back(Journal(None))
    adapter.view = replace(lost(), reservations=(held("u", node_names(2)),))
    loop.reconcile()
    assert (adapter.calls, freed(adapter)) == ([("release", "mw_u")], [])
    loop.reconcile()
    assert freed(adapter) == [None]


KEPT = LastHold(reservation="mw_u", since_s=NOW_S - 60.0)
"""What the cluster keeps with the job."""


def lost_with(kept: LastHold) -> Cluster:
    return cluster(4, waits(reservation_lost=True, last_hold=kept))


def test_without_a_journal_the_cluster_says_which_hold_it_was() -> None:
    adapter = FakeAdapter(lost_with(KEPT))
    daemon(adapter, policy="none").reconcile()
    assert (adapter.calls, freed(adapter)) == ([("release", "mw_u")], [None])


@pytest.mark.parametrize("age_s", [-1.0, REMEMBERED_S + 1.0], ids=["in the future", "of long ago"])
def test_what_the_cluster_says_of_another_time_does_not_count(age_s: float) -> None:
    adapter = FakeAdapter(lost_with(replace(KEPT, since_s=NOW_S - age_s)))
    daemon(adapter, policy="none").reconcile()
    assert freed(adapter) == []


def test_what_the_cluster_says_does_not_count_if_the_job_was_bound_elsewhere_since() -> None:
    adapter = FakeAdapter(cluster(4, waits(reservation="theirs")))
    loop = daemon(adapter, policy="none")
    loop.reconcile()
    adapter.view = lost_with(KEPT)
    loop.reconcile()
    assert freed(adapter) == []


def test_a_hold_of_which_the_cluster_speaks_is_released_first() -> None:
    adapter = FakeAdapter(replace(lost_with(KEPT), reservations=(held("u", node_names(2)),)))
    daemon(adapter, policy="none").reconcile()
    assert freed(adapter) == []
