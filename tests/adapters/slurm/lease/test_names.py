"""Leases as reservations of Slurm: what is written is read again, and nothing else is a lease."""

from dataclasses import replace

from makeway.adapters.slurm.holds import named_as_hold
from makeway.adapters.slurm.lease import names
from makeway.adapters.slurm.parse_cluster import RawReservation
from makeway.policies.model import LEASE_MARKS, LeaderLease

PREFIX = "makeway_prod."
LEASE = LeaderLease(term=7, mark=LEASE_MARKS - 1, lasts_s=120.0)
RAW = RawReservation(
    name="makeway-lease_prod.7",
    nodes=("n1",),
    start_s=names.FIRST_START_S + LEASE_MARKS - 1,
    end_s=names.FIRST_START_S + LEASE_MARKS + 119,
)


def test_a_lease_is_read_as_it_was_written() -> None:
    argv = names.create_lease(LEASE, PREFIX, node="n1", user_id=991)
    assert argv[:4] == ("scontrol", "create", "reservation", f"ReservationName={RAW.name}")
    assert argv[4:] == (
        "Nodes=n1",
        "Users=991",
        f"StartTime=uts{RAW.start_s}",
        f"EndTime=uts{RAW.end_s}",
        "Flags=IGNORE_JOBS,OVERLAP",
    )
    assert names.leases_among([RAW], PREFIX) == {RAW.name: LEASE}


def test_a_lease_that_was_given_up() -> None:
    given_up = replace(LEASE, mark=None)
    argv = names.renew_lease(given_up, PREFIX)
    assert argv[3] == f"StartTime=uts{names.GIVEN_UP_S}"
    raw = replace(RAW, start_s=float(names.GIVEN_UP_S), end_s=names.GIVEN_UP_S + 120.0)
    assert names.leases_among([raw], PREFIX) == {RAW.name: given_up}


def test_what_is_no_lease_of_this_instance() -> None:
    others = [
        replace(RAW, name="makeway-lease_test.7"),
        replace(RAW, name="makeway-lease_prod.07"),
        replace(RAW, name="makeway_prod.7"),
        replace(RAW, start_s=1_800_000_000.0),
    ]
    assert names.leases_among(others, PREFIX) == {}


def test_no_lease_is_named_like_a_hold() -> None:
    assert not named_as_hold(RAW.name, PREFIX)
