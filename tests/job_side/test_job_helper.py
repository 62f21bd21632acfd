"""The job's side of the checkpoint protocol, in every shell that a batch script may be: signals and
programs.
"""

import sys
from pathlib import Path

import pytest

from makeway.adapters.site.comment import comment_words
from tests.job_side.batch_job import ASKS, SHELLS, UNTIL_BEGUN, UNTIL_TOLD, Batch, make_batch, words


@pytest.fixture(params=SHELLS)
def batch(request: pytest.FixtureRequest, tmp_path: Path) -> Batch:
    return make_batch(tmp_path, str(request.param))


def test_begin_command_done_and_the_job_goes_on(batch: Batch) -> None:
    ended = batch.run(
        f"""
        set -eu
        makeway_on_checkpoint 'cp comment comment-then && touch saved'
        status=0
        makeway_run sh -c '{ASKS}; {UNTIL_TOLD}; exit 3' || status=$?
        echo "went on after $status"
        """
    )
    assert (ended.status, ended.output, ended.errors) == (0, "went on after 3\n", [])
    then = comment_words((batch.folder / "comment-then").read_text())
    assert set(then) == {"ckpt-begin"}
    begun, done = words(ended)["ckpt-begin"], words(ended)["ckpt"]
    assert begun is not None
    assert done is not None
    assert then["ckpt-begin"] == begun <= done
    assert (batch.folder / "saved").exists()


@pytest.mark.parametrize("command", ["exit 5", "false", 'echo "$no_such_variable"', "no-such-command", "("])
def test_a_failed_checkpoint_is_not_published_and_does_not_end_the_job(batch: Batch, command: str) -> None:
    ended = batch.run(
        f"""
        set -eu
        makeway_on_checkpoint '{command}'
        makeway_run sh -c '{ASKS}; {UNTIL_BEGUN}'
        echo went on
        """
    )
    assert (ended.status, ended.output) == (0, "went on\n")
    assert set(words(ended)) == {"ckpt-begin"}
    said = [line for line in ended.errors if line.startswith("makeway: ")]
    assert len(said) == 1
    assert "checkpoint failed" in said[0]


def test_a_signal_during_a_checkpoint_is_ignored_and_one_after_it_is_not(batch: Batch) -> None:
    ended = batch.run(
        f"""
        set -eu
        makeway_on_checkpoint 'echo again >>saves; kill -s USR1 $$; kill -s USR1 $$'
        makeway_run sh -c '{ASKS}; {UNTIL_TOLD}
            cp saves saves-of-one
            until [ "$(wc -l <saves)" -eq 2 ]; do {ASKS}; sleep 0.1; done
            exit 4'
        """
    )
    assert ended.status == 4
    assert (batch.folder / "saves-of-one").read_text() == "again\n"
    assert (batch.folder / "saves").read_text() == "again\nagain\n"


@pytest.mark.parametrize(
    ("program", "status"),
    [("true", 0), ("exit 7", 7), ("exit 138", 138), ("kill -s TERM $$", 143), ("kill -s KILL $$", 137)],
)
def test_the_exit_status_is_the_programs(batch: Batch, program: str, status: int) -> None:
    script = f"makeway_on_checkpoint true\nmakeway_run sh -c '%s{program}'"
    assert batch.run(script % "").status == status
    assert batch.run(script % f"{ASKS}; {UNTIL_TOLD}; ", comment=b"").status == status


def test_a_program_that_is_not_there_is_127(batch: Batch) -> None:
    assert batch.run("makeway_run no-such-program").status == 127


def test_a_trap_of_the_scripts_own_does_not_end_the_wait(batch: Batch) -> None:
    ended = batch.run(
        """
        trap 'touch mine' USR2
        makeway_run sh -c '
            kill -s USR2 $PPID; until [ -e mine ]; do sleep 0.02; done; echo still here; exit 9
        '
        """
    )
    assert (ended.status, ended.output) == (9, "still here\n")


