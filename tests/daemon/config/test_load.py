"""From a file to settings, or to one error that names every problem with its line."""

from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from makeway.adapters.registry import Connection
from makeway.adapters.site.sections import AdapterSection
from makeway.daemon.config.load import Config, effective, load, open_adapter, path_of
from makeway.daemon.config.mode import Mode
from makeway.daemon.config.schema import LimitsSettings, Settings, TimeoutSettings
from makeway.daemon.config.yaml_file import ConfigError
from makeway.daemon.errors import UserError
from makeway.daemon.operation.observation import Timeouts
from makeway.policies.contract import Policy
from makeway.policies.model import Cluster, Decision, Limits
from makeway.policies.none import NONE
from makeway.simharness.run.settings import SimulatedSettings
from tests.builders import cluster
from tests.fakes import FakeAdapter
from tests.paths import ROOT

MINIMAL = "adapter: {type: simulated}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """Settings of a policy for these tests."""

    start_within_s: float = 600.0
    tries: int = 2
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.tries > 9:
            raise ValueError(f"tries is {self.tries}; accepted: at most 9")


def decide(_cluster: Cluster, _config: Knobs) -> Decision:
    return Decision(policy="knobs")


KNOBS = Policy(name="knobs", summary="For tests.", config_type=Knobs, decide=decide)


def find(name: str) -> Policy[Any]:
    if name == "knobs":
        return KNOBS
    if name == "none":
        return NONE
    raise ValueError(f"unknown policy {name!r}; did you mean 'knobs'?")


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "makeway.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def read(folder: Path, text: str | bytes) -> Config:
    return load(write(folder, text), lambda name: KNOBS if name == "least-price" else find(name))


def problems(folder: Path, text: str | bytes) -> list[str]:
    """The problems of a file, without its folder."""
    with pytest.raises(ConfigError) as caught:
        read(folder, text)
    assert str(caught.value).splitlines() == list(caught.value.problems)
    return [problem.removeprefix(f"{folder}/") for problem in caught.value.problems]


def test_the_defaults_observe_and_stay_on_loopback(tmp_path: Path) -> None:
    config = read(tmp_path, MINIMAL)
    assert config.settings.mode is Mode.OBSERVE
    assert config.settings.metrics.host == "127.0.0.1"
    assert config.settings.limits.to_limits() == Limits()
    assert config.settings.timeouts.to_timeouts() == Timeouts()
    assert config.policy_config == Knobs()


def test_everything_that_is_said_arrives(tmp_path: Path) -> None:
    text = """
