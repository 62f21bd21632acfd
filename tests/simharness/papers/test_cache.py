"""Results kept by content: what counts, what does not, and what happens to a file that is damaged."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

import pytest

from makeway.daemon.errors import UserError
from makeway.simharness.papers.common import cache as result_cache
from makeway.simharness.papers.common.cache import (
    ResultCache,
    default_directory,
    file_digest,
    plain,
    reached,
    source_digest,
)
from makeway.simharness.papers.reproduce import ReproduceOptions, run_all


class Sign(Enum):
    PLUS = 1
    MINUS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    weights: tuple[float, ...]
    sign: Sign = Sign.PLUS


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    number: int
    log: Path
    inner: Inner = Inner(weights=(1.0, 0.5))
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    number: float
    inner: Inner
    note: str | None = None


def work(trial: Asked) -> Answered:
    """Leaves a line in the directory of the trial, so that a test sees what was computed."""
    with (trial.log / "lines").open("a") as log:
        log.write(f"{trial.number}\n")
    if trial.number < 0:
        raise ValueError("less than nothing")
    return Answered(number=2.0 * trial.number, inner=trial.inner, note="☃")


def other_work(trial: Asked) -> Answered:
    return work(trial)


def unannotated(trial):  # type: ignore[no-untyped-def]
    return trial


def infinite(trial: Asked) -> float:
    return float("inf")


def not_a_number(trial: Asked) -> float:
    return float("nan")


@pytest.fixture(autouse=True)
def _fresh_digests() -> None:
    file_digest.cache_clear()


@pytest.fixture
def store(tmp_path: Path) -> ResultCache:
    return ResultCache(directory=tmp_path / "kept")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A directory: what is in it does not count."""
    path = tmp_path / "log"
    path.mkdir()
    return path


def computed(log: Path) -> list[int]:
    """What has been computed since the last call."""
    lines = log / "lines"
    numbers = [int(line) for line in lines.read_text().split()] if lines.exists() else []
    lines.unlink(missing_ok=True)
    return numbers


def asked(log: Path, *numbers: int) -> list[Asked]:
    return [Asked(number=number, log=log) for number in numbers]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_result_is_computed_once(store: ResultCache, log: Path, workers: int) -> None:
    first = run_all(work, asked(log, 3, 1), workers=workers, label="answers", cache=store)
    assert sorted(computed(log)) == [1, 3]
    assert run_all(work, asked(log, 3, 2, 1), workers=workers, label="answers", cache=store) == [
        first[0],
        work(Asked(number=2, log=log)),
        first[1],
    ]
    assert computed(log) == [2, 2]
    assert [answer.number for answer in first] == [6.0, 2.0]


@pytest.mark.parametrize("workers", [1, 2])
def test_what_was_computed_before_a_failure_is_kept(store: ResultCache, log: Path, workers: int) -> None:
    with pytest.raises(ValueError, match="less than nothing"):
        run_all(work, asked(log, 1, -1), workers=workers, label="answers", cache=store)
    assert set(computed(log)) == {1, -1}
    run_all(work, asked(log, 1, 2), workers=1, label="answers", cache=store)
    assert computed(log) == [2]