def test_many_signals_do_not_end_the_wait(batch: Batch) -> None:
    (batch.folder / "saves").touch()
    ended = batch.run(
        f"""
        set -eu
        makeway_on_checkpoint 'echo again >>saves'
        makeway_run sh -c '
            until [ "$(wc -l <saves)" -ge 4 ]; do {ASKS}; sleep 0.02; done; echo to the end; exit 6
        '
        """
    )
    assert (ended.status, ended.output) == (6, "to the end\n")


NO_CHILD = """
wait() {
    _heard=0
    command wait "$@" || _heard=$?
    [ "$_heard" -ge 0 ] || _heard=127
    return "$_heard"
}
"""
"""How the shell says that it has lost an exit status: bash up to 5.2 by -1, and from 5.3 on as here."""


@pytest.mark.parametrize("version", ["", NO_CHILD], ids=["as it is", "bash 5.3"])
def test_a_program_that_ends_as_the_signal_comes_never_gets_another_status_unsaid(
    batch: Batch, version: str
) -> None:
    """bash may lose the status then."""
    count = 40
    ended = batch.run(
        f"""
        {version}
        for _ in $(echo {"x " * count}); do
            makeway_run sh -c '{ASKS}; exit 9'
            echo $?
        done
        """
    )
    lost = sum("lost its exit status" in line for line in ended.errors)
    assert sorted(ended.output.split()) == sorted(["255"] * lost + ["9"] * (count - lost))


def test_the_program_keeps_its_input_and_arguments(batch: Batch) -> None:
    ended = batch.run("""makeway_run sh -c 'cat; echo "$#:$1:$2"' sh 'a  b' '*'""", given=b"given\n")
    assert ended.output == "given\n2:a  b:*\n"
    assert batch.run("exec <&-; makeway_run sh -c 'exit 3'").status == 3


def test_a_signal_before_the_script_has_said_how_is_survived(batch: Batch) -> None:
    ended = batch.run("kill -s USR1 $$; echo here")
    assert (ended.output, len(ended.errors), ended.calls) == ("here\n", 1, [])
    assert "not yet defined how" in ended.errors[0]


def test_another_signal_may_be_chosen(batch: Batch) -> None:
    ended = batch.run(
        f"""
        set -eu
        makeway_on_checkpoint true SIGUSR2
        makeway_run sh -c 'kill -s USR2 $PPID; {UNTIL_TOLD}'
        """
    )
    assert ended.status == 0
    assert set(words(ended)) == {"ckpt", "ckpt-begin"}


def test_misuse_is_told(batch: Batch) -> None:
    ended = batch.run("makeway_on_checkpoint; echo $?; makeway_run; echo $?")
    assert (ended.output, len(ended.errors)) == ("2\n2\n", 2)


def test_outside_a_job_the_program_just_runs(batch: Batch) -> None:
    script = """
        set -eu
        before=$(trap)  # the parent process may have had signals ignored
        makeway_on_checkpoint 'touch saved'
        makeway_forward_checkpoint
        makeway_forward_to_steps
        makeway_checkpointed
        status=0
        makeway_run sh -c 'cat; exit 3' || status=$?
        [ "$(trap)" = "$before" ]
        exit $status
        """
    ended = batch.run(script, given=b"given\n", variables={"SLURM_JOB_ID": None})
    assert (ended.status, ended.output, ended.errors, ended.calls) == (3, "given\n", [], [])


@pytest.mark.parametrize(
    ("count", "restarts", "restarted"),
    [
        *((None, "1", False), ("0", "1", False), ("", "1", False)),
        *(("1", "1", True), ("12", "12", True), ("10", "", True)),
        # The variable is left over from the job that submitted this one.
        ("1", "0", False),
    ],
)
def test_a_requeued_job_knows(batch: Batch, count: str | None, restarts: str, restarted: bool) -> None:
    (batch.folder / "restarts").write_text(f"{restarts:20}\n")
    script = "set -eu\nif makeway_restarted; then echo yes; fi"
    ended = batch.run(script, variables={"SLURM_RESTART_COUNT": count})
    assert (ended.output, ended.errors) == ("yes\n" if restarted else "", [])


