"""The wire of a chaos house: what passes, what is held and comes late, what is cut, and what a gateway says."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest

from tests import throwaway
from tests.chaos_processes.link import DOWN, UP, Link

SOON_S, NOT_YET_S = 5.0, 0.2


class Echo:
    """A server that answers each message with the same in capitals; ``heard`` is set when one has arrived."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.heard = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                one, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(one,), daemon=True).start()

    def _answer(self, one: socket.socket) -> None:
        with contextlib.suppress(OSError), one:
            while said := one.recv(1000):
                self.heard.set()
                one.sendall(said.upper())


@pytest.fixture
def echo():
    made = Echo()
    yield made
    made.listener.shutdown(socket.SHUT_RDWR)
    made.listener.close()


@pytest.fixture
def link(echo):
    made = Link(echo.port, http=False)
    yield made
    made.close()


@pytest.fixture
def client(link):
    with socket.create_connection(("127.0.0.1", link.port), timeout=SOON_S) as made:
        made.sendall(b"first")
        assert made.recv(100) == b"FIRST"
        yield made


def asked(link: Link) -> bytes:
    """What comes back over a connection of its own."""
    with socket.create_connection(("127.0.0.1", link.port), timeout=SOON_S) as client:
        client.sendall(b"hello")
        return client.recv(100)


def hears_nothing(client: socket.socket) -> bool:
    """Nothing comes for a moment."""
    client.settimeout(NOT_YET_S)
    try:
        return not client.recv(100)
    except TimeoutError:
        return True
    finally:
        client.settimeout(SOON_S)


def test_what_goes_up_is_held_and_arrives_late_once_healed(link, echo, client):
    echo.heard.clear()
    link.hold([UP])
    client.sendall(b"late")
    assert not echo.heard.wait(NOT_YET_S)
    link.heal()
    assert client.recv(100) == b"LATE"


def test_a_message_arrives_though_its_sender_has_given_up(link, echo, client):
    echo.heard.clear()
    link.hold([UP])
    client.sendall(b"old")
    client.close()
    link.heal()
    assert echo.heard.wait(SOON_S)


def test_when_answers_are_held_the_server_hears_and_the_node_does_not(link, echo, client):
    echo.heard.clear()
    link.hold([DOWN])
    client.sendall(b"heard")
    assert echo.heard.wait(SOON_S)
    assert hears_nothing(client)
    link.heal()
    assert client.recv(100) == b"HEARD"


def test_a_new_connection_over_a_held_wire_gets_no_answer(link, client):
    link.hold([UP, DOWN])
    with socket.create_connection(("127.0.0.1", link.port), timeout=SOON_S) as another:
        another.sendall(b"hello")
        assert hears_nothing(another)


def test_a_cut_resets_every_connection_and_each_new_one(link, client):
    link.cut()
    with pytest.raises(ConnectionError):
        client.recv(100)
    with pytest.raises(ConnectionError):
        asked(link)


def test_after_a_cut_is_healed_new_connections_work(link, client):
    link.cut()
    link.heal()
    assert asked(link) == b"HELLO"


def test_where_nobody_listens_a_node_is_told_so_as_by_a_gateway():
    link = Link(throwaway.free_port(), http=True)
    try:
        with socket.create_connection(("127.0.0.1", link.port), timeout=SOON_S) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 502 ")
    finally:
        link.close()
