"""Which accounts stand for others in what a partition says of accounts. Pure.

Reference: 24.11.5 and 26.05.5 as tried on 2026-11-27: a partition that allows or denies an account does so
    with all accounts below it. 22.05.8 goes by the account of the job alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from makeway.adapters.slurm.parse_cluster import RawPartition
from makeway.adapters.slurm.resources.limits import accounts_above

_BY_HIERARCHY = (24, 11)
"""The first release that was seen to go by the accounts above that of a job, too."""
_BY_ACCOUNT = (22, 5)
"""The last one that was seen to go by the account of the job alone. Those between were not tried."""


def with_accounts_below(
    partitions: Iterable[RawPartition], parents: Mapping[str, str], release: tuple[int, int]
) -> tuple[RawPartition, ...]:
    """The partitions. What one says of an account it says of those below, as far as they are known.

    Args:
        partitions: those of a snapshot.
        parents: by account, the one above it; empty for the highest.
        release: year and month of the Slurm release.
    """
    expanded = partial(with_those_below, parents=parents, release=release)
    placed = None if release <= _BY_ACCOUNT else _placed(parents if release >= _BY_HIERARCHY else {})
    return tuple(
        replace(
            one,
            admission=replace(
                one.admission,
                allowed_accounts=expanded(one.admission.allowed_accounts),
                denied_accounts=expanded(one.admission.denied_accounts),
                placed=placed if one.admission.names_accounts else None,
            ),
        )
        for one in partitions
    )


def _placed(parents: Mapping[str, str]) -> frozenset[str]:
    """The accounts of which all above them are known."""
    known = parents.keys()
    return frozenset(name for name in parents if known >= set(accounts_above(name, parents)))


def with_those_below(names: str, parents: Mapping[str, str], release: tuple[int, int]) -> str:
    """The names of accounts, divided by commas, with those of the accounts for which they stand."""
    if release < _BY_HIERARCHY:
        return names
    found = names.split(",")
    below = sorted(name for name in parents if not set(found).isdisjoint(accounts_above(name, parents)))
    return ",".join(dict.fromkeys([*found, *below]))