HANDLES = 'trap "mv state.new state; touch got" USR1; echo 2 >state.new'
"""A program that saves at the signal."""
UNTIL_GOT = "until [ -e got ]; do sleep 0.02; done"


def test_a_program_that_saves_by_itself_gets_the_signal(batch: Batch) -> None:
    ended = batch.run(
        f"""
        set -eu
        makeway_forward_checkpoint
        makeway_run sh -c '{HANDLES}; {ASKS}; {UNTIL_GOT}; exit 3'
        """
    )
    assert (ended.status, ended.errors) == (3, [])
    assert set(words(ended)) == {"ckpt-begin"}


DOZES = """
[ "$1" != 0.2 ] || touch dozed
exec "${0%/*}/../tools/sleep" "$@"
"""
"""A `sleep` that tells that the helper waits for something."""
UNTIL_DOZED = "until [ -e dozed ]; do sleep 0.02; done"


def test_a_program_that_is_still_starting_gets_the_signal_later(batch: Batch) -> None:
    batch.stand_in("sleep", DOZES)
    ended = batch.run(
        f"""
        set -eu
        makeway_forward_checkpoint
        makeway_run sh -c '{ASKS}; {UNTIL_DOZED}; {HANDLES}; {UNTIL_GOT}; exit 3'
        """
    )
    assert (ended.status, ended.errors) == (3, [])
    assert set(words(ended)) == {"ckpt-begin"}


def test_a_signal_that_comes_before_the_number_of_the_program_is_forwarded(batch: Batch) -> None:
    """A busy machine may run the program before the shell goes on."""
    ended = batch.run(
        f"""
        set -eu
        makeway_forward_checkpoint
        _makeway_starting=1
        kill -s USR1 $$
        makeway_run sh -c '{HANDLES}; {UNTIL_GOT}; exit 3'
        """
    )
    assert (ended.status, ended.errors) == (3, [])
    assert set(words(ended)) == {"ckpt-begin"}


def test_a_command_that_signals_the_program_waits_for_its_number(batch: Batch) -> None:
    ended = batch.run(
        f"""
        set -eu
        makeway_on_checkpoint 'makeway_signal_and_await USR1 got'
        _makeway_starting=1
        kill -s USR1 $$
        makeway_run sh -c '{HANDLES}; {UNTIL_GOT}; exit 3'
        """
    )
    assert (ended.status, ended.errors) == (3, [])
    assert set(words(ended)) == {"ckpt-begin", "ckpt"}


def test_a_program_that_never_handles_the_signal_does_not_get_it(batch: Batch) -> None:
    batch.stand_in("sleep", DOZES)
    ended = batch.run(f"makeway_forward_checkpoint\nmakeway_run sh -c '{ASKS}; {UNTIL_DOZED}; exit 3'")
    assert (ended.status, ended.calls, len(ended.errors)) == (3, [], 1)


BLOCKS_FOR_AN_INSTANT = """
import os, signal, time
from pathlib import Path
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.kill(os.getppid(), signal.SIGUSR1)
for _ in range(3000):
    if Path("dozed").exists():
        break
    time.sleep(0.02)
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
time.sleep(1)
raise SystemExit(3)
"""
"""What a shell does whenever it starts a program; the signal would end it."""


def test_a_program_that_blocks_the_signal_for_an_instant_does_not_get_it(batch: Batch) -> None:
    batch.stand_in("sleep", DOZES)
    (batch.folder / "program.py").write_text(BLOCKS_FOR_AN_INSTANT)
    ended = batch.run(f"makeway_forward_checkpoint\nmakeway_run {sys.executable} program.py")
    assert (ended.status, ended.calls, len(ended.errors)) == (3, [], 1)


