"""Which reservations are makeway's: by name, instance, flags and shape."""

from dataclasses import replace
from pathlib import Path

import pytest

from makeway.adapters.slurm import build, parse_cluster
from makeway.adapters.slurm.build import RESERVATION_LIMIT
from makeway.adapters.slurm.holds import HoldNames, hold_names, hold_prefix, holds_among, is_hold
from makeway.adapters.slurm.parse_cluster import RawReservation
from tests import acts
from tests.adapters.slurm.fake_slurm import NOW_S, FakeSlurm, adapter_of, made_reservation
from tests.adapters.slurm.jobs.raw_jobs import PENDING
from tests.adapters.slurm.test_parse import ROW

COMMAND = ("scontrol",)
PREFIX = "makeway_c."


def read(line: str) -> RawReservation:
    (found,) = parse_cluster.reservations([line], command=COMMAND)
    return found


def made(name: str, **changes: str) -> RawReservation:
    return read(made_reservation(name, **changes))


def test_the_prefix_has_the_instance_or_the_cluster() -> None:
    assert hold_prefix("hpc", None) == "makeway_hpc."
    assert hold_prefix("hpc", "test") == "makeway_test."
    assert hold_prefix("my.cluster_1", None) == "makeway_my-cluster-1."
    assert hold_prefix("", None) == "makeway_cluster."


def test_a_name_is_printable_and_fits_the_accounting_database() -> None:
    longest = hold_prefix("x\n" * 100, None) + "notice-1795250000-4194304-1000000"
    assert longest.isprintable()
    assert len(longest) <= RESERVATION_LIMIT


@pytest.mark.parametrize(
    "name",
    [
        *("makeway_c.17", "makeway_c.17_3", "makeway_c.17+1", "makeway_c.notice-1795250000-4711-1"),
        *("mw_17", "mw_17_3", "mw_notice-1795250000-4711-1"),
    ],
)
def test_a_reservation_of_the_right_name_and_shape_is_makeway_s(name: str) -> None:
    assert is_hold(made(name), PREFIX)
    assert is_hold(made(name, Users="ada,eve"), PREFIX), "the user of a lender may be admitted"
    lent = "OVERLAP,IGNORE_JOBS,SPEC_NODES,PURGE_COMP=00:01:00,NO_HOLD_JOBS_AFTER_END"
    assert is_hold(made(name, Flags=lent), PREFIX)


@pytest.mark.parametrize(
    "name",
    [
        *("makeway_1", "makeway_test.17", "makeway_c.", "makeway_c.lead-3", "makeway_c.17 b", "makeway_c_17"),
        *("mw_", "mw_expand", "mw_nightly", "maintenance", "Makeway_c.17"),
    ],
)
def test_another_name_is_another_s(name: str) -> None:
    assert not is_hold(made(name), PREFIX)


@pytest.mark.parametrize(
    "changes",
    [
        {"Flags": "SPEC_NODES"},
        {"Flags": "IGNORE_JOBS,SPEC_NODES"},
        {"Flags": "MAINT,IGNORE_JOBS,SPEC_NODES,NO_HOLD_JOBS_AFTER_END"},
        {"Flags": "IGNORE_JOBS,DAILY,SPEC_NODES,NO_HOLD_JOBS_AFTER_END"},
        {"Flags": "IGNORE_JOBS,SPEC_NODES,PURGE_COMP=00:05:00,NO_HOLD_JOBS_AFTER_END"},
        {"Flags": "(null)"},
        {"Users": "(null)"},
        {"Nodes": "(null)"},
        {"EndTime": f"{NOW_S + 365 * 86_400:.0f}"},
        *(
            {key: "x"}
            for key in ("Accounts", "Groups", "Licenses", "Features", "PartitionName", "MaxStartDelay")
        ),
        {"QOS": "x"},
        {"Comment": "x"},
    ],
    ids=str,
)
def test_another_shape_is_another_s(changes: dict[str, str]) -> None:
    assert not is_hold(made("makeway_c.17", **changes), PREFIX)
    assert not is_hold(made("mw_17", **changes), PREFIX)


@pytest.mark.parametrize("release", ["22.05", "24.11", "26.05"])
def test_what_slurm_shows_of_a_hold_is_recognised(release: str) -> None:
    text = (Path(__file__).parent / "captured" / release / "scontrol.txt").read_text()
    lines = [line for line in text.splitlines() if line.startswith("ReservationName=")]
    hold, theirs = parse_cluster.reservations(lines, command=COMMAND)
    assert hold.users == ("root",)
    assert is_hold(hold, PREFIX)
    assert is_hold(replace(hold, name="makeway_c.7"), PREFIX)
    assert not is_hold(replace(theirs, name="makeway_c.7"), PREFIX)


