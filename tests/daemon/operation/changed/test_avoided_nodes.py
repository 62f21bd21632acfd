"""Which nodes urgent jobs do without after refused holds, and for how long."""

import math
from dataclasses import replace

import pytest

from makeway.daemon.operation.changed.refused_holds import HoldAnswer, RefusedHolds
from makeway.policies.model import Cluster, Job, JobKind, Reason, Reserve
from tests.builders import cluster, held, node_names, running, urgent

STAYS = running("s", ("n2",), preemptible=False)
WORDS = "Requested reservation overlaps with another reservation"


def answers(
    *holds: tuple[str, tuple[str, ...]], accepted: bool = False, final: bool = True, at_s: float = 990.0
) -> list[HoldAnswer]:
    """What the cluster has answered to holds, each given by its job and its nodes."""
    return [
        HoldAnswer(
            hold=Reserve(
                job_id=job_id,
                for_job_id=job_id,
                policy="eviction",
                reason=Reason.URGENT_ARRIVAL,
                reservation=f"mw_{job_id}",
                nodes=nodes,
                duration_s=3600.0,
            ),
            issued_s=at_s,
            accepted=accepted,
            final=final,
            words=WORDS,
        )
        for job_id, nodes in holds
    ]


def counted(view: Cluster, said: list[HoldAnswer]) -> dict[str, Job]:
    """The jobs as they count after these answers."""
    return dict(RefusedHolds(lambda _: said).counted(view, 60.0).jobs_by_id())


LASTS_S = [(2, 300.0), (3, 600.0), (4, 1200.0), (5, 2400.0), (6, 3600.0), (9, 3600.0)]


@pytest.mark.parametrize(("times", "lasts_s"), LASTS_S)
def test_a_node_is_avoided_the_longer_the_more_often_it_was_refused(times: int, lasts_s: float) -> None:
    said = answers(*[("w", ("n1",))] * times, at_s=500.0)
    view = cluster(3, urgent("u", 1), now_s=500.0 + lasts_s - 1.0)
    assert counted(view, said)["u"].eligible_nodes == frozenset({"n2", "n3"})
    watch = RefusedHolds(lambda _: said)
    watch.counted(view, 60.0)
    assert watch.again_s == 500.0 + lasts_s
    assert counted(replace(view, now_s=500.0 + lasts_s), said)["u"].eligible_nodes is None


@pytest.mark.parametrize(("times", "lasts_s"), LASTS_S)
def test_a_job_does_without_all_nodes_that_were_refused_to_it_since_the_last_hold(
    times: int, lasts_s: float
) -> None:
    said = answers(*[("u", (name,)) for name in node_names(times)], at_s=500.0)
    view = cluster(times + 2, urgent("u", 1), urgent("w", 1), now_s=500.0 + lasts_s - 1.0)
    found = counted(view, said)
    assert found["u"].eligible_nodes == frozenset(node_names(2, times + 1))
    assert found["w"].eligible_nodes is None
    assert counted(replace(view, now_s=500.0 + lasts_s), said)["u"].eligible_nodes is None


def test_a_node_is_avoided_as_long_as_any_reason_for_it_lasts() -> None:
    """All jobs do without it for 300 s, the job that it was refused to for longer."""
    said = answers(*[("u", ("n1",))] * 2, *[("u", (name,)) for name in ("n2", "n3")], at_s=500.0)
    view = cluster(5, urgent("u", 1), now_s=900.0)
    assert counted(view, said)["u"].eligible_nodes == frozenset({"n4", "n5"})
    watch = RefusedHolds(lambda _: said)
    for now_s in (750.0, 900.0):
        watch.counted(replace(view, now_s=now_s), 60.0)
        assert watch.again_s == 500.0 + 1200.0
    watch = RefusedHolds(lambda _: answers(*[("u", ("n1",))] * 2, *[("w", ("n1",))] * 2, at_s=500.0))
    watch.counted(replace(view, now_s=750.0), 60.0)
    assert watch.again_s == 500.0 + 1200.0


def test_answers_of_a_clock_that_was_set_back_since_count_for_nothing() -> None:
    said = answers(*[("u", ("n1",))] * 3, at_s=1000.5)
    found = counted(cluster(3, urgent("u", 1)), said)["u"]
    assert (found.eligible_nodes, found.blocked_by) == (None, "")


