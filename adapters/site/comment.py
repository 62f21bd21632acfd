"""The words by which a job tells makeway about itself, in a text field that the batch system keeps with the
job.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from makeway.adapters.site.job_class import JobClass
from makeway.policies.model import CheckpointSpec, SignalTarget

_WORD = re.compile(r"(?<!\S)makeway:([a-z][a-z0-9\-]*)(?:=(\d{1,12}(?:\.\d{1,9})?))?(?!\S)", re.ASCII)
_NOTICE = re.compile(r"(?<!\S)makeway:notice=([A-Za-z0-9][A-Za-z0-9.\-]{0,63})(?!\S)", re.ASCII)
_NO_WORDS: Mapping[str, float | None] = MappingProxyType({})
_SECOND_END_S = 0.999
"""A job writes whole seconds: an instant counts as the end of its second."""


def comment_words(comment: str) -> Mapping[str, float | None]:
    """The `makeway:` words of a comment and their numbers; None for a word without one. The last of a kind
    counts.

    Anything else in the comment, and a word that is not written exactly so, means nothing.
    """
    if "makeway:" not in comment:
        return _NO_WORDS
    return {word: float(number) if number else None for word, number in _WORD.findall(comment)}


def notice_word(comment: str) -> str | None:
    """The announcement that a comment names, the last if there are several. None: it names none."""
    return next(reversed(_NOTICE.findall(comment)), None)


SKEW_S = 5.0
"""By how much the clock of a job's node may be ahead of makeway's. What is further ahead has not happened."""


def instant_in_run(written_s: float | None, started_s: float | None, now_s: float) -> float | None:
    """An instant that a job wrote about its present run. None: it wrote none, or about an earlier run, or
    about the future.
    """
    if written_s is None or started_s is None or written_s > now_s + SKEW_S:
        return None
    if written_s.is_integer():
        written_s += _SECOND_END_S
    return min(written_s, now_s) if written_s >= started_s else None


def smallest_size(job_class: JobClass, words: Mapping[str, float | None], size: int) -> int:
    """The smallest number of nodes of a malleable job that has `size`: what it says itself, else what its
    class says.
    """
    said = words.get("min-nodes")
    smallest = job_class.node_count_min if said is None else int(said)
    return size if smallest is None else min(max(1, smallest), size)


def checkpoint_spec(job_class: JobClass | None, words: Mapping[str, float | None]) -> CheckpointSpec | None:
    """The checkpoints of the job's class, with what the job says of its own. None: it cannot checkpoint.

    A job may not say that it saves less often than its class, or that a checkpoint takes longer than the
    grace of its class: other jobs would have to leave in its place.
    """
    if job_class is None or job_class.checkpoint is None:
        return None
    spec = job_class.checkpoint
    interval_s, takes_s = words.get("ckpt-interval"), words.get("ckpt-takes")
    if interval_s:
        spec = replace(spec, interval_s=min(interval_s, job_class.checkpoint.interval_s or interval_s))
    if (target := _signal_to(words)) is not None:
        spec = replace(spec, signal_to=target)
    if takes_s is not None:
        spec = replace(
            spec,
            application_s=_capped(takes_s, spec.application_s, spec.grace_s),
            system_s=_capped(takes_s, spec.system_s, spec.grace_s),
        )
    return spec


def _capped(said_s: float, class_s: float | None, grace_s: float) -> float | None:
    """What a job says of a duration, where its class has one: at most the grace, or the class's own."""
    return None if class_s is None else min(said_s, max(class_s, grace_s))


def _signal_to(words: Mapping[str, float | None]) -> SignalTarget | None:
    """Which of its processes the job wants to be signalled; it may name both. None: it does not say."""
    said = {target for target in SignalTarget if f"signal-{target}" in words}
    return SignalTarget.BOTH if len(said) > 1 else next(iter(said), None)
