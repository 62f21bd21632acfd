"""The limits of QOS and associations as two releases print them: of two jobs of a QOS, one may run."""

from dataclasses import replace

import pytest

from makeway.adapters.slurm.resources.limits import Limited, chosen, limits, quotas
from makeway.policies.model import Quota
from tests.adapters.slurm.jobs.raw_jobs import PENDING
from tests.paths import CAPTURED

RELEASES = ("22.05", "24.11")
WAITS = replace(PENDING, account="a", qos="urgent", user="root", user_id="0")


def captured(release: str) -> tuple[Limited, ...]:
    return limits((CAPTURED / release / "limits.txt").read_text().splitlines())


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_limited_is_read_with_what_is_left(release: str) -> None:
    assert {one.name: dict(one.left) for one in captured(release)} == {
        "account a": {"node": 2.0},
        "account a, user 0": {"jobs": 3.0},
        "QOS urgent": {"cpu": 6.0, "node": 2.0},
        "QOS urgent, user 0": {"jobs": 0.0},
        "QOS grp": {"jobs": 6.0, "node": 0.0},
        "QOS grp, account a": {"jobs": 3.0},
        "QOS grp, user 0": {"node": 1.0},
    }


@pytest.mark.parametrize("release", RELEASES)
def test_a_job_draws_on_the_limits_that_it_is_under(release: str) -> None:
    assert set(quotas(WAITS, captured(release))) == {
        Quota(name="node of account a", needs=2.0, left=2.0),
        Quota(name="jobs of account a, user 0", needs=1.0, left=3.0),
        Quota(name="cpu of QOS urgent", needs=4.0, left=6.0),
        Quota(name="node of QOS urgent", needs=2.0, left=2.0),
        Quota(name="jobs of QOS urgent, user 0", needs=1.0, left=0.0),
    }


@pytest.mark.parametrize("other", [{"qos": "normal"}, {"account": "b"}, {"user_id": "7"}])
def test_other_jobs_are_under_other_limits(other: dict[str, str]) -> None:
    names = {quota.name for quota in quotas(replace(WAITS, **other), captured("24.11"))}  # type: ignore[arg-type]
    assert not any(word in name for name in names for word in _words(other))


def _words(other: dict[str, str]) -> list[str]:
    return {"qos": ["QOS urgent"], "account": ["account a"], "user_id": ["user 0"]}[next(iter(other))]


def test_a_cluster_without_limits_has_none() -> None:
    assert limits(["Current Association Manager state", "No association records", ""]) == ()
    assert limits(["QOS=x(1) GrpJobs=N(3) GrpTRES=cpu=N(2) Account Limits= User Limits="]) == ()


def test_run_minutes_are_limited_for_all_for_an_account_and_for_a_user() -> None:
    qos = (
        "QOS=urgent(2) GrpJobs=N(1) GrpTRESRunMins=cpu=N(60),node=90(30) "
        "Account Limits=a={MaxTRESPA=node=N(1) MaxTRESRunMinsPA=cpu=100(60)} "
        "User Limits=root(0)={MaxJobsPU=N(1) MaxTRESRunMinsPU=node=40(30)}"
    )
    account = "ClusterName=c Account=a UserName= Partition= GrpTRES=cpu=N(0) GrpTRESRunMins=node=500(0) "
    known = limits([qos, account])
    asked = replace(WAITS, limit_s=1800.0)
    assert set(quotas(asked, known)) == {
        Quota(name="node run minutes of QOS urgent", needs=60.0, left=60.0),
        Quota(name="cpu run minutes of QOS urgent, account a", needs=120.0, left=40.0),
        Quota(name="node run minutes of QOS urgent, user 0", needs=60.0, left=10.0),
        Quota(name="node run minutes of account a", needs=60.0, left=500.0),
    }
    assert quotas(replace(asked, limit_s=None), known) == ()


def test_what_is_over_its_limit_leaves_nothing() -> None:
    (one,) = limits(["QOS=x(1) GrpJobs=2(3) GrpTRES= Account Limits= User Limits="])
    assert one.left == {"jobs": 0.0}


def test_only_the_limits_of_the_jobs_are_asked_for() -> None:
    other = replace(WAITS, account="b", qos="fast")
    assert chosen((WAITS, other)) == "flags=assoc,qos users=root accounts=a,b qos=fast,urgent"


def test_names_that_cannot_be_asked_for_are_left_out() -> None:
    """A user may name an account as he likes where nothing checks it."""
    hostile = replace(WAITS, account="x\nshow config", qos="a,b flags=users")
    assert chosen((WAITS, hostile)) == "flags=assoc,qos users=root accounts=a qos=urgent"
    assert chosen((hostile,)) == ""
