"""The configuration files of a development cluster."""

from pathlib import PurePosixPath

import pytest

from makeway.adapters.devcluster.conf import DevSpec, other_files, slurm_conf


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


def files_of(spec: DevSpec, version: tuple[int, int] = (22, 5)) -> dict[str, str]:
    return other_files(spec, version, PurePosixPath("/srv/dev"))


def test_the_other_files() -> None:
    assert files_of(DevSpec()) == {}
    assert files_of(DevSpec(), (26, 5)) == {"cgroup.conf": "CgroupPlugin=disabled\n"}
    assert files_of(DevSpec(gres=("Name=fpga Count=2",))) == {"gres.conf": "Name=fpga Count=2\n"}
    switched = DevSpec(switches=("SwitchName=s1 Nodes=n[1-8]",))
    assert files_of(switched) == {"topology.conf": "SwitchName=s1 Nodes=n[1-8]\n"}
    assert settings_of(switched)["TopologyPlugin"] == "topology/tree"
    assert "TopologyPlugin" not in settings_of(DevSpec())


def test_nodes_with_gpus_share_empty_files() -> None:
    spec = DevSpec(node_count=3, gpus={"n1": "a100:2,h100:1", "n3": "1"}, gres=("Name=fpga Count=1",))
    settings = settings_of(spec)
    assert settings["GresTypes"] == "gpu"
    assert settings["NodeName=n1"].endswith(" RealMemory=1000 Gres=gpu:a100:2,gpu:h100:1")
    assert settings["NodeName=n2"].endswith(" RealMemory=1000")
    assert settings["NodeName=n3"].endswith(" Gres=gpu:1")
    lines = (
        "Name=fpga Count=1",
        "NodeName=n1 Name=gpu Type=a100 File=/srv/dev/gpu[0-1]",
        "NodeName=n1 Name=gpu Type=h100 File=/srv/dev/gpu[2-2]",
        "NodeName=n3 Name=gpu File=/srv/dev/gpu[0-0]",
        "",
    )
    assert files_of(spec) == {"gres.conf": "\n".join(lines), "gpu0": "", "gpu1": "", "gpu2": ""}


def test_memory_counts_on_request_and_each_cpu_has_its_part() -> None:
    spec = DevSpec(cpus_per_node=8, memory_mb=16000, memory_counts=True)
    settings = settings_of(spec)
    assert (settings["SelectTypeParameters"], settings["DefMemPerCPU"]) == ("CR_Core_Memory", "2000")
    assert settings_of(DevSpec())["SelectTypeParameters"] == "CR_Core"
    assert "DefMemPerCPU" not in settings_of(DevSpec())


def test_cores_with_threads() -> None:
    node = settings_of(DevSpec(cpus_per_node=8, threads_per_core=2))["NodeName=n1"]
    assert node.endswith(" CPUs=8 RealMemory=1000 Sockets=1 CoresPerSocket=4 ThreadsPerCore=2")


def test_options_of_a_node_replace_its_hardware() -> None:
    spec = DevSpec(memory_counts=True, gpus={"n2": "4"}, node_options={"n2": "RealMemory=64000 Weight=5"})
    assert settings_of(spec)["NodeName=n2"].endswith(" CPUs=2 RealMemory=64000 Gres=gpu:4 Weight=5")
