"""What an eviction takes, what it is priced at, and what the site allows it to cost."""

from dataclasses import replace

import pytest

from makeway.policies.gate.arbiter import arbitrate
from makeway.policies.model import Acknowledgement, CheckpointSpec, Job, Limits, Method, Notice, Reserve
from makeway.policies.safety.prices import (
    day_ceiling,
    killed_node_s,
    loss_node_s,
    payer_of,
    price_node_s,
    price_refusal,
    reported_s,
    started_with,
    unsaved_s,
)
from makeway.policies.safety.protection import Refusal
from tests.policies.arriving import NOW_S, Build, BuildCluster, hold, requeue
from tests.policies.eviction.test_policy_under_way import operation

HOUR_S = 3600.0


@pytest.fixture
def job(running: Build) -> Job:
    """On two nodes for 1,000 s."""
    found: Job = running("a", "n0 n1")
    return found


def test_a_checkpoint_in_the_future_is_none(job: Job) -> None:
    promised = replace(job, last_checkpoint_s=NOW_S + 1.0)
    assert reported_s(promised, NOW_S) is None
    assert reported_s(promised, NOW_S + 1.0) == NOW_S + 1.0
    assert unsaved_s(promised, NOW_S) == 1000.0


def test_without_a_report_a_job_loses_what_is_usual_in_its_class(job: Job) -> None:
    silent = replace(job, usual_unsaved_s=300.0)
    assert unsaved_s(silent, NOW_S) == 300.0
    assert unsaved_s(silent, NOW_S - 900.0) == 100.0, "it has not run longer"
    assert unsaved_s(replace(silent, last_checkpoint_s=NOW_S - 700.0), NOW_S) == 700.0, (
        "its own report counts"
    )
    assert unsaved_s(replace(silent, start_s=None), NOW_S) == 0.0


def test_past_evictions_raise_the_price(job: Job) -> None:
    assert price_node_s(job, NOW_S) == loss_node_s(job, NOW_S) == 2000
    assert price_node_s(replace(job, past_evictions=1), NOW_S) == 8000
    assert price_node_s(replace(job, past_evictions=2), NOW_S) == 18_000


def test_only_kills_lose_work(job: Job, running: Build, cluster_of: BuildCluster) -> None:
    cluster = cluster_of(4, job, running("b", "n2"), running("c", "n3"))
    actions = (
        hold("u", "n0", 60.0),
        requeue("a", "u", Method.KILL, NOW_S),
        requeue("b", "u", Method.SYSTEM, NOW_S),
        requeue("c", "u", Method.APPLICATION, NOW_S),
        requeue("gone", "u", Method.KILL, NOW_S),
    )
    assert killed_node_s(actions, cluster) == 2000


@pytest.mark.parametrize(
    ("cost", "before", "others", "expected"),
    [
        (512.0, {}, 0.0, "it would cost 512 node-hours, the limit is 200 (max_loss_node_hours)"),
        (200.0, {}, 0.0, None),
        (
            150.0,
            {"u": 60.0},
            0.0,
            "it would cost 150 node-hours after 60 before, the limit is 200 (max_loss_node_hours)",
        ),
        (150.0, {"v": 60.0}, 0.0, None),
        (
            150.0,
            {"v": 300.0},
            60.5,
            (
                "it would cost 150 node-hours, and 360.50 of the 500 of a day are used "
                "(max_loss_node_hours_per_day)"
            ),
        ),
        (150.0, {"v": 300.0}, 50.0, None),
        (0.0, {"u": 900.0}, 0.0, None),
    ],
)
def test_what_an_urgent_job_may_cost(
    cluster_of: BuildCluster, cost: float, before: dict[str, float], others: float, expected: str | None
) -> None:
    cluster = replace(
        cluster_of(1, limits=Limits(max_loss_node_hours=200.0, max_loss_node_hours_per_day=500.0)),
        lost_node_s={job_id: hours * HOUR_S for job_id, hours in before.items()},
    )
    refusal = price_refusal(cluster, "u", cost * HOUR_S, {"w": others * HOUR_S})
    assert (None if refusal is None else refusal[1]) == expected
    free = replace(cluster, limits=Limits(max_loss_node_hours=None, max_loss_node_hours_per_day=None))
    assert price_refusal(free, "u", cost * HOUR_S, {"w": others * HOUR_S}) is None