def test_it_is_told_how_many_were_kept(
    store: ResultCache, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_all(work, asked(log, 1), workers=1, label="answers", cache=store)
    assert capsys.readouterr().err == ""
    run_all(work, asked(log, 1, 2), workers=1, label="answers", cache=store)
    assert capsys.readouterr().err == (
        f"1 of 2 answers were kept in {store.directory}; --no-cache computes them again\n"
    )


def test_every_value_of_the_trial_counts(store: ResultCache, log: Path) -> None:
    one = Asked(number=1, log=log)
    trials = [
        one,
        replace(one, number=2),
        replace(one, inner=Inner(weights=(1.0,))),
        replace(one, inner=Inner(weights=(1.0, 0.5), sign=Sign.MINUS)),
        replace(one, settings={"a": 1}),
        replace(one, settings={"a": True}),
        replace(one, settings={"a": None}),
        replace(one, settings={"a": "1"}),
    ]
    kept = store.of(work)
    assert len({kept.path(trial) for trial in trials}) == len(trials)
    assert kept.path(replace(one, settings={"a": 1, "b": 2})) == kept.path(
        replace(one, settings={"b": 2, "a": 1})
    )


def test_the_work_counts(store: ResultCache, log: Path) -> None:
    trial = Asked(number=1, log=log)
    assert store.of(work).path(trial).name != store.of(other_work).path(trial).name


def test_the_source_counts(store: ResultCache, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = store.of(work).path(Asked(number=1, log=log))
    monkeypatch.setattr(result_cache, "source_digest", lambda module: f"another {module}")
    assert store.of(work).path(Asked(number=1, log=log)) != before


def test_a_changed_source_has_another_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    source = tmp_path / "some_module_that_changes.py"
    digests = []
    for text in ("NUMBER = 1\n", "NUMBER = 2\n", "NUMBER = 1\n"):
        source.write_text(text)
        source_digest.cache_clear()
        digests.append(source_digest(source.stem))
    assert digests[0] == digests[2] != digests[1]


def test_a_file_counts_by_its_contents_and_a_path_not_at_all(store: ResultCache, tmp_path: Path) -> None:
    kept = store.of(work)
    trace, elsewhere = tmp_path / "trace", tmp_path / "elsewhere"
    nowhere = kept.path(Asked(number=1, log=trace))
    assert kept.path(Asked(number=1, log=tmp_path)) == nowhere
    trace.write_text("jobs")
    elsewhere.write_text("jobs")
    named = kept.path(Asked(number=1, log=trace))
    assert named != nowhere
    assert kept.path(Asked(number=1, log=elsewhere)) == named
    as_text = [Asked(number=1, log=tmp_path, settings={"trace": str(path)}) for path in (trace, elsewhere)]
    assert kept.path(as_text[0]) == kept.path(as_text[1])
    trace.write_text("other jobs")
    file_digest.cache_clear()
    assert kept.path(Asked(number=1, log=trace)) != named


def test_a_trace_of_all_trials_counts_by_its_contents(store: ResultCache, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    paths = []
    for text in ("jobs", "other jobs", "jobs"):
        trace.write_text(text)
        file_digest.cache_clear()
        paths.append(replace(store, traces=(trace,)).of(work).path(Asked(number=1, log=tmp_path)))
    assert paths[0] == paths[2] != paths[1]


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\x00", b'{"number": "many"}'])
def test_a_damaged_file_is_computed_anew_with_a_warning(
    store: ResultCache, log: Path, damage: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = run_all(work, asked(log, 1), workers=1, label="answers", cache=store)
    path = store.of(work).path(Asked(number=1, log=log))
    computed(log)
    path.write_bytes(damage)
    assert run_all(work, asked(log, 1), workers=1, label="answers", cache=store) == answers
    assert computed(log) == [1]
    assert capsys.readouterr().err == f"makeway: warning: {path}: damaged; computed again\n"
    assert run_all(work, asked(log, 1), workers=1, label="answers", cache=store) == answers
    assert computed(log) == []


def test_a_file_is_there_whole_and_nothing_else(store: ResultCache, log: Path) -> None:
    run_all(work, asked(log, 1, 2), workers=1, label="answers", cache=store)
    (folder,) = store.directory.iterdir()
    assert folder.name.endswith("test_cache.work")
    assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".json"]


def test_a_result_that_cannot_be_written_is_used_all_the_same(
    store: ResultCache, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = store.of(work)
    store.directory.mkdir()
    kept.directory.touch()
    assert run_all(work, asked(log, 1), workers=1, label="answers", cache=store)[0].number == 2.0
    assert "a result was not kept (" in capsys.readouterr().err


def test_infinity_comes_back_and_what_does_not_is_refused(store: ResultCache, log: Path) -> None:
    trial = Asked(number=1, log=log)
    store.of(infinite).put(trial, float("inf"))
    assert store.of(infinite).get(trial) == (float("inf"),)
    with pytest.raises(TypeError, match="a float does not come back from JSON as it was"):
        store.of(not_a_number).put(trial, float("nan"))


def test_work_that_does_not_say_what_it_returns_is_refused(store: ResultCache) -> None:
    with pytest.raises(TypeError, match="does not say what it returns"):
        store.of(unannotated)


def test_a_set_is_plain_in_a_fixed_order() -> None:
    assert plain(frozenset(str(number) for number in range(9))) == [str(number) for number in range(9)]


def test_a_trial_holds_plain_values_only() -> None:
    with pytest.raises(TypeError, match="is no plain value"):
        plain((1, {"a": {2, 3}}))


def test_the_modules_that_a_result_depends_on() -> None:
    cases = reached("makeway.simharness.papers.p2.cases")
    assert {
        "makeway.policies.programme.knapsack",
        "makeway.policies.model",
        "makeway.simharness.workloads.scenarios",
    } <= cases
    assert not any("report" in name or "claims" in name for name in cases)
    replays = reached("makeway.simharness.run.experiment")
    assert {
        "makeway.daemon.control.reconciler",
        "makeway.policies.hybrid.policy",
        "makeway.simharness.engine.scheduler",
    } <= replays
    # By a string, as papers are named.
    assert "makeway.simharness.papers.p2.command" in reached("makeway.simharness.papers.reproduce")


def options(cache: Path | None, *, no_cache: bool = False) -> ReproduceOptions:
    return ReproduceOptions(
        traces=Path("traces"),
        seeds=None,
        jobs=1,
        quick=False,
        report=None,
        json_path=None,
        cache=cache,
        no_cache=no_cache,
    )


def test_the_options_say_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert options(tmp_path, no_cache=True).results_cache() is None
    found = options(tmp_path / "new" / "one").results_cache("a.swf", "b.swf")
    assert found == ResultCache(
        directory=tmp_path / "new" / "one", traces=(Path("traces/a.swf"), Path("traces/b.swf"))
    )
    assert found.directory.is_dir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert options(None).results_cache() == ResultCache(directory=tmp_path / "xdg" / "makeway" / "reproduce")
    for unset in ("", "not/absolute"):
        monkeypatch.setenv("XDG_CACHE_HOME", unset)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert default_directory("reproduce") == tmp_path / ".cache" / "makeway" / "reproduce"


def test_a_directory_that_cannot_be_used_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"--cache .*file/kept: no results can be kept there \(.*--no-cache"):
        options(tmp_path / "file" / "kept").results_cache()
    assert os.listdir(tmp_path) == ["file"]
