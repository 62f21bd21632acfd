"""Host lists, as Slurm writes them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.adapters.hostlist import batch_host_first, expand, fold


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ("n1",)),
        ("n[1-3,7]", ("n1", "n2", "n3", "n7")),
        ("n[9-11]", ("n9", "n10", "n11")),
        ("n[08-11]", ("n08", "n09", "n10", "n11")),
        ("login,n[2-3]", ("login", "n2", "n3")),
        ("r[1-2]-n[1-2]", ("r1-n1", "r1-n2", "r2-n1", "r2-n2")),
        ("", ()),
        ("(null)", ()),
        ("None assigned", ()),
    ],
)
def test_expand(text: str, names: tuple[str, ...]) -> None:
    assert expand(text) == names


def test_zeros_that_run_out() -> None:
    """Slurm folds n08 ... n99, n100 into one range."""
    assert expand("n[98-101]") == ("n98", "n99", "n100", "n101")
    assert expand("n[098-1001]")[:2] == ("n098", "n099")
    assert expand("n[01-100]")[-2:] == ("n99", "n100")
    assert len(expand("n[01-100]")) == 100


@pytest.mark.parametrize(
    "text", ["n[1-", "n]", "n[3-1]", ",", "n1,,n2", "@all", "n[1-5]!n2", "n1 n2", "n*", "n[1-3]\n"]
)
def test_what_is_no_host_list(text: str) -> None:
    with pytest.raises(ValueError, match="no host list"):
        expand(text)


@pytest.mark.parametrize("text", ["n[1-999999999]", "n[0-99999999999999999999]", "n[1-1000]-[1-1000]"])
def test_what_no_cluster_has(text: str) -> None:
    with pytest.raises(ValueError, match="more than 131072 names"):
        expand(text)


def test_fold() -> None:
    assert fold(("n3", "n1", "n2", "n10")) == "n[1-3,10]"
    assert fold(("a", "a")) == "a"
    assert fold(()) == ""


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (("n1-ib", "n2-ib"), "n1-ib,n2-ib"),
        (("r1c1", "r2c1", "n1", "n2"), "n[1-2],r1c1,r2c1"),
        (("r1c1", "r1c2", "r2c1", "r2c2"), "r[1-2]c[1-2]"),
        (("r1c1n1", "r1c1n3", "r2c1n1", "r2c1n3"), "r[1-2]c1n[1,3]"),
        (("r1c1n1", "r1c2n1"), "r1c1n1,r1c2n1"),
        (("n1.x", "n2.x", "n10.x"), "n1.x,n2.x,n10.x"),
    ],
)
def test_no_text_follows_the_last_bracket(names: tuple[str, ...], folded: str) -> None:
    """22.05 calls `n[1-2]-ib` an invalid list."""
    assert fold(names) == folded
    assert set(expand(folded)) == set(names)


def test_a_list_is_no_longer_than_a_command_can_be() -> None:
    """24.11 and 26.05 take text after the last bracket."""
    names = [f"rack{number // 100:02}-node{number % 100:02}-ib" for number in range(8000)]
    assert fold(names) == "rack[00-79]-node[00-99]-ib"
    assert fold(names[:7000]) == ",".join(names[:7000])


@settings(deadline=None)
@given(st.sets(st.integers(0, 2000), min_size=1, max_size=60), st.integers(0, 4))
def test_folding_is_undone_by_expanding(numbers: set[int], width: int) -> None:
    names = {f"node{number:0{width}}" for number in numbers}
    assert set(expand(fold(names))) == names


def test_the_batch_host_comes_first() -> None:
    assert batch_host_first(("n1", "n2", "n3"), "n2") == ("n2", "n1", "n3")
    assert batch_host_first(("n1", "n2"), "n9") == ("n1", "n2")
    assert batch_host_first((), "n/a") == ()
