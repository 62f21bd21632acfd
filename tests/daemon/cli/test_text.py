"""What the commands print with."""

from makeway.daemon.cli.text import status_lines


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
