"""The grid of a sweep: one YAML file, checked as a whole before anything runs."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

from pydantic import Field, ValidationError, field_validator, model_validator

from makeway.adapters.site.sections import Section
from makeway.daemon.cli.options import NODES_MOST, SEEDS_MOST, YEAR_S, duration_s
from makeway.daemon.config import yaml_file
from makeway.daemon.config.load import problems_of
from makeway.daemon.config.policy_finder import SUFFIX, find_policy
from makeway.daemon.config.yaml_file import Problem
from makeway.policies.contract import PolicyError
from makeway.simharness.engine.scheduler import Backfill, Order
from makeway.simharness.run.experiment import SAMPLE, ExperimentError, policy_config
from makeway.simharness.run.labels import policy_labels
from makeway.simharness.run.limits import ReplayLimits
from makeway.simharness.sweep.cell import SweepCell
from makeway.simharness.workloads.openb import is_openb
from makeway.simharness.workloads.unit import TraceUnit

Synthesis = Literal["W1", "W2", "W3", "W4", "W5"]
_POLICY = "a list of policies: a name, or a mapping with name, label and settings"
_OF_LIMITS = ("max_loss_node_hours", "limits")
"""The settings that only concern policies that take something."""
_DURATIONS = "or durations such as 5m"
_SEED = Annotated[int, Field(ge=0, lt=2**32)]
_CELLS_MOST = 1_000_000
"""Each cell is a replay, and a file in the folder of finished cells."""


def _seconds(text: str) -> float | str:
    """A duration in seconds. What is none is left as it is, for the check to refuse."""
    found = duration_s(text)
    return text if found is None else found


class GridPolicy(Section):
    """A policy with its own settings."""

    name: str = Field(min_length=1, description="the name of a policy, or the file of one")
    label: str = Field(default="", max_length=60, description="a text of at most 60 characters")
    settings: dict[str, Any] = Field(default={}, description="a mapping of the policy's own settings")

    @field_validator("label")
    @classmethod
    def _may_be_shown(cls, label: str) -> str:
        if not label.isprintable() or (label and not label.strip()):
            raise ValueError(
                f"{label!r} is not accepted; accepted: a text of at most 60 characters in one line"
            )
        return label


def _as_mapping(policy: GridPolicy | str) -> GridPolicy:
    """The policy with its settings. Whether there is such a policy is found out later."""
    return GridPolicy.model_construct(name=policy) if isinstance(policy, str) else policy


class GridSettings(Section):
    """What else may vary; every combination runs. Each value is a list."""

    max_loss_node_hours: tuple[float | None, ...] = Field(
        default=(None,),
        min_length=1,
        description="a list of node-hours from 0 on, or null: see limits",
    )
    limits: tuple[Literal["none", "default"], ...] = Field(
        default=("none",), min_length=1, description="a list of none, default: the site's limits"
    )
    backfill: tuple[Literal["none", "easy", "easy-cqsim", "conservative"], ...] = Field(
        default=("easy",), min_length=1, description="a list of none, easy, easy-cqsim, conservative"
    )
    order: tuple[Literal["fcfs", "wfp"], ...] = Field(
        default=("fcfs",), min_length=1, description="a list of fcfs, wfp"
    )
    unit: tuple[Literal["node", "processor", "packed"] | None, ...] = Field(
        default=(None,),
        min_length=1,
        description="a list of node, processor, packed, or null for the trace's",
    )
    node_count: tuple[Annotated[int, Field(ge=1, le=NODES_MOST)] | None, ...] = Field(
        default=(None,),
        min_length=1,
        description=f"a list of whole numbers from 1 to {NODES_MOST:,}, or null for the trace's",
    )
    urgent_share: tuple[Annotated[float, Field(ge=0, le=1)] | None, ...] = Field(
        default=(None,), min_length=1, description="a list of shares from 0 to 1, or null"
    )
    start_within_s: tuple[Annotated[float, Field(gt=0, le=YEAR_S)] | None, ...] = Field(
        default=(None,),
        min_length=1,
        description=f"a list of seconds above 0 up to a year, {_DURATIONS}, or null",
    )
    poll_interval_s: tuple[Annotated[float, Field(ge=0.1, le=3600)], ...] = Field(
        default=(30.0,),
        min_length=1,
        description=f"a list of seconds from 0.1 to 3600, as the daemon takes them, {_DURATIONS}",
    )

    @field_validator("start_within_s", "poll_interval_s", mode="before")
    @classmethod
    def _in_seconds(cls, values: object) -> object:
        if not isinstance(values, list):
            return values
        return tuple(_seconds(one) if isinstance(one, str) else one for one in cast("list[object]", values))

    @field_validator("max_loss_node_hours")
    @classmethod
    def _not_negative(cls, values: tuple[float | None, ...]) -> tuple[float | None, ...]:
        for value in values:
            if value is not None and value < 0:
                raise ValueError(f"{value:g} is not accepted; accepted: node-hours from 0 on, or null")
        return values


class Grid(Section):
    """Everything that a grid file says."""

    policies: tuple[GridPolicy | str, ...] = Field(min_length=1, description=_POLICY)
    traces: tuple[str, ...] = Field(
        default=(SAMPLE,), min_length=1, description="a list of `sample` and of paths of traces"
    )
    workloads: tuple[Synthesis | None, ...] = Field(
        default=(None,), min_length=1, description="a list of W1 to W5, or null for the trace as it is"
    )
    seeds: (
        Annotated[int, Field(ge=1, le=SEEDS_MOST)]
        | Annotated[tuple[_SEED, ...], Field(min_length=1, max_length=SEEDS_MOST)]
    ) = Field(
        default=1,
        description=f"how many seeds, from 1 to {SEEDS_MOST:,}, or a list of 1 to {SEEDS_MOST:,} whole "
        "numbers from 0 on",
    )
    settings: GridSettings = Field(default=GridSettings(), description="a mapping of lists")

    @model_validator(mode="after")
    def _labels_differ(self) -> Self:
        labels = self.labels
        twice = next((label for label in labels if labels.count(label) > 1), None)
        if twice is not None:
            raise ValueError(f"policies: two are called {twice}; accepted: a label of its own for each")
        return self

    @property
    def labels(self) -> tuple[str, ...]:
        """What each policy is called in the results."""
        chosen = list(map(_as_mapping, self.policies))
        own = policy_labels(one.name for one in chosen if not one.label)
        return tuple(one.label or own[one.name] for one in chosen)

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The seeds."""
        return tuple(range(self.seeds)) if isinstance(self.seeds, int) else tuple(dict.fromkeys(self.seeds))


