"""What waits has a limit, which is longer on a busy machine."""

import pytest

from tests.waiting import await_that, limit_s


def test_a_test_has_a_limit_that_follows_the_load(request: pytest.FixtureRequest) -> None:
    limit = request.node.get_closest_marker("timeout")
    assert limit is not None
    assert limit.args[0] >= 600


def test_what_never_comes_about_fails_and_says_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.waiting.LIMIT_S", 0.0)
    with pytest.raises(pytest.fail.Exception, match="it never came about that pigs fly\nthey walk"):
        await_that("pigs fly", lambda: False, lambda: "they walk")


def test_what_has_come_about_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.waiting.LIMIT_S", 0.0)
    looks = iter([True])
    await_that("it is so", lambda: next(looks))


def test_a_limit_is_never_shorter_than_on_an_idle_machine() -> None:
    assert limit_s(7.0) >= 7.0
