"""Plans are made in a thread of their own: one may take minutes, and no cycle waits for it.

A thread is given the snapshot and leaves its plan in a mailbox; the cycle that finds it there writes it down,
and from then on it is part of every snapshot. A plan that a crash interrupts is simply asked for again.
"""

import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from makeway.daemon.journal.store import Journal
from makeway.policies.contract import Planner, Policy, PolicyFailed
from makeway.policies.model import Cluster, Plan


class PlanningFailed(PolicyFailed):
    """The policy raised something when it made a plan: a defect, which a replay does not pass over."""


RETRY_S: Final = 60.0
"""After a plan that failed, none is asked for until so many seconds later."""


@dataclass(slots=True)
class _Order:
    """One plan that was asked for."""

    done: threading.Event
    plan: Plan | None = None
    """None, once `done` is set: it could not be made."""
    failure: str = "its thread ended without a plan"
    """Why it could not be made."""


class Planning:
    """Keeps the last plan, and asks for the next one when the policy wants it.

    Args:
        journal: where plans are kept.
        in_thread: whether they are made in a thread; else by the cycle that asks.
    """

    def __init__(self, journal: Journal, *, in_thread: bool) -> None:
        self._journal = journal
        self._in_thread = in_thread
        self._planner: Planner[Any] | None = None
        self._config: object = None
        self._ordered: _Order | None = None
        self._failure: str | None = None
        self._not_before_s = float("-inf")

    @property
    def failure(self) -> str | None:
        """Why the last plan that was asked for could not be made: a defect of the policy. None: it could, or
        it is being made.
        """
        return self._failure

    def reconfigure(self, policy: Policy[Any], config: object) -> None:
        """Plan for this policy from now on; what is being made for another one, or with other settings, is
        dropped.

        Raises:
            SolverUnavailable: the policy plans, and OR-Tools is not installed.
        """
        if policy.planner is not None:
            policy.planner.require()
        if policy.planner is not self._planner or config != self._config:
            self._ordered = None
            self._failure = None
            self._not_before_s = float("-inf")
        self._planner, self._config = policy.planner, config

    def with_plan(self, cluster: Cluster) -> Cluster:
        """The snapshot with the last plan that is finished; the next one is asked for if it is due.

        A plan that fails (`failure`) changes nothing: the last finished one, or none, remains.
        """
        planner = self._planner
        if planner is None:
            return cluster
        self._collect(cluster.now_s)
        cluster = replace(cluster, plan=self._journal.plan())
        may_ask = self._ordered is None and cluster.now_s >= self._not_before_s
        if may_ask and self._is_due(planner, cluster):
            self._ask(planner, cluster)
            if self._collect(cluster.now_s):
                cluster = replace(cluster, plan=self._journal.plan())
        return cluster

    def _is_due(self, planner: Planner[Any], cluster: Cluster) -> bool:
        try:
            due = planner.due(cluster, self._config)
        except Exception as error:  # noqa: BLE001 - whatever it is, the cycle goes on without a new plan
            self._fail(_reported(error, in_thread=self._in_thread), cluster.now_s)
            return False
        if not due:
            self._failure = None  # no plan is wanted any more, so none is missing
        return due

    def _ask(self, planner: Planner[Any], cluster: Cluster) -> None:
        """Have a plan made."""
        order = self._ordered = _Order(done=threading.Event())
        config = self._config
        work = _work(order, lambda: planner.make(cluster, config), in_thread=self._in_thread)
        if self._in_thread:
            threading.Thread(target=work, name="planner", daemon=True).start()
        else:
            work()

    def _collect(self, now_s: float) -> bool:
        """Write a finished plan down. Returns whether there was one."""
        order = self._ordered
        if order is None or not order.done.is_set():
            return False
        self._ordered = None
        if order.plan is None:
            self._fail(order.failure, now_s)
            return False
        self._failure = None
        self._journal.save_plan(order.plan)
        return True

    def _fail(self, failure: str, now_s: float) -> None:
        self._failure = failure
        self._not_before_s = now_s + RETRY_S


def _work(order: _Order, make: Callable[[], Plan], *, in_thread: bool) -> Callable[[], None]:
    """What the thread does: its plan, or why there is none, goes into the mailbox, and nothing else is
    touched.
    """

    def work() -> None:
        try:
            order.plan = make()
        except Exception as error:  # noqa: BLE001 - whatever it is, the cycle that finds it reports it
            order.failure = _reported(error, in_thread=in_thread)
        finally:
            order.done.set()

    return work


def _reported(error: Exception, *, in_thread: bool) -> str:
    """The failure in words. The log of a daemon has its traceback, too. A replay ends with it: then the words
    say where it was raised.
    """
    text = f"{type(error).__name__}: {error}"
    if in_thread:
        traceback.print_exception(error)
        return text
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{text} ({last.filename}, line {last.lineno})"