@pytest.mark.parametrize(
    ("limits", "cost", "expected"),
    [
        (Limits(max_loss_machine_share=0.5), 200.0, None),
        (Limits(max_loss_machine_share=0.5), 240.0, None),
        (
            Limits(max_loss_machine_share=0.5),
            241.0,
            "it would cost 241 node-hours, the limit is 240 (max_loss_machine_share)",
        ),
        (Limits(max_loss_machine_share=0.1), 200.0, None),
        (
            Limits(max_loss_node_hours=7.0),
            8.0,
            "it would cost 8 node-hours, the limit is 7 (max_loss_node_hours)",
        ),
        (
            Limits(max_loss_machine_share=0.1),
            201.0,
            "it would cost 201 node-hours, the limit is 200 (max_loss_node_hours)",
        ),
        (
            Limits(
                max_loss_node_hours=None,
                max_loss_machine_share=0.5,
                max_loss_node_hours_per_day=100.0,
                max_loss_machine_share_per_day=0.5,
            ),
            191.0,
            (
                "it would cost 191 node-hours, and 50 of the 240 of a day are used "
                "(max_loss_machine_share_per_day)"
            ),
        ),
    ],
)
def test_the_limits_grow_with_the_machine(
    cluster_of: BuildCluster, limits: Limits, cost: float, expected: str | None
) -> None:
    """Twenty nodes can do 480 node-hours in a day."""
    refusal = price_refusal(cluster_of(20, limits=limits), "u", cost * HOUR_S, {"w": 50.0 * HOUR_S})
    assert (None if refusal is None else refusal[1]) == expected


def test_the_defaults_grow_with_a_large_machine(cluster_of: BuildCluster) -> None:
    """A thousand nodes can do 24,000 node-hours in a day."""
    large = cluster_of(1000)
    assert day_ceiling(large) == (2400.0 * HOUR_S, "max_loss_machine_share_per_day")
    assert price_refusal(large, "u", 720.0 * HOUR_S) is None
    refusal = price_refusal(large, "u", 721.0 * HOUR_S)
    assert refusal is not None
    assert refusal[1] == "it would cost 721 node-hours, the limit is 720 (max_loss_machine_share)"
    small = cluster_of(400)
    assert day_ceiling(small) == (1000.0 * HOUR_S, "max_loss_node_hours_per_day")
    assert day_ceiling(replace(large, limits=Limits(max_loss_node_hours_per_day=50.0))) == (
        50.0 * HOUR_S,
        "max_loss_node_hours_per_day",
    )


CAPPED = Limits(
    max_loss_node_hours=None,
    max_loss_node_hours_per_day=None,
    max_loss_node_hours_per_user_per_day=40.0,
    max_loss_node_hours_per_account_per_day=60.0,
)


@pytest.mark.parametrize(
    ("user", "account", "cost", "expected"),
    [
        ("beam", "light", 10.0, None),
        (
            "beam",
            "light",
            11.0,
            (
                "it would cost 11 node-hours, and 30 of the 40 of a day of user beam are used "
                "(max_loss_node_hours_per_user_per_day)"
            ),
        ),
        ("eve", "light", 15.0, None),
        (
            "eve",
            "light",
            16.0,
            (
                "it would cost 16 node-hours, and 45 of the 60 of a day of account light are used "
                "(max_loss_node_hours_per_account_per_day)"
            ),
        ),
        ("eve", "dark", 40.0, None),
        ("", "", 1000.0, None),
    ],
)
def test_a_user_and_an_account_may_only_cost_so_much(
    waiting: Build, cluster_of: BuildCluster, user: str, account: str, cost: float, expected: str | None
) -> None:
    """Of beam, 25 node-hours are used, and 5 more by the same decision; of its account 40 and 5."""
    cluster = replace(
        cluster_of(
            4,
            waiting("u", 1, user=user, account=account),
            waiting("w", 1, user="beam", account="light"),
            limits=CAPPED,
        ),
        lost_by_user={"beam": 25.0 * HOUR_S},
        lost_by_account={"light": 40.0 * HOUR_S},
    )
    refusal = price_refusal(cluster, "u", cost * HOUR_S, {"w": 5.0 * HOUR_S})
    assert (None if refusal is None else refusal[1]) == expected


def test_the_user_of_an_announcement_pays_for_it(cluster_of: BuildCluster) -> None:
    notice = Notice(
        notice_id="n",
        user="beam",
        node_count=2,
        walltime_s=60.0,
        announced_s=0.0,
        expected_s=NOW_S,
        account="light",
    )
    cluster = replace(cluster_of(4, limits=CAPPED), notices=(notice,), lost_by_user={"beam": 40.0 * HOUR_S})
    assert payer_of(cluster, "n") == ("beam", "light")
    refusal = price_refusal(cluster, "n", 1.0)
    assert refusal is not None
    assert refusal[0] is Refusal.MAX_LOSS_PER_USER


