"""Work spread over processes, which end with the process that started them, however it ends."""

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from traceback import extract_tb
from typing import TYPE_CHECKING, Generic, TypeVar

from makeway.adapters.command import kill_children
from makeway.daemon.errors import UserError
from makeway.policies.contract import PolicyError

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
WATCH_S = 0.5
"""How often a worker looks whether the process that started it is there."""
_ENDS_S = 5.0
"""How long the pool's thread is waited for at most, once its workers are killed."""
_STARTS_S = 0.5
"""How long the start of a thread is waited for at most."""
_ORPHANED = 1


@dataclass(frozen=True, slots=True)
class Failure:
    """What became of an item whose work raised an exception."""

    text: str
    """The exception in words; with the place where it was raised, if it is a defect that does not say it."""


@dataclass(frozen=True, slots=True)
class Attempts(Generic[ItemT, ResultT]):
    """A work function whose failures are results, so that the other items are worked on all the same."""

    work: Callable[[ItemT], ResultT]

    def __call__(self, item: ItemT) -> ResultT | Failure:
        """The result, or the failure."""
        try:
            return self.work(item)
        except (UserError, PolicyError) as error:
            return Failure(str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the other items do not depend on it
            last = extract_tb(error.__traceback__)[-1]
            return Failure(f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})")


def spread(
    work: Callable[[ItemT], ResultT], items: Sequence[ItemT], workers: int
) -> Iterator[tuple[int, ResultT]]:
    """The result of each item with the item's place, each as soon as it is there.

    After a failure no further item is begun, and what others are computing is waited for. After an interrupt
    (Ctrl-C), and if the caller takes no more results, the workers are killed at once.

    Args:
        work: a function of a module, so that another process can be given it.
        items: values that another process can be given.
        workers: processes side by side; 1: this one alone.

    Raises:
        KeyboardInterrupt: the user interrupted the work.
    """
    from concurrent.futures import ProcessPoolExecutor

    if workers == 1 or len(items) < 2:
        for place, item in enumerate(items):
            yield place, work(item)
        return
    # A fork of a process with threads may inherit a lock that is never released: with a number of
    # tasks, which is never reached here, new processes are started from scratch.
    before = frozenset(threading.enumerate())
    pool = ProcessPoolExecutor(
        min(workers, len(items)), max_tasks_per_child=1_000_000, initializer=_begin, initargs=(os.getpid(),)
    )
    try:
        failure = yield from _by_pool(pool, work, items)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        kill_children()
        _await_others(before)
        raise
    finally:
        pool.shutdown()
    if failure is not None:
        raise failure


def _by_pool(
    pool: "ProcessPoolExecutor", work: Callable[[ItemT], ResultT], items: Sequence[ItemT]
) -> Generator[tuple[int, ResultT], None, BaseException | None]:
    """See `spread`. Returns the first failure; None: there was none."""
    failure: BaseException | None = None
    # An interrupt comes while this process waits here, and leaves no lock locked. `as_completed` could.
    ended: SimpleQueue[Future[ResultT]] = SimpleQueue()
    with _interrupts_later():
        places = {pool.submit(work, item): place for place, item in enumerate(items)}
        for future in places:
            future.add_done_callback(ended.put)
    for _ in places:
        done = ended.get()
        if done.cancelled():
            continue
        if (failed := done.exception()) is None:
            yield places[done], done.result()
            continue
        failure = failure or failed
        with _interrupts_later():
            for other in places:
                other.cancel()
    return failure


@contextmanager
def _interrupts_later() -> Generator[None, None, None]:
    """An interrupt (Ctrl-C) that comes within the block counts at its end: in the middle of a call, it could
    leave a lock locked that the pool's thread needs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # no interrupt comes here
        return
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if came and callable(handler):
        handler(came[0], None)


def _await_others(before: frozenset[threading.Thread]) -> None:
    """Wait for the pool's thread, which the pool itself no longer does: it closes a pipe that Python's exit
    still writes to. `before`: the threads that were there before the pool. A thread that the interrupt has
    caught in the middle of its start may run in a moment, or never.
    """
    for thread in threading.enumerate():
        if thread in before or thread.daemon:
            continue
        limit_s = time.monotonic() + _STARTS_S
        while thread.ident is None and time.monotonic() < limit_s:
            time.sleep(0.01)
        if thread.ident is not None:
            thread.join(_ENDS_S)


def _begin(parent: int) -> None:
    """In a worker: leave Ctrl-C to the process that started it, and end when that process is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), name="parent", daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(WATCH_S)
    os._exit(_ORPHANED)
