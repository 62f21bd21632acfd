"""What a job writes into its comment, and how it fails to: in every shell that a batch script may be."""

import re
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from makeway.adapters.site.comment import comment_words
from tests.job_side.batch_job import ASKS, DONE, SHELLS, Batch, make_batch, words
from tests.waiting import await_that

LIMIT = 1024
"""So many bytes a comment may have."""


@pytest.fixture(params=SHELLS)
def batch(request: pytest.FixtureRequest, tmp_path: Path) -> Batch:
    return make_batch(tmp_path, str(request.param))


@pytest.fixture
def dash(tmp_path: Path) -> Batch:
    """For what does not depend on the shell."""
    return make_batch(tmp_path, "dash")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"(null)", b""),
        (b"", b""),
        (b"my text", b"my text "),
        (b"makeway:ckpt=5", b""),
        (b"makeway:ckpt=5 makeway:ckpt=6.25 end", b"end "),
        (b"makeway:ckpt-begin=5 makeway:ckpt=6", b"makeway:ckpt-begin=5 "),
        (b"makeway:malleable=2 makeway:ckpt=1 urgent makeway:ckpt=2", b"makeway:malleable=2 urgent "),
        (b"a\n\nmakeway:ckpt=1\n makeway:ckpt=2\tb\n\n", b"a\n\n\n\tb\n\n "),
        (b"makeway:ckpt= xmakeway:ckpt=1 makeway:ckpt=1x makeway:ckpt", None),
        (b"$(touch evil) `touch evil` ; touch evil | touch evil & 'x' \"y\" \\ \\n %s * ~ -n", None),
        (b"\xff\xfe \x1b[31m \x01 \r\n \xc3\xa9", None),
        (b"-n", None),
        (b"&\\1/\\0", None),
    ],
)
def test_all_else_in_the_comment_stays_as_it_is(batch: Batch, before: bytes, after: bytes | None) -> None:
    ended = batch.run("set -eu\nmakeway_checkpointed\necho on", comment=before)
    assert (ended.output, ended.errors) == ("on\n", [])
    kept = before + b" " if after is None else after
    assert re.fullmatch(re.escape(kept) + rb"makeway:ckpt=\d{10}", ended.comment)
    assert not (batch.folder / "evil").exists()


TOKENS = st.one_of(
    st.sampled_from(
        [b"makeway:ckpt=12", b"makeway:ckpt=1.5", b"makeway:ckpt-begin=3", b"makeway:min-nodes=2"]
    ),
    st.binary(max_size=12).filter(lambda token: b"\0" not in token),
)
SPACES = st.sampled_from([b" ", b"  ", b"\n", b"\t", b""])


@settings(deadline=None, max_examples=40)
@given(parts=st.lists(st.tuples(TOKENS, SPACES), max_size=12))
def test_any_comment_is_kept(parts: list[tuple[bytes, bytes]]) -> None:
    before = b"".join(token + space for token, space in parts)
    assume(before != b"(null)")
    with tempfile.TemporaryDirectory() as name:
        ended = make_batch(Path(name), "dash").run("makeway_checkpointed", comment=before)
    assert ended.errors == []
    told = words(ended)
    assert told.keys() >= {"ckpt"}
    assert told["ckpt"] is not None
    assert told["ckpt"] > 1e9
    was = comment_words(before.decode("utf-8", "surrogateescape"))
    assert {word: number for word, number in told.items() if word != "ckpt"} == {
        word: number for word, number in was.items() if word != "ckpt"
    }
    assert _others(ended.comment) == _others(before)


def _others(comment: bytes) -> list[bytes]:
    """What of a comment is no `ckpt` word, split at blanks."""
    split = re.split(rb"[ \t\n\v\f\r]+", comment)
    return [part for part in split if part and not re.fullmatch(rb"makeway:ckpt=\d{1,12}(\.\d{1,9})?", part)]


WORD_SIZE = len(" makeway:ckpt=1234567890")


