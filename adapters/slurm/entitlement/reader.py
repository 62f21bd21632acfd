"""Asks Slurm in which ways a user may submit jobs.

It has a client of its own: the socket's threads ask it, while the daemon's cycle uses the adapter.
"""

import grp
import os
import pwd
import threading
import time
from collections.abc import Callable, Mapping

from makeway.adapters.command import CompletedCommand, Runner
from makeway.adapters.protocol import AnnouncedJob, Entitlement, Unavailable, Unreadable
from makeway.adapters.site.entitlement import SubmissionWay, entitlement
from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm import parse
from makeway.adapters.slurm.access import SlurmClient
from makeway.adapters.slurm.entitlement import ways
from makeway.adapters.slurm.entitlement.known_names import has_database
from makeway.adapters.slurm.errors import refusal
from makeway.adapters.slurm.settings import SlurmSettings

KNOWN_S = 60.0
"""How long an answer of Slurm about a user is used before Slurm is asked again, in seconds."""
_MOST_KNOWN = 1000
_IMPLY_ASSOCIATIONS = frozenset({"associations", "limits", "qos", "safe", "wckeys"})


def groups_of(user: str) -> frozenset[str]:
    """The groups of a user of this host. Empty: it does not know the user."""
    try:
        known = pwd.getpwnam(user)
        numbers = os.getgrouplist(user, known.pw_gid)
    except KeyError:
        return frozenset()
    found: set[str] = set()
    for number in numbers:
        try:
            found.add(grp.getgrgid(number).gr_name)
        except KeyError:
            continue  # a number without a name opens no partition
    return frozenset(found)


def enforced(settings: Mapping[str, str]) -> frozenset[str]:
    """What AccountingStorageEnforce comes to, with what its words imply."""
    words = frozenset(settings.get("AccountingStorageEnforce", "").lower().split(","))
    if "all" in words:
        words |= {"associations", "limits", "qos"}
    if "safe" in words:
        words |= {"limits"}
    return words | {"associations"} if words & _IMPLY_ASSOCIATIONS else words


class SlurmEntitlements:
    """The `EntitlementReader` of a Slurm cluster.

    Args:
        settings: where Slurm is, and the classes of its jobs.
        runner: what runs the commands. None: one that follows the settings.
        groups: the groups of a user.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        settings: SlurmSettings,
        *,
        runner: Runner | None = None,
        groups: Callable[[str], frozenset[str]] = groups_of,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._classes = settings.classes
        self._client = SlurmClient(settings, runner)
        self._groups = groups
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, tuple[SubmissionWay, ...]]] = {}

    def use_classes(self, classes: tuple[JobClass, ...]) -> None:
        """Use these classes of jobs from the next question on."""
        self._classes = classes

    def entitlement(self, job: AnnouncedJob) -> Entitlement:
        """See `EntitlementReader`. One question after another is asked."""
        with self._lock:
            return entitlement(self._classes, job, self._ways_of(job.user))

    def _ways_of(self, user: str) -> tuple[SubmissionWay, ...]:
        known = self._known.get(user)
        if known is not None and self._clock() - known[0] < KNOWN_S:
            return known[1]
        try:
            found = self._read(user)
        except ValueError as error:
            raise Unreadable(f"what user {user} may submit: {error}", command=(), text="") from error
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[user] = (self._clock(), found)
        return found

    def _read(self, user: str) -> tuple[SubmissionWay, ...]:
        settings = parse.config(self._done(("scontrol", "show", "config")).stdout)
        shown = self._done(("scontrol", "--all", "--oneliner", "show", "partition")).stdout
        groups = self._groups(user)
        doors = [door for door in ways.partitions(shown.splitlines()) if door.opens(groups)]
        if not has_database(settings):
            return ways.ways(doors, (), {}, {}, enforced=frozenset())
        cluster = settings.get("ClusterName", "")
        of_user = self._sacctmgr(
            *("associations", "where", f"user={user}", f"cluster={cluster}"),
            *_format(ways.ASSOCIATION_FIELDS),
        )
        # An empty name: the associations of the accounts themselves.
        of_accounts = self._sacctmgr(
            *("associations", "where", "user=", f"cluster={cluster}"), *_format(ways.ACCOUNT_FIELDS)
        )
        of_qos = ways.qos_limits(self._sacctmgr("qos", *_format(ways.QOS_FIELDS)))
        relative = any(one.relative for one in of_qos.values())
        tres = self._sacctmgr("cluster", cluster, *_format(("TRES",))) if relative else []
        accounts = ways.account_limits(of_accounts)
        return ways.ways(
            ways.standing_for_those_below(doors, accounts, parse.release(settings["SLURM_VERSION"])),
            ways.associations(of_user, user),
            accounts,
            of_qos,
            enforced=enforced(settings),
            tres="".join(tres),
        )

    def _sacctmgr(self, *words: str) -> list[str]:
        return self._done(("sacctmgr", "--noheader", "--parsable2", "show", *words)).stdout.splitlines()

    def _done(self, argv: tuple[str, ...]) -> CompletedCommand:
        done = self._client.run(argv)
        if done.returncode == 0:
            return done
        if argv[0] == "sacctmgr":
            raise Unavailable(f"sacctmgr: {done.words or done.returncode}")
        raise refusal(done)


def _format(fields: tuple[str, ...]) -> tuple[str]:
    return (f"format={','.join(fields)}",)