def refusals(cluster_of: BuildCluster, job: Job, other: Job, limits: Limits) -> list[Refusal | None]:
    """The verdicts on two groups: u takes the nodes of a, v those of b."""
    cluster = cluster_of(4, job, other, limits=limits)
    groups: tuple[tuple[Reserve, str, str], ...] = (
        (hold("u", "n0 n1", 60.0), "a", "u"),
        (hold("v", "n2 n3", 60.0), "b", "v"),
    )
    actions = [
        action for held, job_id, by in groups for action in (held, requeue(job_id, by, Method.KILL, NOW_S))
    ]
    return [verdict.refusal for verdict in arbitrate(actions, cluster)]


def test_the_arbiter_refuses_what_costs_too_much_whatever_the_policy(
    job: Job, running: Build, cluster_of: BuildCluster
) -> None:
    """a loses 2,000 node-seconds, b 1,000."""
    other = running("b", "n2 n3", start_s=NOW_S - 500.0)
    allowed = [None] * 4
    per_job = Limits(max_loss_node_hours=1500.0 / HOUR_S)
    assert refusals(cluster_of, job, other, per_job) == [Refusal.GROUP, Refusal.MAX_LOSS, None, None]
    per_day = Limits(max_loss_node_hours_per_day=2500.0 / HOUR_S)
    assert refusals(cluster_of, job, other, per_day) == [None, None, Refusal.GROUP, Refusal.MAX_LOSS_PER_DAY]
    assert refusals(cluster_of, job, other, Limits(max_loss_node_hours_per_day=3000.0 / HOUR_S)) == allowed


@pytest.mark.parametrize(
    "limits",
    [
        Limits(max_loss_node_hours=1999.0 / HOUR_S),
        Limits(max_loss_node_hours_per_day=1999.0 / HOUR_S),
        Limits(max_loss_node_hours_per_user_per_day=1999.0 / HOUR_S),
        Limits(max_loss_node_hours_per_account_per_day=1999.0 / HOUR_S),
    ],
)
def test_the_first_kill_is_checked_again_when_it_is_sent(
    job: Job, waiting: Build, cluster_of: BuildCluster, limits: Limits
) -> None:
    """By now, a would lose 2,000 node-seconds. 1,500 were expected, and count already."""
    leaving = (hold("u", "n0 n1", 60.0), requeue("a", "u", Method.KILL, NOW_S))
    known = operation(leaving, "n0 n1")
    cluster = replace(
        cluster_of(2, job, waiting("u", 2, user="beam", account="light"), operations=(known,)),
        lost_node_s={"u": 1500.0},
        lost_by_user={"beam": 1500.0},
        lost_by_account={"light": 1500.0},
    )
    (verdict,) = arbitrate(leaving[1:], replace(cluster, limits=limits))
    assert verdict.refusal in {
        Refusal.MAX_LOSS,
        Refusal.MAX_LOSS_PER_DAY,
        Refusal.MAX_LOSS_PER_USER,
        Refusal.MAX_LOSS_PER_ACCOUNT,
    }
    enough = Limits(
        max_loss_node_hours=2000.0 / HOUR_S,
        max_loss_node_hours_per_day=2000.0 / HOUR_S,
        max_loss_node_hours_per_user_per_day=2000.0 / HOUR_S,
        max_loss_node_hours_per_account_per_day=2000.0 / HOUR_S,
    )
    (verdict,) = arbitrate(leaving[1:], replace(cluster, limits=enough))
    assert verdict.refusal is None


def test_an_operation_that_has_begun_to_kill_is_not_left_half_done(
    job: Job, cluster_of: BuildCluster
) -> None:
    leaving = (
        hold("u", "n0 n1", 60.0),
        requeue("b", "u", Method.KILL, NOW_S),
        requeue("a", "u", Method.KILL, NOW_S),
    )
    begun = operation(leaving, "n0 n1")
    tasks = (begun.tasks[0], replace(begun.tasks[1], issued_s=NOW_S - 1.0), begun.tasks[2])
    cluster = cluster_of(
        2, job, operations=(replace(begun, tasks=tasks),), limits=Limits(max_loss_node_hours=0.0)
    )
    (verdict,) = arbitrate(leaving[2:], cluster)
    assert verdict.refusal is None


REGULAR = CheckpointSpec(interval_s=540.0, application_s=60.0)


