"""Leases on a live Slurm."""

import os
from typing import Final

from makeway.adapters.command import CompletedCommand
from makeway.adapters.protocol import Gone, Rejected
from makeway.adapters.slurm.access import SlurmClient
from makeway.adapters.slurm.errors import refusal, unknown_reservation, without_account
from makeway.adapters.slurm.lease import names
from makeway.policies.model import LeaderLease, Node, NodeState

SAVES_S = 10.0
"""slurmctld saves its reservations within 5 s of a change (22.05, 24.11: tried), and writing takes time."""
ROOT: Final = 0
"""The user of a lease. Where accounting asks for an account (AccountingStorageEnforce), Slurm refuses a
reservation for users without one. root has one, unless the site has removed it; SlurmUser has none.
"""


class SlurmLeases:
    """Writes the leases of one instance.

    Args:
        client: what runs the commands.
    """

    def __init__(self, client: SlurmClient) -> None:
        self._client = client
        self._node: str | None = None

    def remember(self, nodes: tuple[Node, ...]) -> None:
        """Remember a node for the next lease: the first that is up, or else the first."""
        up = (node.name for node in nodes if node.state is NodeState.UP)
        self._node = next(up, nodes[0].name if nodes else None)

    def create(self, lease: LeaderLease) -> None:
        """See `LeaseKeeper.create_lease`."""
        if self._node is None:
            raise Rejected("no lease can be made before a snapshot has shown a node")
        done = self._create(lease, self._node, ROOT)
        if without_account(done) and os.geteuid() != ROOT:
            done = self._create(lease, self._node, os.geteuid())
        if done.returncode != 0:
            raise refusal(done)

    def renew(self, lease: LeaderLease) -> None:
        """See `LeaseKeeper.renew_lease`."""
        self._do(names.renew_lease(lease, self._prefix))

    def remove(self, term: int) -> None:
        """See `LeaseKeeper.remove_lease`."""
        self._do(names.remove_lease(term, self._prefix))

    def _create(self, lease: LeaderLease, node: str, user_id: int) -> CompletedCommand:
        return self._client.run(names.create_lease(lease, self._prefix, node=node, user_id=user_id))

    @property
    def _prefix(self) -> str:
        return self._client.known().capabilities.reservation_prefix

    def _do(self, argv: tuple[str, ...]) -> None:
        done = self._client.run(argv)
        if unknown_reservation(done):
            raise Gone(f"{argv[2]}: {done.words}")
        if done.returncode != 0:
            raise refusal(done)
