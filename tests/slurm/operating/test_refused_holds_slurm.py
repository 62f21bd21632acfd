"""Slurm refuses a hold: an administrator has reserved its node right before the command."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import pytest

from makeway.adapters.command import CompletedCommand
from makeway.policies.model import Action, JobKind, Requeue, Reserve
from tests.slurm.support.crowd import CountingRunner, daemon_on
from tests.slurm.support.world import SlurmWorld

pytestmark = pytest.mark.slurm


@dataclass
class ReservingRunner(CountingRunner):
    """Reserves the nodes of the first hold for the site, right before the command for it."""

    taken: list[str] = field(default_factory=list)

    def run(
        self,
        argv: tuple[str, ...],
        *,
        timeout_s: float | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str] = MappingProxyType({}),
        take: Callable[[bytes], object] | None = None,
        until: str = "",
    ) -> CompletedCommand:
        if argv[:3] == ("scontrol", "create", "reservation") and not self.taken:
            self.taken += [word.removeprefix("Nodes=") for word in argv if word.startswith("Nodes=")]
            first = (*argv[:3], "ReservationName=site", f"Nodes={self.taken[0]}", "Users=root")
            made = self.runner.run((*first, "StartTime=now+30minutes", "Duration=60", "Flags=IGNORE_JOBS"))
            assert made.returncode == 0, made.words
        return super().run(
            argv, timeout_s=timeout_s, stdin=stdin, environment=environment, take=take, until=until
        )


def test_other_nodes_are_held_at_once(slurm_world: SlurmWorld, tmp_path: Path) -> None:
    for _ in slurm_world.nodes:
        slurm_world.submit(1)
    slurm_world.wait(lambda seen: not seen.free_nodes(), "the cluster is full")
    urgent = slurm_world.submit(1, kind=JobKind.ON_DEMAND, runtime_s=1.0)
    runner = ReservingRunner(slurm_world.cluster.runner)
    daemon = daemon_on(runner, tmp_path / "journal.sqlite")
    refused = daemon.reconcile()
    assert [one.outcome for one in refused.actions] == ["rejected"]
    assert "Requested reservation overlaps with another reservation" in refused.actions[0].detail
    assert refused.again

    sent: list[Action] = [one.action for one in daemon.reconcile().actions]
    (hold,) = sent
    assert isinstance(hold, Reserve)
    assert set(hold.nodes).isdisjoint(runner.taken)

    def has_run(_: object) -> bool:
        sent.extend(one.action for one in daemon.reconcile().actions)
        return urgent not in slurm_world.adapter.snapshot().jobs_by_id()

    slurm_world.wait(has_run, "the urgent job has run")
    assert len([one for one in sent if isinstance(one, Requeue)]) == 1
