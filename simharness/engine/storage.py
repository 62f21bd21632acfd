"""The file system that checkpoints are written to: its bandwidth is shared among those that write at once.

Reference: P2 (CoSim), eq. 1, for one checkpoint alone.
"""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """Bandwidths of the file system. The defaults are Theta's as P2 gives them."""

    aggregate_gb_s: float = 250.0
    """What all nodes together can write, GB per second."""
    node_gb_s: float = 20.0
    """What one node can write, GB per second."""

    def __post_init__(self) -> None:
        for name in ("aggregate_gb_s", "node_gb_s"):
            value = getattr(self, name)
            if not value > 0:
                raise ValueError(f"{name} is {value}: it must be above 0")

    def alone_s(self, gb_per_node: float, node_count: int) -> float:
        """Duration of one checkpoint that has the file system to itself (P2, eq. 1)."""
        return gb_per_node * node_count / min(self.aggregate_gb_s, node_count * self.node_gb_s)


@dataclass(slots=True)
class _Transfer:
    """One checkpoint that is being written."""

    remaining_gb: float
    cap_gb_s: float
    rate_gb_s: float
    since_s: float
    end_s: float


class Storage:
    """Checkpoints that are being written, as fluid flows.

    At any instant each has its max-min fair share of the aggregate bandwidth.

    Rates change only when a transfer begins or ends. A transfer whose rate stays is not touched, so that one
    that never had to share ends after exactly `alone_s`.
    """

    def __init__(self, settings: StorageSettings) -> None:
        self._settings = settings
        self._transfers: dict[int, _Transfer] = {}

    def begin(self, key: int, *, gb_per_node: float, node_count: int, now_s: float) -> None:
        """Start the transfer `key` of `node_count` nodes' checkpoints."""
        total_gb = gb_per_node * node_count
        cap_gb_s = node_count * self._settings.node_gb_s
        self._transfers[key] = _Transfer(total_gb, cap_gb_s, 0.0, now_s, inf)
        self._share(now_s)

    def abort(self, key: int, now_s: float) -> None:
        """Forget the transfer `key`, if there is one; the others share its bandwidth."""
        if self._transfers.pop(key, None) is not None:
            self._share(now_s)

    def next_end_s(self) -> float | None:
        """When the next transfer ends, as things are. None: none is under way."""
        return min((transfer.end_s for transfer in self._transfers.values()), default=None)

    def finish(self, now_s: float) -> list[int]:
        """Take out the transfers that have ended by `now_s` and return their keys in order."""
        ended = sorted(key for key, transfer in self._transfers.items() if transfer.end_s <= now_s)
        for key in ended:
            del self._transfers[key]
        if ended:
            self._share(now_s)
        return ended

    def _share(self, now_s: float) -> None:
        """Give each transfer its max-min fair rate.

        One whose cap is below an equal share leaves the rest to the others.
        """
        left_gb_s = self._settings.aggregate_gb_s
        waiting = len(self._transfers)
        for transfer in sorted(self._transfers.values(), key=lambda transfer: transfer.cap_gb_s):
            share_gb_s = left_gb_s / waiting
            if transfer.cap_gb_s < share_gb_s:
                self._set_rate(transfer, transfer.cap_gb_s, now_s)
                left_gb_s -= transfer.cap_gb_s
                waiting -= 1
            else:
                self._set_rate(transfer, share_gb_s, now_s)  # and so will all that follow

    @staticmethod
    def _set_rate(transfer: _Transfer, rate_gb_s: float, now_s: float) -> None:
        if rate_gb_s != transfer.rate_gb_s:
            transfer.remaining_gb -= transfer.rate_gb_s * (now_s - transfer.since_s)
            transfer.rate_gb_s = rate_gb_s
            transfer.since_s = now_s
            transfer.end_s = now_s + max(0.0, transfer.remaining_gb) / rate_gb_s
