"""Which interface the ranks of a job on several nodes talk over."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import psutil
import pytest

from workers.agent.interface import interface_of

MACHINE = {
    "lo": [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")],
    "eth0": [(socket.AF_PACKET, "02:00:00:00:00:01"), (socket.AF_INET, "198.51.100.7")],
    "ib0": [(socket.AF_INET, "203.0.113.9"), (socket.AF_INET6, "fe80::7%ib0")],
}


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on two networks."""
    addresses = {
        name: [SimpleNamespace(family=family, address=address) for family, address in each]
        for name, each in MACHINE.items()
    }
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: addresses)


@pytest.mark.parametrize(("address", "name"), [("198.51.100.7", "eth0"), ("203.0.113.9", "ib0"), ("fe80::7", "ib0")])
def test_it_is_the_one_that_has_the_address(address: str, name: str) -> None:
    assert interface_of(address) == name


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost", "198.51.100.8", f"{'x' * 70}.invalid"])
def test_a_loopback_one_that_is_not_here_and_no_address_have_none(address: str) -> None:
    assert interface_of(address) is None


def test_a_name_stands_for_the_first_of_its_addresses_that_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(name: str, port: object) -> list[tuple[object, ...]]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 0)) for one in ("127.0.1.1", "10.0.0.1", "203.0.113.9")
        ]

    monkeypatch.setattr(socket, "getaddrinfo", known)
    assert interface_of("node-7") == "ib0"
