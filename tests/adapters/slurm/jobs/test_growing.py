"""Jobs that grow, on scripted answers; `tests/slurm` proves it on a real Slurm."""

import pytest

from makeway.adapters.protocol import Rejected, Unsupported
from makeway.adapters.slurm import build
from makeway.adapters.slurm.access import SlurmClient
from makeway.adapters.slurm.settings import SlurmSettings
from makeway.policies.model import VERBS
from tests import acts
from tests.adapters.slurm.fake_slurm import OK, RUNNING, Answer, FakeSlurm, adapter_of


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)


GRANTED: Answer = (0, "", "salloc: Granted job allocation 44\n")
JOB = SlurmClient(SlurmSettings(classes=()), FakeSlurm(RUNNING)).running("17")
ALLOCATE = build.allocate_expander(JOB, ("n3",), reservation="mw_1")


@pytest.mark.usefixtures("as_root")
def test_growing() -> None:
    slurm = FakeSlurm(RUNNING, script=(OK, GRANTED))
    adapter = adapter_of(slurm)
    assert adapter.capabilities.actions == VERBS
    adapter.apply(acts.expand("17", nodes=("n2", "n3"), reservation="mw_1"))
    assert slurm.acts == [build.admit("mw_1", "1000"), ALLOCATE, build.merge_expander("44")]


@pytest.mark.usefixtures("as_root")
def test_growing_to_nodes_whose_hold_was_released_meanwhile() -> None:
    gone = (1, "", "slurm_update error: Requested reservation is invalid")
    slurm = FakeSlurm(RUNNING, script=(gone, GRANTED))
    adapter_of(slurm).apply(acts.expand("17", nodes=("n3",), reservation="mw_1"))
    free = build.allocate_expander(JOB, ("n3",), reservation=None)
    assert slurm.acts == [build.admit("mw_1", "1000"), free, build.merge_expander("44")]


@pytest.mark.usefixtures("as_root")
def test_growing_out_of_a_hold_that_admits_nobody_is_refused() -> None:
    slurm = FakeSlurm(RUNNING, script=((1, "", "slurm_update error: Access/permission denied"),))
    with pytest.raises(Rejected, match="denied"):
        adapter_of(slurm).apply(acts.expand("17", nodes=("n3",), reservation="mw_1"))
    assert slurm.acts == [build.admit("mw_1", "1000")]


@pytest.mark.usefixtures("as_root")
def test_an_allocation_that_cannot_be_merged_is_cancelled() -> None:
    slurm = FakeSlurm(RUNNING, script=(OK, GRANTED, (1, "", "Unspecified error for job 44")))
    with pytest.raises(Rejected, match="Unspecified error"):
        adapter_of(slurm).apply(acts.expand("17", nodes=("n3",), reservation="mw_1"))
    assert slurm.acts[-1] == build.cancel("44")


@pytest.mark.usefixtures("as_root")
def test_growth_for_which_there_are_no_nodes_is_refused() -> None:
    """Until now it counted as a command without an answer, of which five stop makeway for an hour."""
    waited = (
        "salloc: Pending job allocation 44\nsalloc: job 44 queued and waiting for resources\nsalloc: error: "
        "Unable to allocate resources: Connection timed out\n"
    )
    slurm = FakeSlurm(RUNNING, script=(OK, (1, "", waited)))
    with pytest.raises(Rejected, match="queued and waiting") as refused:
        adapter_of(slurm).apply(acts.expand("17", nodes=("n3",), reservation="mw_1"))
    assert not refused.value.retryable
    assert slurm.acts == [build.admit("mw_1", "1000"), ALLOCATE]


@pytest.mark.usefixtures("as_root")
def test_growth_on_a_cluster_that_takes_no_more_jobs_is_refused() -> None:
    """salloc would try again for two minutes, in which makeway could do nothing."""
    full = "salloc: error: Slurm job queue full, sleeping and retrying.\n"
    slurm = FakeSlurm(RUNNING, script=(OK, (-9, "", full)))
    with pytest.raises(Rejected, match="job queue full") as refused:
        adapter_of(slurm).apply(acts.expand("17", nodes=("n3",), reservation="mw_1"))
    assert not refused.value.retryable
    assert slurm.acts == [build.admit("mw_1", "1000"), ALLOCATE]
    assert [one for one in slurm.untils if one in full]


@pytest.mark.usefixtures("as_root")
def test_an_allocation_that_was_left_over_is_used() -> None:
    """Its maker died, or was not heard, between the allocation and the merge."""
    left = RUNNING | {"JobArrayID": "43", "Name": build.EXPANDER_NAME, "BatchFlag": "0", "NodeList": "n3"}
    slurm = FakeSlurm(RUNNING, left)
    adapter_of(slurm).apply(acts.expand("17", nodes=("n3",), reservation=None))
    assert slurm.acts == [build.merge_expander("43")]


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize(
    "changes",
    [{"BatchFlag": "1"}, {"Name": "other"}, {"UserID": "4242"}, {"State": "PENDING"}, {"NodeList": "n[3-4]"}],
)
def test_no_other_job_is_merged(changes: dict[str, str]) -> None:
    """A user may give a job the name of one of makeway's allocations."""
    left = RUNNING | {"JobArrayID": "43", "Name": build.EXPANDER_NAME, "BatchFlag": "0", "NodeList": "n3"}
    slurm = FakeSlurm(RUNNING, left | changes, script=(GRANTED,))
    adapter_of(slurm).apply(acts.expand("17", nodes=("n3",), reservation=None))
    assert slurm.acts[-1] == build.merge_expander("44")


@pytest.mark.usefixtures("as_root")
def test_growing_to_nodes_that_it_has_is_nothing() -> None:
    slurm = FakeSlurm(RUNNING)
    adapter_of(slurm).apply(acts.expand("17", nodes=("n2",), reservation=None))
    assert slurm.acts == []


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("release", ["25.11.0-rc1", "25.11.0", "25.11.7", "25.11.99", "26.05.0", "26.05.4"])
def test_no_job_grows_where_slurmctld_would_end(release: str) -> None:
    assert adapter_of(FakeSlurm(RUNNING, release=release)).capabilities.actions == VERBS - {"expand"}


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("release", ["24.11.5", "25.05.5", "26.05.5", "26.11.0"])
def test_jobs_grow_on_the_releases_around(release: str) -> None:
    assert adapter_of(FakeSlurm(RUNNING, release=release)).capabilities.actions == VERBS


@pytest.mark.usefixtures("as_root")
def test_no_job_grows_after_slurmctld_was_replaced_by_a_release_that_would_end() -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm)
    assert "expand" in adapter.snapshot().actions
    slurm.release = "25.11.7"
    with pytest.raises(Unsupported):
        adapter.apply(acts.expand("17", nodes=("n3",), reservation=None))
    assert slurm.acts == []
    assert "expand" not in adapter.snapshot().actions


@pytest.mark.parametrize("lacks", ["permission", "release", "root"])
def test_where_jobs_cannot_grow(lacks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000 if lacks == "root" else 0)
    slurm = FakeSlurm(RUNNING, release="22.05.8" if lacks == "release" else "24.11.5")
    slurm.parameters = "(null)" if lacks == "permission" else slurm.parameters
    adapter = adapter_of(slurm)
    assert adapter.capabilities.actions == VERBS - {"expand"}
    assert adapter.snapshot().actions == VERBS - {"expand"}
    with pytest.raises(Unsupported):
        adapter.apply(acts.expand("17", nodes=("n3",), reservation=None))
