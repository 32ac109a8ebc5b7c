"""A network of hosts on this machine: a namespace for each node and one for a router between them and the server.

Nothing of it leads anywhere else: the program itself, with everything of the server, has gone into a namespace of its
own, which has only a loopback and the way to the router. Addresses are of 198.18.0.0/15, which is for tests of networks
(RFC 2544). A cut is a rule of the router's, so nobody is told: packets vanish in one direction, and TCP sends them
again until they arrive late or its sender gives up.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.chaos_processes.link import DOWN, UP

NEW_NETWORK = 0x40000000  # CLONE_NEWNET
NAMES = "/run/netns"
ROUTER = "router"
SERVER = "198.18.0.2"
THIS = "server"


def own_network(nodes: Sequence[str]) -> Network | None:
    """This process and its children are the server's host from now on, and each node has one; None without the right.

    To be called before any thread is started, and with mounts of our own (names of namespaces are mounts).
    """
    if ctypes.CDLL(None, use_errno=True).unshare(NEW_NETWORK) != 0:
        return None
    made = Network(nodes)
    made.build()
    return made


class Network:
    """Hosts by name. ``up`` is from a node to the server, ``down`` is back."""

    server = SERVER

    def __init__(self, nodes: Sequence[str]) -> None:
        self._places = {name: place for place, name in enumerate(nodes, 1)}
        self._cuts: set[int] = set()

    def build(self) -> None:
        """Every host reaches every other one."""
        Path(NAMES).mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "none", NAMES)  # leaves no names behind on the machine
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "netns", "add", ROUTER)
        _run(*self.inside(ROUTER), "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        _run("ip", "-n", ROUTER, "link", "add", THIS, "type", "veth", "peer", "name", "eth0", "netns", str(os.getpid()))
        self._join("ip", THIS, 0)
        for name, place in self._places.items():
            _run("ip", "netns", "add", name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
            _run("ip", "-n", ROUTER, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            self._join(f"ip -n {name}", name, place)

    def address(self, node: str) -> str:
        """By which the others reach the node."""
        return _address(self._places[node])

    def inside(self, name: str) -> list[str]:
        """What to write before a command so that it runs on that host."""
        return ["nsenter", f"--net={NAMES}/{name}"]

    def hold(self, node: str, ways: Iterable[str]) -> None:
        """From now on nothing arrives in these directions between the node and the server."""
        place = self._places[node]
        if UP in ways:
            self._cut(1000 + place, node, SERVER)
        if DOWN in ways:
            self._cut(2000 + place, THIS, self.address(node))

    def heal(self, node: str) -> None:
        """Everything arrives again between the node and the server."""
        place = self._places[node]
        self._mend(1000 + place)
        self._mend(2000 + place)

    def part(self, one: str, other: str) -> None:
        """From now on nothing arrives between the two nodes, in either direction; the server reaches both."""
        self._cut(self._between(one, other), one, self.address(other))
        self._cut(self._between(other, one), other, self.address(one))

    def rejoin(self, one: str, other: str) -> None:
        """Everything arrives again between the two nodes."""
        self._mend(self._between(one, other))
        self._mend(self._between(other, one))

    def _between(self, source: str, sink: str) -> int:
        return 3000 + 100 * self._places[source] + self._places[sink]

    def _join(self, there: str, name: str, place: int) -> None:
        """Both ends of the wire ``name`` have their addresses, and all other hosts are behind the router's."""
        _run("ip", "-n", ROUTER, "address", "add", f"{_address(place, 1)}/30", "dev", name)
        _run("ip", "-n", ROUTER, "link", "set", name, "up")
        _run(*there.split(), "address", "add", f"{_address(place)}/30", "dev", "eth0")
        _run(*there.split(), "link", "set", "eth0", "up")
        _run(*there.split(), "route", "add", "default", "via", _address(place, 1))

    def _cut(self, rule: int, source: str, sink: str) -> None:
        if rule not in self._cuts:
            _run("ip", "-n", ROUTER, "rule", "add", "pref", str(rule), "iif", source, "to", sink, "blackhole")
            self._cuts.add(rule)

    def _mend(self, rule: int) -> None:
        if rule in self._cuts:
            _run("ip", "-n", ROUTER, "rule", "del", "pref", str(rule))
            self._cuts.discard(rule)


def _address(place: int, end: int = 2) -> str:
    return f"198.18.{place}.{end}"


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
