"""The server's REST interface, as the agent uses it. Every call has a time-out and fails in one of three ways."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast
from urllib.parse import quote

import httpx

from workers.agent.messages import Failure, FailureKind
from workers.protocol import HeartbeatReply, Launch, Registered

REFUSALS = (502, 503, 504)
TRANSFER_S = 60.0
BELL_S = 25.0


class CallFailed(Exception):
    """A call brought nothing; ``failure`` says how."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def classify(problem: httpx.TransportError) -> Failure:
    """Refused only if the host itself said that nobody listens; all else (time-out, reset, no route) is silence."""
    step: BaseException | None = problem
    while step is not None:
        if isinstance(step, OSError) and step.errno == errno.ECONNREFUSED:
            return Failure(FailureKind.REFUSED, "connection refused")
        step = step.__cause__ or step.__context__
    return Failure(FailureKind.SILENT, f"{type(problem).__name__}: {problem}"[:300])


def refusal(reply: httpx.Response) -> Failure:
    """The failure a reply with an error status stands for; its problem document, where it has one, is kept."""
    try:
        body = reply.json()
    except ValueError:
        body = {}
    if not isinstance(body, dict):
        body = {}
    errors = body.get("errors")
    first = errors[0] if isinstance(errors, list) and errors and isinstance(errors[0], dict) else {}
    code = str(body.get("code") or first.get("code") or "")
    said = first.get("message") or body.get("detail") or body.get("title")
    words = str(said) if said else f"HTTP {reply.status_code}: {reply.reason_phrase}"
    kind = FailureKind.REFUSED if reply.status_code in REFUSALS else FailureKind.STATUS
    return Failure(kind, words[:500], reply.status_code, code, body)


