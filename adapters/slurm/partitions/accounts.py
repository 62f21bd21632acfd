"""Which accounts stand for others in what a partition says of accounts. Pure.

Reference: 24.11.5 and 26.05.5 as tried on 2026-11-27: a partition that allows or denies an account does so
    with all accounts below it. 22.05.8 goes by the account of the job alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

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
    children = children_of(parents, release)
    placed = None if release <= _BY_ACCOUNT else _placed(parents if release >= _BY_HIERARCHY else {})
    return tuple(
        replace(
            one,
            admission=replace(
                one.admission,
                allowed_accounts=with_those_below(one.admission.allowed_accounts, children),
                denied_accounts=with_those_below(one.admission.denied_accounts, children),
                placed=placed if one.admission.names_accounts else None,
            ),
        )
        for one in partitions
    )


def _placed(parents: Mapping[str, str]) -> frozenset[str]:
    """The accounts of which all above them are known."""
    known = parents.keys()
    return frozenset(name for name in parents if known >= set(accounts_above(name, parents)))


def children_of(parents: Mapping[str, str], release: tuple[int, int]) -> Mapping[str, list[str]]:
    """The accounts right below each account; none where a release goes by the account of a job alone.

    `parents`: see `with_accounts_below`.
    """
    children = defaultdict[str, list[str]](list)
    for name, parent in parents.items() if release >= _BY_HIERARCHY else ():
        if parent:
            children[parent].append(name)
    return children


def with_those_below(names: str, children: Mapping[str, list[str]]) -> str:
    """The names of accounts, divided by commas, with those of the accounts for which they stand. `children`:
    see `children_of`.
    """
    found = dict.fromkeys(names.split(","))
    # A site has thousands of accounts: each is looked at once.
    below, left = set[str](), list(found)
    while left:
        new = [name for name in children.get(left.pop(), ()) if name not in found and name not in below]
        below.update(new)
        left += new
    return ",".join([*found, *sorted(below)])
