"""Who may announce urgent jobs, and what it can cost others: the whole daemon on a simulated cluster."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from makeway.adapters.protocol import AnnouncedJob, Entitlement, EntitlementReader, Unavailable
from makeway.adapters.site.entitlement import ClassEntitlements
from makeway.adapters.site.job_class import JobClass
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.announcements import NoticeLimits
from makeway.daemon.service.announcing import NoticeDesk
from makeway.daemon.service.socket_api import Announcement, BadRequest
from makeway.policies.model import JobKind
from makeway.policies.registry import find
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import MarkKind
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.embedded import SimulatedEntitlements
from makeway.simharness.run.replay import UNPRICED
from makeway.simharness.workloads.job import SimJob

HOUR_S = 3600.0
UNLIMITED = NoticeLimits(node_hours_per_user_per_day=None, no_shows=None)
EVE = ClassEntitlements((JobClass(name="beam", users=frozenset({"eve"}), kind=JobKind.ON_DEMAND),))
ADA = ClassEntitlements((JobClass(name="beam", users=frozenset({"ada"}), kind=JobKind.ON_DEMAND),))
ALL_NODES = Announcement(user="eve", node_count=88, walltime_s=HOUR_S, in_s=900.0)


def one_line_an_hour(
    path: Path, entitlements: EntitlementReader, limits: NoticeLimits, hours: int
) -> tuple[int, list[str]]:
    """How many jobs leave a cluster of 88 jobs, of which eve announces every hour that all nodes are needed.

    Her jobs never come. Also returns why announcements were not taken.
    """
    jobs = [
        SimJob(f"b{number}", 0.0, 1000 * HOUR_S, 2000 * HOUR_S, 1, user="batch") for number in range(1, 89)
    ]
    cluster = SimCluster(88, jobs, scheduler=SchedulerSettings(), storage=StorageSettings())
    journal = Journal(path)
    policy = find("cup-paa")
    loop = Reconciler(
        SimAdapter(cluster),
        journal,
        policy,
        policy.config_type(),
        LoopSettings(mode=Mode.ACT, limits=UNPRICED, keep_snapshots=False),
        now=lambda: cluster.now_s,
        plan_in_thread=False,
    )
    desk = NoticeDesk(journal, entitlements, lambda: cluster.now_s, lambda: limits)
    refusals: list[str] = []
    for minute in range(0, hours * 60, 5):
        cluster.advance(60.0 * minute)
        if minute % 60 == 30:
            try:
                desk.announce(ALL_NODES)
            except BadRequest as error:
                refusals.append(str(error))
        while loop.reconcile().again:
            pass
    journal.close()
    marks = cluster.record(policy=policy.name).marks
    return sum(mark.kind is MarkKind.EVICTED for mark in marks), refusals


def test_one_line_an_hour_empties_a_cluster_of_88_jobs_unless_who_sends_it_is_asked_about(
    tmp_path: Path,
) -> None:
    evicted, refusals = one_line_an_hour(tmp_path / "free.sqlite", EVE, UNLIMITED, hours=6)
    assert evicted >= 5 * 88
    assert refusals == []
    evicted, refusals = one_line_an_hour(tmp_path / "asked.sqlite", ADA, UNLIMITED, hours=6)
    assert evicted == 0
    assert refusals == ["user eve may not submit urgent jobs, which are: class beam (certain users)"] * 6


def test_after_two_jobs_that_did_not_come_no_announcement_is_taken(tmp_path: Path) -> None:
    limits = replace(UNLIMITED, no_shows=2, no_show_window_s=6 * HOUR_S)
    evicted, refusals = one_line_an_hour(tmp_path / "journal.sqlite", EVE, limits, hours=10)
    assert refusals[0] == (
        "2 announced jobs of user eve did not come: no announcement is taken for 4.4 hours "
        "(notices.no_shows is 2)"
    )
    assert len(refusals) == 10 - 4, "two until the limit, and two once the first of them is 6 hours ago"
    assert evicted <= 4 * 88


def test_the_node_hours_that_a_user_announces_in_a_day_are_limited(tmp_path: Path) -> None:
    """Each announcement keeps 88 nodes for an hour and a quarter: 110 node-hours."""
    limits = replace(UNLIMITED, node_hours_per_user_per_day=250.0)
    evicted, refusals = one_line_an_hour(tmp_path / "journal.sqlite", EVE, limits, hours=5)
    refusal = (
        "the announcement keeps 110 node-hours from others, and user eve has used 220 of the 250 of a day "
        "(notices.node_hours_per_user_per_day)"
    )
    assert refusals == [refusal] * 3
    assert evicted <= 2 * 88


def desk_of(
    journal: Journal,
    limits: NoticeLimits = UNLIMITED,
    entitlements: EntitlementReader | None = EVE,
    now: Callable[[], float] = lambda: 1000.0,
) -> NoticeDesk:
    return NoticeDesk(journal, entitlements, now, lambda: limits)


def test_what_a_user_has_announced_counts_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    limits = NoticeLimits(node_hours_per_user_per_day=120.0, no_shows=1)
    journal = Journal(path)
    notice = desk_of(journal, limits).announce(ALL_NODES)
    journal.remove_notice(notice.notice_id)
    journal.close()
    again = Journal(path)
    with pytest.raises(BadRequest, match="has used 110 of the 120"):
        desk_of(again, limits).announce(ALL_NODES)
    again.note_missed(notice.notice_id, 2000.0)
    again.close()
    third = Journal(path)
    with pytest.raises(BadRequest, match="1 announced jobs of user eve did not come"):
        desk_of(third, limits).announce(ALL_NODES)
    a_week_later = desk_of(third, limits, now=lambda: 2000.0 + 7 * 86_400.0)
    assert a_week_later.announce(ALL_NODES).user == "eve"
    third.close()


def test_an_adapter_that_cannot_say_who_may_submit_takes_no_announcement() -> None:
    with pytest.raises(BadRequest, match="does not say who may submit urgent jobs: none can be announced"):
        desk_of(Journal(None), entitlements=None).announce(ALL_NODES)


class Silent:
    """A cluster that does not answer."""

    def entitlement(self, job: AnnouncedJob) -> Entitlement:
        raise Unavailable(f"sacctmgr: no answer\nabout {job.user}")


def test_a_cluster_that_does_not_answer_takes_no_announcement() -> None:
    journal = Journal(None)
    with pytest.raises(
        BadRequest, match=r"^who may .* found out now, try again: sacctmgr: no answer about eve$"
    ):
        desk_of(journal, entitlements=Silent()).announce(ALL_NODES)
    assert journal.notices() == ()


class InAccount:
    """Everybody may submit urgent jobs, in one account."""

    def entitlement(self, job: AnnouncedJob) -> Entitlement:
        assert job == AnnouncedJob(user="eve", node_count=88, walltime_s=HOUR_S)
        return Entitlement(account="light")


def test_on_a_simulated_cluster_everybody_may_announce_what_fits() -> None:
    journal = Journal(None)
    assert desk_of(journal, entitlements=SimulatedEntitlements(node_count=88)).announce(ALL_NODES)
    with pytest.raises(BadRequest, match=r"^88 nodes are asked for, the machine has 87$"):
        desk_of(journal, entitlements=SimulatedEntitlements(node_count=87)).announce(ALL_NODES)


def test_the_account_of_the_announced_job_is_kept() -> None:
    journal = Journal(None)
    notice = desk_of(journal, entitlements=InAccount()).announce(ALL_NODES)
    assert notice.account == "light"
    assert journal.notices() == (notice,)
