"""What Slurm knows of its network, as placements: every switch with the nodes below it, or every block."""

import re
from collections.abc import Callable

from makeway.adapters.command import CompletedCommand
from makeway.adapters.hostlist import expand
from makeway.adapters.protocol import AdapterError, Unreadable
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


class Topology:
    """The switches or blocks of a cluster, which are read again with its configuration.

    Args:
        show: runs `scontrol show topology`.
    """

    def __init__(self, show: Callable[[], CompletedCommand]) -> None:
        self._show = show
        self._known: tuple[object, tuple[Placement, ...]] | None = None
        """The configuration with which they were read, and they. None: they were not read yet."""

    def placements(self, configuration: object) -> tuple[Placement, ...]:
        """They: the same tuple while they are the same. What cannot be read again stays as it is known.

        `configuration`: the one that was read last; another object each time that it is read.

        Raises:
            Unavailable: the controller does not answer.
            Unreadable: see `placements`.
        """
        if self._known is None:
            self._known = configuration, placements(self._show())
        elif self._known[0] is not configuration:
            self._known = configuration, self._read_again(self._known[1])
        return self._known[1]

    def _read_again(self, known: tuple[Placement, ...]) -> tuple[Placement, ...]:
        try:
            found = placements(self._show())
        except AdapterError:
            return known
        return known if found == known else found