mode: act
adapter: {type: simulated, trace: kth.swf, nodes: 100, backfill: conservative, order: wfp, speed: 1e3, workload: null}
policy: {name: knobs, settings: {start_within_s: 60, tries: 3, names: [a, b]}}
poll_interval_s: 5
limits: {min_runtime_s: 300, evictions_per_hour: 4, protected_users: [root, alice]}
timeouts: {settle_s: 10}
journal: /var/lib/x/j.sqlite
socket: run/s.sock
log: {level: debug, format: console}
"""
    config = read(tmp_path, text)
    said = config.settings
    assert said.mode is Mode.ACT
    assert isinstance(said.adapter, SimulatedSettings)
    assert said.adapter.trace == str(tmp_path / "kth.swf")
    assert (said.adapter.nodes, said.adapter.speed, said.adapter.workload) == (100, 1000.0, None)
    assert config.policy is KNOBS
    assert config.policy_config == Knobs(start_within_s=60.0, tries=3, names=("a", "b"))
    assert said.limits.to_limits() == Limits(
        min_runtime_s=300.0, evictions_per_hour=4, protected_users=frozenset({"root", "alice"})
    )
    assert said.timeouts.to_timeouts() == Timeouts(settle_s=10.0)
    assert said.journal == Path("/var/lib/x/j.sqlite")
    assert said.socket == tmp_path / "run" / "s.sock"


def test_relative_paths_do_not_depend_on_where_the_daemon_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "etc", MINIMAL + "journal: j.sqlite\n")
    monkeypatch.chdir(tmp_path)
    first = load(Path("etc/makeway.yaml"), lambda _: KNOBS)
    monkeypatch.chdir(tmp_path / "elsewhere")
    second = load(Path("../etc/makeway.yaml"), lambda _: KNOBS)
    assert first.settings.journal == tmp_path / "etc" / "j.sqlite"
    assert second.settings.journal.resolve() == first.settings.journal


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("mode: fast", 'mode: "fast" is not accepted; accepted: observe (decide, log, touch nothing) or act'),
        ("mode: off", "mode: false is not accepted; accepted: observe (decide, log, touch nothing) or act"),
        ("moed: act", "moed: unknown key; did you mean mode?"),
        ("zzz: 1", "zzz: unknown key; accepted: adapter, backoff_max_s, commands_per_cycle, cycle_limit_s, "),
        ("poll_interval_s: 0", "poll_interval_s: 0 is not accepted; accepted: seconds from 0.1 to 3600"),
        ("poll_interval_s: -3", "poll_interval_s: -3 is not accepted"),
        ("poll_interval_s: 1e12", "poll_interval_s: 1000000000000.0 is not accepted"),
        ("poll_interval_s: '30'", 'poll_interval_s: "30" is not accepted; accepted: seconds from 0.1 to 3600'),
        ("poll_interval_s: true", "poll_interval_s: true is not accepted"),
        ("poll_interval_s: .nan", "poll_interval_s: nan is not accepted: a finite number is expected"),
        ("poll_interval_s: .inf", "poll_interval_s: inf is not accepted: a finite number is expected"),
        ("poll_interval_s:", "poll_interval_s: null is not accepted"),
        ("poll_interval_s: 2026-01-01", 'poll_interval_s: "2026-01-01" is not accepted'),
        ("metrics: {port: 99999}", "metrics.port: 99999 is not accepted; accepted: a port from 1 to 65535"),
        ("metrics: {prot: 1}", "metrics.prot: unknown key; did you mean port?"),
        ("metrics: {host: 0.0.0.0}", "metrics.host: 0.0.0.0 can be reached by other machines"),
        ("metrics: {host: example.org}", "metrics.host: 'example.org' is no IP address"),
        ("metrics: 9789", "metrics: 9789 is not accepted; accepted: a mapping with enabled, host, port"),
        ("limits: [1]", "limits: a list is not accepted; accepted: a mapping of limits"),
        ("limits: {max_nodes: -1}", "limits.max_nodes: -1 is not accepted; accepted: a whole number of nodes"),
        ("limits: {max_nodes: 1.5}", "limits.max_nodes: 1.5 is not accepted"),
        ("limits: {protected_users: root}", 'limits.protected_users: "root" is not accepted; accepted: a list of'),
        ("limits: {protected_users: [a, 7]}", "limits.protected_users.1: 7 is not accepted; accepted: a list of"),
        ("journal: ~/j", "journal: a path of a file is expected, without ~ and control characters, not '~/j'"),
        ("limits: {protected_accounts: [123]}", "limits.protected_accounts.0: 123 is not accepted; accepted: a list of names of accounts (in quotes, if"),
        ("hooks: {evicted: [mail, -q]}", "hooks.evicted: ['mail', '-q'] is not accepted; accepted: a list of words, the first"),
        ('journal: "a\\nb"', "journal: a path of a file is expected, without ~ and control characters"),
        ("journal: ''", "journal: a path of a file is expected"),
        (f"socket: /{'x' * 200}", "socket: the path of a socket may have 107 bytes, this one has 201"),
        ("leader: {lease_s: 5}", "leader.lease_s: 5 is not accepted; accepted: seconds from 30 to 3600, or null"),
        ("leader: {enabled: maybe}", 'leader.enabled: "maybe" is not accepted; accepted: true or false'),
        ("log: {level: loud}", 'log.level: "loud" is not accepted; accepted: debug, info, warning or error'),
        ("policy: {name: knops}", "policy.name: unknown policy 'knops'; did you mean 'knobs'?"),
        ("policy: {nam: knobs}", "policy.nam: unknown key; did you mean name?"),
        ("policy: {name: 7}", "policy.name: 7 is not accepted; accepted: the name of a policy"),
        ("policy: {settings: {start_within: 1}}", "policy.settings.start_within: unknown setting of the policy knobs; did"),
        ("policy: {settings: {start_within_s: -1}}", "policy.settings.start_within_s: -1 is not accepted; accepted: sec"),
        ("policy: {settings: {start_within_s: 1e12}}", "policy.settings.start_within_s: 1000000000000.0 is not"),
        ("policy: {settings: {start_within_s: soon}}", 'policy.settings.start_within_s: "soon" is not accepted; accepted: a n'),
        ("policy: {settings: {tries: 1.5}}", "policy.settings.tries: 1.5 is not accepted; accepted: a whole number"),
        ("policy: {settings: {names: a}}", 'policy.settings.names: "a" is not accepted; accepted: a list'),
        ("policy: {settings: {tries: 10}}", "policy.settings: tries is 10; accepted: at most 9"),
        ("policy: {settings: 4}", "policy.settings: 4 is not accepted; accepted: a mapping of the policy's own settings"),
        ("mode: &a observe\nlog: {level: *a}", "log.level: anchors and aliases are not accepted: write the value out"),
        ("<<: {mode: act}", "<<: unknown key; accepted: "),
        ("mode: !!python/name:os.system x", "mode: 'x' with the tag tag:yaml.org,2002:python/name:os.system is not"),
        ("mode: !!binary aGk=", "mode: the tag tag:yaml.org,2002:binary is not accepted: write a plain value"),
        ("7: x", "7: this key is not accepted: write a plain word"),
        ("? [a, b]\n: x", "?: this key is not accepted: write a plain word"),
        ('mode: "\\ud800"', "mode: this is not valid Unicode: half of a surrogate pair"),
        ('"\\ud800": 1', "\\ud800: this key is not accepted: write a plain word"),
        (f"poll_interval_s: 1{'0' * 400}", "poll_interval_s: 1000"),
        ("\"a\\eb\": 1", "a\\x1bb: unknown key"),
    ],
)  # fmt: skip
def test_every_problem_names_its_line_key_value_and_what_is_accepted(
    tmp_path: Path, line: str, expected: str
) -> None:
    (problem,) = problems(tmp_path, f"# a comment\n{MINIMAL}{line}\n")
    number = 4 if "\nlog" in line else 3
    assert problem.startswith(f"makeway.yaml:{number}: {expected}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "makeway.yaml:1: adapter: this key is missing; accepted: a mapping with the `type` of an adapter, such as"),
        ("# nothing\n", "makeway.yaml:1: adapter: this key is missing"),
        ("adapter: {type: slurmm}", 'makeway.yaml:1: adapter.type: "slurmm" is not accepted; accepted: pbs or simulated or slurm'),
        ("adapter: {type: [slurm]}", "makeway.yaml:1: adapter.type: a list is not accepted; accepted: pbs or simulated or slurm"),
        ("adapter: slurm", 'makeway.yaml:1: adapter: "slurm" is not accepted; accepted: a mapping with the `type` of'),
        ("adapter: {}", "makeway.yaml:1: adapter.type: this key is missing; accepted: pbs or simulated or slurm"),
        ("adapter: {type: simulated, speed: 0}", "makeway.yaml:1: adapter.speed: 0 is not accepted; accepted: simul"),
        (
            "adapter: {type: slurm, timeout_s: 60, classes: [{name: rt, qos: [rt]}]}\nleader: {lease_s: 100}",
            "makeway.yaml:2: leader.lease_s: 100 is too short for commands that may take adapter.timeout_s 60; accepted: at least 180",
        ),
        ("- a\n- b", "makeway.yaml:1: a mapping of settings is expected"),
        ("just text", "makeway.yaml:1: a mapping of settings is expected"),
        ("mode: [", "makeway.yaml:1: not YAML: "),
        ("a: b: c", "makeway.yaml:1: not YAML: mapping values are not allowed here; look here and above for a key "),
        ("mode act\nlog:\n", "makeway.yaml:2: not YAML: mapping values are not allowed here; look here and above for a "),
        ("mode: act\n\tmode: x", "makeway.yaml:2: not YAML: found character '\\t' that cannot start any token; in"),
        ("log:\n   a: 1\n  b: 2", "makeway.yaml:3: not YAML: expected <block end>, but found '<block mapping start>"),
        ("mode: 'act\n", "makeway.yaml:2: not YAML: found unexpected end of stream; a quote is opened and not clos"),
        (b"a: 1\nmode: \xff\xfe", "makeway.yaml:2: not utf-8: byte 0xff; save the file as UTF-8"),
        ("# é\na: 1\nmode: \0".encode(), "makeway.yaml:3: not YAML: the character 0x00 is not accepted"),
        (b"\x00\x01\x02", "makeway.yaml:1: not YAML: the character 0x00 is not accepted"),
        ("--- {}\n--- {}", "makeway.yaml:2: not YAML: but found another document; one document is expected: rem"),
        ("poll_interval_s: 010", "makeway.yaml:1: poll_interval_s: 010 is not accepted: YAML reads it as 8; leave "),
        ("[" * 50_000, "makeway.yaml: nested too deeply"),
        ("#" * (1 << 20) + "\n", "makeway.yaml: larger than 1048576 bytes"),
    ],
)  # fmt: skip
def test_files_that_are_no_configuration(tmp_path: Path, text: str | bytes, expected: str) -> None:
    (problem,) = problems(tmp_path, text)
    assert problem.startswith(expected)


def test_a_bandwidth_has_a_range_of_its_own(tmp_path: Path) -> None:
    text = "adapter: {type: simulated}\npolicy:\n  name: eviction\n  settings:\n    node_gb_s: 2.0e+6\n"
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, text))
    said = "policy.settings.node_gb_s: 2000000.0 is not accepted; accepted: GB per second from 0 to 1000000"
    assert str(caught.value).endswith(f"makeway.yaml:5: {said}")


def test_all_problems_are_told_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = """
pol_interval_s: 3
adapter:
  type: simulated
  nodes: 0
