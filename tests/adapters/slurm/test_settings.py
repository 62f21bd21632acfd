"""The section that describes a Slurm: what it becomes, and what it refuses."""

from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from makeway.adapters.protocol import Unavailable
from makeway.adapters.site.class_sections import CheckpointSettings, JobClassSettings
from makeway.adapters.site.clock import SteadyClock
from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm.access import runner_of
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.adapters.slurm.entry_point import SLURM
from makeway.adapters.slurm.settings import SlurmAdapterSettings, SlurmSettings
from makeway.daemon.config.load import effective, load, open_adapter
from makeway.daemon.config.yaml_file import ConfigError
from makeway.policies.model import Acknowledgement, CheckpointSpec, JobKind, SignalTarget
from tests.adapters.slurm.fake_slurm import RUNNING, SETTINGS, FakeSlurm, adapter_of

EVERYTHING = """
adapter:
  type: slurm
  conf: slurm.conf
  bin_dir: /opt/slurm/bin
  timeout_s: 7
  classes:
  - name: urgent
    qos: [realtime]
    partitions: [rt, beamline]
    kind: on_demand
    start_within_s: 120
    setup_s: 5
  - name: elastic
    accounts: [ml]
    users: [ann, bob]
    features: [ib]
    words: [elastic]
    kind: malleable
    preemptible: true
    node_count_min: 2
  - name: saving
    preemptible: true
    checkpoint:
      interval_s: 3600
      application_s: 60
      system_s: 90
      signal: USR2
      signal_to: steps
      grace_s: 240
      acknowledgement: requeue
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "makeway.yaml"
    path.write_text(text)
    return path


def slurm(folder: Path, text: str) -> SlurmSettings:
    said = load(write(folder, text)).settings.adapter
    assert isinstance(said, SlurmAdapterSettings)
    return said.to_settings()


def test_everything_that_is_said_arrives(tmp_path: Path) -> None:
    assert slurm(tmp_path, EVERYTHING) == SlurmSettings(
        conf=str(tmp_path / "slurm.conf"),
        bin_dir="/opt/slurm/bin",
        timeout_s=7.0,
        classes=(
            JobClass(
                name="urgent",
                qos=frozenset({"realtime"}),
                partitions=frozenset({"rt", "beamline"}),
                kind=JobKind.ON_DEMAND,
                start_within_s=120.0,
                setup_s=5.0,
            ),
            JobClass(
                name="elastic",
                accounts=frozenset({"ml"}),
                users=frozenset({"ann", "bob"}),
                features=frozenset({"ib"}),
                words=frozenset({"elastic"}),
                kind=JobKind.MALLEABLE,
                preemptible=True,
                node_count_min=2,
            ),
            JobClass(
                name="saving",
                preemptible=True,
                checkpoint=CheckpointSpec(
                    interval_s=3600.0,
                    application_s=60.0,
                    system_s=90.0,
                    signal="USR2",
                    signal_to=SignalTarget.STEPS,
                    grace_s=240.0,
                    acknowledgement=Acknowledgement.REQUEUE,
                ),
            ),
        ),
    )


def test_the_defaults_opt_nobody_in(tmp_path: Path) -> None:
    assert slurm(tmp_path, "adapter: {type: slurm}\n") == SlurmSettings()
    (only,) = slurm(tmp_path, "adapter: {type: slurm, classes: [{name: all}]}\n").classes
    assert only == JobClass(name="all")
    assert not only.preemptible


@pytest.mark.parametrize(
    ("section", "record", "own"),
    [
        (SlurmAdapterSettings, SlurmSettings, {"type"}),
        (JobClassSettings, JobClass, set()),
        (CheckpointSettings, CheckpointSpec, set()),
    ],
)
def test_sections_mirror_the_records_that_they_become(
    section: type[BaseModel], record: type[Any], own: set[str]
) -> None:
    ours = {
        name: MISSING if info.is_required() else info.default
        for name, info in section.model_fields.items()
        if name not in own
    }
    seen_only = {"measured_count"}
    assert ours == {field.name: field.default for field in fields(record) if field.name not in seen_only}


def test_the_effective_settings_are_a_configuration_of_their_own(tmp_path: Path) -> None:
    first = load(write(tmp_path, EVERYTHING))
    text = effective(first)
    second = load(write(tmp_path, text))
    assert effective(second) == text
    assert second.settings.adapter == first.settings.adapter
    assert "    users:\n    - ann\n    - bob\n" in text


def test_a_slurm_is_opened_without_asking_it(tmp_path: Path) -> None:
    said = load(write(tmp_path, EVERYTHING)).settings.adapter
    connection = open_adapter(said, {})
    assert isinstance(connection.adapter, SlurmCliAdapter)
    assert connection.speed == 1.0
    assert isinstance(connection.now, SteadyClock), "no wait is over because the system clock was set"
    connection.adapter.close()


@pytest.mark.parametrize(
    ("line", "key", "expected"),
    [
        ("timeout_s: 0", "timeout_s", "0 is not accepted; accepted: seconds from 0.1 to 600"),
        ("timeout: 5", "timeout", "unknown key; did you mean timeout_s?"),
        ("trace: sample", "trace", "unknown key; did you mean instance?"),
        ("slurm: 1", "slurm", "unknown key; accepted: bin_dir, classes, conf, instance, placements, price, pyslurm_python, reader, sleeping_nodes, tell_jobs, timeout_s, type"),
        ("conf: ~/slurm.conf", "conf", "a path of a file is expected, without ~ and control characters"),
        ("bin_dir: /a:/b", "bin_dir", "one folder is expected, without a colon in its name"),
        ("classes: 7", "classes", "7 is not accepted; accepted: a list of mappings, each a class of jobs"),
        ("classes: [7]", "classes.0", "7 is not accepted; accepted: a list of mappings, each a class of jobs"),
        ("classes: [{}]", "classes.0.name", "this key is missing; accepted: a name of at most 64 letters"),
        ("classes: [{name: a b}]", "classes.0.name", '"a b" is not accepted; accepted: a name of at most 64'),
        ("classes: [{name: a}, {name: a}]", "classes", "2 classes are called a: each needs a name of its own"),
        ("classes: [{name: a}, {name: b}]", "classes", "class a has no condition, so that no job reaches the"),
        ("classes: [{name: a, knid: rigid}]", "classes.0.knid", "unknown key; did you mean kind?"),
        ("classes: [{name: a, kind: urgent}]", "classes.0.kind", '"urgent" is not accepted; accepted: rigid, mall'),
        ("classes: [{name: a, qos: x}]", "classes.0.qos", '"x" is not accepted; accepted: a list of names of QOS'),
        ("classes: [{name: a, qos: [x, 7]}]", "classes.0.qos.1", "7 is not accepted; accepted: a list of names of Q"),
        ("classes: [{name: a, qos: ['']}]", "classes.0.qos.0", '"" is not accepted; accepted: a list of names of Q'),
        ("classes: [{name: a, users: [' b']}]", "classes.0.users.0", '" b" is not accepted; accepted: a list of names'),
        ("classes: [{name: a, words: [makeway:x]}]", "classes.0.words", "'makeway:x' is never found: a word has small"),
        ("classes: [{name: a, kind: on_demand}]", "classes.0", "class a: without a condition every job would be of"),
        (
            "classes: [{name: a, kind: on_demand, qos: [x], preemptible: true}]",
            "classes.0",
            "class a: jobs of the kind on_demand are never touched: preemptible is false",
        ),
        ("classes: [{name: a, start_within_s: 60}]", "classes.0", "class a: start_within_s is for jobs of the kind on"),
        ("classes: [{name: a, node_count_min: 2}]", "classes.0", "class a: node_count_min is for jobs of the kind mal"),
        ("classes: [{name: a, checkpoint: {}}]", "classes.0.checkpoint", "system_s (the duration of a checkpoint that"),
        ("classes: [{name: a, checkpoint: 60}]", "classes.0.checkpoint", "60 is not accepted; accepted: a mapping with"),
        (
            "classes: [{name: a, checkpoint: {interval_s: 60, system_s: 1}}]",
            "classes.0.checkpoint",
            "interval_s needs application_s, the duration of a regular checkpoint",
        ),
        (
            "classes: [{name: a, checkpoint: {system_s: 400}}]",
            "classes.0.checkpoint",
            "grace_s is 300 and system_s is 400: a job may not be given less time than its checkpoint takes",
        ),
        (
            "classes: [{name: a, checkpoint: {system_s: 1, signal: KILL}}]",
            "classes.0.checkpoint.signal",
            '"KILL" is not accepted; accepted: USR1, USR2, HUP, INT',
        ),
        (
            "classes: [{name: a, checkpoint: {system_s: 1, sginal: USR1}}]",
            "classes.0.checkpoint.sginal",
            "unknown key; did you mean signal?",
        ),
        (
            "classes: [{name: a, checkpoint: {system_s: 1, acknowledgement: mail}}]",
            "classes.0.checkpoint.acknowledgement",
            '"mail" is not accepted; accepted: comment, requeue, exit or none',
        ),
        (
            "classes: [{name: a, checkpoint: {system_s: 1, signal_to: all}}]",
            "classes.0.checkpoint.signal_to",
            '"all" is not accepted; accepted: batch, steps or both',
        ),
    ],
)  # fmt: skip
def test_every_problem_names_its_line_key_value_and_what_is_accepted(
    tmp_path: Path, line: str, key: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, f"adapter:\n  type: slurm\n  {line}\n"))
    (problem,) = caught.value.problems
    assert problem.startswith(f"{tmp_path}/makeway.yaml:3: adapter.{key}: {expected}")


@pytest.mark.parametrize("key", ["bin_dir", "pyslurm_python"])
def test_root_runs_nothing_from_where_it_may_not_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """As on a file system over the network that does not take root for root."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    path = f"/tmp/{'x' * 300}"
    said = f"makeway.yaml:3: adapter.{key}: {path} cannot be looked at: File name too long; accepted: a path that"
    with pytest.raises(ConfigError, match=said):
        load(write(tmp_path, f"adapter:\n  type: slurm\n  {key}: {path}\n"))
    assert load(write(tmp_path, f"adapter:\n  type: slurm\n  {key}: /nonexistent\n"))


