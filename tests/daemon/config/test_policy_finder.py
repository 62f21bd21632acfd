"""Policies from files and from installed packages, and what is said of those that cannot be used."""

import importlib.util
import os
import py_compile
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
import yaml

from makeway.daemon.cli.main import run_cli
from makeway.daemon.config.load import effective, load
from makeway.daemon.config.policy_finder import find_policy
from makeway.daemon.config.yaml_file import ConfigError
from makeway.policies.registry import POLICIES, UnknownPolicy
from tests.paths import EXAMPLE_POLICY as EXAMPLE

OWN = """
from dataclasses import dataclass

from makeway.policies.eviction.policy import EVICTION
from makeway.policies.contract import Policy
from makeway.policies.model import Decision


@dataclass(frozen=True, kw_only=True)
class Settings:
    wait_s: float = 60.0


OWN = Policy(
    name="own",
    summary="Wants nothing.",
    config_type=Settings,
    decide=lambda cluster, config: Decision(policy="own"),
)
"""


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a policy file."""

    def write(text: str) -> Path:
        path = tmp_path / "own.py"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("name", POLICIES)
def test_our_own_policies_are_found_by_their_names(name: str) -> None:
    assert find_policy(name) is POLICIES[name]


def test_an_unknown_name_is_answered_as_ever() -> None:
    with pytest.raises(UnknownPolicy, match="did you mean 'eviction'"):
        find_policy("evction")


def test_a_policy_of_a_file(written: Callable[[str], Path], tmp_path: Path) -> None:
    path = written(OWN)
    assert find_policy(str(path)).name == "own"
    assert find_policy("own.py", tmp_path).config_type().wait_s == 60.0


def test_a_file_that_has_changed_is_read_again(written: Callable[[str], Path]) -> None:
    path = written(OWN)
    assert find_policy(str(path)).summary == "Wants nothing."
    written(OWN.replace("Wants nothing", "Wants as little as before"))
    assert find_policy(str(path)).summary == "Wants as little as before."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it defines none; accepted: exactly one Policy of makeway.policies.api"),
        ("from makeway.policies.eviction.policy import EVICTION", "it defines none"),
        (OWN + OWN.replace("OWN =", "TWO =").replace('"own",', '"two",'), "it defines own, two"),
        ("if True\n", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit: 3 (line 1)"),
        ("def limit() -> int:\n    raise KeyError('x')\nlimit()", "KeyError: 'x' (line 2)"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module' (line 1)"),
        (OWN.replace('name="own"', 'name="eviction"'), "its name is 'eviction'; accepted: lower-case words"),
        (OWN.replace('name="own"', 'name="My Own"'), "its name is 'My Own'"),
        (OWN.replace('name="own"', "name=5"), "its name is 5; accepted: lower-case words"),
        (OWN.replace("wait_s: float = 60.0", "wait_s: float"), "needs a default for every setting"),
        (OWN.replace("lambda cluster, config:", "lambda cluster:"), "its decide cannot be called"),
        (OWN.replace("decide=lambda", "decide=7, active=lambda"), "accepted: a function of"),
        (OWN.replace("config_type=Settings", "config_type=dict"), "its config_type is not a dataclass"),
    ],
)  # fmt: skip
def test_a_file_that_is_of_no_use_says_why(written: Callable[[str], Path], text: str, words: str) -> None:
    path = written(text)
    with pytest.raises(UnknownPolicy) as caught:
        find_policy(str(path))
    assert str(caught.value).startswith(f"policy file {path}: ")
    assert words in str(caught.value)


def test_a_file_that_cannot_be_looked_at_is_refused(tmp_path: Path) -> None:
    """As in a folder that this user may not enter."""
    name = "x" * 300 + ".py"
    words = f"it cannot be read: File name too long; accepted: a file that user {os.geteuid()} can read"
    with pytest.raises(UnknownPolicy, match=words):
        find_policy(name, tmp_path)
    (tmp_path / "makeway.yaml").write_text(f"adapter: {{type: simulated}}\npolicy: {{name: {name}}}\n")
    with pytest.raises(ConfigError, match=rf"makeway.yaml:2: policy.name: policy file .*: {words}"):
        load(tmp_path / "makeway.yaml")


def test_what_is_no_file_is_no_policy_file(tmp_path: Path) -> None:
    (tmp_path / "own.py").mkdir()
    (tmp_path / "file").touch()
    for name in ("file/own.py", "absent.py"):
        with pytest.raises(UnknownPolicy, match="there is no such file"):
            find_policy(name, tmp_path)
    with pytest.raises(UnknownPolicy, match="it is no file"):
        find_policy("own.py", tmp_path)
    for name in ("own.txt", "folder/own"):
        with pytest.raises(UnknownPolicy, match=rf"{name}': the name of a policy file ends in \.py"):
            find_policy(name, tmp_path)


MARKS = (
    OWN
    + """
