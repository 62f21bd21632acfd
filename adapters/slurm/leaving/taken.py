"""What makeway has taken from a job, as a word in the job's own AdminComment.

The word is written in the command that takes something, or right before it: see decision 30. Where makeway's
level does not allow AdminComment, the word is in Comment, which the job's owner can change. Everything else
in the field stays as it is.

Reference: 22.05, 24.11 as tried. Root and SlurmUser may write AdminComment; an operator and the owner get
    "Access/permission denied", and nothing of such a command is carried out. Both may write Comment.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import floor, inf

from makeway.adapters.command import CompletedCommand
from makeway.adapters.protocol import AdapterError, Rejected, Unavailable
from makeway.adapters.slurm import build
from makeway.adapters.slurm.access import SlurmClient
from makeway.adapters.slurm.errors import denied, refusal
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.translate import state
from makeway.policies.model import (
    Checkpoint,
    JobState,
    LostNodes,
    Requeue,
    Shrink,
    TakenFromJob,
    grown_again,
    taken_anew,
)

_MARK = "makeway:taken="
_NUMBER = r"\d{1,12}"
_PAIRS = re.compile(
    rf"(?:run|limit|raised|size|kept|fair|since)={_NUMBER}|for=[A-Za-z0-9_.+\-]{{1,80}}", re.ASCII
)
_COMMENT_LIMIT = 1024
"""A longer Comment gets no word, and the job is treated like any other: a user gains nothing by a long
Comment.
"""


def instance_of(prefix: str) -> str:
    """The instance in the prefix of its holds: see `holds.hold_prefix`."""
    return prefix.removeprefix("makeway_").removesuffix(".")


def word_of(taken: TakenFromJob, instance: str) -> str:
    """The word that says what an instance has taken. Times are whole seconds."""
    lost = taken.lost_nodes
    numbers: list[tuple[str, float | None]] = [
        ("run", taken.run),
        ("limit", taken.walltime_s),
        ("raised", taken.raised_to_s),
    ]
    if lost is not None:
        numbers += [
            ("size", lost.node_count),
            ("kept", lost.kept_count),
            ("fair", lost.walltime_s),
            # Rounded up it would lie ahead of the next snapshot, as after a clock that was set back.
            ("since", floor(lost.since_s)),
        ]
    pairs = [f"{key}={round(number)}" for key, number in numbers if number is not None]
    pairs += [] if taken.for_job_id is None else [f"for={taken.for_job_id}"]
    return f"{_MARK}{instance}," + ",".join(pairs)


def taken_in(text: str, instance: str) -> TakenFromJob | None:
    """What the instance's word in a field says, the last if there are several. None: there is none, or it is
    not as `word_of` writes it.
    """
    words = _words(instance).findall(text) if _MARK in text else []
    if not words:
        return None
    pairs = words[-1].lstrip().split(",")[1:]
    if not all(map(_PAIRS.fullmatch, pairs)):
        return None
    said = dict(pair.split("=", 1) for pair in pairs)
    number = {key: float(one) for key, one in said.items() if key != "for"}
    if "run" not in said:
        return None
    return TakenFromJob(
        run=int(said["run"]),
        for_job_id=said.get("for"),
        walltime_s=number.get("limit"),
        raised_to_s=number.get("raised"),
        lost_nodes=_lost_nodes(number),
    )


def with_word(text: str, taken: TakenFromJob | None, instance: str) -> str:
    """The field with another word of the instance, or None: without one. The rest of it stays as it is."""
    rest = _words(instance).sub("", text)
    if taken is None:
        return rest
    return f"{rest} {word_of(taken, instance)}" if rest else word_of(taken, instance)


class TakenWords:
    """Reads and writes the words of one instance.

    Args:
        client: what runs the commands.
        now: the time, in POSIX seconds.
    """

    def __init__(self, client: SlurmClient, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._in_comment = False
        """Whether Slurm has refused AdminComment to this daemon, and allowed Comment."""

    def of(self, job: RawJob) -> TakenFromJob | None:
        """What is taken from the job. None: nothing.

        What a Comment says of lost nodes does not count: the owner may have written it. Only root can let a
        job grow, and root writes AdminComment.
        """
        if _MARK not in job.admin_comment and _MARK not in job.comment:
            return None  # nearly every job of a long queue
        known = self._client.known()
        instance = instance_of(known.capabilities.reservation_prefix)
        found = None if self._in_comment else taken_in(job.admin_comment, instance)
        if found is not None or known.superuser:
            return found
        found = taken_in(job.comment, instance)
        if found is None or found.lost_nodes is None:
            return found
        return TakenFromJob(
            run=found.run,
            for_job_id=found.for_job_id,
            walltime_s=found.walltime_s,
            raised_to_s=found.raised_to_s,
        )

    def note(self, job: RawJob, action: Checkpoint | Requeue, limit_min: int | None) -> None:
        """Write what is about to be taken, and raise the time limit. `limit_min` None: it stays.

        22.05 without accounting changes nothing more of a job that was shrunk. What was taken first is kept
        with it already, and its checkpoint is worth more than its limit.
        """
        try:
            self.take(job, action, limit_min=limit_min)
        except Unavailable as silence:
            text = f"nothing is taken from job {job.job_id}: {silence}"
            raise Unavailable(text, sent=False) from silence
        except Rejected as refused:
            if not refused.retryable or self._client.known().release >= build.RESIZES_CLEANLY:
                raise
        self._client.begin_action()  # nothing is taken yet

    def note_requeue(self, job: RawJob, action: Requeue) -> None:
        """Write that the job is to go first in the queue, unless its present run has a word already."""
        taken = self.of(job)
        if taken is None or taken.run != job.restarts:
            self.note(job, action, None)

    def owe_turn(self, action: Requeue, requeue_count: int) -> None:
        """Write into a job that was just put back after that run that it is to go first in the queue.

        The crash may have lost that word, and Slurm changes no job that has ended. If the word cannot be
        written, the job gets its turn all the same, unless the journal is lost, too.
        """
        with suppress(AdapterError):
            job = self._client.look(action.job_id)
            word = self.of(job)
            if state(job) is JobState.PENDING and (word is None or not word.owes_turn(job.restarts)):
                self.note(replace(job, restarts=requeue_count), action, None)

    def note_growth(self, job: RawJob, node_count: int) -> None:
        """Write that the job has grown to that many nodes: from now on it loses less time.

        The nodes are merged by then. If the word cannot be written, the job is given too much time.
        """
        taken = self.of(job)
        grown = grown_again(taken, run=job.restarts, node_count=node_count, now_s=self._now())
        if grown != taken:
            with suppress(AdapterError):
                self.give_back(job, build.resize(job.job_id, None, None), grown)

    def take(
        self,
        job: RawJob,
        action: Checkpoint | Requeue | Shrink,
        *,
        keep_nodes: tuple[str, ...] | None = None,
        limit_min: int | None = None,
    ) -> None:
        """Write what the action takes, together with the new nodes and the new time limit if there are any.

        Raises what a refusal means.
        """
        kept_nodes = job.nodes if keep_nodes is None and isinstance(action, Shrink) else keep_nodes
        taken = taken_anew(
            self.of(job),
            for_job_id=action.for_job_id,
            run=job.restarts,
            node_count=len(job.nodes),
            kept_count=None if kept_nodes is None else len(kept_nodes),
            walltime_s=inf if job.limit_s is None else job.limit_s,
            raised_to_s=None if limit_min is None else limit_min * 60.0,
            now_s=self._now(),
        )
        self._send(build.resize(job.job_id, keep_nodes, limit_min), job, taken)

    def give_back(self, job: RawJob, argv: tuple[str, ...], left: TakenFromJob | None = None) -> None:
        """Run a command that updates the job, and let the word say in the same command what is left to be
        given back. None: nothing.

        Raises what a refusal means.
        """
        self._send(argv, job, left)

    def _send(self, argv: tuple[str, ...], job: RawJob, taken: TakenFromJob | None) -> None:
        # Before the first refusal, a word that goes may be one that an earlier daemon has written.
        in_comment = self._in_comment or (taken is None and self._is_in_comment(job))
        done = self._write(argv, job, taken, in_comment=in_comment)
        if not in_comment and done is not None and denied(done):
            done = self._write(argv, job, taken, in_comment=True)
            self._in_comment = done is None or not denied(done)
        if done is not None and done.returncode != 0:
            raise refusal(done)

    def _is_in_comment(self, job: RawJob) -> bool:
        """Whether the word that `of` reads is the one in the job's Comment."""
        instance = instance_of(self._client.known().capabilities.reservation_prefix)
        return taken_in(job.admin_comment, instance) is None and self.of(job) is not None

    def _write(
        self, argv: tuple[str, ...], job: RawJob, taken: TakenFromJob | None, *, in_comment: bool
    ) -> CompletedCommand | None:
        """Run the command, with the new text of the field if that changes. None: it would change nothing."""
        instance = instance_of(self._client.known().capabilities.reservation_prefix)
        text = job.comment if in_comment else job.admin_comment
        new = with_word(text, taken, instance)
        if in_comment and len(new) > _COMMENT_LIMIT:
            new = with_word(text, None, instance)
        if new != text:
            argv = (*argv, f"{'Comment' if in_comment else 'AdminComment'}={new}")
        return None if argv == build.resize(job.job_id, None, None) else self._client.change(argv)


def _words(instance: str) -> re.Pattern[str]:
    """The words of an instance in a field, each with the blank before it."""
    return re.compile(rf" ?(?<!\S){_MARK}{re.escape(instance)}(?:,[^\s,]*)+(?!\S)", re.ASCII)


def _lost_nodes(number: dict[str, float]) -> LostNodes | None:
    """The nodes that the word speaks of. None: of none, or of what cannot be."""
    size, kept, since_s = (number.get(key) for key in ("size", "kept", "since"))
    if size is None or kept is None or since_s is None or not 1 <= kept <= size:
        return None
    return LostNodes(
        node_count=int(size), kept_count=int(kept), walltime_s=number.get("fair"), since_s=since_s
    )
