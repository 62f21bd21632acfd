"""How many licenses a waiting job could have."""

from dataclasses import replace

import pytest

from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm.holds import HoldNames
from makeway.adapters.slurm.parse_cluster import RawReservation, reservations
from makeway.adapters.slurm.resources.licenses import FreeLicenses, LicenseCount, license_counts
from makeway.adapters.slurm.resources.view import SnapshotResources
from makeway.adapters.slurm.translate import Translator
from makeway.policies.model import JobKind
from tests.adapters.slurm.fake_slurm import FakeSlurm, adapter_of, made_reservation
from tests.adapters.slurm.jobs.raw_jobs import NODES, NOW_S, PARTITIONS, PENDING
from tests.adapters.slurm.test_parse import ROW

COMMAND = ("scontrol",)
ASKS = replace(PENDING, licenses="fluent:2,other", limit_s=600.0)
RESERVED = RawReservation(
    name="theirs", nodes=(), start_s=NOW_S - 60.0, end_s=NOW_S + 60.0, licenses="fluent:1,matlab"
)


def translator(licenses: FreeLicenses) -> Translator:
    return Translator(
        (JobClass(name="u", kind=JobKind.ON_DEMAND),),
        SnapshotResources(NODES, PARTITIONS),
        NOW_S,
        exclusive_shrink=True,
        holds=HoldNames(prefix="makeway_c."),
        licenses=licenses,
    )


def left(*others: RawReservation, free: int = 3, reserved: int = 0, limit_s: float | None = 600.0) -> int:
    counts = {"fluent": LicenseCount(free, reserved), "matlab": LicenseCount(5, 0)}
    found = FreeLicenses(counts, others).left(replace(ASKS, limit_s=limit_s), NOW_S)
    assert found.keys() == {"fluent"}
    return found["fluent"]


def test_what_a_reservation_has_is_left_to_no_other_job() -> None:
    assert left() == 3
    assert left(RESERVED) == 2
    assert left(RESERVED, RESERVED) == 1
    assert left(RESERVED, free=0) == 0


@pytest.mark.parametrize("has", ["matlab:1;fluent:2", "fluent:1;matlab:1;fluent:1", "matlab;fluent=2"])
def test_so_is_it_as_26_05_prints_several(has: str) -> None:
    assert left(replace(RESERVED, licenses=has)) == 1


@pytest.mark.parametrize(
    "asked", ["fluent:2;matlab:1", "matlab,fluent:2", "fluent=2;matlab", "fluent:1,matlab:1,fluent:1"]
)
def test_what_a_job_asks_for_may_be_written_in_several_ways(asked: str) -> None:
    """Tried: of `fluent:1,fluent:1` Slurm needs two (22.05, 24.11, 26.05)."""
    counts = {"fluent": LicenseCount(3, 2), "matlab": LicenseCount(5, 0)}
    job = translator(FreeLicenses(counts)).job(replace(PENDING, licenses=asked))
    assert job.blocked_by == "a licence (fluent: it asks for 2, 1 free)"
    assert {(one.name, one.needs, one.left) for one in job.quotas} == {
        ("licences fluent", 2.0, 1.0),
        ("licences matlab", 1.0, 5.0),
    }


def test_of_what_slurm_says_and_what_its_reservations_have_the_larger_number_counts() -> None:
    assert left(reserved=2) == 1
    assert left(RESERVED, reserved=1) == 2


@pytest.mark.parametrize(
    ("start_s", "end_s", "limit_s", "expected"),
    [
        (300.0, 900.0, 600.0, 2),
        (600.0, 900.0, 600.0, 3),
        (600.0, 900.0, None, 2),
        (-600.0, 0.0, 600.0, 3),
    ],
)
def test_a_reservation_counts_that_overlaps_with_the_run(
    start_s: float, end_s: float, limit_s: float | None, expected: int
) -> None:
    later = replace(RESERVED, start_s=NOW_S + start_s, end_s=NOW_S + end_s)
    assert left(later, limit_s=limit_s) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("natural", "natural"),
        ("fluent:1,natural:2", "natural"),
        ("fluent|natural:1", "natural"),
        ("fluent:1;natural=2", "natural"),
    ],
)
def test_one_of_nodes_is_named(asked: str, expected: str) -> None:
    layers = [
        f"LicenseName=natural Total=2 Used=0 Free={free} Reserved=0 Remote=no Nodes={nodes} Mode=1"
        for free, nodes in ((2, "n[1-3]"), (0, "n[4-6]"))
    ]
    other = "LicenseName=fluent Total=2 Used=0 Free=2 Reserved=0 Remote=no"
    found = FreeLicenses(license_counts([*layers, other], command=COMMAND))
    assert found.on_nodes(replace(PENDING, licenses=asked)) == "natural"
    assert found.on_nodes(replace(PENDING, licenses="fluent:1")) == ""
    assert found.on_nodes(PENDING) == ""


def test_they_are_read() -> None:
    lines = [
        "LicenseName=lic Total=2 Used=0 Free=2 Reserved=1 Remote=no",
        "LicenseName=old Total=1 Used=0 Free=1",
    ]
    assert license_counts(lines, command=COMMAND) == {"lic": LicenseCount(2, 1), "old": LicenseCount(1, 0)}
    shape = "ReservationName={} StartTime=1 EndTime=2 Nodes=(null) Licenses={} State=ACTIVE"
    lines = [shape.format("a", "lic:2"), shape.format("b", "(null)")]
    assert [one.licenses for one in reservations(lines, command=COMMAND)] == ["lic:2", ""]


def test_no_room_is_made_for_a_job_with_a_licence_of_nodes() -> None:
    found = translator(FreeLicenses({"natural": LicenseCount(2, 0, on_nodes=True)}))
    job = found.job(replace(PENDING, licenses="natural"))
    assert job.blocked_by == "nodes that makeway cannot choose (--licenses=natural)"


def test_a_snapshot_counts_what_its_reservations_have() -> None:
    slurm = FakeSlurm(ROW | {"QOS": "urgent", "Licenses": "fluent:1"})
    soon = {"StartTime": f"{NOW_S + 60:.0f}", "Nodes": "(null)", "Flags": "ANY_NODES", "Users": "eve"}
    slurm.reservations = {"theirs": made_reservation("theirs", **soon, Licenses="matlab:1;fluent:1")}
    slurm.change = lambda lines: [
        "LicenseName=fluent Total=1 Used=0 Free=1 Reserved=0 Remote=no"
        if line.startswith("JobId=licenses ")
        else line
        for line in lines
    ]
    (job,) = adapter_of(slurm).snapshot().jobs
    assert job.blocked_by == "a licence (fluent: it asks for 1, 0 free)"
