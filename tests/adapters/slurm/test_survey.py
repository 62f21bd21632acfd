"""What is read of Slurm for the administrator: pure functions of text, and the commands that bring it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.adapters.command import CompletedCommand
from makeway.adapters.protocol import Unavailable, Unreadable
from makeway.adapters.site.checks import SettingNames
from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm import build, parse
from makeway.adapters.slurm.settings import SlurmSettings
from makeway.adapters.slurm.survey import (
    ClassCount,
    Privilege,
    associated,
    clock_ahead_s,
    count,
    number_of,
    open_partitions,
    parameters,
    privilege,
    survey,
)
from makeway.policies.model import JobKind
from tests.adapters.slurm.fake_slurm import RUNNING
from tests.adapters.slurm.jobs.raw_jobs import ANY, PENDING
from tests.adapters.slurm.test_parse import COMMAND, RELEASES, TOKEN, captured

DATABASE = {"AccountingStorageType": "accounting_storage/slurmdbd", "SlurmUser": "slurm(64030)"}
USERS = """Current Association Manager state

User Records

UserName=ann(1001) DefAccount=physics DefWckey=(null) AdminLevel=None
UserName=makeway(990) DefAccount=root DefWckey=(null) AdminLevel=Operator
UserName=makeway2(991) DefAccount=root DefWckey=(null) AdminLevel=Administrator
UserName=elsewhere(4294967294) DefAccount=(null) DefWckey= AdminLevel=Operator
UserName=root(0) DefAccount=root DefWckey= AdminLevel=Administrator
"""
CLASSES = (
    JobClass(name="urgent", partitions=frozenset({"urgent"}), kind=JobKind.ON_DEMAND),
    JobClass(name="batch", partitions=frozenset({"batch"}), preemptible=True),
)


@dataclass
class Printer:
    """Prints what Slurm printed, by the first words of a command."""

    config: str
    squeue: str = ""
    partitions: str = "PartitionName=batch State=UP\n"
    users: str = ""
    fails: str = ""
    """The first words of the command that fails."""
    calls: list[tuple[str, ...]] = field(default_factory=list)

    def run(
        self,
        argv: tuple[str, ...],
        *,
        timeout_s: float | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str] = MappingProxyType({}),
        take: Callable[[bytes], object] | None = None,
        until: str = "",
    ) -> CompletedCommand:
        self.calls.append(argv)
        words = " ".join(argv)
        if self.fails and words.startswith(self.fails):
            error = "slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)"
            return CompletedCommand(argv=argv, returncode=1, stdout="", stderr=error)
        if words.startswith("squeue"):
            token = environment["SQUEUE_FORMAT2"].split(":0")[-1]
            text = self.squeue.replace(TOKEN, token)
        elif "config" in argv:
            text = self.config
        else:
            text = self.users if "assoc_mgr" in argv else self.partitions
        return CompletedCommand(argv=argv, returncode=0, stdout=text, stderr="")


@pytest.mark.parametrize("release", sorted(RELEASES))
def test_a_slurm_is_surveyed_by_four_commands(release: str) -> None:
    _, settings = captured(release, "config").split("\n", 1)
    printer = Printer(
        config=f"Configuration data as of 1000\n{settings}",
        squeue=captured(release, "squeue"),
        partitions=captured(release, "scontrol"),
    )
    found = survey(SlurmSettings(classes=CLASSES), runner=printer, now=lambda: 1000.5, user_id=0)
    assert len(printer.calls) == 4
    assert found.release == RELEASES[release]
    assert found.version.startswith(release)
    assert (found.user, found.privilege, found.clock_ahead_s) == ("root", Privilege.ROOT, 0.0)
    assert found.partitions == {"batch": True, "urgent": True, "closed": True}
    assert "bf_continue" in found.parameters("SchedulerParameters")
    assert found.parameters("SlurmctldParameters") == {}
    assert found.controllers == (("host", True),)
    assert [one.name for one in found.counts] == ["urgent", "batch", None]
    assert sum(one.pending + one.running for one in found.counts) == 14


def test_what_fails_is_said_in_the_words_of_slurm() -> None:
    config = captured("24.11", "config")
    with pytest.raises(Unavailable, match="Unable to contact slurm controller"):
        survey(SlurmSettings(), runner=Printer(config=config, fails="scontrol show config"))
    with pytest.raises(Unavailable, match="squeue: "):
        survey(SlurmSettings(), runner=Printer(config=config, fails="squeue"))
    with pytest.raises(Unreadable, match="no version in the configuration"):
        survey(SlurmSettings(), runner=Printer(config="ClusterName = x\n"))


def test_levels_that_are_not_told_are_unknown() -> None:
    config = captured("24.11", "config").replace(
        "AccountingStorageType   = (null)", "AccountingStorageType = x/slurmdbd"
    )
    printer = Printer(config=config, squeue="", fails="scontrol show assoc_mgr")
    assert survey(SlurmSettings(), runner=printer, user_id=12345).privilege is Privilege.UNKNOWN


@pytest.mark.parametrize(
    ("user_id", "user", "settings", "users", "expected"),
    [
        (0, "root", {}, "", Privilege.ROOT),
        (64030, "slurm", DATABASE, "", Privilege.SLURM_USER),
        (30, "x", DATABASE, "", Privilege.UNKNOWN),
        (990, "makeway", DATABASE, USERS, Privilege.OPERATOR),
        (991, "makeway2", DATABASE, USERS, Privilege.ADMINISTRATOR),
        (1001, "ann", DATABASE, USERS, Privilege.NONE),
        (1005, "makeway", DATABASE, USERS, Privilege.OTHER_NUMBER),
        (992, "elsewhere", DATABASE, USERS, Privilege.OTHER_NUMBER),
        (99, "makeway", DATABASE, USERS, Privilege.OTHER_NUMBER),
        (990, "other-name-here", DATABASE, USERS, Privilege.OPERATOR),
        (1002, "an", DATABASE, USERS, Privilege.NO_USER),
        (1003, "a.n", DATABASE, USERS, Privilege.NO_USER),
        (990, "makeway", {}, USERS, Privilege.NONE),
        (990, "makeway", {"AccountingStorageType": "accounting_storage/none"}, "", Privilege.NONE),
    ],
)
def test_privileges(
    user_id: int, user: str, settings: dict[str, str], users: str, expected: Privilege
) -> None:
    assert privilege(user_id, user, settings, users) is expected


def test_the_numbers_that_the_controller_goes_by() -> None:
    assert number_of("makeway", USERS) == 990
    assert number_of("elsewhere", USERS) is None
    assert number_of("nobody", USERS) is None
    assert associated(USERS) == frozenset({0, 990, 991, 1001})
    assert associated("") is None


def test_root_and_the_user_are_looked_up_in_the_accounting() -> None:
    config = captured("24.11", "config")
    printer = Printer(config=config, users=USERS)
    found = survey(SlurmSettings(), runner=printer, user_id=4242424)
    assert ("scontrol", "show", "assoc_mgr", "users=4242424,root", "flags=users") in printer.calls
    assert (found.user_id, found.number_there) == (4242424, None)
    assert found.associated == frozenset({0, 990, 991, 1001})


@pytest.mark.parametrize(
    ("told_s", "began_s", "ended_s", "expected"),
    [
        (1000, 1000.2, 1000.3, 0.0),
        (1000, 1000.9, 1001.1, 0.0),
        (1001, 1000.9, 1000.95, 0.05),
        (1003, 1000.0, 1000.5, 2.5),
        (990, 1000.0, 1000.5, -9.0),
    ],
)
def test_clocks(told_s: int, began_s: float, ended_s: float, expected: float) -> None:
    told = f"Configuration data as of {told_s}\nx = y\n"
    assert clock_ahead_s(told, began_s, ended_s) == pytest.approx(expected)


@given(st.floats(0, 1e9), st.floats(-1e5, 1e5), st.floats(0, 100), st.floats(0, 1))
def test_the_skew_that_is_told_is_never_more_than_the_real_one(
    began_s: float, ahead_s: float, took_s: float, share: float
) -> None:
    told = f"Configuration data as of {int(1e6 + began_s + share * took_s + ahead_s)}\n"
    found = clock_ahead_s(told, 1e6 + began_s, 1e6 + began_s + took_s)
    assert found is not None
    assert abs(found) <= abs(ahead_s) + 1e-3
    assert found == 0.0 or found * ahead_s > 0.0


def test_a_clock_that_is_told_otherwise_is_not_told() -> None:
    assert clock_ahead_s(captured("24.11", "config"), 0.0, 1.0) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("(null)", {}),
        ("none", {"none": ""}),
        ("rl_enable, RL_REFILL_RATE=5,", {"rl_enable": "", "rl_refill_rate": "5"}),
        ("socket=/run/munge.socket,cred_expire=60", {"socket": "/run/munge.socket", "cred_expire": "60"}),
    ],
)
def test_parameters(text: str, expected: dict[str, str]) -> None:
    assert parameters(text) == expected


@pytest.mark.parametrize(
    ("change", "is_open"),
    [
        ("", True),
        ("AllowGroups=ops", False),
        ("AllowAccounts=a", False),
        ("AllowQos=rt", False),
        ("RootOnly=YES", False),
    ],
)
def test_partitions_that_everybody_may_use(change: str, is_open: bool) -> None:
    line = "PartitionName=rt AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL RootOnly=NO State=UP"
    key = change.split("=")[0]
    words = [change if key and word.startswith(f"{key}=") else word for word in line.split()]
    assert open_partitions(" ".join(words) + "\n\n") == {"rt": is_open}


@pytest.mark.parametrize("release", sorted(RELEASES))
def test_jobs_are_counted_by_class(release: str) -> None:
    fields = build.job_fields(RELEASES[release])
    jobs = parse.jobs(captured(release, "squeue"), fields=fields, token=TOKEN, command=COMMAND)
    urgent, batch, rest = count(jobs, CLASSES)
    assert (urgent.name, batch.name, rest.name) == ("urgent", "batch", None)
    assert urgent.pending + urgent.running == 2  # one of them in either partition
    assert batch.unable == 1
    assert rest.pending + rest.running == 2  # the parts of the heterogeneous one
    assert batch.nodes == sum(
        len(job.nodes) for job in jobs if job.partitions == ("batch",) and not job.heterogeneous
    )
    assert count((), CLASSES)[0] == ClassCount(name="urgent")


def test_the_names_that_classes_ask_for_are_looked_up() -> None:
    classes = (JobClass(name="a", qos=frozenset({"urgent"}), accounts=frozenset({"a", "physcis"})),)
    printer = Printer(config=captured("24.11", "config"), users=captured("24.11", "limits"))
    found = survey(SlurmSettings(classes=classes), runner=printer, user_id=0)
    assert ("scontrol", "show", "assoc_mgr", "accounts=a,physcis", "flags=qos,assoc") in printer.calls
    assert found.qos is not None
    assert {"urgent", "grp"} <= found.qos
    assert found.accounts == frozenset({"a"})
    hidden = Printer(config=captured("24.11", "config"), fails="scontrol show assoc_mgr")
    unknown = survey(SlurmSettings(classes=classes), runner=hidden, user_id=0)
    assert (unknown.qos, unknown.accounts) == (None, None)


def test_the_names_that_settings_ask_for_are_looked_up() -> None:
    """Accounts also in lower case, as Slurm writes them; users on this machine."""
    wanted = {"limits.protected": frozenset({"Physics", "root", "no-such-user"})}
    names = SettingNames(accounts=wanted, users=wanted, qos=wanted)
    classes = (JobClass(name="a", users=frozenset({"daemon", "no-such-daemon", "60321"})),)
    printer = Printer(config=captured("24.11", "config"), users=captured("24.11", "limits"))
    found = survey(SlurmSettings(classes=classes), names=names, runner=printer, user_id=0)
    asked = "accounts=Physics,no-such-user,physics,root"
    assert ("scontrol", "show", "assoc_mgr", asked, "flags=qos,assoc") in printer.calls
    assert found.users == frozenset({"root", "daemon", "60321"})
    assert found.qos is not None


def test_an_urgent_component_counts_as_an_urgent_job() -> None:
    urgent = JobClass(name="u", kind=JobKind.ON_DEMAND)
    component = replace(PENDING, job_id="7+0", heterogeneous=True)
    assert [one.pending for one in count((component, PENDING), (urgent,))] == [2, 0]
    assert [one.pending for one in count((component, PENDING), (ANY,))] == [1, 1]


@pytest.mark.parametrize(("release", "unable"), [("22.05", 1), ("24.11", 0)])
def test_jobs_of_accounts_that_may_be_below_an_allowed_one_are_not_said_to_be_left_alone(
    release: str, unable: int
) -> None:
    row = RUNNING | {"Account": "saving", "QOS": "normal", "NodeList": "n1"}
    cells = "".join(row.get(name, "") + TOKEN for name in build.job_fields(RELEASES[release]))
    printer = Printer(
        config=captured(release, "config"),
        squeue=f"{cells}\n",
        partitions="PartitionName=batch State=UP AllowAccounts=science\n",
    )
    found = survey(SlurmSettings(classes=(ANY,)), runner=printer, user_id=0)
    first, *_ = found.counts
    assert (first.running, first.unable) == (1, unable)
