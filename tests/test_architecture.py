"""Which room may import which."""

import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from makeway.adapters.protocol import Adapter
from tests.paths import ROOT

FOLDERS = ("policies", "adapters", "daemon", "simharness")

_POLICY = (
    "policies.model",
    "policies.safety",
    "policies.queue",
    "policies.common",
    "policies.contract",
    "policies.choice",
    "policies.programme",
    "policies.joint",
    "policies.eviction",
)
_SLURM = ("policies.model", "adapters.protocol", "adapters.registry", "adapters.site", "adapters.command")
_POLICIES = ("policies",)
_DAEMON = ("policies", "adapters.protocol", "adapters.registry", "adapters.site", "daemon.errors")
_OPERATION = (*_POLICIES, "daemon.errors")
_ESTIMATE = (*_OPERATION, "daemon.operation")
_JOURNAL = (*_ESTIMATE, "daemon.estimate")
_CONFIG = (*_DAEMON, "daemon.operation")
_LEADER = (*_CONFIG, "daemon.estimate", "daemon.journal", "daemon.config")
_CONTROL = (*_LEADER, "daemon.leader")
_SERVICE = (*_CONTROL, "adapters.command", "daemon.control")
_INSPECT = (*_SERVICE, "daemon.service")
_CLI = (*_INSPECT, "daemon.inspect", "adapters.devcluster")
_ENGINE = ("policies", "adapters.protocol", "simharness.workloads")
_RUN = (*_ENGINE, "adapters.command", "adapters.registry", "adapters.site", "daemon", "simharness.engine")

ROOMS: Mapping[str, tuple[str, ...]] = {
    "policies.model": (),
    "policies.safety": ("policies.model",),
    "policies.common": ("policies.model", "policies.safety"),
    "policies.queue": ("policies.model",),
    "policies.choice": ("policies.model",),
    "policies.programme": ("policies.model", "policies.common"),
    "policies.joint": ("policies.model", "policies.safety", "policies.common", "policies.choice"),
    "policies.gate": ("policies.model", "policies.safety"),
    "policies.soundness": ("policies.model",),
    "policies.contract": ("policies.model", "policies.soundness"),
    "policies.api": _POLICY,
    "policies.none": _POLICY,
    "policies.eviction": _POLICY,
    "policies.hybrid": _POLICY,
    "policies.least_price": _POLICY,
    "policies.wcjs": _POLICY,
    "policies.horizon": _POLICY,
    "policies.ckpt_backfill": _POLICY,
    "policies.registry": ("policies",),
    "adapters.protocol": ("policies.model",),
    "adapters.registry": ("policies.model", "adapters.protocol", "adapters.site"),
    "adapters.command": ("adapters.protocol",),
    "adapters.hostlist": (),
    "adapters.site": ("policies.model", "adapters.protocol"),
    "adapters.slurm": (*_SLURM, "adapters.hostlist"),
    "adapters.pbs": _SLURM,
    "adapters.devcluster": ("adapters.protocol", "adapters.command"),
    "daemon.errors": ("adapters.site",),
    "daemon.operation": _OPERATION,
    "daemon.estimate": _ESTIMATE,
    "daemon.journal": _JOURNAL,
    "daemon.config": _CONFIG,
    "daemon.leader": _LEADER,
    "daemon.control": _CONTROL,
    "daemon.service": _SERVICE,
    "daemon.inspect": _INSPECT,
    "daemon.cli": _CLI,
    "daemon.page": (*_CLI, "daemon.cli"),
    "simharness.workloads": ("policies.model", "daemon.errors"),
    "simharness.engine": _ENGINE,
    "simharness.run": _RUN,
    "simharness.swarm": (*_RUN, "simharness.run"),
    "simharness.results": ("policies.model", "daemon.errors", "simharness.workloads", "simharness.engine"),
    "simharness.history": (
        *_RUN,
        "adapters.slurm",
        "simharness.run",
        "simharness.results",
        "simharness.papers.common",
    ),
    "simharness.sweep": (*_RUN, "simharness.run", "simharness.results", "simharness.papers.common"),
    "simharness.papers": ("policies", "daemon", "simharness"),
    "simharness.cli": ("policies", "daemon", "simharness"),
}
"""What each room, or module outside a room, may import besides itself."""


@dataclass(frozen=True)
class Import:
    """One imported name: the file, the line, and the module or the name in a module."""

    path: Path
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} imports {self.name}"


@cache
def imports_of(path: Path) -> tuple[Import, ...]:
    """Everything that a file imports, also inside functions; `from a import b` counts as a.b."""
    return tuple(_imports_of(path))


