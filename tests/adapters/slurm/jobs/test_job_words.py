"""What a job's comment says of its checkpoints, and how its words are read."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.adapters.site.comment import comment_words, notice_word
from makeway.policies.model import (
    CheckpointSpec,
    SignalTarget,
)
from tests.adapters.slurm.jobs.raw_jobs import ANY, NOW_S, PENDING, RUNNING, SPEC, translated

# Checkpoints


def test_what_a_job_tells_of_its_checkpoints() -> None:
    raw = replace(RUNNING, comment=f"makeway:ckpt-begin={NOW_S - 60:.0f} makeway:ckpt={NOW_S - 50:.0f}.25")
    job = translated(raw, ANY)
    assert job.last_checkpoint_s == NOW_S - 49.75
    assert job.checkpointing_since_s == pytest.approx(NOW_S - 60 + 0.999)
    assert job.checkpoint == SPEC


def test_a_checkpoint_in_the_second_of_the_signal_counts() -> None:
    """`date +%s` cuts the second off: signalled at ...00.7 and done at ...00.9, the job writes ...00."""
    job = translated(replace(RUNNING, comment=f"makeway:ckpt={NOW_S - 10:.0f}"), ANY)
    assert job.last_checkpoint_s is not None
    assert job.last_checkpoint_s >= NOW_S - 10 + 0.9


def test_no_checkpoint_is_of_the_future_or_of_an_earlier_run() -> None:
    for ahead_s in (6, 3600, 2_000_000_000):
        promised = replace(RUNNING, comment=f"makeway:ckpt={NOW_S + ahead_s:.0f}")
        assert translated(promised, ANY).last_checkpoint_s is None
    skewed = replace(RUNNING, comment=f"makeway:ckpt={NOW_S + 4:.0f}")
    assert translated(skewed, ANY).last_checkpoint_s == NOW_S
    earlier = replace(RUNNING, comment=f"makeway:ckpt={NOW_S - 402:.0f}")
    assert translated(earlier, ANY).last_checkpoint_s is None
    assert (
        translated(replace(PENDING, comment=f"makeway:ckpt={NOW_S - 1:.0f}"), ANY).last_checkpoint_s is None
    )


def test_a_job_may_tell_its_own_figures() -> None:
    raw = replace(RUNNING, comment="makeway:ckpt-interval=500 makeway:ckpt-takes=45.5")
    told = translated(raw, ANY).checkpoint
    assert told == replace(SPEC, interval_s=500.0, application_s=45.5, system_s=45.5)
    only_application = replace(ANY, checkpoint=CheckpointSpec(application_s=20.0))
    assert translated(raw, only_application).checkpoint == CheckpointSpec(
        interval_s=500.0, application_s=45.5
    )
    assert translated(raw, replace(ANY, checkpoint=None)).checkpoint is None


def test_no_job_is_spared_for_what_it_says_of_its_checkpoints() -> None:
    """It saves as often as its class at least, and takes no longer than its grace."""
    raw = replace(RUNNING, comment="makeway:ckpt-interval=86400 makeway:ckpt-takes=99999")
    told = translated(raw, replace(ANY, checkpoint=replace(SPEC, interval_s=600.0))).checkpoint
    assert told is not None
    assert (told.interval_s, told.application_s, told.system_s) == (600.0, SPEC.grace_s, SPEC.grace_s)
    slow = replace(SPEC, application_s=2.0 * SPEC.grace_s)
    told = translated(raw, replace(ANY, checkpoint=slow)).checkpoint
    assert told is not None
    assert told.application_s == slow.application_s, "the class's own is longer than its grace"


@pytest.mark.parametrize(
    ("comment", "target"),
    [
        ("", SignalTarget.BATCH),
        ("makeway:signal-steps", SignalTarget.STEPS),
        ("makeway:signal-both", SignalTarget.BOTH),
        ("makeway:signal-batch makeway:signal-steps", SignalTarget.BOTH),
        ("makeway:signal-all makeway:signal", SignalTarget.BATCH),
    ],
)
def test_a_job_may_tell_which_of_its_processes_are_signalled(comment: str, target: SignalTarget) -> None:
    told = translated(replace(RUNNING, comment=comment), ANY).checkpoint
    assert told == replace(SPEC, signal_to=target)


def test_what_a_job_tells_of_its_signal_goes_before_its_class() -> None:
    steps = replace(ANY, checkpoint=replace(SPEC, signal_to=SignalTarget.STEPS))
    assert translated(RUNNING, steps).checkpoint == steps.checkpoint
    assert translated(replace(RUNNING, comment="makeway:signal-batch"), steps).checkpoint == SPEC


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        ("makeway:ckpt=12", {"ckpt": 12.0}),
        ("a makeway:urgent\tmakeway:ckpt=1.5\nb", {"urgent": None, "ckpt": 1.5}),
        ("makeway:ckpt=1 makeway:ckpt=2", {"ckpt": 2.0}),
        ("xmakeway:ckpt=1 makeway:ckpt=x makeway:ckpt=-1 makeway:ckpt=1e9 makeway: MAKEWAY:a", {}),
        ("makeway:ckpt=1234567890123", {}),
        ("makeway:ckpt=1,makeway:urgent", {}),
        ("makeway:ckpt=\udcc3 makeway:ckpt=٣", {}),
    ],
)
def test_the_words_of_a_comment(comment: str, words: dict[str, float | None]) -> None:
    assert comment_words(comment) == words


@pytest.mark.parametrize(
    ("comment", "notice_id"),
    [
        ("", None),
        ("makeway:notice=notice-1763737123-42-1", "notice-1763737123-42-1"),
        ("beam 3 makeway:notice=a makeway:notice=b done", "b"),
        ("makeway:notice=", None),
        ("makeway:notice=-a", None),
        ("makeway:notice=a/b", None),
        ("xmakeway:notice=a", None),
        ("makeway:notice=" + "a" * 65, None),
    ],
)
def test_a_comment_names_the_announcement(comment: str, notice_id: str | None) -> None:
    assert notice_word(comment) == notice_id
    assert comment_words(comment) == {}


@settings(deadline=None)
@given(st.text())
def test_every_comment_has_words_or_none(comment: str) -> None:
    job = translated(replace(RUNNING, comment=comment), ANY)
    assert job.last_checkpoint_s is None or job.last_checkpoint_s <= NOW_S
