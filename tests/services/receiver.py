"""The other side of webhooks and e-mail: a real HTTP server and a real SMTP server on free ports of this machine."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Receiver:
    """What arrived, and what is answered: ``answer`` is asked for (status, body, headers) of each request."""

    url: str = ""
    port: int = 0
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answer: Callable[[int], tuple[int, bytes, dict[str, str]]] = lambda _: (200, b"thanks", {})

    @property
    def bodies(self) -> list[Any]:
        """The bodies, read as JSON."""
        return [json.loads(body) for _, body in self.got]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """An HTTP server that takes every POST."""
    it = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            it.got.append((dict(self.headers.items()), body))
            status, said, more = it.answer(len(it.got))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(said)), **more}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: Any) -> None:
            """Nothing on the terminal."""

    with _served(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as port:
        it.port, it.url = port, f"http://127.0.0.1:{port}/hook?a=b"
        yield it


@contextmanager
def post_office(refusal: str = "") -> Iterator[tuple[int, list[str]]]:
    """An SMTP server: its port, and the messages it was given. ``refusal`` is what it says to every recipient."""
    messages: list[str] = []

    class Clerk(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.say("220 here")
            while line := self.rfile.readline().decode().strip():
                word = line.split()[0].upper()
                if word == "RCPT" and refusal:
                    self.say(refusal)
                elif word == "DATA":
                    self.say("354 go on")
                    messages.append(self.message())
                    self.say("250 taken")
                elif word == "QUIT":
                    self.say("221 bye")
                    return
                else:
                    self.say("250 fine")

        def say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

        def message(self) -> str:
            lines = []
            while (line := self.rfile.readline().decode()) != ".\r\n":
                lines.append(line)
            return "".join(lines)

    class Office(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with _served(Office(("127.0.0.1", 0), Clerk)) as port:
        yield port, messages


@contextmanager
def dripping() -> Iterator[int]:
    """The port of a server that answers a byte now and then, and never a whole line."""
    over = threading.Event()

    class Slow(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            try:
                while not over.wait(0.05):
                    self.request.sendall(b"H")
            except OSError:
                return

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with _served(Server(("127.0.0.1", 0), Slow)) as port:
        yield port
        over.set()


@contextmanager
def _served(server: socketserver.BaseServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
