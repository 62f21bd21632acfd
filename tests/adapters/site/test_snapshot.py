"""A snapshot whose two commands have seen two clusters is no snapshot."""

import pytest

from makeway.adapters.protocol import Unreadable
from makeway.adapters.site.snapshot import check_whole
from tests.builders import cluster, running


def test_a_job_on_nodes_that_are_not_listed() -> None:
    with pytest.raises(Unreadable, match=r"job b holds nodes that are not listed, such as n3$") as caught:
        check_whole(cluster(2, running("a", ("n1",)), running("b", ("n2", "n4", "n3"))), ("squeue",))
    assert caught.value.text == "['n3', 'n4']"
    assert caught.value.command == ("squeue",)


def test_jobs_on_listed_nodes() -> None:
    check_whole(cluster(2, running("a", ("n1", "n2")), running("b", ("n2",))), ("squeue",))
