"""Urgent heterogeneous jobs on a real Slurm: room is made for all components or for none."""

from collections.abc import Iterator
from typing import Literal

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.components import comes, end, one, start
from tests.slurm.support.daemon import DaemonProcess, Killing
from tests.slurm.support.neighbours import shares, waits_and_none_leaves
from tests.slurm.support.story import (
    SAVES,
    URGENT,
    Story,
    nothing_is_left,
    works_again,
)
from tests.slurm.support.world import slurm_settings
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.any_release]

ALL_CORES = ("--ntasks-per-node=8", "--time=30")


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """Six nodes of eight cores, which jobs may share, in three partitions; the last two have GPUs."""
    spec = DevSpec(
        node_count=6,
        cpus_per_node=8,
        gpus={"n5": "a100:4", "n6": "a100:4"},
        root=slurm_root,
        settings=slurm_settings(Licenses="fluent:1"),
        partitions=(
            "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
            "PartitionName=small Nodes=n[1-2] MaxTime=INFINITE State=UP",
            "PartitionName=whole Nodes=n[1-6] OverSubscribe=EXCLUSIVE MaxTime=INFINITE State=UP",
        ),
    )
    with dev_cluster(spec) as cluster:
        yield cluster


def fill(story: Story, *options: str) -> list[str]:
    """A worker with each node, in the order of the nodes; the first one has these options as well."""
    workers = [
        story.submit(SAVES, 1, "saving", *ALL_CORES, f"--nodelist={node}", *(options if node == "n1" else ()))
        for node in story.world.nodes
    ]
    story.works(*workers)
    return workers


def no_eviction_before_the_last_hold(daemon: DaemonProcess) -> None:
    verbs = [command.action.verb for command in daemon.commands()]
    last_hold = max(index for index, verb in enumerate(verbs) if verb == "reserve")
    leave = [index for index, verb in enumerate(verbs) if verb in {"checkpoint", "requeue", "cancel"}]
    assert leave
    assert min(leave) > last_hold


def test_exactly_the_needed_jobs_leave_and_all_components_start(
    story: Story, start_daemon: StartDaemon
) -> None:
    """The first component could also use the nodes of the second: each gets its own."""
    workers = fill(story)
    daemon = start_daemon()
    components = comes(
        story, "--nodes=2 --ntasks-per-node=8", "--nodes=1 --ntasks-per-node=8 --partition=small"
    )
    first, second = start(story, daemon, components)
    assert (len(first), len(second)) == (2, 1)
    assert second < {"n1", "n2"}
    left = {workers[story.world.nodes.index(node)] for node in first | second}
    assert set(story.lenders()) == left
    no_eviction_before_the_last_hold(daemon)
    assert all(story.runs(job) for job in workers if job not in left)
    end(story, components)
    works_again(story, daemon, *left)
    nothing_is_left(story, daemon)


def test_components_on_whole_nodes_and_on_parts_of_others(story: Story, start_daemon: StartDaemon) -> None:
    """One needs a node of its own, the other two of the GPUs of a node, on which a neighbour runs on."""
    stays = [
        story.submit("exec sleep 1000", 1, "other", *ALL_CORES, f"--nodelist={node}")
        for node in ("n1", "n2", "n3", "n6")
    ]
    whole = shares(story, "n4", "--ntasks=8", "--time=30")
    users = [shares(story, "n5", "--ntasks=2", "--gres=gpu:2", "--time=30") for _ in range(2)]
    daemon = start_daemon()
    components = comes(
        story, "--nodes=1 --ntasks-per-node=8 --partition=whole", "--nodes=1 --ntasks=2 --gres=gpu:1"
    )
    assert start(story, daemon, components) == [{"n4"}, {"n5"}]
    no_eviction_before_the_last_hold(daemon)
    lenders = set(story.lenders())
    assert whole in lenders
    assert len(lenders & set(users)) == 1
    assert lenders < {whole, *users}
    assert all(story.state(job) == "RUNNING" for job in stays)
    end(story, components)
    works_again(story, daemon, *lenders)
    nothing_is_left(story, daemon)