def test_the_comment_never_gets_too_long(batch: Batch) -> None:
    fits = b"x" * (LIMIT - WORD_SIZE)
    ended = batch.run("makeway_checkpointed", comment=fits)
    assert len(ended.comment) == LIMIT
    too_long = fits + b"x"
    ended = batch.run("set -e\nmakeway_checkpointed\necho on", comment=too_long)
    assert (ended.comment, ended.output, len(ended.errors)) == (too_long, "on\n", 1)
    assert "1025 of 1024" in ended.errors[0]


def test_the_limit_is_in_bytes(batch: Batch) -> None:
    comment = "é".encode() * 510
    ended = batch.run("makeway_checkpointed", comment=comment, variables={"LC_ALL": "C.UTF-8"})
    assert (ended.comment, len(ended.errors)) == (comment, 1)


def test_where_there_is_no_room_the_begin_makes_it(batch: Batch) -> None:
    text = b"x" * (LIMIT - WORD_SIZE)
    begin = b" makeway:ckpt-begin=5"
    ended = batch.run("makeway_checkpointed", comment=text + begin)
    assert re.fullmatch(rb"x+ makeway:ckpt=\d{10}", ended.comment)
    assert (len(ended.comment), ended.errors) == (LIMIT, [])


ASKED = f"""
set -eu
makeway_on_checkpoint 'touch saved'
makeway_run sh -c '{ASKS}; until [ -e saved ]; do sleep 0.02; done; exit 3'
"""


@pytest.mark.parametrize("command", ["squeue", "scontrol"])
def test_failing_commands_of_slurm_are_told_in_a_line_each(batch: Batch, command: str) -> None:
    (batch.folder / f"{command}-fails").write_text("it is\ndown\n")
    ended = batch.run(ASKED, comment=b"mine")
    assert (ended.status, ended.comment) == (3, b"mine")
    assert len(ended.errors) == 2
    assert all(line.endswith(f"{command}: it is down") for line in ended.errors)


@pytest.mark.parametrize("command", ["squeue", "scontrol"])
def test_missing_commands_of_slurm_are_told_in_a_line_each(batch: Batch, command: str) -> None:
    (batch.folder / "slurm" / command).unlink()
    ended = batch.run(ASKED, comment=b"mine")
    assert (ended.status, ended.comment) == (3, b"mine")
    assert len(ended.errors) == 2
    assert all(f"{command}: " in line and line.startswith("makeway: ") for line in ended.errors)


REPEATS = {"MAKEWAY_REPEATS": "0.1 " * 500}


@pytest.mark.parametrize("command", ["squeue", "scontrol"])
def test_an_acknowledgement_that_failed_is_repeated_and_nothing_waits_for_it(
    batch: Batch, command: str
) -> None:
    fails = batch.folder / f"{command}-fails"
    fails.write_text("down")
    ended = batch.run("makeway_checkpointed; echo on; wait", comment=b"mine", variables=REPEATS)
    assert (ended.output, ended.comment, len(ended.errors)) == ("on\n", b"mine", 1)
    fails.unlink()
    comment = batch.folder / "comment"
    await_that("it is written", lambda: b"makeway:ckpt=" in comment.read_bytes())
    assert re.fullmatch(rb"mine makeway:ckpt=\d{10}", comment.read_bytes())


def test_a_repeated_acknowledgement_does_not_replace_a_later_one(batch: Batch) -> None:
    fails = batch.folder / "scontrol-fails"
    fails.write_text("down")
    batch.run("makeway_checkpointed", comment=b"mine", variables=REPEATS)
    later = b"mine makeway:ckpt=9999999999"
    (batch.folder / "comment").write_bytes(later)
    asked = (batch.folder / "calls").read_text()
    await_that("it looks again", lambda: (batch.folder / "calls").read_text() != asked)
    fails.unlink()
    ended = batch.run("sleep 0.5")
    assert (ended.comment, ended.calls) == (later, [])


def test_the_report_of_a_begin_is_not_repeated(batch: Batch) -> None:
    """It would come when the checkpoint is over."""
    fails = batch.folder / "scontrol-fails"
    fails.write_text("down")
    ended = batch.run("_makeway_publish ckpt-begin", comment=b"mine", variables=REPEATS)
    assert len(ended.errors) == 1
    fails.unlink()
    ended = batch.run("sleep 0.5")
    assert (ended.comment, ended.calls) == (b"mine", [])