policy: {name: knobs, settings: {trys: 1}}
log:
  level: x
  format: y
"""
    found = [problem.split(": ")[:2] for problem in problems(tmp_path, text)]
    assert found == [
        ["makeway.yaml:2", "pol_interval_s"],
        ["makeway.yaml:5", "adapter.nodes"],
        ["makeway.yaml:6", "policy.settings.trys"],
        ["makeway.yaml:8", "log.level"],
        ["makeway.yaml:9", "log.format"],
    ]


def test_a_key_given_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    text = MINIMAL + "log:\n  level: info\n  level: debug\n"
    assert problems(tmp_path, text) == [
        "makeway.yaml:3: log.level: repeated at line 4; a key may be given once"
    ]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read: No such file or directory"):
        load(tmp_path / "absent.yaml", find)
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path, find)


def test_the_effective_settings_are_a_configuration_of_their_own(tmp_path: Path) -> None:
    first = read(tmp_path, MINIMAL + "limits: {protected_users: [b, a]}\npolicy: {settings: {tries: 4}}\n")
    text = effective(first)
    second = read(tmp_path, text.replace("name: knobs", "name: least-price"))
    assert second.settings.model_copy(update={"policy": None}) == first.settings.model_copy(
        update={"policy": None}
    )
    assert second.policy_config == first.policy_config == Knobs(tries=4)
    assert "protected_users:\n  - a\n  - b\n" in text


@pytest.mark.parametrize(("section", "record"), [(LimitsSettings, Limits), (TimeoutSettings, Timeouts)])
def test_sections_mirror_the_records_that_they_become(section: type[BaseModel], record: type[Any]) -> None:
    ours = {name: info.default for name, info in section.model_fields.items()}
    theirs = {field.name: field.default for field in fields(record)}
    assert MISSING not in theirs.values()
    assert ours == theirs


def test_the_sample_configuration_names_every_setting(tmp_path: Path) -> None:
    sample = ROOT / "deploy" / "makeway.yaml"
    config = load(sample)
    shown = yaml.safe_load(sample.read_text())
    assert keys(shown) == keys(yaml.safe_load(effective(config)))
    plain = load(write(tmp_path, MINIMAL))
    limits = {"min_runtime_s": 0.0, "evictions_per_hour": None, "evictions_per_job": None}
    same = config.settings.limits.model_copy(update=limits)
    ours = config.settings.model_copy(update={"limits": same, "policy": plain.settings.policy})
    assert ours == plain.settings
    assert config.policy_config == plain.policy_config


def keys(tree: object, at: str = "") -> set[str]:
    if not isinstance(tree, dict):
        return {at}
    return {key for name, value in tree.items() for key in keys(value, f"{at}.{name}")}


class ElsewhereSettings(AdapterSection):
    """Of an adapter that is not installed."""

    type: Literal["elsewhere"]


def test_adapters_are_opened_by_who_registered_for_their_type(tmp_path: Path) -> None:
    said = read(tmp_path, MINIMAL).settings.adapter
    adapter = FakeAdapter(cluster(1))
    assert open_adapter(said, {"simulated": lambda _: Connection(adapter=adapter)}).adapter is adapter
    with pytest.raises(UserError, match=r"adapter\.type: there is no adapter 'elsewhere'; accepted: .*slurm"):
        open_adapter(ElsewhereSettings(type="elsewhere"))


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=200)
@given(
    st.dictionaries(st.sampled_from(sorted(Settings.model_fields)) | st.text(max_size=8), TREES, max_size=5)
)
def test_any_tree_is_taken_or_refused_in_lines(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, object]
) -> None:
    text = yaml.safe_dump({"adapter": {"type": "simulated"}, **tree})
    taken_or_refused(tmp_path_factory.mktemp("any"), text.encode())


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=60) | st.text("{}[]:-,&*!|>'\"%@` \n\tab1", max_size=40).map(str.encode))
def test_any_text_is_taken_or_refused_in_lines(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    taken_or_refused(tmp_path_factory.mktemp("any"), text)


def taken_or_refused(folder: Path, text: bytes) -> None:
    try:
        read(folder, text)
        return
    except ConfigError as error:
        problems = error.problems
    assert problems
    assert all(problem.isprintable() for problem in problems)
    assert all(problem.startswith(f"{folder}/makeway.yaml") for problem in problems)


def test_a_working_directory_that_is_gone_is_one_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError, match=r"makeway\.yaml: cannot be read: No such file or directory"):
        load(Path("makeway.yaml"))


# One path of a file that cannot be used as a whole


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("adapter: {type: simulated}\nsocket: s.sock\n", "here"),
        ("mode: x\nsocket: s.sock\n", "here"),
        ("limitz: {}\nsocket: s.sock\n", "here"),
        ("log: {level: y}\n", "default"),
    ],
)
def test_a_path_is_read_from_a_file_with_other_mistakes(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "makeway.yaml"
    file.write_text(text)
    found = path_of(file, "socket", Path("/default"))
    assert found == {"here": tmp_path / "s.sock", "default": Path("/default")}[expected]


@pytest.mark.parametrize(
    "text", ["sockte: s.sock", "socket: 7", "socket: ~/s", "socket: [", "socket: a\nsocket: b"]
)
def test_a_path_that_the_file_may_mean_otherwise_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "makeway.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"makeway\.yaml:1: "):
        path_of(file, "socket", Path("/default"))
