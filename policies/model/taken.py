"""What makeway has taken from a job, as the cluster keeps it with the job. Imported through `model`.

The adapter writes it before or together with the command that takes something. A daemon without a journal
gives back what it says.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class LostNodes:
    """The nodes that a run has lost to a shrink."""

    node_count: int
    """The size of the run before its first shrink."""
    kept_count: int
    """Its size after the last shrink."""
    walltime_s: float | None
    """The time limit that would be right if the run had got its nodes back at `since_s`. None: it has none.
    """
    since_s: float
    """When it was shrunk last."""

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
        kept_count: the size that it is shrunk to. None: it is not shrunk.
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
    lost = before.lost_nodes if before is not None and before.run == run else None
    if kept_count is not None and kept_count < node_count:
        fair_s = lost.fair_walltime_s(now_s) if lost is not None and raised_before else walltime_s
        lost = LostNodes(
            node_count=max(node_count, 0 if lost is None else lost.node_count),
            kept_count=kept_count,
            walltime_s=None if taken.raised_to_s is None else fair_s,
            since_s=now_s,
        )
    return replace(taken, lost_nodes=lost)