def test_a_job_that_squeue_does_not_show_is_left_alone(batch: Batch) -> None:
    (batch.folder / "no-such-job").touch()
    ended = batch.run("set -e\nmakeway_checkpointed\necho on", comment=b"mine")
    assert (ended.comment, ended.output, len(ended.errors)) == (b"mine", "on\n", 1)


def test_a_change_by_another_process_is_not_lost_and_does_not_lose_ours(batch: Batch) -> None:
    (batch.folder / "rival").write_bytes(b"theirs makeway:ckpt-begin=1")
    ended = batch.run("makeway_checkpointed", comment=b"mine")
    assert re.fullmatch(rb"theirs makeway:ckpt-begin=1 makeway:ckpt=\d{10}", ended.comment)
    assert ended.errors == []


def test_a_comment_that_others_keep_changing_is_given_up(batch: Batch) -> None:
    (batch.folder / "rival").write_bytes(b"theirs")
    (batch.folder / "stubborn").touch()
    ended = batch.run("makeway_checkpointed; echo on")
    assert (ended.comment, ended.output, len(ended.errors)) == (b"theirs", "on\n", 1)


def test_what_a_user_has_set_for_squeue_changes_nothing(batch: Batch) -> None:
    ended = batch.run(
        "makeway_checkpointed",
        variables={
            "SQUEUE_STATES": "PD",
            "SQUEUE_FORMAT2": "JobID",
            "SQUEUE_USERS": "a",
            "SLURM_CLUSTERS": "x,y",
        },
    )
    assert ended.calls == [
        "squeue --noheader --jobs=12 --format=%k",
        "scontrol update JobId=12",
        "squeue --noheader --jobs=12 --format=%k",
    ]


@pytest.mark.parametrize(
    ("array", "task", "address"),
    [("12", "3", "12_3"), ("10", "3", "12"), (None, None, "12"), ("", "", "12")],
)
def test_an_array_task_means_itself_alone(
    batch: Batch, array: str | None, task: str | None, address: str
) -> None:
    variables = {"SLURM_ARRAY_JOB_ID": array, "SLURM_ARRAY_TASK_ID": task}
    ended = batch.run("set -u\nmakeway_checkpointed\nmakeway_signal_steps USR2", variables=variables)
    assert ended.calls[1:] == [
        f"scontrol update JobId={address}",
        f"squeue --noheader --jobs={address} --format=%k",
        f"scancel {'--verbose ' if task else ''}--signal=USR2 {address}",
    ]


@pytest.mark.parametrize(
    ("says", "status"), [("scancel: Job is in transitional state, retrying", 0), ("No", 1)]
)
def test_the_steps_of_a_task_are_signalled_once(batch: Batch, says: str, status: int) -> None:
    """scancel says that it tries again, and is ended before it does."""
    batch.stand_in("scancel", f'echo scancel "$@" >>calls\necho "{says}" >&2\nexit 124\n')
    variables = {"SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "3"}
    ended = batch.run("set -eu\nmakeway_signal_steps USR2", variables=variables)
    assert (ended.status, ended.errors) == (status, [says] if status else [])
    assert ended.calls == ["scancel --verbose --signal=USR2 12_3"]


def test_done_publishes(dash: Batch) -> None:
    (dash.folder / "tools" / "makeway-done").symlink_to(DONE)
    ended = dash.run("set -e\nmakeway-done\necho on", source=False, comment=b"mine")
    assert (ended.output, ended.errors) == ("on\n", [])
    assert re.fullmatch(rb"mine makeway:ckpt=\d{10}", ended.comment)


def test_done_never_fails(dash: Batch) -> None:
    (dash.folder / "squeue-fails").write_text("down")
    ended = dash.run(f"set -e\n{DONE}\necho on", source=False)
    assert (ended.output, len(ended.errors)) == ("on\n", 1)
    ended = dash.run(f"set -e\n{DONE}\necho on", source=False, variables={"SLURM_JOB_ID": None})
    assert (ended.output, ended.errors, ended.calls) == ("on\n", [], [])
    shutil.copy(DONE, dash.folder / "alone")
    ended = dash.run("set -e\n./alone\necho on", source=False)
    assert (ended.output, len(ended.errors)) == ("on\n", 1)