def test_an_old_name_of_a_job_counts_only_while_that_job_is_bound() -> None:
    """Slurm itself calls an unnamed reservation of user `mw` `mw_7`."""
    hold = made("mw_7")
    bound = replace(PENDING, job_id="7", reservations=("mw_7",))
    assert holds_among([hold], [bound], PREFIX) == {"mw_7": True}
    assert holds_among([hold], [replace(bound, job_id="8")], PREFIX) == {"mw_7": False}
    assert holds_among([hold], [], PREFIX) == {"mw_7": False}
    kept = made("mw_7", Flags="IGNORE_JOBS,SPEC_NODES,NO_HOLD_JOBS_AFTER_END")
    assert holds_among([kept], [bound], PREFIX) == {"mw_7": False}, "Slurm would not remove it by itself"


def test_an_old_name_of_an_announcement_counts() -> None:
    flags = "IGNORE_JOBS,SPEC_NODES,NO_HOLD_JOBS_AFTER_END"
    assert holds_among([made("mw_notice-1795250000-4711-1", Flags=flags)], [], PREFIX) == {
        "mw_notice-1795250000-4711-1": True
    }
    assert holds_among([made("mw_notice-a", Flags=flags)], [], PREFIX) == {"mw_notice-a": False}


def test_a_job_keeps_the_reservations_that_are_no_holds() -> None:
    names = HoldNames(prefix=PREFIX, seen={"mw_1": False, "mw_7": True})
    job = replace(PENDING, reservations=("mw_1", "mw_7", "theirs"))
    assert names.counting(job) == "mw_7"
    assert names.own(job, "makeway_c.7") == ("mw_1", "theirs")
    assert names.counting(replace(job, reservations=("mw_1", "theirs"))) == "mw_1,theirs"
    assert names.counting(replace(job, reservations=())) is None
    assert names.own(replace(job, reservations=("makeway_c.8", "mw_9")), "mw_9") == ()


def test_a_hold_of_an_earlier_version_is_none_of_the_user_s_reservations() -> None:
    """The snapshot has shown whose it is: its name alone does not say it."""
    row = ROW | {"Reservation": "makeway_c.17,mw_17,theirs"}
    slurm = FakeSlurm(row, script=((1, "", "Requested reservation is in use"),))
    slurm.reservations = {name: made_reservation(name) for name in ("makeway_c.17", "mw_17")}
    adapter = adapter_of(slurm)
    adapter.snapshot()
    adapter.apply(acts.release("makeway_c.17", job_id="17"))
    assert build.bind("17", None, own=("theirs",)) in slurm.acts


def test_the_reservations_that_keep_licences_are_known() -> None:
    """A job that is bound to a hold instead would wait for them."""
    names = hold_names([made("theirs", Licenses="fluent:2"), made("makeway_c.7")], [], PREFIX, (24, 11))
    assert names.licensed == frozenset({"theirs"})
    assert names.seen == {"theirs": False, "makeway_c.7": True}


@pytest.mark.parametrize("release", ["22.05.8", "24.11.5", "26.05.5"])
@pytest.mark.parametrize("flag", ["REPLACE", "REPLACE_DOWN", "MAINT"])
def test_where_slurmctld_would_end_no_hold_is_made_for_a_job_of_a_replaced_reservation(
    release: str, flag: str
) -> None:
    row = ROW | {"QOS": "urgent", "Reservation": "theirs"}
    slurm = FakeSlurm(row, row | {"JobArrayID": "18", "Reservation": "other"}, release=release)
    slurm.reservations = {"theirs": made_reservation("theirs", Flags=f"{flag},SPEC_NODES")}
    slurm.reservations["other"] = made_reservation("other", Flags="SPEC_NODES")
    theirs, other = adapter_of(slurm).snapshot().jobs
    ends = release == "26.05.5" and flag == "REPLACE"
    assert theirs.blocked_by.startswith("another reservation than theirs" if ends else "")
    assert bool(theirs.blocked_by) is ends
    assert other.blocked_by == ""


def test_the_hold_for_a_job_without_a_time_limit_is_makeway_s() -> None:
    """Slurm's own reservations without an end last 365 days, and such a job counts as one of 365 days."""
    argv = build.create_reservation(
        "makeway_c.17", nodes=("n3",), duration_s=366 * 86_400.0, users=("0",), purge=True
    )
    (end,) = (word for word in argv if word.startswith("EndTime="))
    lasts_s = int(end.removeprefix("EndTime=now+").removesuffix("seconds"))
    hold = made("makeway_c.17")
    assert is_hold(replace(hold, end_s=hold.start_s + lasts_s), PREFIX)
    assert not is_hold(replace(hold, end_s=hold.start_s + 366 * 86_400), PREFIX)