def read_grid(path: Path) -> tuple[SweepCell, ...]:
    """The cells of a grid file, in the order of the file; the seed varies first.

    Raises:
        ConfigError: every problem of the file, one a line, with its key and its value.
    """
    file = yaml_file.read(path)
    try:
        grid = Grid.model_validate_json(json.dumps(file.values))
    except ValidationError as error:
        file.refuse(problems_of(error, Grid))
        raise
    file.refuse(list(_size_problems(grid)))
    problems = [*_policy_problems(grid, path), *_trace_problems(grid, path)]
    file.refuse(problems)
    return tuple(_cells(grid, path.absolute().parent))


def _size_problems(grid: Grid) -> Iterator[Problem]:
    """Whether the grid has too many combinations."""
    lists = {
        "policies": len(grid.policies),
        "traces": len(set(grid.traces)),
        "workloads": len(set(grid.workloads)),
        "seeds": len(grid.seed_list),
    }
    lists |= {
        f"settings.{name}": len(set(getattr(grid.settings, name))) for name in GridSettings.model_fields
    }
    cells = prod(lists.values())
    if cells > _CELLS_MOST:
        largest = max(lists, key=lists.__getitem__)
        text = f"{lists[largest]:,} values make a grid of {cells:,} cells; accepted: {_CELLS_MOST:,} at most"
        yield Problem(key=tuple(largest.split(".")), text=text)


def _policy_problems(grid: Grid, path: Path) -> Iterator[Problem]:
    for place, one in enumerate(grid.policies):
        chosen = _as_mapping(one)
        try:
            policy = find_policy(chosen.name, path.absolute().parent)
        except PolicyError as error:
            yield Problem(key=("policies", place), text=str(error))
            continue
        try:
            if policy.active or chosen.settings:
                policy_config(policy.name, policy.config_type, chosen.settings)
        except ExperimentError as error:
            text = str(error).removeprefix("--set ")
            yield Problem(key=("policies", place, "settings"), text=text)


