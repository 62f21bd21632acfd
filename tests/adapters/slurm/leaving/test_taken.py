"""The word in a job that says what makeway has taken from it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.adapters.protocol import Gone, Rejected, Unavailable
from makeway.adapters.slurm import build
from makeway.adapters.slurm.leaving.taken import taken_in, with_word, word_of
from makeway.policies.model import LostNodes, RunIdentity, TakenFromJob
from tests import acts
from tests.adapters.slurm.fake_slurm import NOW_S, OK, RUNNING, Answer, FakeSlurm, adapter_of

LOST = LostNodes(node_count=6, kept_count=2, walltime_s=1800.0, since_s=1_795_250_000.0)
TAKEN = TakenFromJob(run=1, for_job_id="12_3", walltime_s=1800.0, raised_to_s=5400.0, lost_nodes=LOST)
WORD = "makeway:taken=c,run=1,limit=1800,raised=5400,size=6,kept=2,fair=1800,since=1795250000,for=12_3"
DENIED = (1, "", "Access/permission denied for job 17")
REQUEUED = RUNNING | {"State": "PENDING", "RestartCnt": "1", "NodeList": "", "StartTime": "N/A"}
SECONDS = st.integers(min_value=0, max_value=10**11).map(float)
COUNTS = st.integers(min_value=1, max_value=10**6)


@st.composite
def takings(draw: st.DrawFn) -> TakenFromJob:
    limit_s = draw(st.none() | SECONDS)
    kept = draw(COUNTS)
    lost = LostNodes(
        node_count=kept + draw(COUNTS) - 1,
        kept_count=kept,
        walltime_s=draw(st.none() | SECONDS),
        since_s=draw(SECONDS),
    )
    return TakenFromJob(
        run=draw(st.integers(min_value=0, max_value=10**6)),
        for_job_id=draw(st.none() | st.from_regex(r"[A-Za-z0-9_.+\-]{1,80}", fullmatch=True)),
        walltime_s=limit_s,
        raised_to_s=None if limit_s is None else draw(SECONDS),
        lost_nodes=draw(st.sampled_from((None, lost))),
    )


def test_the_word() -> None:
    assert word_of(TAKEN, "c") == WORD
    assert taken_in(WORD, "c") == TAKEN


@given(taken=takings(), text=st.text())
def test_a_word_is_read_as_it_was_written_and_the_rest_of_the_field_stays(
    taken: TakenFromJob, text: str
) -> None:
    with_it = with_word(text, taken, "c")
    if "makeway:taken" not in text:
        assert taken_in(with_it, "c") == taken
        assert with_word(with_it, None, "c") == text
        assert taken_in(with_it, "other") is None
        assert with_word(with_it, TAKEN, "c") == with_word(text, TAKEN, "c")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "makeway:taken=c",
        "makeway:taken=c,for=1",
        "makeway:taken=c,run=-1,for=1",
        "makeway:taken=c,run=1,for=$(id)",
        "makeway:taken=c,run=1,limit=1e9,for=1",
        "makeway:taken=c,run=1,for=1,more=2",
        "xmakeway:taken=c,run=1,for=1",
        "makeway:taken=cc,run=1,for=1",
        f"makeway:taken=c,run={'9' * 13},for=1",
    ],
)
def test_any_other_word_means_nothing(text: str) -> None:
    assert taken_in(text, "c") is None


def test_a_size_that_cannot_be_is_none() -> None:
    for size, kept in ((1, 2), (6, 0)):
        found = taken_in(f"makeway:taken=c,run=1,for=1,size={size},kept={kept},since=1", "c")
        assert found == TakenFromJob(run=1, for_job_id="1")
    whole = taken_in("makeway:taken=c,run=1,for=1,size=6,kept=6,since=1", "c")
    assert whole is not None
    assert whole.lost_nodes is not None, "it has all its nodes back"


# What the commands do with it


def test_what_is_taken_is_written_in_the_command_that_takes_it() -> None:
    slurm = FakeSlurm(RUNNING | {"admin_comment": "site words"})
    adapter_of(slurm).apply(acts.shrink("17", keep_nodes=("n1",), walltime_s=7200))
    (command,) = [argv for argv in slurm.calls if argv[:2] == ("scontrol", "update")]
    word = (
        f"makeway:taken=c,run=0,limit=3600,raised=7200,size=2,kept=1,fair=3600,since={NOW_S:.0f},for=urgent"
    )
    assert command == (*build.resize("17", ("n1",), 120), f"AdminComment=site words {word}")
    slurm.rows = [RUNNING | {"NodeList": "n1", "NumNodes": "1", "admin_comment": f"site words {word}"}]
    (job,) = adapter_of(slurm).snapshot().jobs
    assert (job.node_count, job.node_count_max) == (1, 2)
    assert job.taken is not None
    assert job.taken.lost_nodes == LostNodes(
        node_count=2, kept_count=1, walltime_s=3600.0, since_s=float(round(NOW_S))
    )
    slurm.rows = [slurm.rows[0] | {"RestartCnt": "1"}]
    assert adapter_of(slurm).snapshot().jobs[0].node_count_max == 1


@pytest.mark.parametrize("answer", [OK, (1, "", "Unable to contact slurm controller")])
def test_a_job_that_grows_says_from_when_on_it_has_lost_less(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nodes are merged by then: the growth is done, whether that can be written or not."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    lost = LostNodes(node_count=4, kept_count=2, walltime_s=3600.0, since_s=NOW_S - 100.0)
    taken = TakenFromJob(run=0, for_job_id="9", walltime_s=3600.0, raised_to_s=7200.0, lost_nodes=lost)
    row = RUNNING | {"TimeLimit": "2:00:00", "admin_comment": word_of(taken, "c")}
    slurm = FakeSlurm(row, script=((0, "", "salloc: Granted job allocation 44\n"),))
    slurm.note_answer = answer
    adapter_of(slurm).apply(acts.expand("17", nodes=("n3",), reservation=None))
    grown = replace(lost, kept_count=3, walltime_s=3650.0, since_s=NOW_S)
    assert slurm.acts[-1] == build.merge_expander("44")
    assert slurm.kept == [f"AdminComment={word_of(replace(taken, lost_nodes=grown), 'c')}"]


def test_a_requeue_is_written_right_before_it_and_once_for_a_run() -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm)
    adapter.apply(acts.requeue("17"))
    note, requeue = [argv for argv in slurm.calls if argv[0] == "scontrol"][-2:]
    assert note[2:] == ("JobId=17", "AdminComment=makeway:taken=c,run=0,for=urgent")
    assert requeue == build.requeue("17")
    slurm = FakeSlurm(RUNNING | {"admin_comment": "makeway:taken=c,run=0,for=9"})
    adapter_of(slurm).apply(acts.requeue("17"))
    assert slurm.kept == []
    slurm = FakeSlurm(RUNNING | {"admin_comment": "makeway:taken=c,run=0,for=9", "RestartCnt": "1"})
    adapter_of(slurm).apply(acts.requeue("17"))
    assert slurm.kept == ["AdminComment=makeway:taken=c,run=1,for=urgent"]


def test_nothing_is_taken_that_could_not_be_written() -> None:
    for answer, error in (
        ((1, "", "Unable to contact slurm controller (connect failure)"), Unavailable),
        ((1, "", "Job update not available right now, try again in a bit"), Rejected),
    ):
        slurm = FakeSlurm(RUNNING)
        slurm.note_answer = answer
        for action in (acts.requeue("17"), acts.checkpoint("17", signal="USR1", walltime_s=0)):
            with pytest.raises(error):
                adapter_of(slurm).apply(action)
        assert slurm.acts == []


def test_the_limit_comes_back_with_the_turn() -> None:
    taken = replace(TAKEN, run=0, lost_nodes=None, raised_to_s=3600.0)
    slurm = FakeSlurm(REQUEUED | {"admin_comment": f"words {word_of(taken, 'c')}"})
    adapter_of(slurm).apply(acts.prioritise("17"))
    front = build.to_front("17", requeued=True, node_count=None)
    assert slurm.calls[-1] == (*front, "TimeLimit=30", "AdminComment=words")
    # Somebody else has set another limit since: it stays.
    slurm = FakeSlurm(
        REQUEUED | {"TimeLimit": "2:00:00", "admin_comment": word_of(taken, "c")},
    )
    adapter_of(slurm).apply(acts.prioritise("17"))
    assert slurm.calls[-1] == (*front, "AdminComment=")


def test_a_limit_is_restored_for_what_was_seen_alone() -> None:
    slurm = FakeSlurm(RUNNING | {"RestartCnt": "1", "admin_comment": WORD})
    adapter = adapter_of(slurm)
    (job,) = adapter.snapshot().jobs
    assert job.taken == TAKEN
    with pytest.raises(Gone, match="something else was taken"):
        adapter.apply(acts.restore_limit("17", replace(TAKEN, for_job_id="13"), 1800.0))
    assert slurm.kept == []
    adapter.apply(acts.restore_limit("17", TAKEN, 1800.0))
    assert slurm.calls[-1] == (*build.resize("17", None, 30), "AdminComment=")
    left = TakenFromJob(run=1, walltime_s=1800.0, raised_to_s=2400.0)
    adapter.apply(acts.restore_limit("17", TAKEN, 2400.0, left))
    assert slurm.calls[-1] == (
        *build.resize("17", None, 40),
        "AdminComment=makeway:taken=c,run=1,limit=1800,raised=2400",
    )
    waits = adapter_of(FakeSlurm(RUNNING | {"State": "PENDING", "RestartCnt": "2", "admin_comment": WORD}))
    with pytest.raises(Gone, match="waits for its turn since"):
        waits.apply(acts.restore_limit("17", TAKEN, None, left))
    row = RUNNING | {"State": "PENDING", "RestartCnt": "1", "admin_comment": WORD}
    unlucky = FakeSlurm(row)  # a slurmctld that crashed put it back before its run had begun
    adapter_of(unlucky).apply(acts.restore_limit("17", TAKEN, 1800.0))
    assert unlucky.calls[-1] == (*build.resize("17", None, 30), "AdminComment=")
    ending = FakeSlurm(row | {"State": "COMPLETING"})
    with pytest.raises(Gone, match="neither runs nor waits"):
        adapter_of(ending).apply(acts.restore_limit("17", TAKEN, 1800.0))
    assert ending.kept == []
    # A limit never rises.
    adapter.apply(acts.restore_limit("17", TAKEN, 7200.0))
    assert slurm.calls[-1] == (*build.resize("17", None, None), "AdminComment=")


# Where AdminComment is refused


@pytest.fixture
def operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)


@pytest.mark.usefixtures("operator")
def test_without_the_right_to_admin_comment_the_word_goes_into_comment() -> None:
    slurm = FakeSlurm(RUNNING | {"Comment": "makeway:min-nodes=1"}, script=(DENIED, OK))
    adapter = adapter_of(slurm)
    adapter.apply(acts.shrink("17", keep_nodes=("n1",), walltime_s=7200, run=None))
    refused, done = slurm.kept
    assert refused.startswith("AdminComment=makeway:taken=c,")
    assert done.startswith("Comment=makeway:min-nodes=1 makeway:taken=c,")
    adapter.apply(acts.requeue("17", run=RunIdentity(requeue_count=0, start_s=float(RUNNING["StartTime"]))))
    assert slurm.kept[2:] == ["Comment=makeway:min-nodes=1 makeway:taken=c,run=0,for=urgent"]


@pytest.mark.usefixtures("operator")
def test_a_daemon_that_was_started_again_takes_a_word_out_of_the_comment() -> None:
    """It has not been refused AdminComment yet. A word that stayed would be given back for ever."""
    word = "makeway:taken=c,run=0,for=9"
    slurm = FakeSlurm(RUNNING | {"Comment": f"mine {word}", "RestartCnt": "1", "admin_comment": "site words"})
    adapter_of(slurm).apply(acts.restore_limit("17", TakenFromJob(run=0, for_job_id="9"), None))
    assert slurm.kept == ["Comment=mine"]
    slurm = FakeSlurm(REQUEUED | {"Comment": word})
    adapter_of(slurm).apply(acts.prioritise("17"))
    assert slurm.kept == ["Comment="]


@pytest.mark.usefixtures("operator")
def test_a_comment_says_nothing_of_nodes() -> None:
    """The owner may have written it, and no job grows by what its owner says."""
    slurm = FakeSlurm(RUNNING | {"Comment": WORD})
    (job,) = adapter_of(slurm).snapshot().jobs
    assert job.taken == replace(TAKEN, lost_nodes=None)
    assert job.node_count_max == 2


@pytest.mark.usefixtures("operator")
def test_a_comment_that_is_full_gets_no_word_and_spares_no_job() -> None:
    full = "x" * 1024
    slurm = FakeSlurm(RUNNING | {"Comment": full})
    slurm.note_answer = DENIED
    adapter_of(slurm).apply(acts.requeue("17"))
    assert slurm.acts == [build.requeue("17")]
    assert slurm.kept == ["AdminComment=makeway:taken=c,run=0,for=urgent"]


def test_root_reads_no_comment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    slurm = FakeSlurm(RUNNING | {"Comment": WORD})
    assert adapter_of(slurm).snapshot().jobs[0].taken is None


def test_an_instant_is_rounded_down() -> None:
    """A snapshot right after it would be before it otherwise."""
    late = TakenFromJob(run=1, lost_nodes=replace(LOST, since_s=LOST.since_s + 0.9))
    assert word_of(late, "c").endswith(f"since={LOST.since_s:.0f}")
