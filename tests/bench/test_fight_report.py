"""The report of a fight: tables, targets, and what is kept of a fight that was played."""

import json
from dataclasses import asdict
from pathlib import Path

from bench.fight.arms import ARMS, Arm
from bench.fight.measure import Amount, Outcome, UrgentStart
from bench.fight.picture import picture_html
from bench.fight.play import read_played, was_played
from bench.fight.report import Round, as_json, grids, markdown, targets
from bench.fight.workload import FightKind, Quality, workload


def arm(name: str) -> Arm:
    """The arm of that name."""
    return next(one for one in ARMS if one.name == name)


def outcome(core_s: float, gpu_s: float, delay_s: float) -> Outcome:
    """What an arm cost, all of it work that was lost."""
    return Outcome(
        lost=Amount(core_s=core_s, gpu_s=gpu_s),
        requested=Amount(),
        restarts=Amount(),
        interruptions=3,
        interrupted_jobs=2,
        urgent=(UrgentStart(name="u1", kind=FightKind.GPUS, delay_s=delay_s, on_time=delay_s <= 30),),
        files_core_s=1.0,
        sacct_core_s=2.0,
        sacct_interruptions=3,
        batch_turnaround_s=100.0,
        makespan_s=300.0,
        unfinished=0,
    )


def two_rounds() -> list[Round]:
    """One in which makeway meets every target, and one in which it misses all that it can miss."""
    good, bad = outcome(100.0, 10.0, 20.0), outcome(600.0, 60.0, 45.0)
    requeue, signals = outcome(500.0, 50.0, 5.0), outcome(400.0, 55.0, 10.0)
    slurm = ((arm("requeue"), requeue), (arm("signals"), signals))
    return [
        Round(seed=1, outcomes=(*slurm, (arm("makeway"), good))),
        Round(seed=2, outcomes=(*slurm, (arm("makeway"), bad))),
    ]


def test_targets_are_checked_in_each_round() -> None:
    found = targets(two_rounds())
    assert [target.met for target in found] == [(True, False)] * 5
    assert found[0].measured == ("100 of 500 = 0.20", "600 of 500 = 1.20")
    assert found[0].verdict == "missed: met in 1 of 2 rounds"
    assert found[4].measured == ("20.0 s, +15.0 s", "45.0 s, +40.0 s")
    assert targets(two_rounds()[:1])[0].verdict == "met"


def test_there_is_no_target_without_makeway() -> None:
    (first, _) = two_rounds()
    assert targets([Round(seed=1, outcomes=first.outcomes[:2])]) == ()


def test_the_tables_have_a_column_for_each_arm_that_was_played() -> None:
    first, kinds, check, *each = grids(two_rounds())
    assert first.head == ("", "requeue", "signals", "makeway")
    rows = {row[0]: row[1:] for row in first.rows}
    assert rows["core-seconds taken"] == ("500", "400", "350")
    assert rows["start delay of urgent jobs, longest, s"] == ("5", "10", "32.5")
    assert {row[0]: row[1:] for row in kinds.rows}["gpus"] == ("5", "10", "32.5")
    assert {row[0]: row[1:] for row in check.rows}["interruptions, by sacct -D"] == ("3", "3", "3")
    assert [grid.heading for grid in each] == ["Seed 1", "Seed 2"]


def test_markdown_and_json_and_the_picture_have_every_arm() -> None:
    rounds = two_rounds()
    text = markdown(rounds)
    assert "|  | requeue | signals | makeway |\n| --- | --- | --- | --- |\n" in text
    assert "**missed: met in 1 of 2 rounds** (100 of 500 = 0.20; 600 of 500 = 1.20)" in text
    said = json.loads(as_json(rounds))
    assert said["rounds"][1]["arms"]["makeway"]["total"] == {"core_s": 600.0, "gpu_s": 60.0}
    page = picture_html(rounds)
    assert all(arm(name).title in page for name in ("requeue", "signals", "makeway"))


def test_what_was_played_is_read_with_its_workload(tmp_path: Path) -> None:
    jobs = workload(3)
    assert not was_played(tmp_path)
    (tmp_path / "sacct.txt").write_text("rows")
    said = {"over_s": 5.0, "submitted_s": {"b000": 1.0}, "jobs": [asdict(job) for job in jobs]}
    (tmp_path / "workload.json").write_text(json.dumps(said))
    assert was_played(tmp_path)
    played = read_played(tmp_path)
    assert played.jobs == jobs
    assert (played.over_s, played.submitted_s, played.sacct) == (5.0, {"b000": 1.0}, "rows")


def test_only_jobs_that_save_have_a_comment_and_are_signalled() -> None:
    for job in workload(3):
        signals, makeway = arm("signals").options(job), arm("makeway").options(job)
        saving = job.interval_s is not None
        assert any(word.startswith("--comment=makeway:saves") for word in makeway) is saving
        assert ("--signal=B:USR1@1" in signals) is saving
        assert not any(word.startswith("--signal") for word in makeway)
        assert f"--qos={job.quality}" in makeway


def test_only_slurm_with_preemption_lets_the_urgent_qos_preempt() -> None:
    preempting = [one.name for one in ARMS if "preempt=normal" in one.qos_settings(Quality.URGENT)]
    assert preempting == ["requeue", "youngest", "signals"]
    assert [one.name for one in ARMS if one.qos_settings(Quality.NORMAL)] == ["signals"]
