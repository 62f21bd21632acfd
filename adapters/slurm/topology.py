"""What Slurm knows of its network, as placements: every switch with the nodes below it, or every block."""

import re

from makeway.adapters.command import CompletedCommand
from makeway.adapters.hostlist import expand
from makeway.adapters.protocol import Unreadable
from makeway.policies.model import Placement

_LINE = re.compile(r"(?:SwitchName|BlockName)=(?P<name>\S+)(?:\s.*)?\sNodes=(?P<nodes>\S+)")


def placements(done: CompletedCommand) -> tuple[Placement, ...]:
    """The switches or blocks that `scontrol show topology` has printed, in its order; those without nodes are
    left out.

    Raises:
        Unreadable: there is none, or its nodes are not a host list.
    """
    found: list[Placement] = []
    for line in done.stdout.splitlines():
        told = _LINE.match(line)
        if told is None:
            continue
        try:
            nodes = expand(told["nodes"])
        except ValueError as error:
            raise Unreadable(str(error), command=done.argv, text=line) from None
        if nodes:
            found.append(Placement(name=told["name"], nodes=nodes))
    if not found:
        message = "no switch and no block is known here; without a topology only `placements: any` can work"
        raise Unreadable(message, command=done.argv, text=done.words)
    return tuple(found)
