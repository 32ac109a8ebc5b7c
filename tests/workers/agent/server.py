"""A double of the server's node endpoints over real HTTP: grants what a test puts in, keeps what it is told."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from workers.bundles import arrived, head
from workers.protocol import Timings, manifest_digest

TOKEN = "emep_node_token"
# Everything 50 times faster than shipped: heartbeat 0.2 s, fence 0.9 s, lease 1.2 s, grace 2.4 s.
FAST = Timings().scaled(0.02)


class NodeServer:
    """``desired``, ``launches`` and ``inputs`` are what it grants; ``reports`` and ``artifacts`` what it got.

    ``fault`` names what befalls the next requests: None, ``503``, ``hang`` (no answer until released), ``reregister``.
    """

    def __init__(self, timings: Timings = FAST) -> None:
        self.timings = timings
        self.lock = threading.RLock()
        self.desired: list[dict[str, Any]] = []
        self.launches: dict[str, dict[str, Any]] = {}
        self.inputs: dict[tuple[str, str], bytes] = {}
        self.kill: list[str] = []
        self.registrations: list[dict[str, Any]] = []
        self.heartbeats: list[dict[str, Any]] = []
        self.claims: list[str] = []
        self.reports: list[dict[str, Any]] = []
        self.logs: dict[str, bytes] = {}
        self.uploads: dict[str, dict[str, Any]] = {}
        self.artifacts: dict[str, dict[str, Any]] = {}
        self.stale: set[str] = set()
        self.fault: str | None = None
        self.then: str | None = None
        self.released = threading.Event()
        self.cut_after: int | None = None
        self.cut_before_end = 0
        self.ranges: list[str] = []
        self.parts: list[tuple[str, int, int]] = []
        self.part_faults: list[dict[str, Any]] = []
        self.bundles: list[list[str]] = []
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    def __enter__(self) -> NodeServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self.http.shutdown()
        self.http.server_close()

    def grant(self, launch: dict[str, Any]) -> None:
        """The attempt is wanted on the node from the next heartbeat on."""
        with self.lock:
            self.launches[launch["attempt"]] = launch
            self.desired.append(
                {"attempt": launch["attempt"], "epoch": launch["epoch"], "action": "run", "grace_s": 1.0}
            )

    def want(self, attempt: str, action: str, why: str, grace_s: float = 1.0, *, then: str | None = None) -> None:
        """Change what is wanted of ``attempt``; once its agent has been told so, ``then`` is the fault."""
        with self.lock:
            self.then = then
            for item in self.desired:
                if item["attempt"] == attempt:
                    item |= {"action": action, "why": why, "grace_s": grace_s}

    def go(self, attempt: str, address: str, port: int) -> None:
        """All parts of ``attempt`` are ready and meet there."""
        with self.lock:
            for item in self.desired:
                if item["attempt"] == attempt:
                    item["go"] = {"address": address, "port": port}

    def got(self, kind: str, attempt: str | None = None) -> list[dict[str, Any]]:
        """The reports of one type so far."""
        with self.lock:
            return [r for r in self.reports if r["type"] == kind and attempt in (None, r["attempt"])]

    # ------------------------------------------------------------ what it answers

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> tuple[int, Any]:
        parts = [unquote(part) for part in path.removeprefix("/api/v1/").strip("/").split("/")]
        if parts[:2] == ["nodes", "register"]:
            self.registrations.append(json.loads(body))
            held = [item["attempt"] for item in json.loads(body)["attempts"]]
            adopt = [a for a in held if a not in self.kill]
            names = self.timings.__dataclass_fields__
            timings = {name: getattr(self.timings, name) for name in names}
            return 200, {"adopt": adopt, "kill": [a for a in held if a in self.kill], **timings}
        if parts[:2] == ["nodes", "heartbeat"]:
            return self.heartbeat(json.loads(body))
        if parts[:2] == ["nodes", "bell"]:
            return 200, {"since": int(query["since"][0])}
        if parts[0] == "attempts" and parts[2] == "claim":
            self.claims.append(parts[1])
            return 200, self.launches[parts[1]]
        if parts[0] == "attempts" and parts[2] == "inputs" and parts[4] == "bundle":
            return self.bundle(parts[3], json.loads(body)["paths"])
        if parts[0] == "attempts" and parts[2] == "inputs":
            return 200, self.inputs[(parts[3], "/".join(parts[5:]))]
        if parts[0] == "attempts" and parts[2] == "artifacts":
            return self.upload(method, parts, query, body)
        return 404, {"code": "not_found"}

    def heartbeat(self, body: dict[str, Any]) -> tuple[int, Any]:
        if self.fault == "reregister":
            self.fault = None
            return 409, {"code": "reregister"}
        self.heartbeats.append(body)
        answers = []
        for report in body["reports"]:
            answer: dict[str, Any] = {"n": report["n"], "ok": True}
            if report["attempt"] in self.stale:
                answer = {"n": report["n"], "ok": False, "code": "stale_epoch", "message": "taken away"}
            elif report["type"] == "logs":
                text = self.logs.get(report["attempt"], b"")
                if report["offset"] == len(text):
                    text = self.logs[report["attempt"]] = text + report["text"].encode()
                answer["next"] = len(text)
            else:
                self.reports.append(report)
            if report["type"] == "finished":
                self.desired = [item for item in self.desired if item["attempt"] != report["attempt"]]
            answers.append(answer)
        self.fault, self.then = self.then or self.fault, None
        return 200, {"desired": self.desired, "canary": [], "answers": answers}

    def bundle(self, artifact: str, paths: list[str]) -> tuple[int, Any]:
        self.bundles.append(paths)
        contents = [self.inputs[(artifact, path)] for path in paths]
        rows: Any = [
            {"path": path, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for path, content in zip(paths, contents, strict=True)
        ]
        return 200, head(rows) + b"".join(contents)

    def upload(self, method: str, parts: list[str], query: dict[str, list[str]], body: bytes) -> tuple[int, Any]:
        if parts[1] in self.stale:
            return 409, {"code": "stale_epoch"}
        if method == "POST" and len(parts) == 3:
            asked = json.loads(body)
            for name, begun in self.uploads.items():
                if f"art-{name}" not in self.artifacts and {k: v for k, v in begun.items() if k != "bytes"} == asked:
                    return 201, {"upload": name, "have": {path: len(piece) for path, piece in begun["bytes"].items()}}
            name = f"u{len(self.uploads)}"
            self.uploads[name] = {**asked, "bytes": {}}
            return 201, {"upload": name, "have": {}}
        upload = self.uploads[parts[3]]
        if parts[4] == "bundle":
            if self.part_faults and not self.part_faults[0].get("late"):
                fault = self.part_faults.pop(0)
                return fault["status"], fault["body"]
            files, pieces = arrived(body)
            self.parts += [(file["path"], 0, file["size"]) for file in files]
            upload["bytes"] |= {file["path"]: piece for file, piece in zip(files, pieces, strict=True)}
            if self.part_faults:
                fault = self.part_faults.pop(0)
                return fault["status"], fault["body"]
            return 200, {"received": len(files)}
        if method == "PUT":
            path, offset = "/".join(parts[5:]), int(query["offset"][0])
            if self.part_faults:
                fault = self.part_faults.pop(0)
                return fault["status"], fault["body"]
            have = upload["bytes"].get(path, b"")
            self.parts.append((path, offset, len(body)))
            if offset != len(have):
                return 409, {"code": "wrong_offset", "offset": len(have)}
            upload["bytes"][path] = have + body
            return 200, {"offset": len(have) + len(body)}
        said = json.loads(body)["sha256"]
        for entry in upload["files"]:
            content = upload["bytes"].get(entry["path"], b"")
            if hashlib.sha256(content).hexdigest() != said[entry["path"]] or len(content) != entry["size"]:
                return 422, {"code": "wrong_sha256", "detail": entry["path"]}
        digest = manifest_digest(upload["files"])
        self.artifacts[f"art-{parts[3]}"] = upload
        return 200, {"artifact": f"art-{parts[3]}", "digest": digest}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except ConnectionError:
                    self.close_connection = True

            def do(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                url = urlsplit(self.path)
                if server.fault == "hang":
                    server.released.wait()
                    self.close_connection = True
                    return
                if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                    self.say(401, {"code": "not_authenticated"})
                elif server.fault is not None and server.fault.isdigit():
                    self.say(int(server.fault), {})
                else:
                    with server.lock:
                        status, value = server.answer(self.command, url.path, parse_qs(url.query), body)
                    self.say(status, value)

            do_GET = do_POST = do_PUT = do

            def say(self, status: int, value: Any) -> None:
                if isinstance(value, bytes):
                    self.say_bytes(value)
                    return
                text = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def say_bytes(self, content: bytes) -> None:
                asked = self.headers.get("Range")
                start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
                if "/bundle/" not in self.path:
                    server.ranges.append(asked or "")
                self.send_response(206 if asked else 200)
                self.send_header("Content-Length", str(len(content) - start))
                self.end_headers()
                if server.cut_before_end and "bundle" in self.path:
                    self.wfile.write(content[: -server.cut_before_end])
                    server.cut_before_end = 0
                    self.close_connection = True
                    return
                if server.cut_after is not None:
                    self.wfile.write(content[start : start + server.cut_after])
                    server.cut_after = None
                    self.close_connection = True
                    return
                self.wfile.write(content[start:])

        return Handler


def launch_of(attempt: str = "a1", **changes: Any) -> dict[str, Any]:
    """A launch document of a job that does nothing, with ``changes``."""
    return {
        "attempt": attempt, "epoch": 1, "number": 1, "job": f"job-{attempt}", "kind": "command", "params": {},
        "argv": ["true"], "env": {}, "gpus": [], "node_rank": 0, "node_count": 1, "nproc": 1, "inputs": [],
        "resume": None, "remaining_s": 60.0, "grace_s": 2.0, "log_bytes": 2**20, **changes,
    }  # fmt: skip
