"""The page "An afternoon", from a plain Slurm to makeway and back, on a real Slurm. Prints how long each part
takes (`make afternoon`, and in a clean Debian `make afternoon-clean`).
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.adapters.command import SEARCH_PATH
from makeway.adapters.devcluster import cluster as devcluster
from makeway.adapters.devcluster import processes
from makeway.adapters.devcluster.cluster import DevClusterError, slurm_version
from makeway.adapters.devcluster.conf import DevSpec
from makeway.adapters.devcluster.guard import guarded
from tests.docs.walk import Step, Walk, steps
from tests.slurm.support.accounted import accounted_cluster

PAGE = Path("docs/afternoon.md")
CLUSTER = "cluster"


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder with a short name, in which no cluster is left. Skips where no Slurm is installed."""
    try:
        slurm_version(None)
    except DevClusterError as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory(prefix="mw-page-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with guarded(folder / CLUSTER):
            try:
                yield folder
            finally:
                if (folder / CLUSTER).exists():
                    devcluster.down(folder / CLUSTER)


@pytest.mark.slurm
def test_the_page_holds_from_top_to_bottom_and_nothing_of_makeway_is_left(folder: Path) -> None:
    kept = {key: value for key, value in os.environ.items() if key not in ("SLURM_CONF", "MAKEWAY_CONFIG")}
    with Walk(folder, kept | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}) as walk:
        go(walk, steps(PAGE))
    assert left_in(folder) == []
    assert processes.of_cluster(str(folder / CLUSTER)) == ()


def test_the_page_holds_in_a_clean_debian_on_a_slurm_with_accounting() -> None:
    """There makeway is installed from its package and runs on a Slurm that it did not start, as the page says
    of a reader's own.
    """
    root = os.environ.get("MAKEWAY_CLEAN_DEBIAN")
    if not root:
        pytest.skip("`make afternoon-clean` makes the clean Debian that this test needs")
    partitions = (
        "PartitionName=batch Nodes=ALL Default=YES State=UP",
        "PartitionName=urgent Nodes=ALL PriorityTier=10 State=UP",
    )
    spec = DevSpec(node_count=4, root=root, partitions=partitions)
    with accounted_cluster(spec, lambda accounting: None) as cluster:
        folder = Path(tempfile.mkdtemp(prefix="mw-page-", dir=Path(root, "tmp")))
        inner = f"/{folder.relative_to(root)}"
        environment = {
            "PATH": SEARCH_PATH,
            "HOME": "/root",
            "SLURM_CONF": f"{cluster.inner_folder}/slurm.conf",
        }
        enter = ("unshare", "--mount", f"--root={root}", f"--wd={inner}", "--mount-proc=/proc")
        with Walk(folder, environment, enter) as walk:
            own = (step for step in steps(PAGE) if "devcluster" not in step.command)
            go(walk, (step for step in own if not step.command.startswith("export SLURM_CONF")))
        assert left_in(folder) == []
        assert [one for one in cluster.processes() if "makeway" in one.name] == []
        assert "COMPLETED" not in cluster.run("sacct", "-n", "-X", "-j", "1", "-o", "State")
        assert "CANCELLED" in cluster.run("sacct", "-n", "-X", "-j", "2", "-o", "State")


def go(walk: Walk, page: Iterator[Step]) -> None:
    """Take every step, and print how long each section took."""
    for step in page:
        walk.take(step)
    for section, took_s in walk.took_s.items():
        print(f"{took_s:5.1f} s  {section}")
    print(f"{sum(walk.took_s.values()):5.1f} s  in all")


def left_in(folder: Path) -> list[str]:
    """What is left besides the logs of the daemon and the output of jobs."""
    return [path.name for path in folder.iterdir() if path.suffix not in (".log", ".out")]


@pytest.mark.parametrize(
    ("shown", "printed", "met"),
    [
        ((), "anything", True),
        (("1 RUNNING",), "1 RUNNING\n", True),
        (("1 RUNNING",), "2 PENDING\n1 RUNNING\n", False),
        (("2 PENDING", "1 RUNNING"), "2 PENDING\n1 RUNNING\n", True),
        (("mode ... act...",), "version 1\nmode observe\n", False),
        (("...", "mode ... act", "..."), "version 1\nmode    act\ncycles 3\n", True),
        (("a+b",), "aab\n", False),
    ],
)
def test_what_a_command_prints_is_compared_with_the_page(
    shown: tuple[str, ...], printed: str, met: bool
) -> None:
    step = Step(section="1", command="squeue", shown=shown)
    assert step.is_met_by(printed) is met
