"""A policy keeps its paper: its module says which, and where it differs; its functions say which section."""

import importlib
import inspect
import pkgutil
import re
from types import ModuleType

import pytest

import makeway.policies

PREFIX = makeway.policies.__name__ + "."
MODULES = [
    info.name.removeprefix(PREFIX)
    for info in pkgutil.walk_packages(makeway.policies.__path__, PREFIX)
    if not info.ispkg
]
WITHOUT_PAPER = re.compile(
    r"(model|safety|choice|joint|gate|queue)\.\w+|contract|soundness|registry|api|horizon\.cp_sat"
    r"|common\.(commitments|components|departures|requests|shared_nodes|urgent_jobs)"
)
PAPERS = [name for name in MODULES if not WITHOUT_PAPER.fullmatch(name)]
WITH_ALGORITHMS = {
    "eviction.policy": (),
    "safety.prices": ("loss_node_s",),
    "common.losses": ("system_s", "application_s"),
    "ckpt_backfill.policy": ("decide",),
    "ckpt_backfill.early_starts": ("start_early",),
    "ckpt_backfill.outlook": ("outlook", "predicted_s"),
    "programme.knapsack": ("solve",),
    "programme.reference": ("greedy", "backtracking"),
    "common.placements": ("fitting",),
    "wcjs.policy": ("decide",),
    "wcjs.cost": ("estimated_slowdown", "high_priority_s", "cost"),
    "hybrid.policy": ("preempt_at_arrival", "shrink_or_preempt_at_arrival"),
}
LOCATION = re.compile(r"section|Algorithm|eq\.|P\d")


def load(name: str) -> ModuleType:
    return importlib.import_module(f"makeway.policies.{name}")


def test_the_modules_of_every_room_are_found() -> None:
    assert {"none", "common.victims", "programme.knapsack", "hybrid.arrival", "wcjs.cost"} <= set(PAPERS)


@pytest.mark.parametrize("name", PAPERS)
def test_a_policy_module_ends_in_its_reference_and_its_differences(name: str) -> None:
    text = inspect.getdoc(load(name)) or ""
    head, reference, rest = text.partition("\nReference:\n")
    assert head, "what it does comes first"
    assert reference, "no Reference:"
    paper, differs, differences = rest.partition("\nDiffers from the paper:\n")
    assert re.search(r"\(\w[\w -]+ \d{4}\)", paper), "the reference names venue and year"
    assert LOCATION.search(paper), "the reference names the place in the paper"
    assert differs, "no Differs from the paper:"
    assert differences.strip().endswith(".")


@pytest.mark.parametrize(("name", "functions"), WITH_ALGORITHMS.items())
def test_a_function_that_implements_a_part_names_it(name: str, functions: tuple[str, ...]) -> None:
    module = load(name)
    for function in functions:
        assert LOCATION.search(inspect.getdoc(getattr(module, function)) or ""), function


@pytest.mark.parametrize("name", MODULES)
def test_everything_public_says_what_it_is(name: str) -> None:
    module = load(name)
    assert module.__doc__
    for label, thing in vars(module).items():
        own = getattr(thing, "__module__", None) == module.__name__
        if own and not label.startswith("_") and (inspect.isclass(thing) or inspect.isfunction(thing)):
            text = thing.__doc__ or ""
            assert text, f"{name}.{label}"
            assert not text.startswith(f"{label}("), f"{name}.{label} has only its signature"
