"""The metrics reference: what the daemon exports, the panel that shows it, and the alert that watches it."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.metric_table import CYCLE_METRICS, RATIONALE_METRICS
from makeway.daemon.service.metrics import Metrics

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedMetric:
    """One row of the reference."""

    name: str
    """As in an expression, with the unit and the `_total` of a counter."""
    kind: str
    labels: tuple[str, ...]
    text: str
    panels: tuple[str, ...]
    """The titles of the panels of the dashboard that show it."""
    alerts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One rule of `deploy/alerts.yaml`."""

    name: str
    severity: str
    expression: str
    lasts: str
    """How long the expression has to be true. Empty: an instant is enough."""
    summary: str
    description: str


def exported() -> Iterator[ExportedMetric]:
    """Every metric of the daemon, and those of its process, in the order in which they are exported."""
    metrics = Metrics(version="", policy="", adapter="")
    metrics.set_mode(Mode.OBSERVE)
    declared = {
        "_".join(filter(None, (one.name, one.unit))): one.labels
        for one in (*CYCLE_METRICS, *(metric.of_cycles() for metric in RATIONALE_METRICS))
    }
    for family in metrics.registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        seen = dict.fromkeys(label for sample in family.samples for label in sample.labels if label != "le")
        yield ExportedMetric(
            name=name,
            kind=family.type,
            labels=declared.get(family.name, tuple(seen)),
            text=family.documentation,
            panels=tuple(dict.fromkeys(title for title, text in _panels() if _names(text, family.name))),
            alerts=tuple(alert.name for alert in alerts() if _names(alert.expression, family.name)),
        )


def alerts() -> Iterator[Alert]:
    """The alerts that are shipped."""
    groups = yaml.safe_load((DEPLOY / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        yield Alert(
            name=rule["alert"],
            severity=rule["labels"]["severity"],
            expression=" ".join(rule["expr"].split()),
            lasts=rule.get("for", ""),
            summary=rule["annotations"]["summary"],
            description=rule["annotations"]["description"],
        )


def _panels() -> Iterator[tuple[str, str]]:
    """The title and an expression of each panel."""
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def _names(expression: str, family: str) -> bool:
    """Whether an expression names a metric, or one of its series."""
    return re.search(rf"\b{family}(_total|_bucket|_sum|_count)?\b", expression) is not None
