"""An urgent job that its user cancels and submits again while another job saves its work for it."""

from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.story import (
    URGENT,
    WHOLE_NODES,
    Story,
    nothing_is_left,
    starts_on_the_held_nodes,
    works_again,
)
from tests.waiting import await_that

OPTIONS = {"shared": WHOLE_NODES, "exclusive": ("--exclusive", "--time=30")}


def sent(daemon: DaemonProcess, *verbs: str) -> list[tuple[str, str, str]]:
    """The answered commands of these kinds: each with its job, and the urgent job."""
    answered = [command.action for command in daemon.commands() if command.outcome is not None]
    actions = [action for action in answered if action.verb in verbs]
    return [(action.verb, action.job_id, action.for_job_id) for action in actions]


def submitted(story: Story, options: tuple[str, ...]) -> str:
    """Submit an urgent job of two nodes."""
    story.urgent.append(story.submit(URGENT, 2, "urgent", *options))
    return story.urgent[-1]


def leaves_for_the_other(
    story: Story, daemon: DaemonProcess, lender: str, first: str, second: str, *, hold_of: str
) -> None:
    """The lender, asked once, leaves for the second urgent job, and works again after that. No other job
    leaves. `hold_of`: the urgent job that the hold of the second one is named after.
    """
    await_that(
        "the hold is for the second job",
        lambda: story.field(second, "Reservation").endswith(f".{hold_of}"),
        story.explain(daemon),
    )
    story.may_save()
    starts_on_the_held_nodes(story, daemon, second)
    assert sent(daemon, "checkpoint") == [("checkpoint", lender, first)]
    assert set(sent(daemon, "requeue")) == {("requeue", lender, second)}
    story.ends(second)
    works_again(story, daemon, lender)
    nothing_is_left(story, daemon)
    assert story.lenders() == [lender]
    assert all(map(story.runs, story.workers))