def test_the_line_is_that_of_the_item(tmp_path: Path) -> None:
    text = EVERYTHING.replace("kind: malleable", "kind: maleable").replace("signal: USR2", "signl: USR2")
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, text))
    assert [problem.split(":")[1:3] for problem in caught.value.problems] == [
        ["19", " adapter.classes.1.kind"],
        ["28", " adapter.classes.2.checkpoint.signl"],
    ]


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
NAMES = st.sampled_from(
    sorted(
        {*SlurmAdapterSettings.model_fields, *JobClassSettings.model_fields, *CheckpointSettings.model_fields}
    )
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)


@settings(deadline=None, max_examples=300)
@given(
    st.dictionaries(NAMES | st.text(max_size=8), TREES, max_size=4),
    # Three are enough: a class is checked alone, or against another class of the same name.
    st.lists(st.dictionaries(NAMES, TREES), max_size=3),
)
def test_any_tree_is_taken_or_refused_in_lines(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, object], classes: list[object]
) -> None:
    section = {"classes": classes, **tree, "type": "slurm"}
    path = write(tmp_path_factory.mktemp("any"), yaml.safe_dump({"adapter": section}))
    try:
        assert load(path).settings.adapter.adapter_name == "slurm"
        return
    except ConfigError as error:
        problems = error.problems
    assert problems
    assert all(problem.isprintable() for problem in problems)
    assert all(problem.startswith(f"{path}:") and ": adapter" in problem for problem in problems)


