"""Who could submit an urgent job, by what Slurm prints of partitions, associations and QOS."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from makeway.adapters.command import CompletedCommand
from makeway.adapters.protocol import AnnouncedJob, Unavailable, Unreadable
from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm.entitlement import ways
from makeway.adapters.slurm.entitlement.reader import KNOWN_S, SlurmEntitlements, enforced
from makeway.adapters.slurm.settings import SlurmSettings
from makeway.policies.model import CheckpointSpec, JobKind, Resources

URGENT = JobClass(name="beam", qos=frozenset({"urgent"}), kind=JobKind.ON_DEMAND)
ANY = JobClass(name="batch", preemptible=True, checkpoint=CheckpointSpec(system_s=5.0))
CONFIG = """ClusterName             = dev
AccountingStorageEnforce = {enforced}
AccountingStorageType   = accounting_storage/{storage}
SLURM_VERSION           = 24.11.5
"""
BATCH = (
    "PartitionName=batch AllowGroups={groups} {accounts} {qos} AllocNodes=ALL Default=YES QoS={own} "
    "MaxNodes={nodes} MaxTime={time} RootOnly=NO State=UP TotalCPUs=16 TotalNodes=8 "
    "TRES=cpu=16,mem=8000M,node=8,billing=16"
)
TRES_OF_CLUSTER = "cpu=80,mem=80G,node=40,billing=80"
PARTITION = {
    "groups": "ALL",
    "accounts": "AllowAccounts=ALL",
    "qos": "AllowQos=ALL",
    "own": "N/A",
    "nodes": "UNLIMITED",
    "time": "UNLIMITED",
}


def row(fields: Sequence[str], **cells: str) -> str:
    """A line of sacctmgr with these cells; the others are empty."""
    assert cells.keys() <= set(fields)
    return "|".join(cells.get(name, "") for name in fields)


def association(account: str, qos: str, **cells: str) -> str:
    return row(ways.ASSOCIATION_FIELDS, Account=account, QOS=qos, **cells)


def account(name: str, parent: str, **cells: str) -> str:
    return row(ways.ACCOUNT_FIELDS, Account=name, ParentName=parent, **cells)


def of_qos(name: str, **cells: str) -> str:
    return row(ways.QOS_FIELDS, Name=name, **cells)


QOS = (of_qos("normal"), of_qos("urgent"))


class FakeAccounting:
    """A Slurm with one partition; ada may use the QOS urgent, bob may not."""

    def __init__(self, *, enforced: str = "associations,limits,qos", storage: str = "slurmdbd") -> None:
        self.config = CONFIG.format(enforced=enforced, storage=storage)
        self.partition: dict[str, str] = dict(PARTITION)
        self.associations: Mapping[str, tuple[str, ...]] = {
            "": (account("root", ""), account("other", "root"), account("light", "root")),
            "ada": (association("other", "normal"), association("light", "normal,urgent")),
            "bob": (association("light", "normal"),),
        }
        self.qos: tuple[str, ...] = QOS
        self.silent = False
        self.calls: list[tuple[str, ...]] = []

    def run(
        self,
        argv: tuple[str, ...],
        *,
        timeout_s: float | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        take: Callable[[bytes], object] | None = None,
        until: str = "",
    ) -> CompletedCommand:
        self.calls.append(argv)
        if argv[0] == "sacctmgr" and self.silent:
            return CompletedCommand(argv=argv, returncode=1, stdout="", stderr="Connection refused")
        return CompletedCommand(argv=argv, returncode=0, stdout=self._text(argv), stderr="")

    def _text(self, argv: tuple[str, ...]) -> str:
        if "config" in argv:
            return self.config
        if "partition" in argv:
            return BATCH.format(**self.partition) + "\n"
        if "qos" in argv:
            return "\n".join(self.qos) + "\n"
        if "cluster" in argv:
            return TRES_OF_CLUSTER + "\n"
        (user,) = (word.removeprefix("user=") for word in argv if word.startswith("user="))
        return "".join(f"{line}\n" for line in self.associations.get(user, ()))


def asked(
    slurm: FakeAccounting,
    user: str = "ada",
    nodes: int = 4,
    *,
    hours: float = 1.0,
    demand: Resources | None = None,
    classes: tuple[JobClass, ...] = (URGENT, ANY),
) -> tuple[str | None, str]:
    """Why the job is refused, and its account."""
    reader = SlurmEntitlements(
        SlurmSettings(classes=classes), runner=slurm, groups=lambda user: frozenset({"users", f"of-{user}"})
    )
    job = AnnouncedJob(user=user, node_count=nodes, walltime_s=hours * 3600.0, demand=demand)
    found = reader.entitlement(job)
    return found.refusal, found.account


NOT_URGENT = "user bob may not submit urgent jobs, which are: class beam (QOS urgent)"


def test_a_qos_that_the_user_may_not_use_makes_no_urgent_job() -> None:
    assert asked(FakeAccounting()) == (None, "light")
    assert asked(FakeAccounting(), "bob") == (NOT_URGENT, "")
    assert asked(FakeAccounting(), "eve") == ("user eve may not submit jobs here", "")


def test_what_is_not_enforced_does_not_count() -> None:
    assert asked(FakeAccounting(enforced="associations"), "bob") == (None, "light")
    assert asked(FakeAccounting(enforced="none"), "eve") == (None, "")
    assert asked(FakeAccounting(enforced="none", storage="none"), "eve") == (None, "")


def test_without_accounting_nothing_is_asked_of_it() -> None:
    slurm = FakeAccounting(enforced="none", storage="none")
    asked(slurm)
    assert {argv[0] for argv in slurm.calls} == {"scontrol"}


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"groups": "users"}, False),
        ({"groups": "of-ada,beam"}, False),
        ({"groups": "beam"}, True),
        ({"accounts": "AllowAccounts=other"}, True),
        ({"accounts": "AllowAccounts=dark,light"}, False),
        ({"accounts": "DenyAccounts=light"}, True),
        ({"accounts": "DenyAccounts=other"}, False),
        ({"qos": "AllowQos=normal"}, True),
        ({"qos": "AllowQos=normal,urgent"}, False),
        ({"qos": "DenyQos=urgent"}, True),
    ],
)
def test_the_partition_decides_who_may_use_it(change: dict[str, str], refused: bool) -> None:
    slurm = FakeAccounting()
    slurm.partition |= change
    refusal, _ = asked(slurm)
    assert (refusal is not None) == refused


@pytest.mark.parametrize(
    ("partition", "nodes", "hours", "refusal"),
    [
        ({"nodes": "3"}, 4, 1.0, "4 nodes are asked for, partition batch admits 3"),
        ({}, 9, 1.0, "9 nodes are asked for, partition batch admits 8"),
        ({"time": "1-00:00:00"}, 4, 24.5, "88200 seconds are asked for, partition batch admits 86400"),
        ({"time": "1-00:00:00"}, 4, 24.0, None),
        ({"time": "30-00:00:00"}, 4, 960.0, "3456000 seconds are asked for, partition batch admits 2592000"),
    ],
)
def test_the_most_that_the_partition_admits(
    partition: dict[str, str], nodes: int, hours: float, refusal: str | None
) -> None:
    slurm = FakeAccounting()
    slurm.partition |= partition
    assert asked(slurm, nodes=nodes, hours=hours)[0] == too_much(refusal)


def too_much(what: str | None) -> str | None:
    return None if what is None else f"user ada may not submit such an urgent job: {what}"


OF_ADA = "the association of ada with account light"


@pytest.mark.parametrize(
    ("of_association", "of_qos_urgent", "nodes", "refusal"),
    [
        ({"MaxTRES": "cpu=6,node=3"}, {}, 4, f"4 nodes are asked for, {OF_ADA} admits 3"),
        (
            {"GrpTRES": "node=2", "MaxWall": "00:30:00"},
            {},
            2,
            f"3600 seconds are asked for, {OF_ADA} admits 1800",
        ),
        ({"MaxJobs": "0"}, {}, 1, f"1 jobs are asked for, {OF_ADA} admits 0"),
        ({"MaxJobs": "1", "GrpJobs": "1"}, {}, 1, None),
        ({"GrpSubmit": "0"}, {}, 1, f"1 jobs are asked for, {OF_ADA} admits 0"),
        ({}, {"MaxTRES": "node=3"}, 4, "4 nodes are asked for, QOS urgent admits 3"),
        ({}, {"MaxTRESPU": "node=3"}, 4, "4 nodes are asked for, QOS urgent admits 3"),
        ({}, {"MaxTRESPA": "node=3"}, 4, "4 nodes are asked for, QOS urgent admits 3"),
        ({}, {"GrpTRES": "node=3"}, 4, "4 nodes are asked for, QOS urgent admits 3"),
        ({}, {"MaxJobsPA": "0"}, 4, "1 jobs are asked for, QOS urgent admits 0"),
        ({}, {"MaxWall": "00:30:00"}, 4, "3600 seconds are asked for, QOS urgent admits 1800"),
        ({}, {"MaxTRES": "node=4"}, 4, None),
    ],
)
def test_the_most_that_the_limits_admit(
    of_association: dict[str, str], of_qos_urgent: dict[str, str], nodes: int, refusal: str | None
) -> None:
    slurm = FakeAccounting()
    slurm.associations = {"ada": (association("light", "urgent", **of_association),)}
    slurm.qos = (of_qos("urgent", **of_qos_urgent),)
    assert asked(slurm, nodes=nodes)[0] == too_much(refusal)


@pytest.mark.parametrize(
    ("of_association", "of_qos_urgent", "refusal"),
    [
        ({"MaxTRES": "node=3"}, {"MaxTRES": "node=5"}, None),
        ({"MaxTRES": "cpu=3"}, {"MaxTRES": "node=5"}, f"4 cpu are asked for, {OF_ADA} admits 3"),
        ({"MaxTRES": "node=3"}, {"MaxTRESPU": "node=5"}, f"4 nodes are asked for, {OF_ADA} admits 3"),
        ({"GrpTRES": "node=3"}, {"GrpTRES": "node=5"}, None),
        ({"MaxWall": "00:30:00"}, {"MaxWall": "02:00:00"}, None),
        ({"MaxJobs": "0"}, {"MaxJobsPU": "2"}, None),
        ({"MaxJobs": "0"}, {"MaxJobsPA": "2"}, None),
        ({"MaxJobs": "0"}, {"MaxSubmitPU": "2"}, f"1 jobs are asked for, {OF_ADA} admits 0"),
        ({"MaxSubmitJobs": "0"}, {"MaxSubmitPA": "2"}, None),
    ],
)
def test_what_a_qos_limits_comes_before_the_same_limit_of_the_association(
    of_association: dict[str, str], of_qos_urgent: dict[str, str], refusal: str | None
) -> None:
    slurm = FakeAccounting()
    slurm.associations = {"ada": (association("light", "urgent", **of_association),)}
    slurm.qos = (of_qos("urgent", **of_qos_urgent),)
    assert asked(slurm, demand=Resources.of({"cpu": 1}))[0] == too_much(refusal)


@pytest.mark.parametrize(
    ("partition", "refusal"),
    [
        ("batch", f"4 nodes are asked for, {OF_ADA} admits 3"),
        ("small", None),
    ],
)
def test_an_association_for_the_partition_takes_the_place_of_the_other(
    partition: str, refusal: str | None
) -> None:
    slurm = FakeAccounting()
    own = association("light", "urgent", Partition=partition, MaxTRES="node=3")
    slurm.associations = {"ada": (association("light", "urgent"), own)}
    assert asked(slurm)[0] == too_much(refusal)


@pytest.mark.parametrize(
    ("of_partition", "of_job", "refusal"),
    [
        ({"MaxTRES": "node=3"}, {"MaxTRES": "node=5"}, "4 nodes are asked for, QOS door admits 3"),
        ({"MaxTRES": "node=5"}, {"MaxTRES": "node=3"}, None),
        ({"MaxTRES": "node=3"}, {"MaxTRES": "node=5", "Flags": "DenyOnLimit,OverPartQOS"}, None),
        (
            {"MaxTRES": "node=5"},
            {"MaxTRES": "node=3", "Flags": "OverPartQOS"},
            "4 nodes are asked for, QOS urgent admits 3",
        ),
        ({"MaxTRES": "node=5"}, {"GrpTRES": "node=3"}, "4 nodes are asked for, QOS urgent admits 3"),
    ],
)
def test_which_of_two_qos_comes_first(
    of_partition: dict[str, str], of_job: dict[str, str], refusal: str | None
) -> None:
    slurm = FakeAccounting()
    slurm.partition["own"] = "door"
    slurm.qos = (of_qos("urgent", **of_job), of_qos("door", **of_partition))
    assert asked(slurm)[0] == too_much(refusal)


@pytest.mark.parametrize(
    ("of_account", "of_account_above", "of_qos_urgent", "refusal"),
    [
        ({"GrpTRES": "node=3"}, {}, {}, "4 nodes are asked for, account light admits 3"),
        ({}, {"GrpTRES": "cpu=64,node=3"}, {}, "4 nodes are asked for, account physics admits 3"),
        ({}, {"GrpSubmit": "0"}, {}, "1 jobs are asked for, account physics admits 0"),
        ({}, {"GrpTRES": "node=3"}, {"GrpTRES": "node=5"}, None),
        ({"GrpTRES": "node=9"}, {"GrpTRES": "node=4"}, {}, None),
    ],
)
def test_the_limits_on_all_jobs_of_accounts_above(
    of_account: dict[str, str],
    of_account_above: dict[str, str],
    of_qos_urgent: dict[str, str],
    refusal: str | None,
) -> None:
    slurm = FakeAccounting()
    accounts = (
        account("root", ""),
        account("dark", "root", GrpTRES="node=1"),
        account("light", "physics", **of_account),
        account("physics", "root", **of_account_above),
    )
    slurm.associations = {"ada": (association("light", "urgent"),), "": accounts}
    slurm.qos = (of_qos("urgent", **of_qos_urgent),)
    assert asked(slurm)[0] == too_much(refusal)


def test_limits_on_resources_and_of_the_partitions_qos() -> None:
    slurm = FakeAccounting()
    slurm.partition["own"] = "door"
    slurm.qos = (*QOS, of_qos("door", MaxTRES="cpu=15,mem=10G"))
    refusal, _ = asked(slurm, demand=Resources.of({"cpu": 4}))
    assert refusal == "user ada may not submit such an urgent job: 16 cpu are asked for, QOS door admits 15"
    refusal, _ = asked(slurm, demand=Resources.of({"mem": 2_561}))
    assert refusal is not None
    assert "10244 mem are asked for, QOS door admits 10240" in refusal
    slurm.config = slurm.config.replace("associations,limits,qos", "associations,qos")
    assert asked(slurm, demand=Resources.of({"cpu": 4})) == (None, "light")


@pytest.mark.parametrize(
    ("classes", "user", "refusal"),
    [
        ((JobClass(name="w", words=frozenset({"now"}), kind=JobKind.ON_DEMAND),), "bob", None),
        ((JobClass(name="f", features=frozenset({"fast"}), kind=JobKind.ON_DEMAND),), "bob", None),
        ((JobClass(name="p", partitions=frozenset({"batch"}), kind=JobKind.ON_DEMAND),), "bob", None),
        (
            (JobClass(name="p", partitions=frozenset({"beam"}), kind=JobKind.ON_DEMAND),),
            "bob",
            "user bob may not submit urgent jobs, which are: class p (partition beam)",
        ),
        (
            (JobClass(name="a", accounts=frozenset({"dark"}), kind=JobKind.ON_DEMAND),),
            "bob",
            "user bob may not submit urgent jobs, which are: class a (account dark)",
        ),
        (
            (JobClass(name="u", users=frozenset({"ada"}), kind=JobKind.ON_DEMAND),),
            "bob",
            "user bob may not submit urgent jobs, which are: class u (certain users)",
        ),
        (
            (
                JobClass(name="never", users=frozenset({"ada"})),
                JobClass(name="beam", qos=frozenset({"urgent"}), kind=JobKind.ON_DEMAND),
            ),
            "ada",
            "user ada may not submit urgent jobs, which are: class beam (QOS urgent)",
        ),
        ((ANY,), "ada", "no class of jobs is urgent here"),
    ],
)
def test_the_conditions_of_the_urgent_classes(
    classes: tuple[JobClass, ...], user: str, refusal: str | None
) -> None:
    assert asked(FakeAccounting(), user, classes=classes)[0] == refusal


def test_a_user_is_asked_about_once_a_minute() -> None:
    slurm, now_s = FakeAccounting(), [0.0]
    reader = SlurmEntitlements(
        SlurmSettings(classes=(URGENT,)), runner=slurm, groups=lambda _: frozenset(), clock=lambda: now_s[0]
    )
    job = AnnouncedJob(user="ada", node_count=1, walltime_s=60.0)
    for _ in range(3):
        assert reader.entitlement(job).refusal is None
    asked_once = len(slurm.calls)
    slurm.associations = {}
    now_s[0] = KNOWN_S
    assert reader.entitlement(job).refusal == "user ada may not submit jobs here"
    assert len(slurm.calls) == 2 * asked_once


def test_accounting_that_does_not_answer_is_unavailable() -> None:
    slurm = FakeAccounting()
    slurm.silent = True
    with pytest.raises(Unavailable, match="sacctmgr: Connection refused"):
        asked(slurm)


def test_what_cannot_be_read_is_said() -> None:
    slurm = FakeAccounting()
    slurm.qos = (of_qos("urgent", MaxTRES="node=some"),)
    with pytest.raises(Unreadable, match="what user ada may submit: "):
        asked(slurm)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("none", {"none"}),
        ("qos,safe", {"qos", "safe", "limits", "associations"}),
        ("all", {"all", "limits", "associations", "qos"}),
    ],
)
def test_what_enforcement_implies(text: str, words: set[str]) -> None:
    assert enforced({"AccountingStorageEnforce": text}) == words
