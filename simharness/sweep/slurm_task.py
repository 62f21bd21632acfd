"""One task of a sweep on a Slurm: what submitit runs in a job.

A task computes its trials one after the other and keeps each result in the folder of results. When it is
signalled (its time is over, or it is to leave for an urgent job), submitit stores the task and requeues its
job; the task then goes on with the trials that have no result.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from makeway.simharness.papers.common.cache import ResultCache
from makeway.simharness.run.workers import Attempts, Failure

if TYPE_CHECKING:
    from submitit.core.utils import DelayedSubmission

INTERRUPTIONS = 5
"""A trial that was interrupted this often has failed: it would never come to its end."""

TrialT = TypeVar("TrialT")
ResultT = TypeVar("ResultT")


class ArrayTask(Generic[TrialT, ResultT]):
    """The trials of one task, as submitit's jobs are given it: a callable that can be pickled."""

    def __init__(
        self, work: Callable[[TrialT], ResultT], cache: ResultCache, trials: Mapping[int, TrialT]
    ) -> None:
        """See `run_all`. `trials`: by their places among all trials."""
        self.work = work
        self.cache = cache
        self.trials = dict(trials)
        self._failures: dict[int, Failure] = {}
        self._interruptions = Counter[int]()
        self._at: int | None = None
        """The place of the trial at hand. None: there is none."""

    def __call__(self) -> dict[int, Failure]:
        """Compute what has no result. Returns the trials that failed, by their places."""
        kept, attempt = self.cache.of(self.work), Attempts(self.work)
        for place, trial in self.trials.items():
            if place in self._failures or kept.get(trial) is not None:
                continue
            self._at = place
            result = attempt(trial)
            self._at = None
            if isinstance(result, Failure):
                self._failures[place] = result
            else:
                kept.put(trial, result)
        return self._failures

    def checkpoint(self) -> "DelayedSubmission":
        """What goes on after the signal. submitit calls it in the middle of the work."""
        from submitit.core.utils import DelayedSubmission

        if self._at is not None:
            self._interruptions[self._at] += 1
            if self._interruptions[self._at] >= INTERRUPTIONS:
                text = f"it was interrupted {INTERRUPTIONS} times; a longer --sbatch time=MINUTES may help"
                self._failures[self._at] = Failure(text)
        return DelayedSubmission(self)
