"""What the daemon remembers of the commands that it has sent."""

from collections import Counter
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from makeway.daemon.journal.command_log import Outcome, SentCommands

VERBS = ("requeue", "shrink", "checkpoint", "reserve")
JOBS = st.sampled_from(["a", "b", "c"])
ADDED = st.tuples(st.just("add"), st.sampled_from(VERBS), JOBS)
ANSWERED = st.tuples(st.just("answer"), st.integers(0, 15), st.sampled_from(Outcome), st.booleans())
FORGOTTEN = st.tuples(st.just("forget"), st.integers(0, 15))


@given(st.lists(ADDED | ANSWERED | FORGOTTEN, max_size=40))
def test_evictions_are_counted_as_they_are_listed(
    steps: list[tuple[str, str, str] | tuple[str, int, Outcome, bool] | tuple[str, int]],
) -> None:
    sent = SentCommands()
    before = sent.past_evictions()
    for at, step in enumerate(steps):
        match step:
            case ("add", str(verb), str(job_id)):
                sent.add(at, verb, job_id, float(at))
            case ("answer", int(command_id), outcome, bool(failed)):
                sent.answer(command_id, str(outcome), failed=failed)
            case ("forget", int(command_id)):
                sent.forget([command_id, command_id + 1])
        past = sent.past_evictions()
        assert past == Counter(eviction.job_id for eviction in sent.evictions(-inf))
        assert all(past.values())
        assert (past is before) == (past == before)
        before = past


def test_of_the_refused_holds_of_one_job_the_circuit_breaker_counts_the_last_one() -> None:
    sent = SentCommands()
    for at, (verb, job_id, outcome) in enumerate(
        [
            ("reserve", "a", Outcome.REJECTED),
            ("reserve", "b", Outcome.REJECTED),
            ("requeue", "a", Outcome.REJECTED),
            ("requeue", "a", Outcome.REJECTED),
            ("reserve", "a", Outcome.IN_DOUBT),
            ("reserve", "a", Outcome.REJECTED),
        ]
    ):
        sent.add(at, verb, job_id, float(at))
        sent.answer(at, outcome, failed=True)
    assert sent.failures_s(0.0) == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert sent.failures_s(5.0) == (5.0,)


def test_it_is_known_when_a_job_was_asked_to_save_last() -> None:
    sent = SentCommands()
    for at, (verb, job_id) in enumerate([("checkpoint", "a"), ("requeue", "b"), ("checkpoint", "a")]):
        sent.add(at, verb, job_id, 10.0 * at)
        sent.answer(at, Outcome.ACCEPTED, failed=False)
    assert sent.asked_s() == {"a": 20.0}
    sent.forget([0, 1])
    assert sent.asked_s() == {"a": 20.0}
    sent.forget([2])
    assert sent.asked_s() == {}
