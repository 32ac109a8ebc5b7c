"""The wire between a node and a server: a TCP proxy that can lose, hold, delay and cut what goes over it.

What is held is not forgotten, as with a network that comes back: TCP sends it again, so an old message may arrive long
after its sender gave up. Where there is a network of hosts the wire is at the server's end, and only delays and cuts;
where a container lacks the right for one it does all of it. Nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterable

UP, DOWN = "up", "down"
PIECE = 65536
AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset
# What a gateway says whose server does not listen: the node is told, as it would be by a refused connection.
BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Link:
    """Listens on ``port`` of ``host`` and passes everything on to ``target`` here; ``http``: says 502 where nobody is.

    ``up`` is from the node to the server, ``down`` is back.
    """

    def __init__(self, target: int, *, http: bool, host: str = "127.0.0.1") -> None:
        self._target, self._http = target, http
        self._held: frozenset[str] = frozenset()
        self._delay_s, self._is_cut, self._closed, self._cuts = 0.0, False, False, 0
        self._gate = threading.Condition()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server((host, 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name=f"link-{self.port}", daemon=True).start()

    def hold(self, ways: Iterable[str]) -> None:
        """From now on nothing arrives in these directions until :meth:`heal`, and nobody is told."""
        self._change(held=frozenset(ways))

    def delay(self, seconds: float) -> None:
        """Each piece takes so much longer, in both directions."""
        self._change(delay_s=seconds)

    def cut(self) -> None:
        """Every connection is reset, and so is each new one until :meth:`heal`."""
        self._change(is_cut=True)
        self._doom_all()

    def heal(self) -> None:
        """All that was held arrives now, late, and the link is as good as new."""
        self._change(held=frozenset(), delay_s=0.0, is_cut=False)

    def close(self) -> None:
        """Nothing listens any more and every connection is gone."""
        with self._gate:
            self._closed = True
            self._gate.notify_all()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._doom_all()

    def _change(self, *, held: frozenset[str] | None = None, delay_s: float | None = None,
                is_cut: bool | None = None) -> None:  # fmt: skip
        with self._gate:
            self._held = self._held if held is None else held
            self._delay_s = self._delay_s if delay_s is None else delay_s
            self._is_cut = self._is_cut if is_cut is None else is_cut
            self._cuts += bool(is_cut)
            self._gate.notify_all()

    def _doom_all(self) -> None:
        with self._gate:
            doomed = list(self._sockets)
        for one in doomed:
            _doom(one)

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        """One connection, until both ends are done with it."""
        with self._gate:
            cuts, is_cut = self._cuts, self._is_cut
            self._sockets.add(near)
        both = [near]
        try:
            if is_cut:
                _doom(near)
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target), timeout=10)
            except OSError:
                self._nobody(near, cuts)
                return
            both.append(far)
            far.settimeout(None)
            for one in both:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._gate:
                self._sockets.add(far)
            back = threading.Thread(target=self._pump, args=(far, near, DOWN, cuts), daemon=True)
            back.start()
            self._pump(near, far, UP, cuts)
            back.join()
        finally:
            with self._gate:
                self._sockets -= set(both)
            for one in both:
                one.close()

    def _nobody(self, near: socket.socket, cuts: int) -> None:
        """A node whose server does not listen is told so, where it speaks HTTP."""
        with contextlib.suppress(OSError):
            if self._http and near.recv(PIECE) and self._may_pass(UP, cuts) and self._may_pass(DOWN, cuts):
                near.sendall(BAD_GATEWAY)
                near.shutdown(socket.SHUT_WR)
                near.settimeout(1.0)
                while near.recv(PIECE):  # closing with something unread would reset what was just said
                    continue

    def _pump(self, source: socket.socket, sink: socket.socket, way: str, cuts: int) -> None:
        """Everything from ``source`` has reached ``sink``, also its end; a reset of one is a reset of the other."""
        try:
            while True:
                piece = source.recv(PIECE)
                if not self._may_pass(way, cuts):
                    break
                if not piece:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(piece)
        except OSError:
            pass
        _doom(source)
        _doom(sink)

    def _may_pass(self, way: str, cuts: int) -> bool:
        """Returns when something may go that way; False when the connection was cut, or the link closed, first."""

        def over() -> bool:
            return self._closed or self._cuts != cuts

        with self._gate:
            self._gate.wait_for(lambda: way not in self._held or over())
            delay_s = self._delay_s
        if delay_s:
            time.sleep(delay_s)
        return not over()


def _doom(one: socket.socket) -> None:
    """Whoever reads from it is woken; once its own thread closes it, the other end gets a reset."""
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RD)