def test_slurm_conf_of_the_environment_counts_unless_the_configuration_names_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLURM_CONF", "/srv/slurm.conf")
    assert SlurmAdapterSettings(type="slurm").to_settings().conf == "/srv/slurm.conf"
    named = SlurmAdapterSettings(type="slurm", conf=Path("/etc/slurm/slurm.conf"))
    assert named.to_settings().conf == "/etc/slurm/slurm.conf"
    monkeypatch.setenv("SLURM_CONF", "")
    assert SlurmAdapterSettings(type="slurm").to_settings().conf is None


def test_a_reload_takes_classes_over_and_reports_what_it_cannot() -> None:
    section = SlurmAdapterSettings(type="slurm", timeout_s=7)
    adopt = SLURM.open(section).adopt
    assert adopt is not None
    classes = (JobClassSettings(name="all", preemptible=True),)
    assert adopt(section.model_copy(update={"classes": classes}))
    assert not adopt(section.model_copy(update={"classes": classes, "timeout_s": 8.0}))


def test_other_classes_count_from_the_next_snapshot_on() -> None:
    adapter = adapter_of(FakeSlurm(RUNNING))
    assert [job.preemptible for job in adapter.snapshot().jobs] == [True]
    adapter.use_classes(SETTINGS.classes[:1])
    assert [job.preemptible for job in adapter.snapshot().jobs] == [False]


def test_a_slurm_that_is_not_where_the_site_says_is_named(tmp_path: Path) -> None:
    """No command is run: the usual folders may have the commands of another Slurm."""
    conf, runner = tmp_path / "slurm.conf", FakeSlurm()
    by_conf = SlurmCliAdapter(replace(SETTINGS, conf=str(conf)), runner=runner)
    by_folder = SlurmCliAdapter(replace(SETTINGS, conf=str(conf), bin_dir=str(tmp_path)), runner=runner)
    with pytest.raises(Unavailable, match=f"adapter.conf, or SLURM_CONF: there is no {conf}$"):
        by_conf.snapshot()
    with pytest.raises(Unavailable, match=f"adapter.bin_dir: {tmp_path} has no scontrol that can be run$"):
        by_folder.snapshot()
    assert runner.calls == []
    conf.touch()
    by_conf.snapshot()
    conf.unlink()
    (tmp_path / "scontrol").touch(mode=0o755)
    by_folder.snapshot()  # its commands may see other files than makeway does


@pytest.mark.parametrize("conf", [None, "/etc/slurm/slurm.conf"])
def test_only_the_jobs_of_this_cluster_are_listed(conf: str | None) -> None:
    """Also in a federation whose FederationParameters have fed_display."""
    said = runner_of(SlurmSettings(classes=SETTINGS.classes, conf=conf)).environment
    assert {"SQUEUE_LOCAL", "SCONTROL_LOCAL"} <= said.keys()
    assert said.get("SLURM_CONF") == conf