from pathlib import Path
Path(__file__).with_name("was-run").touch()
"""
)


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_file_that_others_can_write_is_not_run(written: Callable[[str], Path], mode: int) -> None:
    path = written(MARKS)
    path.chmod(mode)
    with pytest.raises(UnknownPolicy, match=r"it is not run: other users can write .*own\.py: chmod go-w"):
        find_policy(str(path))
    assert not path.with_name("was-run").exists()
    path.chmod(0o644)
    assert find_policy(str(path)).name == "own"
    assert path.with_name("was-run").exists()


def test_check_config_does_not_run_it_either(
    written: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(MARKS)
    path.chmod(0o666)
    config = tmp_path / "makeway.yaml"
    config.write_text("adapter: {type: simulated}\npolicy: {name: own.py}\n")
    assert run_cli(["check-config", str(config)]) == 2
    assert "it is not run: other users can write" in capsys.readouterr().err
    assert not path.with_name("was-run").exists()


def test_compiled_code_next_to_the_file_is_not_run(written: Callable[[str], Path], tmp_path: Path) -> None:
    path = written(OWN)
    other = tmp_path / "other.py"
    other.write_text(OWN.replace('name="own"', 'name="evil"'))
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    size = max(path.stat().st_size, other.stat().st_size)
    for one in (path, other):
        one.write_text(one.read_text().ljust(size, "#"))
        os.utime(one, ns=times)
    compiled = importlib.util.cache_from_source(str(path))
    py_compile.compile(str(other), cfile=compiled, doraise=True)
    assert find_policy(str(path)).name == "own"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnknownPolicy, match=r"policy file .*gone\.py: there is no such file"):
        find_policy("gone.py", tmp_path)


def test_a_policy_of_an_installed_package(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints(
        [
            EntryPoint("good", "tests.daemon.config.policy_package:OWN", "makeway.policies"),
            EntryPoint("none", "tests.daemon.config.policy_package:TEXT", "makeway.policies"),
            EntryPoint("no-policy", "tests.daemon.config.policy_package:TEXT", "makeway.policies"),
            EntryPoint("gone", "tests.daemon.config.policy_package:GONE", "makeway.policies"),
        ]
    )
    monkeypatch.setattr(
        "makeway.daemon.config.policy_finder.entry_points", lambda **wanted: points.select(**wanted)
    )
    assert find_policy("good").name == "packaged"
    assert find_policy("none") is POLICIES["none"], "no file replaces one of makeway's policies"
    with pytest.raises(UnknownPolicy, match=r"policy_package:TEXT .* not a str"):
        find_policy("no-policy")
    with pytest.raises(UnknownPolicy, match=r"policy_package:GONE .* AttributeError"):
        find_policy("gone")


def test_a_configuration_names_a_file_next_to_it(written: Callable[[str], Path], tmp_path: Path) -> None:
    path = written(OWN)
    config = tmp_path / "makeway.yaml"
    config.write_text("adapter: {type: simulated}\npolicy: {name: own.py, settings: {wait_s: 5}}\n")
    found = load(config)
    assert (found.policy.name, found.policy_config.wait_s) == ("own", 5.0)
    assert yaml.safe_load(effective(found))["policy"]["name"] == str(path)


def test_the_example_is_found() -> None:
    assert find_policy(str(EXAMPLE)).name == "youngest"
