"""Which job is what, and which nodes may serve it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.adapters.site.job_class import JobClass
from makeway.adapters.site.text import printable
from makeway.adapters.site.times import NOT_BEFORE_S
from makeway.adapters.slurm import build
from makeway.adapters.slurm.entitlement.assoc_mgr import Limited, Scope
from makeway.adapters.slurm.holds import HoldNames
from makeway.adapters.slurm.nodes.states import node
from makeway.adapters.slurm.parse import Gres, RawJob
from makeway.adapters.slurm.resources.licenses import FreeLicenses, LicenseCount
from makeway.adapters.slurm.resources.limits import KnownLimits
from makeway.adapters.slurm.resources.view import SnapshotResources
from makeway.adapters.slurm.translate import (
    Translator,
    job_class,
    over,
    state,
)
from makeway.policies.model import (
    QUEUE_POSITIONS,
    JobKind,
    JobState,
    LostNodes,
    NodeState,
    PastSize,
    Quota,
    TakenFromJob,
)
from tests.adapters.slurm.jobs.raw_jobs import (
    ANY,
    NODES,
    NOW_S,
    PARTITIONS,
    PENDING,
    RUNNING,
    serving,
    translated,
)

# Classes


def test_the_time_to_set_up_is_that_of_the_class() -> None:
    assert translated(RUNNING).setup_s == 0.0
    assert translated(RUNNING, replace(ANY, setup_s=5.0)).setup_s == 5.0


def test_a_job_of_no_class_is_never_touched() -> None:
    job = translated(RUNNING)
    assert (job.kind, job.preemptible, job.checkpoint) == (JobKind.RIGID, False, None)


@pytest.mark.parametrize(
    ("condition", "job"),
    [
        (JobClass(name="x", partitions=frozenset({"batch"})), PENDING),
        (JobClass(name="x", qos=frozenset({"normal", "other"})), PENDING),
        (JobClass(name="x", accounts=frozenset({"physics"})), PENDING),
        (JobClass(name="x", users=frozenset({"alice"})), PENDING),
        (JobClass(name="x", features=frozenset({"fast"})), replace(PENDING, features="small|(fast&large)")),
        (
            JobClass(name="x", words=frozenset({"urgent"})),
            replace(PENDING, comment="please makeway:urgent now"),
        ),
    ],
)
def test_each_condition_alone(condition: JobClass, job: RawJob) -> None:
    assert job_class(job, (condition,)) is condition
    other = replace(
        job,
        partitions=("p",),
        qos="q",
        account="a",
        user="u",
        features="breakfast",
        comment="makeway:urgently",
    )
    assert job_class(other, (condition,)) is None


def test_all_conditions_have_to_hold_and_the_first_class_wins() -> None:
    both = JobClass(name="both", users=frozenset({"alice"}), qos=frozenset({"urgent"}))
    assert job_class(PENDING, (both, ANY)) is ANY
    assert job_class(replace(PENDING, qos="urgent"), (both, ANY)) is both


def test_an_urgent_job_is_never_preemptible() -> None:
    urgent = JobClass(name="u", kind=JobKind.ON_DEMAND, preemptible=True, start_within_s=120.0)
    job = translated(RUNNING, urgent)
    assert (job.kind, job.preemptible, job.start_within_s) == (JobKind.ON_DEMAND, False, 120.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"heterogeneous": True},
        {"batch": False},
        {"requeueable": False},
        {"deadline_s": NOW_S + 1e6},
        {"priority": 0},
        {"state": "CONFIGURING"},
        {"state": "COMPLETING"},
        {"state": "SUSPENDED"},
        {"state": "SOMETHING_NEW"},
    ],
)
def test_what_would_not_run_again_after_a_requeue_is_not_touched(changes: dict[str, Any]) -> None:
    assert translated(RUNNING, ANY).preemptible
    assert not translated(replace(RUNNING, **changes), ANY).preemptible


def test_a_heterogeneous_job_is_never_touched() -> None:
    job = translated(replace(RUNNING, heterogeneous=True), ANY)
    assert (job.kind, job.preemptible, job.checkpoint) == (JobKind.RIGID, False, None)


# Malleable jobs


def test_the_sizes_of_a_malleable_job() -> None:
    malleable = JobClass(name="m", kind=JobKind.MALLEABLE, preemptible=True, node_count_min=1)
    job = translated(RUNNING, malleable)
    assert (job.node_count, job.node_count_min, job.node_count_max) == (2, 1, 2)
    lost = LostNodes(node_count=2, kept_count=1, walltime_s=None, since_s=0.0)
    taken = TakenFromJob(run=RUNNING.restarts, for_job_id="9", lost_nodes=lost)
    shrunk = translated(replace(RUNNING, nodes=("n1",), node_count=1), malleable, taken=taken)
    assert (shrunk.node_count, shrunk.node_count_min, shrunk.node_count_max) == (1, 1, 2)
    assert (job.past_sizes, shrunk.past_sizes) == ((), (PastSize(node_count=2, until_s=0.0),))


@pytest.mark.parametrize(("word", "smallest"), [("2", 2), ("0", 1), ("99", 4), ("", 3)])
def test_a_job_may_tell_its_smallest_size(word: str, smallest: int) -> None:
    malleable = JobClass(name="m", kind=JobKind.MALLEABLE, node_count_min=3)
    raw = replace(PENDING, node_count=4, comment=f"makeway:min-nodes={word}")
    assert translated(raw, malleable).node_count_min == smallest


def test_a_rigid_job_has_no_other_sizes() -> None:
    job = translated(replace(RUNNING, comment="makeway:min-nodes=1"), ANY)
    assert (job.node_count_min, job.node_count_max) == (None, None)


def test_an_exclusive_job_is_malleable_where_slurm_can_shrink_it() -> None:
    malleable = JobClass(name="m", kind=JobKind.MALLEABLE, preemptible=True)
    raw = replace(RUNNING, exclusive=True)
    assert translated(raw, malleable).kind is JobKind.MALLEABLE
    job = translated(raw, malleable, exclusive_shrink=False)
    assert (job.kind, job.preemptible, job.node_count_min) == (JobKind.RIGID, True, None)


def test_a_shrunk_job_that_was_requeued_small_has_its_size() -> None:
    """22.05: NumNodes stays at 3, the requested resources still have 6 nodes."""
    raw = replace(PENDING, restarts=1, node_count=3, tres="cpu=6,mem=6000M,node=6,billing=6")
    assert translated(raw).node_count == 6
    assert translated(replace(raw, restarts=0)).node_count == 3


# States and when a job may start


@pytest.mark.parametrize(
    ("name", "nodes", "expected"),
    [
        ("PENDING", (), JobState.PENDING),
        ("REQUEUED", (), JobState.PENDING),
        ("RUNNING", ("n1",), JobState.RUNNING),
        ("CONFIGURING", ("n1",), JobState.RUNNING),
        ("COMPLETING", ("n1",), JobState.COMPLETING),
        ("SUSPENDED", ("n1",), JobState.SUSPENDED),
        ("STOPPED", ("n1",), JobState.SUSPENDED),
        ("RESV_DEL_HOLD", ("n1",), JobState.RUNNING),
        ("RESV_DEL_HOLD", (), JobState.PENDING),
        ("SOMETHING_NEW", ("n1",), JobState.SUSPENDED),
        ("SOMETHING_NEW", (), JobState.PENDING),
    ],
)
def test_states(name: str, nodes: tuple[str, ...], expected: JobState) -> None:
    assert state(replace(PENDING, state=name, nodes=nodes)) is expected
    assert not over(replace(PENDING, state=name))


@pytest.mark.parametrize("priority", [0, 1], ids=["26.05", "24.11"])
def test_a_waiting_job_whose_reservation_is_lost_is_not_held(priority: int) -> None:
    raw = replace(PENDING, state="RESV_DEL_HOLD", reason="Reservation (null) is invalid", priority=priority)
    job = translated(raw)
    assert (job.state, job.blocked_by, job.eligible_s) == (JobState.PENDING, "", None)
    assert job.reservation_lost


def test_a_job_that_has_ended_is_over() -> None:
    assert all(over(replace(PENDING, state=name)) for name in ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"))


@pytest.mark.parametrize(
    ("changes", "eligible_s"),
    [
        ({}, None),
        ({"reason": "None"}, None),
        ({"reason": "Priority"}, None),
        ({"reason": "ReqNodeNotAvail, May be reserved for other job"}, None),
        ({"reason": "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved"}, None),
        ({"reason": "BeginTime", "eligible_s": NOW_S + 60}, NOW_S + 60),
        ({"reason": "BeginTime", "eligible_s": NOW_S - 1}, None),
        ({"reason": "Dependency", "eligible_s": None}, NOT_BEFORE_S),
        ({"reason": "JobHeldUser", "priority": 0}, NOT_BEFORE_S),
        ({"reason": "None", "priority": 0}, NOT_BEFORE_S),
        ({"reason": "QOSMaxJobsPerUserLimit"}, NOT_BEFORE_S),
        ({"reason": "Licenses"}, NOT_BEFORE_S),
        ({"reason": "PartitionConfig"}, NOT_BEFORE_S),
        ({"reason": "PartitionConfig", "partitions": ("big", "batch")}, None),
    ],
)
def test_when_a_pending_job_may_start(changes: dict[str, Any], eligible_s: float | None) -> None:
    assert translated(replace(PENDING, **changes)).eligible_s == eligible_s


@pytest.mark.parametrize(
    ("changes", "blocked_by", "examined"),
    [
        ({}, "", True),
        ({"reason": "Priority"}, "", True),
        ({"reason": "None"}, "", False),
        ({"reason": "SchedDefer"}, "", False),
        ({"reason": "Reservation"}, "", True),
        ({"reason": "BeginTime", "eligible_s": NOW_S + 60}, "", True),
        ({"reason": "JobHeldUser", "priority": 0}, "its release from a hold (JobHeldUser)", True),
        ({"reason": "None", "priority": 0}, "its release from a hold", False),
        ({"reason": "QOSMaxJobsPerUserLimit"}, "a limit of its QOS (QOSMaxJobsPerUserLimit)", True),
        ({"reason": "AssocGrpNodeLimit"}, "a limit of its account or user (AssocGrpNodeLimit)", True),
        ({"reason": "DependencyNeverSatisfied"}, "another job (DependencyNeverSatisfied)", True),
        ({"reason": "NewInThisRelease"}, "what Slurm names as the reason (NewInThisRelease)", True),
    ],
)
def test_what_a_pending_job_lacks(changes: dict[str, Any], blocked_by: str, examined: bool) -> None:
    job = translated(replace(PENDING, **changes))
    assert (job.blocked_by, job.examined) == (blocked_by, examined)


def test_a_running_job_lacks_nothing() -> None:
    job = translated(RUNNING)
    assert (job.blocked_by, job.examined, job.quotas) == ("", True, ())


def test_urgent_jobs_share_licences_and_limits() -> None:
    urgent = JobClass(name="u", kind=JobKind.ON_DEMAND)
    raw = replace(PENDING, licenses="fluent:2,other")
    translator = Translator(
        (urgent,),
        SnapshotResources(NODES, PARTITIONS),
        NOW_S,
        exclusive_shrink=True,
        holds=HoldNames(prefix="makeway_c."),
        licenses=FreeLicenses({"fluent": LicenseCount(3, 0)}),
        limits=KnownLimits(limited=(Limited(scope=Scope.QOS, qos="normal", left={"jobs": 4.0}),)),
    )
    assert translator.job(raw).quotas == (
        Quota(name="licences fluent", needs=2.0, left=3.0),
        Quota(name="jobs of QOS normal", needs=1.0, left=4.0),
    )


def test_a_pending_job_has_no_start_and_a_running_one_no_delay() -> None:
    assert translated(PENDING).start_s is None
    running = translated(RUNNING)
    assert (running.start_s, running.eligible_s) == (NOW_S - 400, None)


def test_a_prioritised_job_is_known_by_its_priority() -> None:
    assert not translated(PENDING).prioritised
    assert translated(replace(PENDING, priority=build.FRONT_PRIORITY)).prioritised


@pytest.mark.parametrize(
    ("below_front", "queue_position"),
    [(0, None), (1, None), (2, 1), (1 + QUEUE_POSITIONS, QUEUE_POSITIONS), (2 + QUEUE_POSITIONS, None)],
)
def test_a_place_is_read_from_the_priority(below_front: int, queue_position: int | None) -> None:
    job = translated(replace(PENDING, priority=build.FRONT_PRIORITY - below_front))
    assert job.queue_position == queue_position
    assert job.prioritised is (queue_position is not None or below_front == 0)


# Which nodes may serve


def test_demands() -> None:
    assert serving() == "all"
    assert serving(partitions=("big",)) == "n5 n6 n7 n8"
    assert serving(partitions=("closed",)) == ""
    assert serving(partitions=("unknown",)) == ""
    assert serving(partitions=("closed", "big", "batch")) == "all"
    assert serving(features="fast&large") == "n5 n6 n7 n8"
    assert serving(features="[small|fast]") == "n1 n2 n3 n4"
    assert serving(features="small*2") == ""
    assert serving(excluded_nodes=("n1", "n8")) == "n2 n3 n4 n5 n6 n7"
    assert serving(least_cpus_per_node=4) == "n5 n6 n7 n8"
    assert serving(cpu_count=5) == "n5 n6 n7 n8"
    assert serving(memory_mb=10_000.0) == "n5 n6 n7 n8"
    assert serving(memory_mb=100.0, tres="cpu=4,mem=20000M,node=2") == "n5 n6 n7 n8"
    assert serving(memory_mb=100.0, tres="cpu=4,mem=14000M,node=2") == "all", "7,000 MB on each node"
    assert serving(memory_mb=0.0, tres="cpu=4,mem=20000M,node=2") == "all"
    assert serving(gres_per_node=(Gres(name="gpu", type="", count=4),)) == "n5 n6 n7 n8"
    assert serving(gres_per_node=(Gres(name="gpu", type="h100", count=1),)) == ""
    assert serving(gres_per_job=(Gres(name="gpu", type="a100", count=9),)) == ""
    assert serving(gres_per_job=(Gres(name="gpu", type="a100", count=8),)) == "n5 n6 n7 n8"


def test_required_nodes() -> None:
    """A set of nodes cannot say "these, and some others"; then no room is made rather than the wrong one."""
    assert serving(required_nodes=("n2", "n5")) == "n2 n5"
    assert serving(required_nodes=("n2",)) == ""
    assert serving(required_nodes=("n2", "n5"), partitions=("big",)) == ""


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ("IDLE", NodeState.UP),
        ("ALLOCATED", NodeState.UP),
        ("MIXED PLANNED", NodeState.UP),
        ("IDLE RESERVED", NodeState.UP),
        ("ALLOCATED COMPLETING", NodeState.UP),
        ("IDLE DRAIN", NodeState.DRAINED),
        ("MIXED DRAIN", NodeState.DRAINED),
        ("IDLE MAINTENANCE", NodeState.DRAINED),
        ("DOWN", NodeState.DOWN),
        ("DOWN DRAIN", NodeState.DOWN),
        ("IDLE NOT_RESPONDING", NodeState.SILENT),
        ("IDLE CLOUD POWERED_DOWN", NodeState.DOWN),
        ("ALLOCATED REBOOT_REQUESTED", NodeState.DOWN),
    ],
)
def test_node_states(states: str, expected: NodeState) -> None:
    assert node(replace(NODES[0], states=frozenset(states.split()))).state is expected


# Users' text


def test_the_text_of_users_is_harmless_in_a_log() -> None:
    assert printable("a b=é") == "a b=é"
    assert printable("a\n\x1b[31m\udcff\u202e") == "a\\n\\x1b[31m\\udcff\\u202e"
    job = translated(replace(PENDING, account="x\ny", user="\udcffz"))
    assert (job.account, job.user) == ("x\\ny", "\\udcffz")


@settings(deadline=None)
@given(st.text())
def test_printable_text_is_printable(text: str) -> None:
    assert printable(text).isprintable()
    printable(text).encode("utf-8")


# How many nodes an urgent job asks for


@pytest.mark.parametrize(
    ("told", "asked", "cpus", "sizes"),
    [
        (2, 2, 2, (2, 2)),  # -N2
        (2, 2, 1, (2, 2)),  # -N2-4, before Slurm has thought about it
        (4, 2, 1, (2, 4)),  # -N2-4
        (4, 2, 4, (2, 4)),  # -N2-4 --ntasks-per-node=2
        (3, 1, 5, (3, 3)),  # -N1-3 -n5: its CPUs take three nodes of two
        (4, 1, 7, (4, 4)),  # -n7
        (6, 4, 1, (4, 6)),  # -N4-6 --exclusive
        (3, 0, 1, (3, 3)),  # no word of its resources
    ],
)
def test_the_range_of_a_waiting_urgent_job(told: int, asked: int, cpus: int, sizes: tuple[int, int]) -> None:
    urgent = JobClass(name="urgent", kind=JobKind.ON_DEMAND)
    tres = f"cpu={cpus},node={asked},billing=1" if asked else ""
    raw = replace(PENDING, node_count=told, tres=tres, cpu_count=cpus)
    job = translated(raw, urgent)
    assert (job.node_count, job.node_count_max) == sizes
    # No other job's size is doubted, and a job that runs has the nodes that it has.
    assert translated(raw).node_count == told
    assert translated(replace(RUNNING, tres=tres), urgent).node_count == 2


def test_the_least_size_decides_which_nodes_may_serve() -> None:
    urgent = JobClass(name="urgent", kind=JobKind.ON_DEMAND)
    raw = replace(PENDING, node_count=4, tres="cpu=4,node=2", cpu_count=4, partitions=("big",))
    wanted = replace(raw, gres_per_job=(Gres(name="gpu", type="a100", count=16),))
    assert translated(raw, urgent).eligible_nodes == frozenset({"n5", "n6", "n7", "n8"})
    served = translated(wanted, urgent)
    assert (served.node_count, served.eligible_nodes) == (4, frozenset({"n5", "n6", "n7", "n8"}))
    narrow = replace(wanted, node_count=2)
    assert translated(narrow, urgent).eligible_nodes == frozenset()
    assert translated(replace(raw, required_nodes=("n5", "n6")), urgent).eligible_nodes == frozenset(
        {"n5", "n6"}
    )
