"""Nodes that sleep are woken when a hold gets them. Else Slurm wakes them when the job gets them, which is
when all of its nodes are free.
"""

from collections.abc import Iterable
from contextlib import suppress

from makeway.adapters.protocol import Unavailable
from makeway.adapters.slurm import build
from makeway.adapters.slurm.access import SlurmClient
from makeway.adapters.slurm.errors import forbidden
from makeway.adapters.slurm.nodes.states import sleeps
from makeway.adapters.slurm.parse_cluster import RawNode

_WAKES = frozenset({"POWERING_UP", "POWER_UP"})


class SleepingNodes:
    """The nodes that slept in the last snapshot.

    `client`: what runs the commands.
    """

    def __init__(self, client: SlurmClient) -> None:
        self._client = client
        self._names = frozenset[str]()
        self._forbidden = False

    def remember(self, nodes: Iterable[RawNode]) -> None:
        """Remember which of these nodes sleep and have not been told to wake."""
        self._names = frozenset(raw.name for raw in nodes if sleeps(raw) and not raw.states & _WAKES)

    def wake(self, nodes: Iterable[str]) -> None:
        """Wake those of the nodes that sleep, if this user may: root and SlurmUser may. Nothing depends on
        it, since Slurm wakes them in any case.
        """
        asleep = tuple(name for name in nodes if name in self._names)
        if not asleep or self._forbidden:
            return
        with suppress(Unavailable):
            command = ("scontrol", "update", f"NodeName={build.node_list(asleep)}", "State=POWER_UP")
            self._forbidden = forbidden(self._client.change(command))
