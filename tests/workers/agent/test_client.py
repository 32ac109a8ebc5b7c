"""How calls fail: refused, silent, or answered with an error."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.workers.agent.server import TOKEN, NodeServer, launch_of
from workers.agent.client import Api, CallFailed
from workers.agent.messages import Failure, FailureKind


def fails(api: Api) -> Failure:
    with pytest.raises(CallFailed) as caught:
        api.claim("a1", 1)
    api.close()
    return caught.value.failure


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def answering(reply: bytes | None) -> Iterator[str]:
    """A server that reads a request and sends ``reply`` (None: it hangs up without a word)."""
    with socket.create_server(("127.0.0.1", 0)) as door:

        def serve() -> None:
            while True:
                try:
                    guest, _ = door.accept()
                except OSError:
                    return
                with guest:
                    guest.recv(65536)
                    if reply is not None:
                        guest.sendall(reply)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{door.getsockname()[1]}"
        door.shutdown(socket.SHUT_RDWR)


def http(status: int, body: bytes = b"{}") -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body


def test_nobody_listening_is_a_refusal() -> None:
    assert fails(Api(f"http://127.0.0.1:{free_port()}", TOKEN)).kind is FailureKind.REFUSED


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_gateway_that_says_the_server_is_down_is_a_refusal(status: int) -> None:
    with answering(http(status)) as url:
        assert fails(Api(url, TOKEN)).kind is FailureKind.REFUSED


def test_no_answer_in_time_is_silence() -> None:
    with NodeServer() as server:
        server.fault = "hang"
        assert fails(Api(server.url, TOKEN, timeout_s=0.05)).kind is FailureKind.SILENT


def test_a_connection_that_breaks_without_an_answer_is_silence() -> None:
    with answering(None) as url:
        assert fails(Api(url, TOKEN)).kind is FailureKind.SILENT


def test_a_host_that_does_not_exist_is_silence() -> None:
    assert fails(Api("http://emep.invalid", TOKEN)).kind is FailureKind.SILENT


@pytest.mark.parametrize("status", [400, 401, 403, 409, 422, 500])
def test_an_error_status_is_an_answer(status: int) -> None:
    with answering(http(status)) as url:
        failure = fails(Api(url, TOKEN))
        assert (failure.kind, failure.status) == (FailureKind.STATUS, status)


@pytest.mark.parametrize(
    "body",
    [b'{"code": "stale_epoch"}', b'{"errors": [{"code": "stale_epoch", "message": "epoch 1 is over"}]}'],
)
def test_a_stale_epoch_is_recognised_in_either_place(body: bytes) -> None:
    with answering(http(409, body)) as url:
        failure = fails(Api(url, TOKEN))
        assert (failure.stale, failure.final) == (True, True)


@pytest.mark.parametrize(("status", "final"), [(422, True), (409, True), (429, False), (500, False), (503, False)])
def test_only_refusals_of_the_request_itself_are_final(status: int, final: bool) -> None:
    with answering(http(status)) as url:
        assert fails(Api(url, TOKEN)).final is final


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"3"])
def test_a_reply_that_is_no_json_object_is_an_error(body: bytes) -> None:
    with answering(http(200, body)) as url:
        assert "not a JSON object" in fails(Api(url, TOKEN)).message


def test_the_nodes_token_goes_with_every_call() -> None:
    with NodeServer() as server:
        server.launches["a1"] = launch_of()
        assert Api(server.url, TOKEN).claim("a1", 1)["attempt"] == "a1"
        assert fails(Api(server.url, "wrong")).status == 401


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"errors": [{"code": "too_many_files", "message": "it has 10001 files"}]}', "it has 10001 files"),
        (b'{"detail": "the attempt is over"}', "the attempt is over"),
        (b"<html>", "HTTP 422: X"),
    ],
)
def test_a_refusal_is_told_in_the_servers_own_words_as_far_as_it_has_any(body: bytes, words: str) -> None:
    with answering(http(422, body)) as url:
        assert fails(Api(url, TOKEN)).message == words
