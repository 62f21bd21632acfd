"""Two clusters that start at the same time get different ports."""

import socket

import pytest

from makeway.adapters.devcluster import ports
from makeway.adapters.devcluster.ports import NoFreePorts, claimed_ports


def test_claimed_ports_are_not_given_out_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_PORTS", range(12000, 13000))
    with claimed_ports(150) as first, claimed_ports(150) as second:
        assert (len(first), len(second)) == (150, 150)
        assert set(first).isdisjoint(second)
        with pytest.raises(NoFreePorts, match="no 700 consecutive free ports"), claimed_ports(700):
            pytest.fail("these ports are claimed")
    with claimed_ports(700) as again:
        assert len(again) == 700


def test_a_port_in_use_is_not_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        taken = int(listener.getsockname()[1])
        monkeypatch.setattr(ports, "_PORTS", range(taken - 1, taken + 2))
        with pytest.raises(NoFreePorts), claimed_ports(2):
            pytest.fail("every pair of these ports has the one in use")
