"""What the commands print with."""

from makeway.daemon.cli.text import accepted_parts, protection, status_lines
from makeway.policies.common.victims import COMMITTED


def test_a_status_is_in_words_of_a_reader_and_obeyed_by_no_terminal() -> None:
    values = {
        "breaker_open": True,
        "paused": False,
        "problem": None,
        "lease": {"term": 3, "lost_s": None},
        "modes": ["observe", "act"],
        "jobs": [],
        "user\x1b": "a\nb",
    }
    assert status_lines(values) == [
        "breaker open     yes",
        "paused           no",
        "problem          -",
        "lease            term 3, lost s -",
        "modes            observe, act",
        "jobs             -",
        "user\\x1b         a\\nb",
    ]


def test_of_a_large_array_the_first_tasks_are_named() -> None:
    said = accepted_parts("7", (f"7_{number}" for number in range(1, 43)))
    assert said.startswith("; accepted: 7_1, 7_2, 7_3,")
    assert said.endswith(", 7_20 and 22 more")
    assert accepted_parts("7", ["8_1", "77_1", "7"]) == ""


def test_why_a_job_stays_is_said_in_words_and_with_the_setting() -> None:
    told = "min_runtime: it has run for less than limits.min_runtime_s"
    assert protection("min_runtime") == told
    assert protection("job a: b: min_runtime") == f"job a: b: {told}"
    assert protection(COMMITTED) == COMMITTED
    assert protection("") == ""