def test_an_accepted_hold_ends_the_row() -> None:
    twice = answers(*[("u", ("n1",))] * 2)
    said = [*twice, *answers(("u", ("n2",)), accepted=True), *twice]
    assert counted(cluster(3, urgent("u", 1)), said)["u"].blocked_by == ""
    assert counted(cluster(3, urgent("u", 1)), [*twice, *twice])["u"].blocked_by != ""


def test_a_single_request_to_try_again_is_no_reason_to_do_without_a_node() -> None:
    said = [*answers(*[("u", ("n1",))] * 2), *answers(("u", ("n2",)), final=False)]
    assert counted(cluster(3, urgent("u", 1)), said)["u"].eligible_nodes == frozenset({"n2", "n3"})


def test_jobs_that_do_without_the_same_nodes_share_the_names_of_the_others() -> None:
    """Hundreds of jobs may wait on a cluster of many thousand nodes."""
    waiting = [urgent(f"u{number}", 1) for number in range(3)]
    found = counted(cluster(5, *waiting), answers(*[("u9", ("n1", "n2"))] * 2))
    eligible = [found[job.job_id].eligible_nodes for job in waiting]
    assert eligible[0] == frozenset({"n3", "n4", "n5"})
    assert all(one is eligible[0] for one in eligible)


def test_nodes_that_another_component_needs_are_no_others() -> None:
    parts = [replace(urgent(f"7+{number}", 2), het_job_id="7") for number in range(2)]
    found = counted(cluster(4, *parts), answers(*[("7+0", ("n1", "n2"))] * 2))
    assert found["7+0"].eligible_nodes is None
    elsewhere = replace(parts[1], eligible_nodes=frozenset({"n4", "n5", "n6"}))
    found = counted(cluster(6, parts[0], elsewhere), answers(*[("7+0", ("n1", "n2"))] * 2))
    assert found["7+0"].eligible_nodes == frozenset({"n3", "n4", "n5", "n6"})


def test_a_node_that_another_job_has_got_since_is_avoided_no_more() -> None:
    said = [*answers(*[("u", ("n1", "n2"))] * 2), *answers(("w", ("n1",)), accepted=True)]
    assert counted(cluster(5, urgent("u", 1)), said)["u"].eligible_nodes == frozenset(
        {"n1", "n3", "n4", "n5"}
    )


def test_nodes_that_are_held_for_another_urgent_job_are_no_others() -> None:
    hold, said = held("w", ("n2", "n3", "n4")), answers(*[("u", ("n1",))] * 2)
    view = cluster(4, urgent("u", 1), urgent("w", 3, reservation=hold.name), reservations=(hold,))
    assert counted(view, said)["u"].eligible_nodes is None
    assert counted(replace(view, reservations=()), said)["u"].eligible_nodes == frozenset({"n2", "n3", "n4"})


def test_a_job_that_lacks_something_else_is_said_to_lack_that() -> None:
    waits = replace(urgent("u", 1), blocked_by="a licence")
    assert counted(cluster(1, waits), answers(*[("u", ("n1",))] * 3))["u"].blocked_by == "a licence"


def test_a_job_that_pauses_does_not_count_as_one_that_may_start() -> None:
    found = counted(cluster(1, urgent("u", 1)), answers(*[("u", ("n1",))] * 3))["u"]
    assert "refused 3 times" in found.blocked_by
    assert found.eligible_s == math.inf


@pytest.mark.parametrize(("times", "pause_s"), [(3, 60.0), (4, 120.0), (6, 480.0), (7, 600.0), (9, 600.0)])
def test_a_pause_lasts_the_longer_the_more_often_the_same_nodes_were_refused(
    times: int, pause_s: float
) -> None:
    said = answers(*[("u", ("n1",))] * times, at_s=500.0)
    view = cluster(1, urgent("u", 1), now_s=500.0 + pause_s - 1.0)
    assert counted(view, said)["u"].blocked_by != ""
    assert counted(replace(view, now_s=500.0 + pause_s), said)["u"].blocked_by == ""


def test_a_first_pause_that_the_site_has_made_longer_stays_as_long() -> None:
    said = answers(*[("u", ("n1",))] * 5, at_s=500.0)
    watch = RefusedHolds(lambda _: said)
    watch.counted(cluster(1, urgent("u", 1), now_s=600.0), 900.0)
    assert watch.again_s == 1400.0


def test_a_job_makes_do_with_its_hold_once_and_then_pauses() -> None:
    hold, waits = held("u", ("n1", "n2")), urgent("u", 2, reservation="mw_u")
    view = cluster(6, waits, reservations=(hold,))
    more = ("n1", "n2", "n3")
    watch = RefusedHolds(lambda _: answers(*[("u", more)] * 3))
    found = watch.counted(view, 60.0).jobs_by_id()["u"]
    assert (found.eligible_nodes, found.blocked_by) == (frozenset({"n1", "n2"}), "")
    assert watch.again_s == 1050.0
    assert counted(view, answers(*[("u", more)] * 4))["u"].blocked_by != ""


