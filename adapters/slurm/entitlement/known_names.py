"""Which of the accounts, QOS and users that classes and settings name there are."""

import pwd
import re
from collections.abc import Mapping
from dataclasses import dataclass

from makeway.adapters.command import Runner
from makeway.adapters.site.checks import SettingNames
from makeway.adapters.slurm.settings import SlurmSettings

ASSOC_MGR_STATE = "Current Association Manager state"
"""What `scontrol show assoc_mgr` begins with."""


def has_database(settings: Mapping[str, str]) -> bool:
    """Whether Slurm has a database of users, accounts and QOS.

    `settings`: what `scontrol show config` says.
    """
    return settings.get("AccountingStorageType", "").endswith("slurmdbd")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNames:
    """See the fields of `Survey` with the same names."""

    qos: frozenset[str] | None
    accounts: frozenset[str] | None
    users: frozenset[str]


def known_names(runner: Runner, settings: SlurmSettings, names: SettingNames) -> KnownNames:
    """Every QOS, and those of the accounts and users of classes and settings that there are. Asks Slurm if
    there are such accounts or QOS.
    """
    of_users = (*(one.users for one in settings.classes), *names.users.values())
    users = frozenset(name for one in of_users for name in one if _is_user(name))
    by_qos = any(one.qos for one in settings.classes) or any(names.qos.values())
    of_accounts = (*(one.accounts for one in settings.classes), *names.accounts.values())
    asked = sorted({written for one in of_accounts for name in one for written in (name, name.lower())})
    nothing = KnownNames(qos=None, accounts=None, users=users)
    if not by_qos and not asked:
        return nothing
    flags = [name for name, wanted in (("qos", by_qos), ("assoc", asked)) if wanted]
    accounts = (f"accounts={','.join(asked)}",) if asked else ()
    command = ("scontrol", "show", "assoc_mgr", *accounts, f"flags={','.join(flags)}")
    done = runner.run(command, timeout_s=settings.timeout_s)
    if done.returncode != 0 or not done.stdout.startswith(ASSOC_MGR_STATE):
        return nothing
    known = re.findall(r"^ClusterName=.*? Account=(.*?) UserName=", done.stdout, re.MULTILINE)
    return KnownNames(
        qos=frozenset(qos_names(done.stdout)) if by_qos else None,
        accounts=frozenset(known) if asked else None,
        users=users,
    )


def qos_names(text: str) -> list[str]:
    """The names of every QOS that `scontrol show assoc_mgr` prints."""
    return re.findall(r"^QOS=(.*?)\(\d+\)", text, re.MULTILINE)


def _is_user(name: str) -> bool:
    """Whether this machine knows the user, as Slurm's commands do that name the owners of jobs here. They
    name one that it does not know by the number.
    """
    if name.isdigit():
        return True
    try:
        pwd.getpwnam(name)
    except (KeyError, ValueError):
        return False
    return True
