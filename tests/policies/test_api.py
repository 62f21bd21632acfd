"""What policies written elsewhere import stays there, and the example needs nothing else."""

import ast
import inspect
from pathlib import Path

import pytest

from makeway.policies import api, contract, model
from tests.paths import EXAMPLE_POLICY, SLURM_PREEMPTION

PROMISED = frozenset(
    [
        "Action",
        "Cancel",
        "Candidate",
        "Checkpoint",
        "CheckpointSpec",
        "Cluster",
        "Decision",
        "Expand",
        "Job",
        "JobKind",
        "JobState",
        "Limits",
        "Method",
        "Node",
        "NodeState",
        "Notice",
        "Operation",
        "OperationKind",
        "Placement",
        "Plan",
        "Planner",
        "Policy",
        "Prioritise",
        "Proposal",
        "Quota",
        "Rationale",
        "Reason",
        "Release",
        "Request",
        "Requeue",
        "Reservation",
        "Reserve",
        "Resources",
        "RestoreLimit",
        "RestorePriority",
        "SharedCandidates",
        "Shrink",
        "UrgentJob",
        "VictimGroup",
        "application_s",
        "candidates_of",
        "cheapest_place",
        "decide_each",
        "eviction_actions",
        "hold",
        "in_place",
        "leavers",
        "loss_node_s",
        "no_place",
        "no_room",
        "queue_key",
        "rationale",
        "require_durations",
        "reservation_name",
        "stays",
        "system_s",
        "take_until",
        "take_until_room",
        "victim_groups",
        "waits_for_nodes",
    ]
)
"""A name that is added to the module is added here; a removal breaks the policies of others."""


def test_the_names_are_those_that_are_promised() -> None:
    assert set(api.__all__) == PROMISED


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_a_promised_name_exists_and_says_what_it_is(name: str) -> None:
    thing = getattr(api, name)
    if inspect.isclass(thing) or inspect.isfunction(thing):
        assert inspect.getdoc(thing)


def test_the_older_public_paths_give_the_same_classes() -> None:
    assert api.Policy is contract.Policy
    assert [
        name for name in PROMISED & set(model.__all__) if getattr(api, name) is not getattr(model, name)
    ] == []


@pytest.mark.parametrize("example", [EXAMPLE_POLICY, SLURM_PREEMPTION], ids=lambda path: path.stem)
def test_the_examples_import_the_api_alone(example: Path) -> None:
    tree = ast.parse(example.read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in imported if name is not None and name.startswith("makeway")} == {
        "makeway.policies.api"
    }
