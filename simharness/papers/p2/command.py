"""`makeway reproduce p2`: the exact programme against greedy and backtracking, on P2's scenarios.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section IV.

Differs from the paper:
    The trace is of 2023, not of 2019 (see `scenarios`). Every scenario is asked for every number of nodes.
    Backtracking has a budget; what it did not finish is said, and counts for no claim.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from makeway.daemon.cli.options import duration
from makeway.simharness.papers.common.claims import Claim, claims_table
from makeway.simharness.papers.common.page import grid_table
from makeway.simharness.papers.p2.cases import (
    DEADLINES_S,
    HORIZON_S,
    STEP_S,
    P2Result,
    P2SeedMeans,
    P2Trial,
    compute,
    groups,
)
from makeway.simharness.papers.p2.claims import claims
from makeway.simharness.papers.p2.report import report_html, scenario_name, times_grid
from makeway.simharness.papers.reproduce import ReproduceOptions, deliver, paper_options, run_all
from makeway.simharness.workloads.scenarios import SCENARIO_JOBS, TRACE, WANTED_NODES

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from makeway.policies.programme.knapsack import EvictionPlan

TITLE = "P2: the eviction problem on Theta"
BUDGET_S = 20.0
QUICK_BUDGET_S = 0.5
NOTES = (
    "Times are processor time.",
    "The exact programme works on whole arrays with numpy; greedy and backtracking are plain Python.",
    (
        "Not the paper's: shrinking (30% of the jobs, by the seed, to 20% of their nodes) and concurrent "
        "checkpoints."
    ),
    (
        "The scenarios are instants of Theta's trace of 2023 (the paper: 2019): losses compare in kind, not "
        "in figure."
    ),
)


@click.command("p2")
@paper_options
@click.option(
    "--budget",
    type=duration,
    help=(
        f"Processor time of backtracking for each scenario and K [default: {BUDGET_S:g} s; quick: "
        f"{QUICK_BUDGET_S:g} s]."
    ),
)
def command(budget: float | None, **shared: Any) -> None:
    """Who leaves at the least loss (Maurya et al., DS-RT 2020, section IV).

    Three scenarios of Theta with 12, 16 and 24 running jobs, 512, 1024 and 2048 nodes wanted, every deadline
    from 0 to 15 minutes: loss and response time of the exact programme, of the paper's greedy and of
    backtracking; and of the exact programme with shrinking and with concurrent checkpoints, which are not the
    paper's.
    """
    options = ReproduceOptions(**shared)
    if budget is not None and budget <= 0:
        raise click.BadParameter("a duration above 0 is expected", param_hint="--budget")
    options.require_trace(TRACE)
    options.require_outputs()
    budget_s = budget or (QUICK_BUDGET_S if options.quick else BUDGET_S)
    trials = [
        P2Trial(
            traces=options.trace_folder, scenario=number, wanted_nodes=nodes, seed=seed, budget_s=budget_s
        )
        for seed in options.seed_range(1)
        for number in range(1, len(SCENARIO_JOBS) + 1)
        for nodes in WANTED_NODES
    ]
    cases = run_all(compute, trials, workers=options.jobs, label="cases", cache=options.results_cache(TRACE))
    checked = options.checked(claims(cases))
    deliver(
        options,
        tables=list(tables(cases, checked)),
        values=as_values(cases, checked, budget_s),
        html=lambda: report_html(cases, checked, TITLE, NOTES),
    )


def tables(cases: Sequence[P2Result], checked: Sequence[Claim]) -> "Iterator[RenderableType]":
    """What the terminal shows: losses by deadline, response times, and the paper's claims."""
    from rich.columns import Columns
    from rich.text import Text

    found = groups(cases)
    for scenario in sorted({group.scenario for group in found}):
        mine = [group for group in found if group.scenario == scenario]
        yield Text(f"{scenario_name(mine[0])}: node-hours lost", style="bold")
        yield Columns([_loss_table(group) for group in mine], padding=(0, 4))
        yield ""
    yield grid_table(times_grid(found))
    yield ""
    yield claims_table(checked)
    yield ""
    for note in NOTES:
        yield Text(note, style="dim")


def _loss_table(group: P2SeedMeans) -> "Table":
    """The losses of one scenario and K; an empty cell where backtracking did not finish."""
    from rich.table import Table

    table = Table(title=f"K = {group.wanted_nodes}", title_justify="left", show_edge=False)
    for heading in (
        "\nmin",
        "\nexact",
        "\ngreedy",
        "greedy\n−exact",
        "back-\ntracking",
        "with\nshrinking",
        "con-\ncurrent",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    slow = group.backtracking_node_hours
    for index, deadline_s in enumerate(DEADLINES_S):
        columns = (group.exact_node_hours, group.greedy_node_hours, group.excess_node_hours)
        hours = [f"{column[index]:.1f}" for column in columns]
        hours.append(f"{slow[index]:.1f}" if index < len(slow) else "")
        added = (group.shrinking_node_hours, group.concurrent_node_hours)
        hours.extend(f"{column[index]:.1f}" for column in added)
        table.add_row(f"{deadline_s / 60:.0f}", *hours)
    return table


def as_values(cases: Sequence[P2Result], checked: Sequence[Claim], budget_s: float) -> dict[str, object]:
    """Everything as plain values for JSON. What differs from run to run is under `times`."""
    return {
        "paper": "P2",
        "title": TITLE,
        "notes": list(NOTES),
        "settings": {
            "seeds": sorted({case.seed for case in cases}),
            "step_s": STEP_S,
            "horizon_s": HORIZON_S,
            "budget_s": budget_s,
        },
        "claims": [claim.values() for claim in checked],
        "cases": [_case_values(case) for case in cases],
    }


def _case_values(case: P2Result) -> dict[str, object]:
    slow = [_plan_values(run.plan) for run in case.backtracking]
    unfinished = [None] * (len(DEADLINES_S) - len(slow))
    rows = zip(
        DEADLINES_S,
        case.exact,
        case.greedy,
        [*slow, *unfinished],
        case.excess_node_hours,
        case.shrinking.plans,
        case.concurrent.plans,
        strict=True,
    )
    return {
        "scenario": case.scenario,
        "seed": case.seed,
        "wanted_nodes": case.wanted_nodes,
        "job_count": case.job_count,
        "busy_nodes": case.busy_nodes,
        "now_s": case.now_s,
        "deadlines": [
            {
                "deadline_s": deadline_s,
                "exact": _plan_values(exact),
                "greedy": _plan_values(quick.plan),
                "backtracking": slow_values,
                "greedy_excess_node_hours": excess,
                "with_shrinking": _plan_values(shrinking),
                "concurrent": _plan_values(concurrent),
            }
            for deadline_s, exact, quick, slow_values, excess, shrinking, concurrent in rows
        ],
        "times": {
            "exact_s": case.exact_s,
            "with_shrinking_s": case.shrinking.elapsed_s,
            "concurrent_s": case.concurrent.elapsed_s,
            "greedy_s": [run.elapsed_s for run in case.greedy],
            "backtracking_s": [run.elapsed_s for run in case.backtracking],
            "backtracking_stopped_s": case.stopped_s,
        },
    }


def _plan_values(plan: "EvictionPlan") -> dict[str, object]:
    return {
        "loss_node_hours": plan.loss_node_s / 3600,
        "checkpoint_s": plan.checkpoint_s,
        "nodes_freed": plan.node_count,
        "departures": [
            {
                "job_ids": list(leaver.item.job_ids),
                "method": leaver.method.value,
                "nodes": leaver.node_count,
            }
            for leaver in plan.departures
        ],
    }
