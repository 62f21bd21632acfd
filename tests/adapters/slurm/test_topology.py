"""Switches and blocks as Slurm prints them, on captured output."""

import pytest

from makeway.adapters.command import CompletedCommand
from makeway.adapters.protocol import Unreadable
from makeway.adapters.slurm import build
from makeway.adapters.slurm.access import CONFIGURATION_KNOWN_S
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.adapters.slurm.settings import Placing, SlurmSettings
from makeway.adapters.slurm.topology import placements
from makeway.policies.model import Placement
from tests.adapters.slurm.fake_slurm import FakeSlurm
from tests.paths import CAPTURED

LEFT, RIGHT = ("n1", "n2", "n3", "n4"), ("n5", "n6", "n7", "n8")


def told(stdout: str, stderr: str = "") -> CompletedCommand:
    return CompletedCommand(argv=build.show_topology(), returncode=0, stdout=stdout, stderr=stderr)


@pytest.mark.parametrize("release", ["22.05", "24.11", "26.05"])
def test_every_switch_is_a_placement(release: str) -> None:
    text = (CAPTURED / release / "topology-tree.txt").read_text()
    assert placements(told(text)) == (
        Placement(name="s1", nodes=LEFT),
        Placement(name="s2", nodes=RIGHT),
        Placement(name="top", nodes=LEFT + RIGHT),
    )


@pytest.mark.parametrize("release", ["24.11", "26.05"])
def test_every_block_is_a_placement(release: str) -> None:
    text = (CAPTURED / release / "topology-block.txt").read_text()
    assert placements(told(text)) == (Placement(name="b1", nodes=LEFT), Placement(name="b2", nodes=RIGHT))


def test_a_switch_without_nodes_is_none() -> None:
    text = "SwitchName=empty Level=0 LinkSpeed=1 Nodes=(null)\nSwitchName=s1 Level=0 LinkSpeed=1 Nodes=n1\n"
    assert placements(told(text)) == (Placement(name="s1", nodes=("n1",)),)


@pytest.mark.parametrize(
    ("stdout", "stderr", "words"),
    [
        ("", "scontrol: error: No topology information available", "no switch and no block is known here"),
        ("SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-\n", "", "no host list"),
    ],
)
def test_what_is_no_topology_is_unreadable(stdout: str, stderr: str, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        placements(told(stdout, stderr))


SMALLER = "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]\n"
SILENT = "slurm_load_topo: Unable to contact slurm controller (connect failure)"


@pytest.mark.parametrize(
    ("again", "names", "asked"),
    [
        ((0, SMALLER, ""), ["s1"], 2),
        ((1, "", SILENT), ["s1", "s2", "top"], 3),
        ((0, "", "No topology information available"), ["s1", "s2", "top"], 2),
    ],
    ids=["changed", "no answer", "unreadable"],
)
def test_the_adapter_reads_it_again_with_the_configuration(
    again: tuple[int, str, str], names: list[str], asked: int
) -> None:
    """Nodes that are added to a switch would serve no job until the daemon is started again."""
    text = (CAPTURED / "24.11" / "topology-tree.txt").read_text()
    slurm, clock_s = FakeSlurm(script=((0, text, ""), again)), [0.0]
    adapter = SlurmCliAdapter(
        SlurmSettings(placements=Placing.TOPOLOGY),
        runner=slurm,
        now=lambda: 0.0,
        clock=lambda: clock_s[0],
    )
    first = adapter.snapshot()
    clock_s[0] += CONFIGURATION_KNOWN_S
    second, third = adapter.snapshot(), adapter.snapshot()
    assert [one.name for one in first.placements] == ["s1", "s2", "top"]
    assert [one.name for one in second.placements] == names
    assert third.placements is second.placements
    # After a silence the configuration is read again.
    assert slurm.calls.count(build.show_topology()) == asked


def test_the_adapter_reads_it_once_and_only_if_it_is_wanted() -> None:
    text = (CAPTURED / "24.11" / "topology-tree.txt").read_text()
    slurm = FakeSlurm(script=((0, text, ""),))
    adapter = SlurmCliAdapter(SlurmSettings(placements=Placing.TOPOLOGY), runner=slurm, now=lambda: 0.0)
    first, second = adapter.snapshot(), adapter.snapshot()
    assert [one.name for one in first.placements] == ["s1", "s2", "top"]
    assert second.placements is first.placements
    assert slurm.calls.count(build.show_topology()) == 1
    plain = FakeSlurm()
    assert SlurmCliAdapter(SlurmSettings(), runner=plain, now=lambda: 0.0).snapshot().placements == ()
    assert build.show_topology() not in plain.calls
