"""What a task of a sweep on a Slurm computes, and what goes on after a signal."""

import fcntl
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from makeway.adapters.command import CommandRunner, CompletedCommand
from makeway.daemon.errors import UserError
from makeway.simharness.papers.common.cache import ResultCache
from makeway.simharness.run.workers import Failure
from makeway.simharness.sweep.slurm_array import USUAL, SlurmArray, sbatch_options, slurm_array
from makeway.simharness.sweep.slurm_task import INTERRUPTIONS, ArrayTask
from tests.waiting import await_that

STOPS: set[int] = set()
"""The trials in which the signal comes."""
COMPUTED: list[int] = []
"""The trials that were begun."""


@dataclass(frozen=True)
class Trial:
    """A number; odd ones fail."""

    number: int


@dataclass(frozen=True)
class Half:
    """Half a number."""

    number: int


class Signalled(BaseException):
    """What submitit does once the task is stored: the program ends."""


def halve(trial: Trial) -> Half:
    COMPUTED.append(trial.number)
    if trial.number in STOPS:
        raise Signalled
    if trial.number % 2:
        raise UserError("odd")
    return Half(trial.number // 2)


@pytest.fixture
def cache(tmp_path: Path) -> ResultCache:
    STOPS.clear()
    COMPUTED.clear()
    return ResultCache(directory=tmp_path, traces=())


def task(cache: ResultCache, *numbers: int) -> ArrayTask[Trial, Half]:
    return ArrayTask(halve, cache, {10 + number: Trial(number) for number in numbers})


def test_results_are_kept_and_failures_are_told(cache: ResultCache) -> None:
    assert task(cache, 2, 3, 4)() == {13: Failure("odd")}
    kept = cache.of(halve)
    assert [kept.get(Trial(number)) for number in (2, 3, 4)] == [(Half(1),), None, (Half(2),)]


def test_what_is_kept_is_not_computed_again(cache: ResultCache) -> None:
    task(cache, 2)()
    task(cache, 2, 4)()
    assert COMPUTED == [2, 4]


def test_a_trial_that_never_comes_to_its_end_fails_and_the_others_go_on(cache: ResultCache) -> None:
    pytest.importorskip("submitit", reason="submitit is not installed")
    STOPS.add(4)
    going = task(cache, 2, 4, 6)
    for _ in range(INTERRUPTIONS):
        with pytest.raises(Signalled):
            going()
        assert going.checkpoint().function is going
    assert going() == {14: Failure("it was interrupted 5 times; a longer --sbatch time=MINUTES may help")}
    assert COMPUTED.count(4) == INTERRUPTIONS
    assert sorted(set(COMPUTED)) == [2, 4, 6]


def test_a_signal_between_two_trials_is_no_interruption_of_one(cache: ResultCache) -> None:
    pytest.importorskip("submitit", reason="submitit is not installed")
    going = task(cache, 2)
    for _ in range(INTERRUPTIONS):
        going.checkpoint()
    assert going() == {}
    assert COMPUTED == [2]


@pytest.mark.parametrize("ignored", [False, True])
def test_a_hangup_ends_a_sweep_unless_it_is_ignored_as_under_nohup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ignored: bool
) -> None:
    pytest.importorskip("submitit", reason="submitit is not installed")
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        with (
            pytest.raises(KeyboardInterrupt) if not ignored else nullcontext(),
            slurm_array(tmp_path, 1, USUAL),
        ):
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is (signal.SIG_IGN if ignored else signal.SIG_DFL)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_of_two_sweeps_that_begin_at_once_on_the_same_cells_one_is_refused(
    cache: ResultCache,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The second one asks for an earlier array when that of the first is there, and leaves its folder."""
    begun, queued, at_the_lock, may_submit = list[str](), list[str](), list[int](), threading.Event()

    def submitted(array: SlurmArray, *_: object) -> None:
        begun.append(array.name)
        may_submit.wait()
        queued.append(array.name)
        raise Signalled

    def run(_: CommandRunner, argv: tuple[str, ...]) -> CompletedCommand:
        known = any(f"--name={name}" in argv for name in queued)
        return CompletedCommand(argv=argv, returncode=0, stdout="7\n" if known else "", stderr="")

    def flock(descriptor: int, how: int) -> None:
        at_the_lock.append(descriptor)
        real_flock(descriptor, how)

    real_flock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(SlurmArray, "_submitted", submitted)
    monkeypatch.setattr(CommandRunner, "run", run)
    arrays = [SlurmArray(folder=tmp_path / "slurm", tasks=1, options=USUAL) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        sweeps = [pool.submit(lambda one: list(one.spread(halve, cache, [Trial(2)])), one) for one in arrays]
        await_that("both are at their turn", lambda: len(at_the_lock) == 3 or len(begun) == 2)
        may_submit.set()
        errors = [one.exception() for one in sweeps]
    assert len(begun) == 1
    assert capsys.readouterr().err.count("another sweep on") == 1
    refused = next(error for error in errors if isinstance(error, UserError))
    assert "job 7 of an earlier sweep computes these cells" in str(refused)
    assert (tmp_path / "slurm" / "name").read_text(encoding="utf-8").strip() == begun[0]


def test_a_sweep_that_ends_leaves_the_folder_of_the_next_one(
    cache: ResultCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No task of the first is left when the second begins."""

    def submitted(array: SlurmArray, *_: object) -> None:
        (array.folder / f"{array.name}.pkl").write_text("task", encoding="utf-8")
        raise Signalled

    def run(_: CommandRunner, argv: tuple[str, ...]) -> CompletedCommand:
        return CompletedCommand(argv=argv, returncode=0, stdout="", stderr="")

    monkeypatch.setattr(SlurmArray, "_submitted", submitted)
    monkeypatch.setattr(CommandRunner, "run", run)
    folder = tmp_path / "slurm"
    first, second = (SlurmArray(folder=folder, tasks=1, options=USUAL) for _ in range(2))
    for one in (first, second):
        with pytest.raises(Signalled):
            list(one.spread(halve, cache, [Trial(2)]))
    first.end()
    assert {path.name for path in folder.iterdir()} == {"name", f"{second.name}.pkl"}
    second.end()
    assert not folder.exists()


def test_options_of_sbatch_replace_the_usual_ones() -> None:
    assert sbatch_options(()) == USUAL
    given = sbatch_options(("partition=short,long", "--time=2:00:00", "exclusive", "comment=a=b c"))
    assert given == {
        **USUAL,
        "partition": "short,long",
        "time": "2:00:00",
        "exclusive": True,
        "comment": "a=b c",
    }


@pytest.mark.parametrize(
    "option", ["", "-p short", "Partition=x", "time=", "time=1\n#SBATCH --array=3", "a=1"]
)
def test_what_is_no_option_of_sbatch(option: str) -> None:
    with pytest.raises(UserError, match="no option of sbatch; accepted: a long name, with = and its value"):
        sbatch_options((option,))


@pytest.mark.parametrize(
    "option",
    ["array=0-3", "clusters=other", "--output=x", "requeue", "no-requeue", "wrap=true", "signal=USR1"],
)
def test_options_that_a_sweep_gives_itself(option: str) -> None:
    with pytest.raises(UserError, match="does not go with a sweep; accepted: other options"):
        sbatch_options((option,))
