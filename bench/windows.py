"""Policies side by side on a window of a trace: each seed is replayed under each policy, ratios are paired.

Usage: python -m bench.windows TRACE [--from-day D] [--days N] [--workload W5 | --urgent 0.1] [--seeds 10]
    [--first-seed 0] --policy NAME[,SETTING=VALUE...] ... [--out FILE]

The first policy is the one that the others are compared with. The cost is lost work and overhead, in
node-hours. A line of --out is one replay, as JSON. A replay that the file has is not repeated.
"""

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import yaml

from makeway.policies.model import JobKind
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.results.measures import measure
from makeway.simharness.run.experiment import Experiment, Workload, run
from makeway.simharness.workloads.synthesis import HybridSettings, mark_urgent, notice_mix, synthesise
from makeway.simharness.workloads.trace import read_trace

DAY_S = 86_400.0
T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Student's t for 95% intervals, from 1 to 9 degrees of freedom."""
Row = dict[str, float]


def main() -> None:
    """Replay what is missing, then print the table."""
    options = _options()
    out = Path(options.out)
    done: dict[str, Row] = {}
    if out.is_file():
        done = dict(json.loads(line) for line in out.read_text().splitlines())
    trace = read_trace(options.trace)
    from_s = options.from_day * DAY_S
    jobs = [job for job in trace.jobs if from_s <= job.submit_s < from_s + options.days * DAY_S]
    where = f"{Path(options.trace).name.split('-')[1]} {options.from_day}+{options.days}"
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for seed in seeds:
        if options.workload is None:
            drawn = mark_urgent(jobs, options.urgent, seed)
        else:
            drawn = synthesise(
                jobs, trace.node_count, HybridSettings(notices=notice_mix(options.workload)), seed
            )
        workload = Workload(name=trace.name, node_count=trace.node_count, jobs=drawn)
        for policy in options.policy:
            key = _key(where, options, policy, seed)
            if key not in done:
                done[key] = _replayed(options.trace, workload, policy, seed)
                with out.open("a") as file:
                    file.write(json.dumps([key, done[key]]) + "\n")
                print(key, {name: round(value, 4) for name, value in done[key].items()}, file=sys.stderr)
    rows = {policy: [done[_key(where, options, policy, seed)] for seed in seeds] for policy in options.policy}
    print("\n".join(table(rows)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trace")
    parser.add_argument("--from-day", type=int, default=0)
    parser.add_argument("--days", type=int, default=25)
    parser.add_argument("--workload")
    parser.add_argument("--urgent", type=float, default=0.1)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--policy", action="append", required=True)
    parser.add_argument("--out", default="windows.jsonl")
    return parser.parse_args()


def _key(where: str, options: argparse.Namespace, policy: str, seed: int) -> str:
    kind = f"urgent {options.urgent:g}" if options.workload is None else options.workload
    return f"{where} {kind} seed {seed} {policy}"


def _replayed(trace: str, workload: Workload, policy: str, seed: int) -> Row:
    """The measures of one replay."""
    name, *settings = policy.split(",")
    experiment = Experiment(
        trace=trace,
        seed=seed,
        policy=name,
        policy_settings={
            key: yaml.safe_load(value) for key, _, value in (one.partition("=") for one in settings)
        },
        start_smaller=name != "none",
    )
    record = run(experiment, workload)
    found = measure(record)
    urgent, everything = found.group(JobKind.ON_DEMAND), found.group("all")
    return {
        "urgent": urgent.jobs,
        "on_time": urgent.on_time_rate or 0.0,
        "instant": urgent.instant_start_rate or 0.0,
        "lost": everything.lost_node_hours,
        "overhead": everything.overhead_node_hours,
        "cost": everything.lost_node_hours + everything.overhead_node_hours,
        "cost_below_half": _cost_of(record, workload.node_count / 2),
        "batch_turnaround_h": _weighted_turnaround_h(record),
        "evictions": everything.evictions,
        "cpu_s": record.wall_s,
    }


def _cost_of(record: ReplayRecord, below_nodes: float) -> float:
    """The cost of the jobs with fewer nodes than that, in node-hours."""
    small = [one for one in record.jobs if one.job.node_count < below_nodes]
    return sum(one.lost_node_s + one.overhead_node_s for one in small) / 3600.0


def _weighted_turnaround_h(record: ReplayRecord) -> float:
    """The mean turnaround of the batch jobs, each with the weight of its nodes."""
    batch = [
        (one.end_s - one.job.submit_s, one.job.node_count)
        for one in record.jobs
        if one.job.kind is not JobKind.ON_DEMAND and one.end_s is not None
    ]
    return sum(time_s * nodes for time_s, nodes in batch) / sum(nodes for _, nodes in batch) / 3600.0


def table(rows: dict[str, list[Row]]) -> Iterable[str]:
    """One line of Markdown for each policy. The first policy is what the ratios are to."""
    first, *_ = rows.values()
    yield "| policy | cost, gm of ratios | ratio of sums | cost, node-h | on time | instant | turnaround |"
    yield "|---|---|---|---|---|---|---|"
    for policy, found in rows.items():
        ratios = [
            (mine["cost"] + 1.0) / (other["cost"] + 1.0) for mine, other in zip(found, first, strict=True)
        ]
        turnaround = _gm(
            [
                mine["batch_turnaround_h"] / other["batch_turnaround_h"]
                for mine, other in zip(found, first, strict=True)
            ]
        )
        total = _sum(found, "cost") / max(1.0, _sum(first, "cost"))
        yield (
            f"| {policy} | {_gm(ratios)} | {total:.2f} | {_sum(found, 'cost') / len(found):,.0f} | "
            f"{_points(found, first, 'on_time')} | {_points(found, first, 'instant')} | {turnaround} |"
        )


def _sum(rows: Sequence[Row], name: str) -> float:
    return sum(row[name] for row in rows)


def _points(rows: Sequence[Row], first: Sequence[Row], name: str) -> str:
    """A rate over all draws, and the mean difference to the first policy in points."""
    urgent = _sum(rows, "urgent")
    rate = sum(row[name] * row["urgent"] for row in rows) / urgent if urgent else 0.0
    differences = [100 * (mine[name] - other[name]) for mine, other in zip(rows, first, strict=True)]
    return f"{100 * rate:.1f}% ({statistics.fmean(differences):+.1f} ± {_half_width(differences):.1f})"


def _gm(ratios: Sequence[float]) -> str:
    """The geometric mean with its 95% interval."""
    logs = [math.log(ratio) for ratio in ratios]
    middle, half = statistics.fmean(logs), _half_width(logs)
    return f"{math.exp(middle):.2f} [{math.exp(middle - half):.2f}, {math.exp(middle + half):.2f}]"


def _half_width(values: Sequence[float]) -> float:
    """Half of the 95% interval of the mean, by Student's t. Of a single value: 0."""
    if len(values) < 2:
        return 0.0
    student = T_95[min(len(values) - 2, len(T_95) - 1)]
    return student * statistics.stdev(values) / math.sqrt(len(values))


if __name__ == "__main__":
    main()
