"""Adapters by entry point: makeway's own, an installed package's, and what is said about those that cannot be
used.
"""

import importlib.metadata
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
import yaml

from makeway.adapters.registry import UnknownAdapter, adapter_names, find_adapter
from makeway.daemon.config.load import effective, load, open_adapter
from makeway.daemon.config.yaml_file import ConfigError
from tests.adapters import adapter_package

MACHINE = "the name of a machine (in quotes, if it is meant as a name)"


def offer(monkeypatch: pytest.MonkeyPatch, **offered: str) -> None:
    """As if installed packages offered these adapters, and makeway its own."""
    own = importlib.metadata.entry_points(group="makeway.adapters")
    points = EntryPoints(
        (
            *own,
            *(
                EntryPoint(
                    name.replace("_", "-"), f"tests.adapters.adapter_package:{value}", "makeway.adapters"
                )
                for name, value in offered.items()
            ),
        )
    )
    monkeypatch.setattr("makeway.adapters.registry.entry_points", lambda **wanted: points.select(**wanted))


def written(folder: Path, text: str) -> Path:
    path = folder / "makeway.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["simulated", "slurm"])
def test_makeways_own_adapters_are_found(name: str) -> None:
    assert name in adapter_names()
    assert find_adapter(name).name == name


def test_an_unknown_adapter_is_answered_with_those_there_are() -> None:
    with pytest.raises(UnknownAdapter, match=r"there is no adapter 'slurmm'; accepted: .*simulated or slurm"):
        find_adapter("slurmm")


def test_an_adapter_of_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, packaged="PACKAGED")
    config = load(written(tmp_path, "mode: act\nadapter: {type: packaged, host: there}\n"))
    assert config.adapter is adapter_package.PACKAGED
    assert isinstance(config.settings.adapter, adapter_package.PackagedSettings)
    assert yaml.safe_load(effective(config))["adapter"] == {"type": "packaged", "host": "there"}
    connection = open_adapter(config.settings.adapter)
    assert connection.speed == 2.0
    assert len(connection.adapter.snapshot().nodes) == 2


def test_its_section_is_checked_with_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, packaged="PACKAGED")
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, "poll_interval_s: 0\nadapter:\n  type: packaged\n  hosd: there\n  host: 5\n"))
    assert [problem.removeprefix(f"{tmp_path}/makeway.yaml:") for problem in caught.value.problems] == [
        "1: poll_interval_s: 0 is not accepted; accepted: seconds from 0.1 to 3600",
        "4: adapter.hosd: unknown key; did you mean host?",
        f"5: adapter.host: 5 is not accepted; accepted: {MACHINE}",
    ]


def test_with_an_unknown_adapter_the_rest_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, "poll_interval_s: 0\nadapter:\n  kind: slurm\n  classes: []\n"))
    assert [problem.removeprefix(f"{tmp_path}/makeway.yaml:") for problem in caught.value.problems] == [
        f"2: adapter.type: this key is missing; accepted: {' or '.join(adapter_names())}",
        "1: poll_interval_s: 0 is not accepted; accepted: seconds from 0.1 to 3600",
    ]


def test_an_adapter_that_only_reads_refuses_mode_act(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, packaged="WATCHING")
    assert load(written(tmp_path, "adapter: {type: packaged}\n")).adapter is adapter_package.WATCHING
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, "adapter: {type: packaged}\nmode: act\n"))
    assert caught.value.problems == (
        (
            f"{tmp_path}/makeway.yaml:2: mode: act is not accepted: the adapter packaged only reads; "
            f"accepted: observe"
        ),
    )


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("text", "TEXT", r"TEXT\): accepted: a makeway.adapters.registry.AdapterType, not a str"),
        ("gone", "GONE", r"GONE\): AttributeError"),
        ("another", "PACKAGED", r"PACKAGED\): its name is 'packaged'; accepted: the entry point's"),
        ("bare", "BARE", r"BARE\): its section is not an AdapterSection"),
        ("other", "OTHER", r"OTHER\): the field `type` of its section accepts something else than its name"),
    ],
)
def test_an_adapter_that_is_of_no_use_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    offer(monkeypatch, **{name: value})
    with pytest.raises(UnknownAdapter, match=words):
        find_adapter(name)
    with pytest.raises(ConfigError, match=words):
        load(written(tmp_path, f"adapter: {{type: {name}}}\n"))


def test_no_package_takes_the_place_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, slurm="PACKAGED")
    with pytest.raises(
        UnknownAdapter, match=r"several packages offer the adapter slurm: makeway\.adapters.*, tests"
    ):
        find_adapter("slurm")
    assert adapter_names().count("slurm") == 1
