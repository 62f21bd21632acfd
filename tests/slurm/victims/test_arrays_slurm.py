"""Tasks of arrays that leave while other tasks of their array wait, on a real Slurm."""

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.story import (
    SAVES,
    WHOLE_NODES,
    Story,
    nothing_is_left,
    starts_on_the_held_nodes,
    works_again,
)

pytestmark = [pytest.mark.slurm, pytest.mark.any_release]

COUNTS_SIGNALS = SAVES.replace("announce() {", 'announce() {\n    echo >>"signals-$id"')


def test_a_task_is_signalled_once_while_other_tasks_wait(story: Story, start_daemon: StartDaemon) -> None:
    """Slurm signals the task and answers with an error; its client would signal it again and again."""
    array = story.submit(COUNTS_SIGNALS, 2, "saving", *WHOLE_NODES, "--array=0-2%1")
    story.submit("exec sleep 600", 6, "other")
    worker = f"{array}_0"
    story.works(worker)
    daemon = start_daemon()
    urgent = story.urgent_comes()
    starts_on_the_held_nodes(story, daemon, urgent)
    assert (story.work / f"signals-{worker}").read_text().count("\n") == 1
    story.ends(urgent)
    works_again(story, daemon, worker)
    nothing_is_left(story, daemon)