def test_room_is_found_that_no_order_of_the_components_finds(story: Story, start_daemon: StartDaemon) -> None:
    """Whichever of the first two came first would take both nodes of one job; each needs one of them."""
    stays = story.submit("exec sleep 1000", 1, "other", *ALL_CORES, "--nodelist=n6")
    workers = [
        story.submit(SAVES, len(names), "saving", *ALL_CORES, f"--nodelist={','.join(names)}")
        for names in (("n1", "n4"), ("n2", "n3", "n5"))
    ]
    story.works(*workers)
    daemon = start_daemon()
    whole = "--ntasks-per-node=8"
    components = comes(
        story, f"--nodes=2 {whole} -x n[3,5-6]", f"--nodes=2 {whole} -x n[2,5-6]", f"--nodes=1 {whole} -x n6"
    )
    first, second, third = start(story, daemon, components)
    assert ("n2" in first, "n3" in second, third) == (True, True, {"n5"})
    no_eviction_before_the_last_hold(daemon)
    assert set(story.lenders()) == set(workers)
    assert story.state(stays) == "RUNNING"
    end(story, components)
    works_again(story, daemon, *workers)
    nothing_is_left(story, daemon)


def test_no_job_leaves_if_one_component_cannot_be_served(story: Story, start_daemon: StartDaemon) -> None:
    """Its only partition is full of jobs that may not leave. When one ends, the job is served."""
    stays = [story.submit(URGENT, 1, "other", *ALL_CORES, "--partition=small") for _ in range(2)]
    story.works(
        *[
            story.submit(SAVES, 1, "saving", *ALL_CORES, f"--nodelist={node}")
            for node in ("n3", "n4", "n5", "n6")
        ]
    )
    daemon = start_daemon()
    components = comes(
        story, "--nodes=1 --ntasks-per-node=8", "--nodes=1 --ntasks-per-node=8 --partition=small"
    )
    await_that(
        "it is explained which component finds no room",
        lambda: f"there is none for {components[1]}" in daemon.run("explain", "last").stdout,
        story.explain(daemon),
    )
    cycles = daemon.status()["cycles"]
    await_that("more cycles pass", lambda: daemon.status()["cycles"] >= cycles + 4, daemon.log)
    assert all(one(story, component, "State") == "PENDING" for component in components)
    assert all(story.runs(job) and not story.restarts(job) for job in story.workers)
    assert {command.action.verb for command in daemon.commands()} <= {"prioritise"}
    assert story.reservations() == []
    story.ends(stays[0])
    first, second = start(story, daemon, components)
    assert second < {"n1", "n2"}
    assert len(story.lenders()) == 1
    assert first < {"n3", "n4", "n5", "n6"}
    end(story, components)
    works_again(story, daemon, *story.lenders())
    nothing_is_left(story, daemon)


@pytest.mark.parametrize(
    "when",
    [
        pytest.param("before", marks=pytest.mark.one_release(on="22.05")),
        pytest.param("after", marks=pytest.mark.one_release(on="24.11")),
    ],
)
def test_the_daemon_is_killed_at_every_step(
    story: Story, start_daemon: StartDaemon, when: Literal["before", "after"]
) -> None:
    """Between two holds, between a hold and an eviction, while it gives back: the end is the same."""
    workers = fill(story)
    daemon = start_daemon(killing=Killing(target="daemon", when=when))
    with daemon.restarted():
        components = comes(story, "--nodes=1 --ntasks-per-node=8", "--nodes=1 --ntasks-per-node=8 -p small")
        first, second = start(story, daemon, components)
        left = {workers[story.world.nodes.index(node)] for node in first | second}
        end(story, components)
        works_again(story, daemon, *left, once=False)
        nothing_is_left(story, daemon)
    assert {job: story.restarts(job) for job in workers} == {job: int(job in left) for job in workers}
    no_eviction_before_the_last_hold(daemon)
    binding = {f"scontrol_update_JobId_{component}_ReservationName" for component in components}
    assert daemon.steps() >= {step.replace("+", "_") for step in binding}


@pytest.mark.one_release(on="24.11")
@pytest.mark.parametrize(
    ("components", "why"),
    [
        (("--nodes=1", "--nodes=1 --hold"), "its release from a hold"),
        (("--nodes=1 --licenses=fluent:1", "--nodes=1"), "a licence (fluent"),
        (("--nodes=1", "--nodes=1 --account=other"), "its other components, not all of which are urgent"),
    ],
)
def test_no_job_leaves_if_one_component_waits_for_something_else(
    story: Story, start_daemon: StartDaemon, components: tuple[str, ...], why: str
) -> None:
    fill(story, "--licenses=fluent:1")
    daemon = start_daemon()
    leader = comes(story, *components)[0].partition("+")[0]
    waits_and_none_leaves(story, daemon, leader, why)
