"""The configuration files of a development cluster."""

from pathlib import PurePosixPath

import pytest

from makeway.adapters.devcluster.conf import DevSpec, cgroup_conf, gres_conf, slurm_conf, topology_conf


def settings_of(spec: DevSpec, *, address: str | None = "127.0.0.1") -> dict[str, str]:
    """The settings of slurm.conf, the node lines by the node's name."""
    ports = range(20000, 20001 + spec.node_count)
    text = slurm_conf(
        spec, folder=PurePosixPath("/srv/dev"), host="h", address=address, user="u", ports=ports
    )
    lines = dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("NodeName="))
    nodes = dict(line.split(" ", 1) for line in text.splitlines() if line.startswith("NodeName="))
    assert len(text.splitlines()) == len(lines) + len(nodes)
    return lines | nodes


def test_everything_is_in_the_folder_and_on_loopback() -> None:
    settings = settings_of(DevSpec(node_count=2))
    assert settings["SlurmctldHost"] == "h(127.0.0.1)"
    assert settings["CommunicationParameters"] == "NoInAddrAny,NoCtldInAddrAny"
    assert settings["NodeName=n1"].startswith("NodeAddr=127.0.0.1 NodeHostname=h Port=20001 ")
    assert settings["NodeName=n2"].startswith("NodeAddr=127.0.0.1 NodeHostname=h Port=20002 ")
    paths = {key: value for key, value in settings.items() if value.startswith("/")}
    assert {key for key, value in paths.items() if not value.startswith("/srv/dev/")} == {"MailProg"}
    assert settings["AuthInfo"] == "socket=/srv/dev/munge.socket"


def test_a_host_that_is_not_loopback_is_still_reached_by_loopback() -> None:
    settings = settings_of(DevSpec(), address=None)
    assert settings["SlurmctldHost"] == "h(127.0.0.1)"
    assert settings["CommunicationParameters"] == "NoInAddrAny"


def test_settings_replace_ours() -> None:
    settings = settings_of(DevSpec(settings={"KillWait": "1", "OverTimeLimit": "2"}))
    assert (settings["KillWait"], settings["OverTimeLimit"]) == ("1", "2")


def test_options_of_nodes_and_partitions() -> None:
    spec = DevSpec(node_options={"n2": "Feature=big"}, partitions=("PartitionName=p Nodes=n[1-2]",))
    settings = settings_of(spec)
    assert settings["NodeName=n2"].endswith(" Feature=big")
    assert settings["NodeName=n1"].endswith(" RealMemory=1000")
    assert settings["PartitionName"] == "p Nodes=n[1-2]"


@pytest.mark.parametrize("expansion", [True, False])
def test_growing_is_permitted_on_request(expansion: bool) -> None:
    parameters = settings_of(DevSpec(expansion=expansion))["SchedulerParameters"].split(",")
    assert ("permit_job_expansion" in parameters) is expansion


def test_the_other_files() -> None:
    assert cgroup_conf((22, 5)) is None
    assert cgroup_conf((26, 5)) == "CgroupPlugin=disabled\n"
    assert gres_conf(DevSpec()) is None
    assert gres_conf(DevSpec(gres=("Name=fpga Count=2",))) == "Name=fpga Count=2\n"
    assert topology_conf(DevSpec()) is None
    switched = DevSpec(switches=("SwitchName=s1 Nodes=n[1-8]",))
    assert topology_conf(switched) == "SwitchName=s1 Nodes=n[1-8]\n"
    assert settings_of(switched)["TopologyPlugin"] == "topology/tree"
    assert "TopologyPlugin" not in settings_of(DevSpec())
