"""The command `swarm`: what it prints, what it keeps, and how it refuses."""

from pathlib import Path

import pytest

from makeway.daemon.cli.main import main
from makeway.policies.model import JobKind
from makeway.simharness.swarm.campaign import KEPT_IN
from makeway.simharness.swarm.drawing import draw
from makeway.simharness.swarm.story import Story, Trouble, TroubleKind, decode, encode
from makeway.simharness.workloads.job import SimJob
from tests.paths import ROOT
from tests.simharness.swarm.kept_stories import KeptStory


class Swarm:
    """Runs the command in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """Its status, and what it printed."""
        self._monkeypatch.setattr("sys.argv", ["makeway", "swarm", *arguments])
        status = main()
        printed = self._capsys.readouterr()
        return status, printed.out, printed.err


@pytest.fixture
def swarm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Swarm:
    return Swarm(monkeypatch, capsys)


def batch(job_id: str, node_count: int) -> SimJob:
    return SimJob(job_id, 0.0, 9000.0, 9000.0, node_count, user="batch")


URGENT = SimJob("u1", 600.0, 600.0, 600.0, 1, user="beam", kind=JobKind.ON_DEMAND, start_within_s=60.0)


def test_stories_are_told_and_counted(swarm: Swarm) -> None:
    status, out, _ = swarm("--stories", "3", "--seed", "5", "--policy", "eviction", "--trouble", "slow")
    assert status == 0
    assert out.startswith("3 stories, ")
    assert swarm("--stories", "3", "--seed", "5", "--policy", "eviction", "--trouble", "slow")[1] == out


def test_the_story_of_a_file_is_told(tmp_path: Path, swarm: Swarm) -> None:
    path = tmp_path / "story.json"
    path.write_text(encode(Story(seed=1, policy="eviction", node_count=2, jobs=(batch("1", 2), URGENT))))
    status, out, _ = swarm("--story", str(path))
    assert status == 0
    assert out.startswith("1 story, 0.00 cluster-years")


@pytest.mark.parametrize(
    ("policy", "node_count", "troubles", "line"),
    [
        ("eviction", 0, (), "the machine has 0 nodes"),
        ("eviction", 1, (), "job '1': node_count is 2: it must be from 1 to the machine's 1"),
        ("evicton", 2, (), "unknown policy 'evicton'"),
        ("eviction", 2, (Trouble(kind=TroubleKind.NODE_DOWN, at_s=1.0, amount=7.0),), "nodes are 0 to 1"),
    ],
)
def test_a_story_that_cannot_be_told_is_one_line(
    policy: str, node_count: int, troubles: tuple[Trouble, ...], line: str, tmp_path: Path, swarm: Swarm
) -> None:
    path = tmp_path / "story.json"
    path.write_text(
        encode(Story(seed=1, policy=policy, node_count=node_count, jobs=(batch("1", 2),), troubles=troubles))
    )
    status, _, err = swarm("--story", str(path))
    assert status == 2
    assert err.startswith(f"makeway: error: {path}: no story of the swarm: ")
    assert line in err
    assert len(err.splitlines()) == 1


def test_a_story_that_breaks_a_law_is_shortened_and_kept(
    tmp_path: Path, swarm: Swarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("makeway.simharness.swarm.daemons.COMMANDS_PER_CYCLE", 0)
    path = tmp_path / "story.json"
    jobs = (batch("1", 2), batch("2", 1), batch("3", 1), URGENT)
    path.write_text(encode(Story(seed=1, policy="eviction", node_count=2, jobs=jobs)))
    status, out, _ = swarm("--story", str(path), "--keep", str(tmp_path / "kept"))
    assert status == 1
    assert "seed 1, eviction: too_many at 600 s" in out
    kept = decode((tmp_path / "kept" / "too-many-1.json").read_text())
    assert URGENT in kept.jobs
    assert len(kept.jobs) < len(jobs)


def test_a_story_that_breaks_a_law_comes_with_the_line_that_keeps_it(
    swarm: Swarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read as Python, the line draws the same story again."""
    monkeypatch.setattr("makeway.simharness.swarm.daemons.COMMANDS_PER_CYCLE", 0)
    status, out, _ = swarm("--stories", "1", "--seed", "5", "--trouble", "slow", "--policy", "cua-paa")
    assert status == 1
    lines = out.splitlines()
    (place,) = [number for number, line in enumerate(lines) if line.endswith(f"keep it in {KEPT_IN}:")]
    assert (ROOT / KEPT_IN).is_file()
    (kept,) = eval(lines[place + 1], {"KeptStory": KeptStory})
    assert kept.story() == draw(5, policies=("cua-paa",), kinds=(TroubleKind.SLOW,))
    assert kept.law == "too_many"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--policy", "evict"), "--policy evict: accepted: eviction, least-price, n-paa"),
        (("--trouble", "rain"), "--trouble rain: accepted: not_sent, answer_lost"),
    ],
)
def test_what_is_not_known_is_refused(arguments: tuple[str, ...], message: str, swarm: Swarm) -> None:
    status, _, err = swarm(*arguments)
    assert status == 2
    assert message in err


def test_a_file_without_a_story_is_refused(tmp_path: Path, swarm: Swarm) -> None:
    path = tmp_path / "story.json"
    path.write_text('{"seed": 1}')
    status, _, err = swarm("--story", str(path))
    assert status == 2
    assert f"{path}: no story of the swarm: policy: Field required" in err