@pytest.mark.parametrize(
    ("spec", "saved_s", "not_after_s", "refused"),
    [
        (REGULAR, None, NOW_S, True),
        (REGULAR, None, NOW_S + 1.0, False),  # it still has time
        (REGULAR, NOW_S - 650.0, NOW_S, True),  # before the decision
        (REGULAR, NOW_S - 50.0, NOW_S, False),  # the one that was waited for
        (replace(REGULAR, acknowledgement=Acknowledgement.NONE), None, NOW_S, False),
    ],
)
def test_a_job_that_has_to_leave_without_its_checkpoint_is_killed(
    job: Job,
    cluster_of: BuildCluster,
    spec: CheckpointSpec,
    saved_s: float | None,
    not_after_s: float,
    refused: bool,
) -> None:
    """Its work since its last report is more than the limit allows. The decision is 600 s old."""
    leaving = (hold("u", "n0 n1", 60.0), requeue("a", "u", Method.APPLICATION, not_after_s))
    known = replace(operation(leaving, "n0 n1"), opened_s=NOW_S - 600.0)
    saving = replace(job, checkpoint=spec, last_checkpoint_s=saved_s)
    limits = Limits(max_loss_node_hours=1000.0 / HOUR_S, max_loss_machine_share=0.0)
    cluster = cluster_of(2, saving, operations=(known,), limits=limits)
    (verdict,) = arbitrate(leaving[1:], cluster)
    assert verdict.refusal == (Refusal.MAX_LOSS if refused else None)


@pytest.mark.parametrize(("sent_s", "refused"), [(NOW_S - 100.0, True), (NOW_S, False)])
def test_only_a_job_that_left_without_its_checkpoint_lets_the_next_one_be_killed(
    job: Job, cluster_of: BuildCluster, sent_s: float, refused: bool
) -> None:
    leaving = (
        hold("u", "n0 n1", 60.0),
        requeue("b", "u", Method.APPLICATION, NOW_S),
        requeue("a", "u", Method.APPLICATION, NOW_S),
    )
    begun = replace(operation(leaving, "n0 n1"), opened_s=NOW_S - 600.0)
    tasks = (begun.tasks[0], replace(begun.tasks[1], issued_s=sent_s), begun.tasks[2])
    limits = Limits(max_loss_node_hours=0.0, max_loss_machine_share=0.0)
    saving = replace(job, checkpoint=REGULAR)
    cluster = cluster_of(2, saving, operations=(replace(begun, tasks=tasks),), limits=limits)
    (verdict,) = arbitrate(leaving[2:], cluster)
    assert verdict.refusal == (Refusal.MAX_LOSS if refused else None)


def test_the_tasks_of_an_array_with_one_start_window_cost_as_one_job(
    waiting: Build, running: Build, cluster_of: BuildCluster
) -> None:
    def task(number: int, *, of: str = "7", eligible_s: float = NOW_S, window_s: float | None = None) -> Job:
        found: Job = waiting(f"{of}_{number}", 1, array_job_id=of, start_within_s=window_s)
        return replace(found, eligible_since_s=eligible_s)

    started = replace(running("7_0", "n0"), array_job_id="7", eligible_since_s=NOW_S)
    tasks = (started, task(1), task(2), task(3, eligible_s=NOW_S + 601.0), task(1, of="8"), waiting("9", 1))
    limits = Limits(max_loss_node_hours=16.0, max_loss_machine_share=0.0)
    cluster = replace(cluster_of(8, *tasks, limits=limits), lost_node_s={"7_0": 10.0 * HOUR_S})
    assert started_with(cluster, "7_1") == ("7_0", "7_1", "7_2")
    assert started_with(cluster, "7_3") == ("7_3",), "a later wave"
    refusal = price_refusal(cluster, "7_1", 2.0 * HOUR_S, {"7_2": 5.0 * HOUR_S})
    assert refusal is not None
    assert refusal[1] == "it would cost 2 node-hours after 15 before, the limit is 16 (max_loss_node_hours)"
    assert price_refusal(cluster, "7_1", 1.0 * HOUR_S, {"7_2": 5.0 * HOUR_S}) is None
    for other in ("7_3", "8_1", "9"):
        assert price_refusal(cluster, other, 16.0 * HOUR_S, {"7_2": 5.0 * HOUR_S}) is None
    wide = cluster_of(8, task(1, window_s=700.0), task(3, eligible_s=NOW_S + 601.0, window_s=700.0))
    assert started_with(wide, "7_1") == ("7_1", "7_3")
