"""What `makeway doctor` says of shared nodes."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.site.checks import Level
from makeway.adapters.slurm import parse as slurm_parse
from makeway.adapters.slurm import parse_cluster
from makeway.adapters.slurm.partitions.memory import MemoryDefault
from makeway.adapters.slurm.resources.check import check_sharing
from makeway.adapters.slurm.settings import Price
from tests.adapters.slurm.test_doctor import LAYOUT, SHARING, slurm
from tests.adapters.slurm.test_parse import RELEASES, captured


def test_whole_nodes_are_said_to_be_whole() -> None:
    for settings, layout, words in (
        ({"SelectType": "select/linear"}, LAYOUT, "jobs get whole nodes: select/linear"),
        (SHARING, LAYOUT[:1], "jobs get whole nodes: every partition is exclusive"),
    ):
        (check,) = check_sharing(slurm(settings, layout=layout), Price.DOMINANT_SHARE)
        assert (check.level, check.text) == (Level.OK, words)


def test_whole_nodes_that_several_jobs_may_have_at_once_are_said_to_be_so() -> None:
    """With `OverSubscribe=FORCE:2`, `scontrol show partitions` of 22.05 and 24.11 says so under select/linear
    as well, and Slurm starts two jobs on each node.
    """
    layout = (replace(LAYOUT[1], oversubscribed=True),)
    whole, warned = check_sharing(slurm({"SelectType": "select/linear"}, layout=layout), Price.DOMINANT_SHARE)
    assert (whole.level, warned.level) == (Level.OK, Level.WARNING)
    assert "counts each node once" in warned.text


def test_a_default_of_the_partition_is_enough() -> None:
    own = replace(LAYOUT[1], default_memory=MemoryDefault(per_cpu=False, amount_mb=4000.0))
    survey = slurm({**SHARING, "DefMemPerCPU": "UNLIMITED"}, layout=(LAYOUT[0], own))
    assert [check.name for check in check_sharing(survey, Price.DOMINANT_SHARE)] == ["sharing"]


def test_what_counts_on_shared_nodes_is_listed() -> None:
    (check,) = check_sharing(slurm(SHARING), Price.DOMINANT_SHARE)
    assert check.level is Level.OK
    assert check.text == "jobs share the nodes of batch; what counts: CPUs, memory, gpu"


@pytest.mark.parametrize(
    ("settings", "changes", "price", "name", "words"),
    [
        ({"SelectTypeParameters": "CR_CORE"}, {}, Price.DOMINANT_SHARE, "memory", "too little of it"),
        ({"DefMemPerCPU": "UNLIMITED"}, {}, Price.DOMINANT_SHARE, "memory", "a job in batch that"),
        ({"DefMemPerCPU": "0"}, {}, Price.DOMINANT_SHARE, "memory", "set DefMemPerCPU"),
        (
            {},
            {"layout": (replace(LAYOUT[1], oversubscribed=True),)},
            Price.DOMINANT_SHARE,
            "oversubscription",
            "counts each CPU once",
        ),
        ({}, {}, Price.BILLING_WEIGHTS, "price", "no partition has TRESBillingWeights"),
    ],
)
def test_what_an_administrator_should_know_of_shared_nodes(
    settings: dict[str, str], changes: dict[str, Any], price: Price, name: str, words: str
) -> None:
    checks = check_sharing(slurm({**SHARING, **settings}, **changes), price)
    assert [(check.name, check.level) for check in checks[1:]] == [(name, Level.WARNING)]
    assert words in checks[1].text


@pytest.mark.parametrize("release", sorted(RELEASES))
def test_the_captured_clusters_are_shared(release: str) -> None:
    settings = slurm_parse.config(captured(release, "shared-config"))
    lines = captured(release, "shared-scontrol").splitlines()
    layout = parse_cluster.partitions(lines, command=("scontrol",))
    (check,) = check_sharing(slurm(settings, layout=layout), Price.DOMINANT_SHARE)
    assert check.text == "jobs share the nodes of batch; what counts: CPUs, memory, gpu"