def _imports_of(path: Path) -> Iterator[Import]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(path, node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            assert node.module is not None
            for alias in node.names:
                yield Import(path, node.lineno, f"{node.module}.{alias.name}")


def sources(folder: str) -> list[Path]:
    """The Python files of a folder, sorted."""
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found, f"no sources in {folder}"
    return found


def dotted(path: Path) -> str:
    """The module of a file without `makeway.`: policies/model/cluster.py is policies.model.cluster."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> Mapping[str, Path]:
    """Every module of makeway, without `makeway.`, and its file."""
    return {dotted(path): path for folder in FOLDERS for path in sources(folder)}


def ours(name: str) -> str | None:
    """The module of makeway that an imported name is, or is in, without `makeway.`. None: it is not
    makeway's.
    """
    if not under(name, "makeway"):
        return None
    module = name.removeprefix("makeway.")
    while module not in modules():
        assert "." in module, name
        module = module.rpartition(".")[0]
    return module


def room_of(module: str) -> str:
    """The room of a module, or the module itself where it is in none."""
    return ".".join(module.split(".")[:2])


def under(module: str, prefix: str) -> bool:
    """Whether the module is the prefix or below it."""
    return module == prefix or module.startswith(prefix + ".")


def every_import() -> Iterator[tuple[str, Import, str]]:
    """Each import of a module of makeway by another one: the importing module, the import, the imported
    module.
    """
    for module, path in modules().items():
        for found in imports_of(path):
            target = ours(found.name)
            if target is not None and target != module:
                yield module, found, target


def test_every_room_has_its_rule() -> None:
    assert {room_of(module) for module in modules() if "." in module} <= ROOMS.keys()


def test_rooms_import_what_they_may() -> None:
    wrong = [
        str(found)
        for module, found, target in every_import()
        if "." in module
        and room_of(target) != room_of(module)
        and not any(under(target, ok) for ok in ROOMS[room_of(module)])
    ]
    assert wrong == []


def test_no_circles() -> None:
    graph: dict[str, set[str]] = {}
    for module, _, target in every_import():
        # A room's __init__ is imported with each of its modules; only the model's imports anything.
        if not under(module, target):
            graph.setdefault(module, set()).add(target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_private_names_stay_in_their_room() -> None:
    wrong = [
        str(found)
        for module, found, target in every_import()
        if room_of(module) != room_of(target) and any(part.startswith("_") for part in found.name.split("."))
    ]
    assert wrong == []


def test_the_parts_of_the_model_are_reached_through_it() -> None:
    files = [path for folder in (*FOLDERS, "tests", "bench", "docs") for path in sources(folder)]
    wrong = [
        str(found)
        for path in files
        if not under(dotted(path), "policies.model")
        for found in imports_of(path)
        if (target := ours(found.name)) is not None and under(target, "policies.model.")
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", [*FOLDERS, "tests", "bench", "docs"])
def test_no_folder_is_imported_by_its_bare_name(folder: str) -> None:
    wrong = [
        str(found)
        for path in sources(folder)
        for found in imports_of(path)
        if found.name.split(".")[0] in FOLDERS
    ]
    assert wrong == []


def test_the_model_imports_the_standard_library_alone() -> None:
    wrong = [
        str(found)
        for path in sources("policies/model")
        for found in imports_of(path)
        if found.name.split(".")[0] not in sys.stdlib_module_names
        and not under(found.name, "makeway.policies.model")
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_folder_itself_imports_nothing(folder: str) -> None:
    assert list(imports_of(ROOT / folder / "__init__.py")) == []


def applies_an_action(path: Path) -> list[str]:
    """Where a file calls, or takes hold of, an `apply`: in the daemon only adapters have one."""
    return [
        f"{path.name}:{node.lineno} {ast.unparse(node)}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "apply"
    ]


def test_only_the_executor_applies_actions() -> None:
    door = ROOT / "daemon" / "control" / "executor.py"
    assert len(applies_an_action(door)) == 1
    assert [found for path in sources("daemon") if path != door for found in applies_an_action(path)] == []


@pytest.mark.parametrize(
    "planted",
    [
        "self._adapter.apply(action)",
        "connection.adapter.apply(action)",
        "send = adapter.apply",
        "list(map(self._door.apply, actions))",
    ],
)
def test_a_second_door_is_found(tmp_path: Path, planted: str) -> None:
    source = tmp_path / "planted.py"
    source.write_text(f"def _act():\n    {planted}\n")
    assert len(applies_an_action(source)) == 1


def test_adapters_are_found_by_name() -> None:
    by_name = ("adapters.slurm", "adapters.pbs", "simharness")
    wrong = [
        str(found)
        for module, found, target in every_import()
        if under(module, "daemon") and any(under(target, one) for one in by_name)
    ]
    assert wrong == []


def test_pyslurm_is_loaded_by_a_program_of_its_own() -> None:
    """It is GPL-2.0-only, and it can end its process: no module of makeway imports it, or that program."""
    program = "adapters.slurm.reader.pyslurm_helper"
    own = {found.name.split(".")[0] for found in imports_of(modules()[program])}
    assert own <= sys.stdlib_module_names
    assert [str(found) for _, found, target in every_import() if target == program] == []
    naming = [
        name
        for name, path in modules().items()
        if "pyslurm" in {one.name.split(".")[0] for one in imports_of(path)}
    ]
    assert naming == []
    loading = [name for name, path in modules().items() if 'import_module("pyslurm")' in path.read_text()]
    assert loading == [program]


def test_an_adapter_has_one_way_to_act() -> None:
    assert {name for name in vars(Adapter) if not name.startswith("_")} == {
        "apply",
        "capabilities",
        "close",
        "snapshot",
    }


def test_every_room_is_packaged() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    rooms = {
        "makeway." + dotted(path) for folder in FOLDERS for path in sources(folder) if path.stem == "__init__"
    }
    assert set(tool["packages"]) == rooms | {"makeway.deploy"}
    for folder in FOLDERS:
        assert (ROOT / folder / "py.typed").is_file()
        assert {path.parent for path in sources(folder)} == {
            path.parent for path in sources(folder) if path.stem == "__init__"
        }
        link = ROOT / ".typing" / "makeway" / folder
        assert link.is_symlink()
        assert link.resolve() == ROOT / folder
