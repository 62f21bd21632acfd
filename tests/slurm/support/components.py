"""Urgent heterogeneous jobs of the stories."""

from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.story import URGENT, Story, held_last
from tests.waiting import await_that


def comes(story: Story, *components: str) -> list[str]:
    """An urgent heterogeneous job, by the options of its components. Returns their ids."""
    lines = [f"#SBATCH --time=30 --account=urgent {options}" for options in components]
    leader = story.world.cluster.submit("\n#SBATCH hetjob\n".join(lines) + f"\n{URGENT}")
    found = [f"{leader}+{number}" for number in range(len(components))]
    story.urgent += found
    return found


def one(story: Story, component: str, column: str) -> str:
    """One column of squeue for one component."""
    rows = story.ask("squeue", "-h", "--states=all", "-j", component, "-O", f"JobArrayID:32,{column}:64")
    found = dict(row.split(maxsplit=1) for row in rows.splitlines() if len(row.split()) > 1)
    return found.get(component, "").strip()


def start(story: Story, daemon: DaemonProcess, components: list[str]) -> list[set[str]]:
    """Wait until all components run, each on the nodes that were held for it. Returns these."""
    await_that(
        f"all of {components} run",
        lambda: all(one(story, component, "State") == "RUNNING" for component in components),
        story.explain(daemon),
        waits_s=daemon.start_within_s,
    )
    listed = [one(story, component, "NodeList") for component in components]
    nodes = [set(story.ask("scontrol", "show", "hostnames", names).split()) for names in listed]
    assert nodes == [held_last(daemon, component) for component in components]
    return nodes


def end(story: Story, components: list[str]) -> None:
    """The job ends with its first component, whose script it is."""
    story.ends(components[0].partition("+")[0])
