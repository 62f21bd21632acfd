"""The command that lists the jobs on nodes of which the first list had none."""

import pytest

from makeway.adapters.protocol import Unreadable
from makeway.adapters.slurm import build
from makeway.adapters.slurm.parse_cluster import nodes
from makeway.adapters.slurm.reader.whole import check_listed

LINE = (
    "NodeName={} CPUTot=2 RealMemory=1000 State=ALLOCATED ActiveFeatures=(null) Gres=(null) Partitions=batch"
)


@pytest.mark.parametrize(("count", "filters"), [(1000, 1), (1001, 0)])
def test_many_names_do_not_make_the_command_too_long(count: int, filters: int) -> None:
    asked: list[tuple[str, ...]] = []

    def listed(command: tuple[str, ...]) -> tuple[()]:
        asked.append(command)
        return ()

    lines = [LINE.format(f"n{number}") for number in range(count)]
    with pytest.raises(Unreadable, match=f"no job for {count} nodes"):
        check_listed(nodes(lines, command=()), (), listed)
    (command,) = asked
    every = build.squeue(ended=True)
    assert command[: len(every)] == every
    assert len(command) - len(every) == filters