class Api:
    """Calls with one node's token. ``timeout_s`` bounds each phase of a short call. Safe to share among threads."""

    def __init__(self, server: str, token: str, *, timeout_s: float = 3.0, connections: int = 1) -> None:
        # No proxies from the environment: a proxy's 503 must not be taken for the server's (D33).
        self.http = httpx.Client(
            base_url=server.rstrip("/") + "/api/v1/",
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            timeout=timeout_s,
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            trust_env=False,
            # Loading the certificates takes a tenth of a second, which plain HTTP can spare.
            verify=server.startswith("https://"),
        )
        self.timeout_s = timeout_s

    def close(self) -> None:
        """Drop the kept connections."""
        self.http.close()

    def call(
        self, method: str, path: str, *, body: Any = None, content: bytes | None = None,
        params: Mapping[str, str | int] | None = None, headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """The JSON object in the reply ({} for an empty one); raises :class:`CallFailed` for every other end."""
        try:
            reply = self.http.request(
                method, path, json=body, content=content, params=dict(params) if params else None,
                headers=dict(headers) if headers else None, timeout=timeout_s or self.timeout_s,
            )  # fmt: skip
        except httpx.TransportError as problem:
            raise CallFailed(classify(problem)) from problem
        if reply.is_error or reply.is_redirect:
            raise CallFailed(refusal(reply))
        if not reply.content:
            return {}
        try:
            value = reply.json()
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise CallFailed(Failure(FailureKind.STATUS, f"{path}: the reply is not a JSON object", reply.status_code))
        return value

    # ------------------------------------------------------------ node and attempt

    def register(self, body: Mapping[str, Any], *, timeout_s: float) -> Registered:
        """Register this boot of the node."""
        return cast(Registered, self.call("POST", "nodes/register/", body=body, timeout_s=timeout_s))

    def heartbeat(self, body: Mapping[str, Any], *, timeout_s: float) -> HeartbeatReply:
        """Health, what is held, and reports; the reply is what the server wants of this node."""
        return cast(HeartbeatReply, self.call("POST", "nodes/heartbeat/", body=body, timeout_s=timeout_s))

    def claim(self, attempt: str, epoch: int) -> Launch:
        """Take the attempt; the same claim again is answered the same."""
        path = f"attempts/{_part(attempt)}/claim/"
        return cast(Launch, self.call("POST", path, body={"epoch": epoch}, timeout_s=3 * self.timeout_s))

    def wait_for_bell(self, since: int) -> int:
        """Wait until the server has news for this node (or its time is up); the number to wait from next."""
        reply = self.call("GET", "nodes/bell/", params={"since": since}, timeout_s=BELL_S + 10.0)
        return int(reply.get("since", since))

    # ------------------------------------------------------------ bytes

    @contextmanager
    def read(self, path: str, *, epoch: int, offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        """The bytes of an input file from ``offset`` on: ``(where they really start, chunks)``.

        A server that ignores the range starts at 0.
        """
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={offset}-"} if offset else {})}
        with self._streamed("GET", path, params={"epoch": epoch}, headers=headers) as reply:
            yield (offset if reply.status_code == 206 else 0), reply.iter_raw()  # as they come: a cut leaves these

    @contextmanager
    def _streamed(self, method: str, path: str, **what: Any) -> Iterator[httpx.Response]:
        try:
            with self.http.stream(method, path, timeout=TRANSFER_S, **what) as reply:
                if reply.is_error or reply.is_redirect:
                    reply.read()
                    raise CallFailed(refusal(reply))
                yield reply
        except httpx.TransportError as problem:
            raise CallFailed(classify(problem)) from problem

    def read_bundle(
        self, attempt: str, artifact: str, *, epoch: int, paths: Sequence[str]
    ) -> tuple[bytes, Failure | None]:
        """The bundle of those files of an artifact, as much of it as came, and what cut it off (None: nothing)."""
        where = f"attempts/{_part(attempt)}/inputs/{_part(artifact)}/bundle/"
        asked = {"epoch": epoch, "paths": list(paths)}
        came = bytearray()
        try:
            with self._streamed("POST", where, json=asked, headers={"Accept-Encoding": "identity"}) as reply:
                for block in reply.iter_raw():
                    came += block
        except CallFailed as problem:
            if not came:
                raise
            return bytes(came), problem.failure
        return bytes(came), None

    @staticmethod
    def input_path(attempt: str, artifact: str, path: str) -> str:
        """Where the bytes of one file of an input (or of the checkpoint to resume from) are."""
        return f"attempts/{_part(attempt)}/inputs/{_part(artifact)}/files/{quote(path)}"

    def create_artifact(self, attempt: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Open an upload: ``{upload, have: {path: offset}}``."""
        return self.call("POST", f"attempts/{_part(attempt)}/artifacts/", body=body, timeout_s=TRANSFER_S)

    def put_part(self, attempt: str, upload: str, path: str, *, epoch: int, offset: int, part: bytes) -> dict[str, Any]:
        """Append ``part`` at ``offset``; a wrong offset fails with status 409 and the right one in the body."""
        where = f"attempts/{_part(attempt)}/artifacts/{_part(upload)}/files/{quote(path)}"
        headers = {"X-EMEP-Epoch": str(epoch), "Content-Type": "application/octet-stream"}
        return self.call(
            "PUT", where, content=part, params={"offset": offset}, headers=headers, timeout_s=TRANSFER_S
        )  # fmt: skip

    def put_bundle(self, attempt: str, upload: str, *, epoch: int, content: bytes) -> dict[str, Any]:
        """Send many small files at once: all of them are there then, or none of this bundle."""
        where = f"attempts/{_part(attempt)}/artifacts/{_part(upload)}/bundle/"
        headers = {"X-EMEP-Epoch": str(epoch), "Content-Type": "application/octet-stream"}
        return self.call("POST", where, content=content, headers=headers, timeout_s=TRANSFER_S)

    def commit_artifact(self, attempt: str, upload: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Close an upload: ``{artifact, digest}``."""
        where = f"attempts/{_part(attempt)}/artifacts/{_part(upload)}/commit/"
        return self.call("POST", where, body=body, timeout_s=TRANSFER_S)


def _part(text: str) -> str:
    """One segment of a path, whatever ``text`` holds."""
    return quote(text, safe="")