def test_a_signal_while_no_program_runs_is_survived(batch: Batch) -> None:
    ended = batch.run("set -eu\nmakeway_forward_checkpoint\nkill -s USR1 $$\necho on")
    assert (ended.output, ended.calls, len(ended.errors)) == ("on\n", [], 1)


def test_the_new_file_is_awaited(batch: Batch) -> None:
    (batch.folder / "state").write_text("1\n")
    ended = batch.run(
        f"""
        set -eu
        makeway_on_checkpoint 'makeway_signal_and_await USR1 state && cp state state-then'
        makeway_run sh -c '{HANDLES}; {ASKS}; {UNTIL_TOLD}; exit 3'
        """
    )
    assert (ended.status, ended.errors) == (3, [])
    assert (batch.folder / "state-then").read_text() == "2\n"


@pytest.mark.parametrize(
    ("program", "most_s", "said"),
    [
        ('trap "exit 3" USR1; {ASKS}; while :; do sleep 0.02; done', 3600, "ended without a new state"),
        (
            'trap "touch got" USR1; {ASKS}; until [ -e given-up ]; do sleep 0.02; done; exit 3',
            1,
            "no new state",
        ),
        ("{ASKS}; {UNTIL_BEGUN}; exit 3", 3600, "no program is running"),
    ],
)
def test_a_file_that_does_not_come_is_no_checkpoint(
    batch: Batch, program: str, most_s: int, said: str
) -> None:
    ended = batch.run(
        f"""
        set -eu
        makeway_on_checkpoint 'makeway_signal_and_await USR1 state {most_s} || {{ touch given-up; false; }}'
        makeway_run sh -c '{program.format(ASKS=ASKS, UNTIL_BEGUN=UNTIL_BEGUN)}'
        """
    )
    assert ended.status == 3
    assert set(words(ended)) == {"ckpt-begin"}
    assert len(ended.errors) == 2
    assert said in ended.errors[0]


def test_the_steps_get_the_signal(batch: Batch) -> None:
    ended = batch.run(
        """
        set -eu
        makeway_forward_to_steps USR2
        echo the rest, once
        kill -s USR2 $PPID
        until grep -q scancel calls; do sleep 0.02; done
        exit 3
        """
    )
    assert (ended.status, ended.output, ended.errors) == (3, "the rest, once\n", [])
    assert ended.calls[-1] == "scancel --signal=USR2 12"


@pytest.mark.parametrize(
    ("call", "received"),
    [
        ('makeway_forward_to_steps USR1 "$@"', "4: <mesh 1.dat> <> <*> <-e>\n"),
        ('set -eu\nmakeway_forward_to_steps USR2 "$@"', "4: <mesh 1.dat> <> <*> <-e>\n"),
        ("set -eu\nmakeway_forward_to_steps", "0:\n"),
        ("set -eu\nmakeway_forward_to_steps USR1", "0:\n"),
    ],
)
def test_the_rest_of_the_script_has_the_arguments_that_are_passed_on(
    batch: Batch, call: str, received: str
) -> None:
    script = f"""{call}
        printf '%s:' "$#"
        for one in "$@"; do printf ' <%s>' "$one"; done
        echo
        """
    ended = batch.run(script, "mesh 1.dat", "", "*", "-e")
    assert (ended.status, ended.output, ended.errors) == (0, received, [])


def test_a_script_outside_a_job_keeps_its_arguments(batch: Batch) -> None:
    script = 'makeway_forward_to_steps USR1 "$@"\necho "$@"'
    assert batch.run(script, "mesh", "8", variables={"SLURM_JOB_ID": None}).output == "mesh 8\n"


def test_a_job_that_another_job_submitted_forwards_too(batch: Batch) -> None:
    ended = batch.run(
        "makeway_forward_to_steps\necho $MAKEWAY_FORWARDED", variables={"MAKEWAY_FORWARDED": "11"}
    )
    assert ended.output == "12\n"
