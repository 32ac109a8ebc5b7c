"""The network of a chaos house: hosts that reach each other, and cuts in one direction, in both, and between nodes."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tests.chaos_processes.disk import own_mounts
from tests.chaos_processes.link import DOWN, UP
from tests.chaos_processes.network import NEW_NETWORK, Network, own_network

SOON_S, NOT_YET_S = 20.0, 0.5
NODES = ("node-1", "node-2")
PORT = 4242
# Hears datagrams, and tells the sender what it has heard.
ECHO = """
import socket, sys
heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
heard.bind(("", int(sys.argv[1])))
print("listens", flush=True)
while True:
    said, whom = heard.recvfrom(100)
    print(said.decode(), flush=True)
    heard.sendto(said, whom)
"""
ASK = """
import socket, sys
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.settimeout(float(sys.argv[3]))
asking.sendto(sys.argv[4].encode(), (sys.argv[1], int(sys.argv[2])))
try:
    print(asking.recvfrom(100)[0].decode())
except TimeoutError:
    print("nothing")
"""
# Waits for a byte, answers it, and waits for the end.
LATE = """
import socket, sys
wire = socket.create_connection((sys.argv[1], int(sys.argv[2])))
wire.recv(1)
wire.sendall(b"late")
wire.recv(1)
"""


class Echo:
    """A program of a host that hears and answers."""

    def __init__(self, inside: list[str]) -> None:
        command = [*inside, sys.executable, "-c", ECHO, str(PORT)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._said = self._process.stdout
        assert self._said.readline() == "listens\n"

    def heard(self) -> str:
        """The next that it hears."""
        return self._said.readline().strip()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._said.close()


def asked(inside: list[str], whom: str, what: str, patience_s: float = SOON_S) -> str:
    """What comes back to a host that asks another one."""
    command = [*inside, sys.executable, "-c", ASK, whom, str(PORT), str(patience_s), what]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def on_a_network(what: Callable[[Network], None]) -> None:
    """``what`` in a process of its own, which may go to another network."""
    process = multiprocessing.get_context("spawn").Process(target=_there, args=(what,))
    process.start()
    process.join(120)
    assert process.exitcode == 0


def _there(what: Callable[[Network], None]) -> None:
    assert own_mounts()
    network = own_network(NODES)
    assert network is not None
    what(network)


def _may() -> bool:
    """Whether a process here may make a network of its own."""
    if os.geteuid() != 0:
        return False
    child = os.fork()
    if child == 0:
        os._exit(ctypes.CDLL(None).unshare(NEW_NETWORK) != 0)
    return os.waitpid(child, 0)[1] == 0


pytestmark = pytest.mark.skipif(
    os.environ.get("CI") != "true" and not _may(), reason="namespaces need root and its capabilities"
)


def everybody_reaches_everybody(network: Network) -> None:
    one, other = (network.inside(name) for name in NODES)
    echoes = [Echo([]), Echo(other)]
    assert asked(one, network.server, "to the server") == "to the server"
    assert asked(one, network.address("node-2"), "to a node") == "to a node"
    assert asked([], network.address("node-2"), "from the server") == "from the server"
    assert {name for _, name in socket.if_nameindex()} == {"lo", "eth0"}
    for echo in echoes:
        echo.close()


def test_every_host_reaches_every_other_and_nothing_else():
    on_a_network(everybody_reaches_everybody)


def a_cut_is_of_one_way_and_of_one_node(network: Network) -> None:
    one, other = (network.inside(name) for name in NODES)
    server = Echo([])
    network.hold("node-1", [UP])
    assert asked(one, network.server, "lost", NOT_YET_S) == "nothing"
    assert asked(other, network.server, "from the other") == "from the other"
    assert server.heard() == "from the other"  # the lost one never came
    network.heal("node-1")
    network.hold("node-1", [DOWN])
    assert asked(one, network.server, "heard", NOT_YET_S) == "nothing"
    assert server.heard() == "heard"  # only the answer is lost
    network.hold("node-1", [UP, DOWN])
    network.heal("node-1")
    assert asked(one, network.server, "again") == "again"
    server.close()


def test_what_is_cut_in_one_way_of_one_node_is_cut_in_no_other():
    on_a_network(a_cut_is_of_one_way_and_of_one_node)


def two_nodes_are_parted(network: Network) -> None:
    one, other = (network.inside(name) for name in NODES)
    echoes = [Echo([]), Echo(one), Echo(other)]
    network.part("node-1", "node-2")
    assert asked(one, network.address("node-2"), "lost", NOT_YET_S) == "nothing"
    assert asked(other, network.address("node-1"), "lost", NOT_YET_S) == "nothing"
    assert asked(one, network.server, "to the server") == "to the server"
    network.rejoin("node-2", "node-1")
    assert asked(one, network.address("node-2"), "joined") == "joined"
    assert echoes[2].heard() == "joined"
    for echo in echoes:
        echo.close()


def test_two_nodes_that_are_parted_reach_the_server_and_not_each_other():
    on_a_network(two_nodes_are_parted)


def what_is_held_arrives_late(network: Network) -> None:
    listening = socket.create_server((network.server, 0))
    port = listening.getsockname()[1]
    node = subprocess.Popen([*network.inside("node-1"), sys.executable, "-c", LATE, network.server, str(port)])
    heard, _ = listening.accept()
    network.hold("node-1", [UP])
    heard.sendall(b"!")
    heard.settimeout(NOT_YET_S)
    with pytest.raises(TimeoutError):
        heard.recv(100)
    network.heal("node-1")
    healed = time.monotonic()
    heard.settimeout(SOON_S)
    assert heard.recv(100) == b"late"
    assert time.monotonic() - healed < SOON_S
    heard.close()
    assert node.wait(SOON_S) == 0


def test_what_tcp_has_sent_into_a_cut_arrives_after_it():
    on_a_network(what_is_held_arrives_late)
