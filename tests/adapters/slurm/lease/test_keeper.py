"""For which user a lease is made: one that Slurm accepts where accounting asks for an account."""

import pytest

from makeway.adapters.protocol import Rejected
from makeway.policies.model import LeaderLease
from tests.adapters.slurm.fake_slurm import OK, Answer, FakeSlurm, adapter_of

LEASE = LeaderLease(term=1, mark=2, lasts_s=60.0)
NO_ACCOUNT: Answer = (
    *(1, ""),
    "Error creating the reservation: Invalid account or account/partition combination specified",
)
DUPLICATE: Answer = (1, "", "Error creating the reservation: Duplicate reservation name")


@pytest.fixture(autouse=True)
def as_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    """SlurmUser has no account."""
    monkeypatch.setattr("os.geteuid", lambda: 64030)


def users(*answers: Answer) -> tuple[list[str], Exception | None]:
    """The users of the leases that were tried, and how it failed."""
    slurm = FakeSlurm(script=answers)
    adapter = adapter_of(slurm)
    adapter.snapshot()
    failure = None
    try:
        adapter.create_lease(LEASE)
    except Rejected as error:
        failure = error
    return [word for argv in slurm.acts for word in argv if word.startswith("Users=")], failure


def test_a_lease_is_for_root() -> None:
    assert users(OK) == (["Users=0"], None)


def test_a_lease_is_for_its_own_user_where_root_has_no_account() -> None:
    assert users(NO_ACCOUNT, OK) == (["Users=0", "Users=64030"], None)


def test_a_lease_that_no_user_may_have_is_refused() -> None:
    tried, failure = users(NO_ACCOUNT, NO_ACCOUNT)
    assert tried == ["Users=0", "Users=64030"]
    assert failure is not None
    assert "Invalid account" in str(failure)


def test_another_refusal_is_final() -> None:
    tried, failure = users(DUPLICATE)
    assert tried == ["Users=0"]
    assert failure is not None


def test_root_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert users(NO_ACCOUNT)[0] == ["Users=0"]
