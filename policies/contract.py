"""What a policy is: a name, a type of settings, and a pure function from a snapshot to a decision."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from traceback import extract_tb
from types import CodeType
from typing import Generic, TypeVar

from makeway.policies.model import (
    Cluster,
    Decision,
    Job,
    JobState,
    Plan,
    memoise_last,
)
from makeway.policies.soundness import unsound

ConfigT = TypeVar("ConfigT")
_JOBS_SHOWN = 5
NOT_TOGETHER = "its other components: the policy makes no room for heterogeneous jobs"
"""What a component lacks under a policy that does not serve components together."""


class PolicyError(ValueError):
    """A policy cannot be used here. The message tells the user why, and what would be accepted."""


class PolicyFailed(PolicyError):
    """A policy raised an exception instead of deciding, or returned no sound decision: a defect of the
    policy.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner(Generic[ConfigT]):
    """How a policy makes plans, outside of the cycles, because one plan may take minutes.

    `due` and `make` are pure functions. The last finished plan is part of every snapshot.
    """

    due: Callable[[Cluster, ConfigT], bool]
    """Whether a new plan is to be made from this snapshot, which contains the last one."""
    make: Callable[[Cluster, ConfigT], Plan]
    require: Callable[[], object]
    """Called before the first plan: raises if plans cannot be made in this installation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(Generic[ConfigT]):
    """One way to decide.

    `decide(cluster, config)` must depend on its arguments alone, must do nothing for urgent jobs whose
    operation has no shortfall, and must return the same decision for the same snapshot: its sort keys end in
    the job id.
    """

    name: str
    """The name in the configuration and on the command line."""
    summary: str
    """One line for `--help`."""
    config_type: type[ConfigT]
    """A frozen dataclass of plain values, every field with a default; the configuration is checked against
    it."""
    decide: Callable[[Cluster, ConfigT], Decision]
    collects: bool = False
    """Whether it holds nodes for announced jobs. False: holds for announced jobs are released."""
    active: bool = True
    """False: it never wants any action, so it need not be called."""
    learns: bool = False
    """Whether it uses the run times of finished jobs (`Cluster.usual_shares`), which are then recorded."""
    arrivals_only: bool = True
    """Whether it acts for urgent jobs only, so that it need not be asked while none waits or is announced.
    False: any change of the queue or of the running jobs may concern it."""
    shares_nodes: bool = False
    """Whether it knows that a job may need a part of its nodes (`Job.demand`). False: it sees every waiting
    job as one that needs whole nodes, and `makeway doctor` warns of that where jobs share nodes."""
    whole_placements: bool = False
    """Whether the nodes of an urgent job are in one placement (`Cluster.placements`). False: it sees only how
    many nodes are free, and `makeway doctor` warns of that where the cluster has placements."""
    serves_components: bool = False
    """Whether it makes room for all components of an urgent heterogeneous job or for none (`decide_each`
    does). False: such a job waits, and `makeway doctor` warns of it."""
    planner: Planner[ConfigT] | None = None
    """None: it needs no plans."""

    def decision(self, cluster: Cluster, config: ConfigT) -> Decision:
        """What it wants done for a snapshot, of which it sees what it knows about.

        Raises:
            PolicyFailed: it raised an exception, which is the cause, or returned something else than a
                decision. The message names the time of the snapshot, the urgent jobs that wait, and the line.
        """
        try:
            decision = self.decide(self.view(cluster), config)
        except PolicyError:
            raise
        except (Exception, SystemExit) as error:
            text = f"{type(error).__name__}: {error}{_place_of(error, self.decide)}"
            raise PolicyFailed(_failure(self.name, cluster, text)) from error
        if (wrong := unsound(decision)) is not None:
            code: CodeType | None = getattr(self.decide, "__code__", None)
            where = "" if code is None else f" ({code.co_filename}, line {code.co_firstlineno})"
            raise PolicyFailed(_failure(self.name, cluster, f"{wrong}{where}"))
        return decision

    def view(self, cluster: Cluster) -> Cluster:
        """The snapshot as the policy sees it."""
        jobs = cluster.jobs
        if not self.shares_nodes:
            jobs = _without_demands(jobs)
        if not self.serves_components:
            jobs = _without_components(jobs)
        return cluster if jobs is cluster.jobs else replace(cluster, jobs=jobs)


def _failure(name: str, cluster: Cluster, text: str) -> str:
    """Which policy failed, when, for which jobs, and how."""
    waiting = [job.job_id for job in cluster.waiting_urgent_jobs()]
    shown = ", ".join(waiting[:_JOBS_SHOWN]) or "none"
    more = f" and {len(waiting) - _JOBS_SHOWN} more" if len(waiting) > _JOBS_SHOWN else ""
    return f"policy {name} failed at {cluster.now_s:.0f} s (urgent jobs that wait: {shown}{more}): {text}"


def _place_of(error: BaseException, decide: Callable[..., object]) -> str:
    """Where an exception was raised, and from which line of the policy's own file."""
    frames = extract_tb(error.__traceback__)
    if not frames:
        return ""
    where = f"{frames[-1].filename}, line {frames[-1].lineno}"
    code: CodeType | None = getattr(decide, "__code__", None)
    own = [frame for frame in frames if code is not None and frame.filename == code.co_filename]
    if own and own[-1] is not frames[-1]:
        where += f", called from {own[-1].filename}, line {own[-1].lineno}"
    return f" ({where})"


@memoise_last
def _without_demands(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    """The jobs as ones that need whole nodes; the same tuple if all are such jobs."""
    if all(job.demand is None for job in jobs):
        return jobs
    return tuple(job if job.demand is None else replace(job, demand=None) for job in jobs)


@memoise_last
def _without_components(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    """The jobs, of which components that wait lack the others; the same tuple if there are none."""
    if not any(job.het_job_id and job.state is JobState.PENDING for job in jobs):
        return jobs
    return tuple(
        replace(job, blocked_by=job.blocked_by or NOT_TOGETHER, eligible_s=math.inf)
        if job.het_job_id and job.state is JobState.PENDING
        else job
        for job in jobs
    )


def require_durations(**settings: float) -> None:
    """Refuse settings that are not durations in seconds; for `__post_init__` of a policy's settings.

    Raises:
        ValueError: names the first setting that is negative or not finite.
    """
    for name, value in settings.items():
        if not (math.isfinite(value) and value >= 0.0):
            raise ValueError(f"{name} is {value!r}; accepted: a number of seconds, not negative")


LEAST_STEP_S = 0.001
"""The finest resolution of time that a policy may have, in seconds: durations in steps are whole numbers of a
computer's size.
"""


def require_step(step_s: float) -> None:
    """Refuse a resolution of time that is none; for `__post_init__` of a policy's settings.

    Raises:
        ValueError: it is too fine, or not finite.
    """
    if not (math.isfinite(step_s) and step_s >= LEAST_STEP_S):
        raise ValueError(f"step_s is {step_s!r}; accepted: a number of seconds, at least {LEAST_STEP_S:g}")
