"""The page "An afternoon", from a plain Slurm to makeway and back, on a real Slurm. Prints how long each part
takes (`make afternoon`).
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.adapters.devcluster import cluster as devcluster
from makeway.adapters.devcluster import processes
from makeway.adapters.devcluster.cluster import DevClusterError, slurm_version
from tests.docs.walk import Step, Walk, steps

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
        try:
            yield folder
        finally:
            if (folder / CLUSTER).exists():
                devcluster.down(folder / CLUSTER)


@pytest.mark.slurm
def test_the_page_holds_from_top_to_bottom_and_nothing_of_makeway_is_left(folder: Path) -> None:
    kept = {key: value for key, value in os.environ.items() if key not in ("SLURM_CONF", "MAKEWAY_CONFIG")}
    with Walk(folder, kept | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}) as walk:
        for step in steps(PAGE):
            walk.take(step)
    for section, took_s in walk.took_s.items():
        print(f"{took_s:5.1f} s  {section}")
    print(f"{sum(walk.took_s.values()):5.1f} s  in all")
    assert [path.name for path in folder.iterdir() if path.suffix not in (".log", ".out")] == []
    assert processes.of_cluster(str(folder / CLUSTER)) == ()


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