def _trace_problems(grid: Grid, path: Path) -> Iterator[Problem]:
    for place, trace in enumerate(grid.traces):
        if trace != SAMPLE and not (path.absolute().parent / trace).is_file():
            yield Problem(key=("traces", place), text=f"{trace}: no such file; accepted: sample, or a trace")
    shares = grid.settings.urgent_share
    if any(one is not None for one in grid.workloads) and any(one is not None for one in shares):
        text = "urgent shares and workloads W1 to W5 exclude each other; accepted: one of them"
        yield Problem(key=("settings", "urgent_share"), text=text)
    yield from _machine_problems(grid, path.absolute().parent)


def _machine_problems(grid: Grid, folder: Path) -> Iterator[Problem]:
    """Machines on which a trace, or a workload, does not run: every combination of the grid has to."""
    pods = next((one for one in grid.traces if one != SAMPLE and is_openb(folder / one)), None)
    for key, values in (("unit", grid.settings.unit), ("node_count", grid.settings.node_count)):
        place = next((number for number, value in enumerate(values) if value is not None), None)
        if place is None:
            continue
        if SAMPLE in grid.traces:
            text = f"{values[place]} does not go with the trace sample, which has its own machine"
        elif key == "unit" and pods is not None:
            text = f"{values[place]} does not go with the trace {pods}, whose pods share nodes"
        else:
            continue
        yield Problem(key=("settings", key, place), text=f"{text}; accepted: null")
    if pods is None and "packed" not in grid.settings.unit:
        return
    where = "with the unit packed" if pods is None else f"in the trace {pods}"
    for place, one in enumerate(grid.workloads):
        if one is not None:
            text = f"{one} makes malleable jobs, which do not share nodes, as jobs {where} do; accepted: null"
            yield Problem(key=("workloads", place), text=text)


def _cells(grid: Grid, folder: Path) -> Iterator[SweepCell]:
    names = tuple(GridSettings.model_fields)
    lists = [dict.fromkeys(getattr(grid.settings, name)) for name in names]
    seeds = grid.seed_list
    policies = tuple(zip(grid.policies, grid.labels, strict=True))
    for (trace, trace_name), synthesis, values, (policy, label) in product(
        _named_traces(grid, folder).items(), dict.fromkeys(grid.workloads), product(*lists), policies
    ):
        settings: Mapping[str, Any] = dict(zip(names, values, strict=True))
        chosen = _as_mapping(policy)
        name = str(folder / chosen.name) if chosen.name.endswith(SUFFIX) else chosen.name
        unit = settings["unit"]
        active = find_policy(name).active
        if not active and any(settings[key] != getattr(grid.settings, key)[0] for key in _OF_LIMITS):
            continue  # a policy that never takes anything has no limits
        for seed in seeds:
            yield SweepCell(
                trace=trace,
                trace_name=trace_name,
                synthesis=synthesis,
                seed=seed,
                label=label,
                policy=name,
                policy_settings=chosen.settings,
                max_loss_node_hours=settings["max_loss_node_hours"] if active else None,
                limits=ReplayLimits(settings["limits"]) if active else ReplayLimits.NONE,
                backfill=Backfill(settings["backfill"]),
                order=Order(settings["order"]),
                unit=None if unit is None else TraceUnit(unit),
                node_count=settings["node_count"],
                urgent_share=settings["urgent_share"],
                start_within_s=settings["start_within_s"],
                poll_interval_s=settings["poll_interval_s"],
            )


def _named_traces(grid: Grid, folder: Path) -> dict[str, str]:
    """What each trace is called in the results, by its path. A trace that is given twice counts once.

    A trace has the name of its file, or is called as in the grid where several files have that name.
    """
    written: dict[Path | None, str] = {}
    for trace in grid.traces:
        written.setdefault(None if trace == SAMPLE else (folder / trace).resolve(), trace)
    names = Counter(Path(trace).name for trace in written.values())
    return {
        trace if trace == SAMPLE else str(folder / trace): trace
        if names[Path(trace).name] > 1
        else Path(trace).name
        for trace in written.values()
    }


def files_of(cells: Sequence[SweepCell]) -> tuple[Path, ...]:
    """The files that the cells read: traces, and policies in files."""
    traces = (Path(cell.trace) for cell in cells if cell.trace != SAMPLE)
    policies = (Path(cell.policy) for cell in cells if cell.policy.endswith(SUFFIX))
    return tuple(dict.fromkeys((*traces, *policies)))
