"""Work that is spread over processes, and its interruption."""

import signal
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from math import sqrt

import pytest

from makeway.simharness.run.workers import spread


def test_results_come_with_the_places_of_their_items() -> None:
    assert dict(spread(sqrt, (0.0, 1.0, 4.0), 2)) == {0: 0.0, 1: 1.0, 2: 2.0}


@pytest.mark.parametrize("starts", [False, True], ids=["it never runs", "it runs a moment later"])
def test_an_interrupt_in_the_middle_of_the_start_of_a_thread_is_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, starts: bool
) -> None:
    """Python lists a thread as soon as its start begins, and refuses to wait for one that does not run."""
    work = spread(sqrt, (0.0, 1.0, 4.0), 2)
    assert isinstance(work, Generator)
    next(work)
    late = threading.Thread(target=len, args=("",))
    listed: Callable[[], list[threading.Thread]] = threading.enumerate
    monkeypatch.setattr(threading, "enumerate", lambda: [*listed(), late])
    starter = threading.Timer(0.05, late.start)
    if starts:
        starter.start()
    with pytest.raises(KeyboardInterrupt):
        work.throw(KeyboardInterrupt())
    assert (late.ident is not None) is starts
    starter.cancel()


COMES: list[float] = []
"""The items that were asked for."""


class Interrupting(tuple[float, ...]):
    """Items of which the second one comes together with a Ctrl-C."""

    def __iter__(self) -> Iterator[float]:
        for place, item in enumerate(super().__iter__()):
            if place == 1:
                signal.raise_signal(signal.SIGINT)
            COMES.append(item)
            yield item


def test_an_interrupt_while_work_is_given_out_counts_when_all_of_it_is() -> None:
    """In the middle of it, it could leave the pool's thread waiting for ever."""
    COMES.clear()
    with pytest.raises(KeyboardInterrupt):
        next(spread(sqrt, Interrupting((0.0, 1.0, 4.0)), 2))
    assert COMES == [0.0, 1.0, 4.0]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_that_is_ignored_stays_so() -> None:
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert len(list(spread(sqrt, Interrupting((0.0, 1.0, 4.0)), 2))) == 3
    finally:
        signal.signal(signal.SIGINT, handler)


def test_work_is_given_out_by_other_threads_too() -> None:
    with ThreadPoolExecutor(max_workers=1) as pool:
        assert pool.submit(lambda: dict(spread(sqrt, (0.0, 1.0), 2))).result() == {0: 0.0, 1: 1.0}
