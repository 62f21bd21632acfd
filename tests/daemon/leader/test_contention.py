"""Several daemons contend for the lease: views are late, commands are lost or late, daemons sleep and die."""

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from makeway.adapters.protocol import AdapterError, Unavailable
from makeway.policies.model import Cluster, LeaderLease
from tests.daemon.leader.daemons import COMMAND_S, Daemon, World

LOOKS = 400


class RoughWorld(World):
    """Takes time to answer, and loses or delays what it is asked for."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.random = random
        self.views = [self.view()]
        self.late: list[tuple[float, LeaderLease, bool]] = []

    def look(self) -> Cluster:
        """A snapshot, which may be one of the last ones."""
        self.views.append(self.view())
        self.now_s += self.random.choice((0.0, 0.0, 2.0))
        return self.random.choice(self.views[-4:]) if self.random.random() < 0.1 else self.views[-1]

    def write(self, lease: LeaderLease, *, new: bool) -> None:
        """Make or change a lease, now, later or never."""
        self.now_s += self.random.choice((0.0, 0.0, 1.0, COMMAND_S))
        fate = self.random.random()
        if 0.1 <= fate < 0.2:
            self.late.append((self.now_s + self.random.uniform(0.0, 200.0), lease, new))
        if fate >= 0.2:
            self._carry_out(lease, new=new)
        if fate < 0.3:
            raise Unavailable("no answer")

    def pass_time(self) -> None:
        """Some time passes, and what is late arrives."""
        self.now_s += self.random.choice((0.0, 1.0, 5.0, 20.0))
        for arrival in [one for one in self.late if one[0] <= self.now_s]:
            self.late.remove(arrival)
            with suppress(AdapterError):  # nobody waits for the answer
                self._carry_out(arrival[1], new=arrival[2])

    def _carry_out(self, lease: LeaderLease, *, new: bool) -> None:
        if new:
            self.book.create(lease, self.now_s)
        else:
            self.book.renew(lease)


class RoughDaemon(Daemon):
    """A daemon in that world."""

    def __init__(self, world: RoughWorld, path: Path) -> None:
        super().__init__(world, path)
        self.rough = world

    def create_lease(self, lease: LeaderLease) -> None:
        self.rough.write(lease, new=True)

    def renew_lease(self, lease: LeaderLease) -> None:
        self.rough.write(lease, new=False)


@pytest.mark.parametrize("seed", range(16))
def test_two_never_act_at_once_whatever_happens(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    world = RoughWorld(random)
    daemons = [RoughDaemon(world, tmp_path / str(number)) for number in range(3)]
    wakes_s = [0.0] * len(daemons)
    led = 0
    for _ in range(LOOKS):
        world.pass_time()
        number = random.randrange(len(daemons))
        if world.now_s < wakes_s[number]:
            continue
        if random.random() < 0.01:
            wakes_s[number] = world.now_s + random.uniform(0.0, 400.0)
        if random.random() < 0.01:
            daemons[number].journal.close()
            daemons[number] = RoughDaemon(world, tmp_path / str(number))
        if random.random() < 0.005:
            daemons[number].lease.hand_over()
        daemons[number].lease.look(world.look, wanted=True)
        acting = [one for one in daemons if one.acts]
        assert len(acting) <= 1
        led += bool(acting)
    assert led > LOOKS / 6
    for daemon in daemons:
        daemon.journal.close()
