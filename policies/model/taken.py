"""What makeway has taken from a job, as the cluster keeps it with the job. Imported through `model`.

The adapter writes it before or together with the command that takes something. A daemon without a journal
gives back what it says.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from makeway.policies.model.sizes import PastSize


@dataclass(frozen=True, slots=True, kw_only=True)
class LostNodes:
    """The nodes that a run has lost to shrinks, and how many it has now."""

    node_count: int
    """The size of the run before its first shrink."""
    kept_count: int
    """Its size since `since_s`, `node_count` if it has all its nodes back."""
    walltime_s: float | None
    """The time limit that would be right if the run had got its nodes back at `since_s`. None: it has none.
    """
    since_s: float
    """When its size changed last, or its time limit was raised for a checkpoint."""

    def fair_walltime_s(self, now_s: float) -> float | None:
        """The time limit of the run if it has its nodes back now: it gets the time that the shrink has cost.

        None: it has no time limit.
        """
        if self.walltime_s is None:
            return None
        missing = 1.0 - self.kept_count / self.node_count
        return self.walltime_s + max(0.0, now_s - self.since_s) * missing


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenFromJob:
    """What makeway has taken from a job and not given back yet.

    A job that was to leave for another one, and waits in a later run than `run`, has left: it gets back its
    turn in the queue.
    """

    run: int
    """The requeue count of the run that it was taken from."""
    for_job_id: str | None = None
    """The urgent job, or the announcement, that it was taken for last. None: only the time limit of a later
    run is to be given back."""
    walltime_s: float | None = None
    """The job's time limit before makeway raised it first. None: makeway has not raised it."""
    raised_to_s: float | None = None
    """The time limit that makeway has set last. If the job has another one, its user or an administrator has
    set it, and it stays. None: makeway has not raised it."""
    lost_nodes: LostNodes | None = None
    """None: the run has not been shrunk."""

    def owes_turn(self, requeue_count: int) -> bool:
        """Whether a job that waits, and has been requeued so often, gets back its turn in the queue."""
        return self.for_job_id is not None and requeue_count > self.run

    def usual_walltime_s(self, present_s: float) -> float | None:
        """The time limit that a later run of the job gets back. None: its present one is its own."""
        return self.walltime_s if present_s == self.raised_to_s else None

    def past_sizes(self, run: int) -> tuple[PastSize, ...]:
        """The sizes that a run, by its requeue count, had before its present one; see `Job.past_sizes`.

        Only the last change is known. Before it the run counts as having had all its nodes, which is too much
        if its size had changed before.
        """
        lost = self.lost_nodes
        if lost is None or run != self.run:
            return ()
        return (PastSize(node_count=lost.node_count, until_s=lost.since_s),)


class FairLimit(NamedTuple):
    """A time limit without what shrinks have added to it."""

    walltime_s: float
    node_count: int
    """The size of the run for which it is right."""


def fair_limit(
    taken: TakenFromJob | None, *, run: int, node_count: int, walltime_s: float, now_s: float
) -> FairLimit:
    """The time limit from which that of a smaller size is computed, so that shrinks do not compound.

    It is the present one, unless makeway has raised that. If the clock was set back since the last shrink,
    the time without nodes is unknown: the present limit counts, which is too long rather than too short.

    Args:
        taken: what makeway has taken from the job. None: nothing.
        run: the requeue count of the present run.
        node_count: its present size.
        walltime_s: its present time limit.
        now_s: the present instant.
    """
    present = FairLimit(walltime_s, node_count)
    usual_s = None if taken is None else taken.usual_walltime_s(walltime_s)
    if taken is None or usual_s is None:
        return present
    if taken.run != run:
        return FairLimit(usual_s, node_count)
    lost = taken.lost_nodes
    fair_s = None if lost is None or lost.since_s > now_s else lost.fair_walltime_s(now_s)
    if lost is None or fair_s is None:
        return present
    return FairLimit(fair_s, max(node_count, lost.node_count))


def taken_anew(
    before: TakenFromJob | None,
    *,
    for_job_id: str,
    run: int,
    node_count: int,
    kept_count: int | None,
    walltime_s: float,
    raised_to_s: float | None,
    now_s: float,
) -> TakenFromJob:
    """What is missing from a job once one more thing is taken from it.

    Args:
        before: what was taken already. None: nothing.
        for_job_id: the job that it is taken for.
        run: the requeue count of the job's present run.
        node_count: its present size.
        kept_count: the size that it is shrunk to. None: it is not shrunk, a limit is raised for a checkpoint.
        walltime_s: its present time limit.
        raised_to_s: the time limit that it gets. None: it keeps the present one.
        now_s: the present instant.
    """
    taken = TakenFromJob(run=run, for_job_id=for_job_id)
    raised_before = before is not None and before.raised_to_s == walltime_s
    if before is not None and raised_before:
        taken = replace(taken, walltime_s=before.walltime_s, raised_to_s=before.raised_to_s)
    if raised_to_s is not None:
        usual_s = taken.walltime_s if raised_before else walltime_s
        taken = replace(taken, walltime_s=usual_s, raised_to_s=raised_to_s)
    fair_s = fair_limit(before, run=run, node_count=node_count, walltime_s=walltime_s, now_s=now_s).walltime_s
    lost = before.lost_nodes if before is not None and before.run == run else None
    if kept_count is not None and kept_count < node_count:
        lost = LostNodes(
            node_count=max(node_count, 0 if lost is None else lost.node_count),
            kept_count=kept_count,
            walltime_s=None if taken.raised_to_s is None else fair_s,
            since_s=now_s,
        )
    elif kept_count is None and raised_to_s is not None and lost is not None:
        # What is raised for a checkpoint pays for that checkpoint and stays.
        lost = replace(lost, walltime_s=fair_s + raised_to_s - walltime_s, since_s=now_s)
    return replace(taken, lost_nodes=lost)


def grown_again(
    taken: TakenFromJob | None, *, run: int, node_count: int, now_s: float
) -> TakenFromJob | None:
    """What is missing from a job once it has grown to that many nodes: from now on it loses less time.

    If the clock was set back since the last shrink, that stays as it is: the time without nodes is unknown.
    """
    lost = None if taken is None or taken.run != run else taken.lost_nodes
    if taken is None or lost is None or node_count <= lost.kept_count or lost.since_s > now_s:
        return taken
    grown = replace(
        lost,
        kept_count=min(node_count, lost.node_count),
        walltime_s=lost.fair_walltime_s(now_s),
        since_s=now_s,
    )
    return replace(taken, lost_nodes=grown)