def test_a_job_pauses_if_what_it_holds_already_is_refused_or_does_not_suffice() -> None:
    hold, waits = held("u", ("n1", "n2")), urgent("u", 2, reservation="mw_u")
    view = cluster(6, waits, reservations=(hold,))
    assert counted(view, answers(*[("u", hold.nodes)] * 3))["u"].blocked_by != ""
    larger = replace(view, jobs=(replace(waits, node_count=3),))
    assert counted(larger, answers(*[("u", ("n1", "n2", "n3"))] * 3))["u"].blocked_by != ""


def test_a_job_that_is_larger_than_what_is_there_does_without_no_node() -> None:
    stays = running("s", ("n3",), preemptible=False)
    said = answers(*[("u", ("n1", "n2"))] * 2)
    assert counted(cluster(3, urgent("u", 3), stays), said)["u"].eligible_nodes is None


@pytest.mark.parametrize(
    "stays",
    [STAYS, replace(STAYS, kind=JobKind.ON_DEMAND, preemptible=True)],
    ids=["protected", "urgent"],
)
def test_a_refused_node_whose_job_stays_takes_no_other_s_place(stays: Job) -> None:
    said = answers(*[("u", ("n1", "n2"))] * 2)
    found = counted(cluster(3, urgent("u", 2), stays), said)["u"]
    assert found.eligible_nodes == frozenset({"n1", "n3"})


def test_what_is_held_for_another_component_serves_that_one() -> None:
    parts = [replace(urgent(f"7+{number}", 2), het_job_id="7") for number in range(2)]
    parts[1] = replace(parts[1], reservation="mw_7+1")
    view = cluster(5, *parts, reservations=(held("7+1", ("n3", "n4")),))
    found = counted(view, answers(*[("7+0", ("n1",))] * 2))
    assert found["7+0"].eligible_nodes == frozenset({"n2", "n3", "n4", "n5"})


def test_a_job_never_asks_for_the_same_hold_again_if_there_are_others() -> None:
    """It needs four of twelve nodes, four of which are refused. Its holds would else take turns for ever."""
    refused, said, now_s = frozenset({"n4", "n7", "n8", "n12"}), list[HoldAnswer](), 1000.0
    watch, asked = RefusedHolds(lambda _: said), list[frozenset[str]]()
    while not asked or asked[-1] & refused:
        found = watch.counted(cluster(12, urgent("u", 4), now_s=now_s), 60.0).jobs_by_id()["u"]
        if found.blocked_by:
            now_s = watch.again_s or 0.0
            continue
        nodes = tuple(name for name in node_names(12) if name in (found.eligible_nodes or node_names(12)))
        asked.append(frozenset(nodes[:4]))
        said += answers(("u", nodes[:4]), at_s=now_s)
        now_s += 1.0
        assert len(asked) < 20
    assert asked[0] == asked[1]
    assert len({*asked}) == len(asked) - 1


def test_what_a_job_can_spare_is_all_spared() -> None:
    """One node of each refused hold comes first, and then others that were refused as often."""
    said = answers(*[("u", ("n1", "n2", "n3"))] * 2)
    found = counted(cluster(5, urgent("u", 3)), said)["u"]
    assert found.eligible_nodes == frozenset({"n3", "n4", "n5"})


def test_of_the_refused_nodes_those_are_named_that_a_job_does_without() -> None:
    said = answers(*[("w", ("n1",))] * 3, *[("w", ("n3",))] * 2)
    watch = RefusedHolds(lambda _: said)
    elsewhere = replace(urgent("u", 1), eligible_nodes=frozenset({"n2", "n3"}))
    watch.counted(cluster(4, elsewhere), 60.0)
    assert watch.news == (f"job u does without n3 ({WORDS})",)


def test_a_refused_hold_with_a_node_that_is_not_to_be_had_needs_no_other_node() -> None:
    """It is not asked for again as it is."""
    said = answers(("u", ("n1", "n2", "n3")), ("u", ("n4", "n5", "n6")))
    view = cluster(6, running("s", ("n1",), preemptible=False), urgent("u", 4))
    assert counted(view, said)["u"].eligible_nodes == frozenset({"n2", "n3", "n5", "n6"})
