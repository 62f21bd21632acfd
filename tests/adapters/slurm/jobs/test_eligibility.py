"""When a job may start, and since when an urgent one waits, by what Slurm says."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.site.job_class import JobClass
from makeway.adapters.site.times import NOT_BEFORE_S
from makeway.adapters.slurm import build
from makeway.adapters.slurm.holds import HoldNames
from makeway.adapters.slurm.parse_cluster import RawReservation
from makeway.adapters.slurm.resources.licenses import FreeLicenses, LicenseCount
from makeway.adapters.slurm.resources.view import SnapshotResources
from makeway.adapters.slurm.translate import Translator
from makeway.adapters.slurm.waiting import eligibility
from makeway.adapters.slurm.waiting.eligibility import reservation_lost, with_reserved_times
from makeway.policies.model import JobKind
from tests import acts
from tests.adapters.slurm.fake_slurm import FakeSlurm, adapter_of, made_reservation
from tests.adapters.slurm.jobs.raw_jobs import NODES, NOW_S, PARTITIONS, PENDING, translated
from tests.adapters.slurm.resources.test_details import JOB, printed
from tests.adapters.slurm.test_parse import ROW


@pytest.mark.parametrize(
    ("changes", "waits_since_s"),
    [
        ({"eligible_s": NOW_S - 500}, NOW_S - 500),
        ({"eligible_s": NOW_S - 100}, NOW_S - 100),
        ({"eligible_s": NOW_S - 600}, NOW_S - 500),
        ({"reason": "BeginTime", "eligible_s": NOW_S + 60}, NOW_S + 60),
        ({"reason": "Dependency", "eligible_s": None}, NOW_S - 500),
        ({"reason": "JobHeldUser", "priority": 0, "eligible_s": None}, NOW_S - 500),
        ({"reason": "None", "eligible_s": None}, NOW_S),
        ({"state": "RUNNING", "nodes": ("n1", "n2"), "start_s": NOW_S, "eligible_s": NOW_S - 9}, NOW_S - 9),
    ],
)
def test_since_when_an_urgent_job_waits(changes: dict[str, Any], waits_since_s: float) -> None:
    """As squeue shows it on 22.05 and 24.11."""
    raw = replace(PENDING, submit_s=NOW_S - 500, **changes)
    assert translated(raw, JobClass(name="u", kind=JobKind.ON_DEMAND)).waits_since_s == waits_since_s
    assert translated(raw).eligible_since_s is None, "of no other job"


@pytest.mark.parametrize("ahead_s", [2.0, 3600.0])
def test_an_urgent_job_may_start_although_the_controller_s_clock_is_ahead(ahead_s: float) -> None:
    """It was eligible at its submission, which is over whatever the clocks say."""
    submitted_s = NOW_S + ahead_s
    raw = replace(PENDING, submit_s=submitted_s, eligible_s=submitted_s)
    job = translated(raw, JobClass(name="u", kind=JobKind.ON_DEMAND))
    assert (job.eligible_s, job.waits_since_s) == (None, submitted_s)
    later = translated(replace(raw, reason="BeginTime", eligible_s=submitted_s + 1.0))
    assert later.eligible_s == submitted_s + 1.0


@pytest.mark.parametrize(
    ("reason", "waits"), [("Dependency", True), ("Licenses", False), ("Priority", False)]
)
def test_which_pending_job_waits_for_another_one(reason: str, waits: bool) -> None:
    assert translated(replace(PENDING, reason=reason)).waits_for_another is waits


@pytest.mark.parametrize(
    "changes",
    [
        {"reason": "Resources"},
        {"reason": "JobHeldUser", "priority": 0},
        {"reason": "ReservationDeleted"},
        {"state": "PENDING"},
        {"nodes": ("n1",)},
    ],
)
def test_a_job_is_kept_from_starting_only_while_its_reason_says_so(changes: dict[str, Any]) -> None:
    """Slurm leaves it in that state until it starts."""
    raw = replace(PENDING, state="RESV_DEL_HOLD", reason="Reservation (null) is invalid")
    assert not reservation_lost(replace(raw, **changes))


@pytest.mark.parametrize(
    ("changes", "held"),
    [
        ({"reason": "Reservation mine was deleted", "priority": 0}, True),
        ({"reason": "Reservation_mine_was_deleted", "priority": 0}, True),
        ({"reason": "Reservation mine was deleted", "priority": 5}, False),  # it was released
        ({"reason": "Reservation (null) is invalid", "priority": 0}, False),  # slurmctld has lost it
        ({"reason": "Resources", "priority": 0}, False),  # it is bound again, on 26.05
        ({"reason": "None", "priority": 5}, False),
    ],
)
def test_a_job_whose_reservation_has_ended_is_held(changes: dict[str, Any], held: bool) -> None:
    """No job leaves for it: it would not start on free nodes either, until it is released."""
    raw = replace(PENDING, state="RESV_DEL_HOLD", **changes)
    job = translated(raw, JobClass(name="u", kind=JobKind.ON_DEMAND))
    assert job.blocked_by == ("its release from a hold" if held else "")
    assert job.eligible_s == (NOT_BEFORE_S if held else None)


@pytest.mark.parametrize(
    ("changes", "least_limit_s", "start_by_s"),
    [
        ({"deadline_s": None}, None, None),
        ({}, None, NOW_S + 1200),
        ({}, 600.0, NOW_S + 4200),
        ({"limit_s": None}, None, NOW_S + 4800),
        ({"nodes": ("n1",)}, None, None),
    ],
    ids=["no deadline", "its time limit", "it may be cut", "no time limit", "it runs"],
)
def test_until_when_a_job_with_a_deadline_may_start(
    changes: dict[str, Any], least_limit_s: float | None, start_by_s: float | None
) -> None:
    raw = replace(PENDING, **({"deadline_s": NOW_S + 4800, "limit_s": 3600.0} | changes))
    assert eligibility.start_by_s(raw, JobKind.ON_DEMAND, least_limit_s) == start_by_s
    assert eligibility.start_by_s(raw, JobKind.RIGID, least_limit_s) is None


@pytest.mark.parametrize("time_min", ["N/A", "00:10:00"])
def test_a_job_that_could_not_be_over_by_its_deadline_waits_for_another_one(time_min: str) -> None:
    """Slurm ends it the next time it looks. A job whose time limit Slurm may cut can start yet."""
    urgent = ROW | {"QOS": "urgent", "Deadline": f"{NOW_S + 1800:.0f}", "TimeLimit": "1:00:00"}
    slurm = FakeSlurm(urgent)
    record = printed(replace(JOB, job_id="17", name=ROW["Name"], account=ROW["Account"]), "")
    told = record.replace("ReqNodeList=", f"TimeMin={time_min} SubmitTime=1 ReqNodeList=", 1)
    slurm.change = lambda lines: [told if line.startswith("JobId=") else line for line in lines]
    (job,) = adapter_of(slurm).snapshot().jobs
    may_start = time_min != "N/A"
    assert job.start_by_s == (NOW_S + 1200 if may_start else NOW_S - 1800)
    assert job.blocked_by == ("" if may_start else "a later deadline: it could not be over by its own")


def reserved(name: str, begins_in_s: float, *flags: str) -> RawReservation:
    start_s = NOW_S + begins_in_s
    return RawReservation(
        name=name, nodes=("n4",), start_s=start_s, end_s=start_s + 3600.0, flags=frozenset(flags)
    )


RESERVATIONS = (
    reserved("course", 7200.0),
    reserved("evening", 9000.0),
    reserved("present", -60.0),
    reserved("flexible", 7200.0, "FLEX"),
    reserved("makeway_c.8", -5.0),
)


@pytest.mark.parametrize(
    ("own", "starts_in_s"),
    [
        (("course",), 7200.0),
        (("evening", "course"), 7200.0),
        (("present",), None),
        (("course", "present"), None),
        (("flexible",), None),
        (("course", "flexible"), None),
        (("unknown",), None),
        (("makeway_c.8",), None),
        (("makeway_c.8", "course"), 7200.0),
        ((), None),
    ],
)
def test_a_job_may_not_start_before_the_first_of_its_own_reservations_begins(
    own: tuple[str, ...], starts_in_s: float | None
) -> None:
    """Tried on 22.05 and 24.11: until then there is no EligibleTime, and from then on it is that instant."""
    holds = HoldNames(prefix="makeway_c.")
    urgent = JobClass(name="u", kind=JobKind.ON_DEMAND)
    for eligible_s in (None, NOW_S - 500):
        raw = replace(PENDING, reason="Reservation", eligible_s=eligible_s, reservations=own)
        (changed,) = with_reserved_times([raw], RESERVATIONS, holds, NOW_S)
        if starts_in_s is None:
            assert changed is raw
        else:
            job = translated(changed, urgent)
            assert (job.eligible_s, job.waits_since_s) == (NOW_S + starts_in_s, NOW_S + starts_in_s)


def test_a_begin_time_after_the_start_of_the_reservation_counts() -> None:
    raw = replace(PENDING, reason="BeginTime", eligible_s=NOW_S + 8000.0, reservations=("course",))
    (changed,) = with_reserved_times([raw], RESERVATIONS, HoldNames(prefix="makeway_c."), NOW_S)
    assert changed.eligible_s == NOW_S + 8000.0


def test_a_snapshot_has_the_start_of_the_job_s_reservation() -> None:
    waits = ROW | {"QOS": "urgent", "Reason": "Reservation", "EligibleTime": "N/A", "Reservation": "course"}
    slurm = FakeSlurm(waits)
    slurm.reservations["course"] = made_reservation(
        "course", StartTime=f"{NOW_S + 60:.0f}", Flags="SPEC_NODES"
    )
    (job,) = adapter_of(slurm).snapshot().jobs
    assert (job.eligible_s, job.waits_since_s) == (NOW_S + 60.0, NOW_S + 60.0)


def test_a_job_that_runs_was_eligible_before() -> None:
    raw = replace(PENDING, state="RUNNING", nodes=("n4",), reservations=("course",))
    (read,) = with_reserved_times([raw], RESERVATIONS, HoldNames(prefix="makeway_c."), NOW_S)
    assert read.eligible_s == raw.eligible_s


DAY_S = 86_400.0


@pytest.mark.parametrize(
    ("own", "limit_s", "leaves"),
    [
        (("ends",), 3600.0, False),
        (("lasts",), 3600.0, True),
        (("lasts",), 3 * DAY_S, False),
        (("lasts",), None, False),
        (("ends", "lasts"), 3600.0, True),
        (("lets_go",), 3600.0, True),
        (("endless",), None, True),
        (("endless",), 3600.0, True),
        (("last_days",), 3600.0, True),
        (("last_days",), 3 * DAY_S, False),
        (("year_is_over",), 3600.0, False),
        (("year_is_over",), None, False),
        (("unknown",), 3600.0, True),
        (("makeway_c.8",), 3600.0, True),
        (("makeway_c.8", "ends"), 3600.0, False),
        ((), None, True),
    ],
)
def test_a_job_stays_that_slurm_would_hold_after_the_end_of_its_reservation(
    own: tuple[str, ...], limit_s: float | None, leaves: bool
) -> None:
    """Slurm would hold the job until somebody releases it."""
    since_s = NOW_S - DAY_S
    known = [
        RawReservation(name="ends", nodes=("n1",), start_s=since_s, end_s=NOW_S + 1000.0),
        RawReservation(name="lasts", nodes=("n1",), start_s=since_s, end_s=NOW_S + 3 * DAY_S),
        RawReservation(
            name="lets_go",
            nodes=("n1",),
            start_s=since_s,
            end_s=NOW_S + 1000.0,
            flags=frozenset({"NO_HOLD_JOBS_AFTER_END"}),
        ),
        RawReservation(name="year_is_over", nodes=("n1",), start_s=NOW_S - 365 * DAY_S, end_s=NOW_S + 1000.0),
        RawReservation(name="last_days", nodes=("n1",), start_s=NOW_S - 362 * DAY_S, end_s=NOW_S + 3 * DAY_S),
        RawReservation(name="endless", nodes=("n1",), start_s=since_s, end_s=since_s + 365 * DAY_S),
        RawReservation(name="makeway_c.8", nodes=("n1",), start_s=since_s, end_s=NOW_S + 1000.0),
    ]
    raw = replace(
        PENDING,
        state="RUNNING",
        nodes=("n4",),
        start_s=since_s,
        limit_s=limit_s,
        batch=True,
        requeueable=True,
        reservations=own,
    )
    (read,) = with_reserved_times([raw], known, HoldNames(prefix="makeway_c."), NOW_S)
    assert translated(read, JobClass(name="b", preemptible=True)).preemptible is leaves


def test_no_hold_is_made_for_a_job_that_would_lose_the_licences_of_its_reservation() -> None:
    """It would wait for its licences in the hold, lose the hold, and get another one, again and again."""
    urgent = JobClass(name="u", kind=JobKind.ON_DEMAND)
    translator = Translator(
        (urgent,),
        SnapshotResources(NODES, PARTITIONS),
        NOW_S,
        exclusive_shrink=True,
        holds=HoldNames(prefix="makeway_c.", licensed=frozenset({"lr"})),
        licenses=FreeLicenses({"fluent": LicenseCount(3, 0)}),
    )
    asks = replace(PENDING, licenses="fluent:2", reservations=("lr",))
    assert translator.job(asks).blocked_by == "licences of its reservation lr, which no hold has"
    for job in (replace(asks, licenses=""), replace(asks, reservations=("other",))):
        assert translator.job(job).blocked_by == ""


@pytest.mark.parametrize("ahead_s", [0, 3600])
@pytest.mark.parametrize(("delay_s", "lifted"), [(121, True), (7 * 86_400, False)])
def test_a_begin_time_that_no_requeue_has_set_stays(delay_s: int, lifted: bool, ahead_s: int) -> None:
    """A requeue counts as a submission, by the controller's clock."""
    at_s = int(NOW_S) + ahead_s
    times = {"SubmitTime": f"{at_s}", "EligibleTime": f"{at_s + delay_s}"}
    slurm = FakeSlurm(ROW | {"RestartCnt": "1", "Reason": "BeginTime"} | times)
    adapter_of(slurm).apply(acts.prioritise("17"))
    assert slurm.acts == [build.to_front("17", requeued=lifted, node_count=None)]
