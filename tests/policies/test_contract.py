"""What a policy's answer is checked for."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from makeway.policies.contract import Policy, PolicyFailed, require_durations
from makeway.policies.model import (
    Candidate,
    Cluster,
    Decision,
    Job,
    Method,
    Postponement,
    Rationale,
    Reason,
    Requeue,
)
from makeway.policies.soundness import unsound


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSettings:
    """Settings of a policy that has none."""


def answering(answer: Any) -> Policy[NoSettings]:
    return Policy(name="mine", summary="", config_type=NoSettings, decide=lambda cluster, config: answer)


def requeue(job_id: Any, not_after_s: Any = 0.0) -> Requeue:
    return Requeue(
        job_id=job_id,
        for_job_id="u",
        policy="mine",
        reason=Reason.URGENT_ARRIVAL,
        method=Method.KILL,
        not_after_s=not_after_s,
    )


LEFT = Candidate(job_ids=("1",), method=None, node_count=1, loss_node_s=0, delay_s=0.0)
WHY = Rationale(for_job_id="u", node_count=1, free_node_count=0, deadline_s=600.0, summary="none")


def with_any(value: Any, **fields: Any) -> Any:
    """The same with fields of any type."""
    return replace(value, **fields)


def decision_with(**fields: Any) -> Decision:
    """A decision with fields of any type, as a policy in a file may return it."""
    return Decision(policy="mine", **fields)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "it returned None; accepted: a Decision of makeway.policies.api"),
        ([], "it returned a value of type list; accepted: a Decision"),
        (Decision, "it returned a value of type type; accepted: a Decision"),
        (
            decision_with(actions=[requeue("1")]),
            "a Decision whose actions are a value of type list; accepted: a tuple of actions",
        ),
        (
            decision_with(actions=(requeue("1"), "kill")),
            r"a Decision whose actions\[1\] is a value of type str; accepted: a tuple of actions",
        ),
        (
            decision_with(actions=(requeue(1),)),
            r"a Decision whose actions\[0\].job_id is 1; accepted: a text",
        ),
        (
            decision_with(rationale=(None,)),
            r"a Decision whose rationale\[0\] is None; accepted: a tuple of Rationale values",
        ),
        (
            decision_with(again_s="soon"),
            "a Decision whose again_s is a value of type str; accepted: seconds, or None",
        ),
        (
            decision_with(again_s=math.inf),
            "a Decision whose again_s is inf; accepted: a finite number of seconds",
        ),
        (
            decision_with(actions=(requeue("1"), requeue("2", not_after_s=math.nan))),
            r"a Decision whose actions\[1\].not_after_s is nan; accepted: a finite number of seconds",
        ),
        (
            decision_with(rationale=(replace(WHY, deadline_s=math.nan),)),
            r"a Decision whose rationale\[0\].deadline_s is nan; accepted: a finite number of seconds",
        ),
        # The journal could not read these again: a start would set the operation aside.
        (with_any(decision_with(), policy=None), "a Decision whose policy is None; accepted: a text"),
        (
            decision_with(actions=(with_any(requeue("1"), reason="because"),)),
            r"a Decision whose actions\[0\].reason is 'because'; accepted: a Reason of .*URGENT_ARRIVAL",
        ),
        (
            decision_with(rationale=(with_any(WHY, summary=5),)),
            r"a Decision whose rationale\[0\].summary is 5; accepted: a text",
        ),
        (
            decision_with(rationale=(with_any(WHY, summary="\ud800"),)),
            r"a Decision whose rationale\[0\].summary is .*; accepted: a text",
        ),
        (
            decision_with(rationale=(with_any(WHY, summary="the other half: \udfff"),)),
            r"a Decision whose rationale\[0\].summary is .*; accepted: a text",
        ),
        (
            decision_with(rationale=(with_any(WHY, candidates=(5,)),)),
            r"a Decision whose rationale\[0\].candidates is a value of type tuple; accepted: a tuple; of",
        ),
        (
            decision_with(rationale=(with_any(WHY, candidates=[LEFT]),)),
            r"a Decision whose rationale\[0\].candidates is a value of type list; accepted: a tuple; of",
        ),
        (
            decision_with(rationale=(replace(WHY, candidates=(replace(LEFT, delay_s=math.inf),)),)),
            r"a Decision whose rationale\[0\].candidates is a value of type tuple; accepted: a tuple; of",
        ),
        (
            decision_with(rationale=(replace(WHY, candidates=(with_any(LEFT, job_ids=(1,)),)),)),
            r"a Decision whose rationale\[0\].candidates is a value of type tuple; accepted: a tuple; of",
        ),
        (
            decision_with(rationale=(replace(WHY, candidates=(with_any(LEFT, job_ids=["1"]),)),)),
            r"a Decision whose rationale\[0\].candidates is a value of type tuple; accepted: a tuple; of",
        ),
        (
            decision_with(rationale=(replace(WHY, candidates=(with_any(LEFT, job_ids=("1", "\ud83d")),)),)),
            r"a Decision whose rationale\[0\].candidates is a value of type tuple; accepted: a tuple; of",
        ),
        (
            decision_with(rationale=(replace(WHY, postponed=Postponement(until_s=math.nan, departures=())),)),
            r"a Decision whose rationale\[0\].postponed is a value of type Postponement; accepted: a ",
        ),
        (
            decision_with(again_s=10**400),
            "a Decision whose again_s is too large a number; accepted: a finite number of seconds",
        ),
        (
            decision_with(rationale=(replace(WHY, node_count=10**5000),)),
            r"a Decision whose rationale\[0\].node_count is too large a number; accepted: a whole number",
        ),
        (
            decision_with(rationale=(replace(WHY, candidates=(replace(LEFT, loss_node_s=10**400),)),)),
            r"a Decision whose rationale\[0\].candidates is a value of type tuple; accepted: a tuple; of",
        ),
        (
            decision_with(actions=(with_any(requeue("1"), verb="cancel"),)),
            r"a Decision whose actions\[0\].verb is 'cancel'; accepted: 'requeue'",
        ),
    ],
)
def test_what_is_no_sound_decision(
    waiting: Callable[..., Job], cluster_of: Callable[..., Cluster], answer: object, message: str
) -> None:
    cluster = cluster_of(4, waiting("u", 3))
    with pytest.raises(
        PolicyFailed, match=rf"policy mine failed at .* \(.* wait: u\): .*{message}"
    ) as failed:
        answering(answer).decision(cluster, NoSettings())
    assert f"({__file__}, line " in str(failed.value)


def test_a_sound_decision_is_passed_on(cluster_of: Callable[..., Cluster]) -> None:
    decision = Decision(policy="mine", actions=(requeue("1"),), again_s=3)
    assert answering(decision).decision(cluster_of(4), NoSettings()) is decision


def test_names_may_have_letters_of_any_language(cluster_of: Callable[..., Cluster]) -> None:
    decision = decision_with(rationale=(replace(WHY, candidates=(replace(LEFT, job_ids=("1", "nœud")),)),))
    assert answering(decision).decision(cluster_of(4), NoSettings()) is decision


def test_a_failure_inside_makeway_names_the_line_of_the_policy(cluster_of: Callable[..., Cluster]) -> None:
    def decide(cluster: Cluster, config: NoSettings) -> Decision:
        raise_from(cluster.now_s)
        return Decision(policy="mine")

    def raise_from(now_s: float) -> None:
        require_durations(now_s=-1.0 - now_s)

    policy = Policy(name="mine", summary="", config_type=NoSettings, decide=decide)
    with pytest.raises(
        PolicyFailed, match=r"contract.py, line \d+, called from .*test_contract.py, line \d+"
    ):
        policy.decision(cluster_of(4), NoSettings())


class Text(str):
    """A text of a class of its own."""


@pytest.mark.parametrize(
    ("field", "sound", "wrong"),
    [
        ("job_ids", [("é",), (Text("1"), "2"), ()], [("\ud800",), (1,), ["1"], None]),
        ("method", [None, Method.KILL], ["kill", 1]),
        ("node_count", [True, 10**300], [1.0, None, 10**400, "1"]),
        ("delay_s", [1, True, 1e308], [float("nan"), None, 10**400, "1"]),
        ("chosen", [True], [1, None]),
        ("note", ["é", Text("1")], ["\ud800", None, b"1"]),
        ("price_node_s", [None, 1], [1.0, 10**400]),
    ],
)
def test_one_unsound_candidate_of_many_is_found(field: str, sound: list[Any], wrong: list[Any]) -> None:
    others = (LEFT, replace(LEFT, method=Method.KILL, price_node_s=7), LEFT)
    for value in (*sound, *wrong):
        found = unsound(
            decision_with(
                rationale=(WHY, replace(WHY, candidates=(*others, with_any(LEFT, **{field: value}), LEFT)))
            )
        )
        assert (found is None) is any(value is one for one in sound), value
        assert found is None or "rationale[1].candidates is" in found
