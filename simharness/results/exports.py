"""The numbers of one or several replays as JSON and as CSV.

The keys of JSON and CSV are those of `measures.numbers` and do not change: `<group>.<number>_<unit>`, where
the group is `machine`, `rigid`, `malleable`, `on_demand`, `all` or one of the caller's. The unit is the last
word: `_s` seconds, `_ms` milliseconds, `_hours` node-hours, or core- or GPU-hours; rates, ratios,
shares and utilisations are fractions of 1; what has no unit is a count or a slowdown. A number that does not
exist is null in JSON and empty in CSV.
"""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict

from makeway.simharness.results.averages import Aggregate
from makeway.simharness.results.measures import Measures, numbers

FORMAT = 1
"""The version of the JSON; it grows when a key changes its meaning."""


def to_json(measured: Sequence[Measures]) -> str:
    """Replays as JSON.

    The form is `{"format": 1, "replays": [{policy, backfill, workload, settings, numbers: {key: value}}]}`.
    """
    replays = [
        {
            "policy": one.policy,
            "backfill": one.backfill,
            "workload": one.workload,
            "settings": asdict(one.settings),
            "numbers": numbers(one),
        }
        for one in measured
    ]
    return json.dumps({"format": FORMAT, "replays": replays}, indent=2, allow_nan=False) + "\n"


def to_csv(measured: Sequence[Measures]) -> str:
    """Replays as CSV, one line each: policy, backfill, workload and every key of `numbers`."""
    rows = [numbers(one) for one in measured]
    keys = list({key: None for row in rows for key in row})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["policy", "backfill", "workload", *keys])
    for one, row in zip(measured, rows, strict=True):
        writer.writerow([one.policy, one.backfill, one.workload, *(row.get(key) for key in keys)])
    return text.getvalue()


def aggregates_to_json(aggregates: Sequence[Aggregate]) -> str:
    """Means over seeds as JSON; `estimates` maps each key to `{mean, std, ci95, count}`."""
    policies = [
        {
            "policy": one.policy,
            "backfill": one.backfill,
            "workload": one.workload,
            "replays": one.replays,
            "estimates": {
                estimate.key: {
                    "mean": estimate.mean,
                    "std": estimate.std,
                    "ci95": estimate.ci95,
                    "count": estimate.count,
                }
                for estimate in one.estimates
            },
        }
        for one in aggregates
    ]
    return json.dumps({"format": FORMAT, "policies": policies}, indent=2, allow_nan=False) + "\n"


def aggregates_to_csv(aggregates: Sequence[Aggregate]) -> str:
    """Means over seeds as CSV: one line for each policy and key, with mean, std, ci95 and count."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["policy", "backfill", "workload", "key", "mean", "std", "ci95", "count"])
    for one in aggregates:
        for estimate in one.estimates:
            numbers_of = [estimate.mean, estimate.std, estimate.ci95, estimate.count]
            writer.writerow([one.policy, one.backfill, one.workload, estimate.key, *numbers_of])
    return text.getvalue()
