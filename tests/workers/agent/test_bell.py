"""Doorbells: by Celery message and by long poll. A bell says only: look."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kombu import Connection

from tests.workers.agent.waiting import until
from workers.agent.bell import backoff, poll_bell
from workers.agent.bell_broker import broker_bell
from workers.agent.client import CallFailed
from workers.agent.messages import Failure, FailureKind
from workers.protocol import BELL_TASK, bell_queue


class Ear:
    """Counts the rings."""

    def __init__(self) -> None:
        self.rings = 0

    def __call__(self) -> None:
        self.rings += 1


@contextmanager
def listening(work: Callable[[Ear, threading.Event], None]) -> Iterator[Ear]:
    ear, stop = Ear(), threading.Event()
    thread = threading.Thread(target=work, args=(ear, stop))
    thread.start()
    try:
        yield ear
    finally:
        stop.set()
        thread.join(10)
        assert not thread.is_alive()


class FakeApi:
    """Answers the long poll with a script: numbers, or a failure."""

    def __init__(self, *answers: int | None) -> None:
        self.answers = list(answers)
        self.asked: list[int] = []

    def wait_for_bell(self, since: int) -> int:
        self.asked.append(since)
        if not self.answers:
            return since
        answer = self.answers.pop(0)
        if answer is None:
            raise CallFailed(Failure(FailureKind.REFUSED, "down"))
        return answer


def test_news_ring_and_the_next_poll_asks_from_there() -> None:
    api: Any = FakeApi(7, 7, 9)
    with listening(lambda ear, stop: poll_bell(api, ear, stop)) as ear:
        until(lambda: 9 in api.asked, "the polls")
        assert (ear.rings, api.asked[:4]) == (2, [0, 7, 7, 9])


def test_an_absent_server_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.agent.bell.BACKOFF_S", 0.01)
    api: Any = FakeApi(None, None, 3)
    with listening(lambda ear, stop: poll_bell(api, ear, stop)) as ear:
        until(lambda: ear.rings == 1, "the ring")


def test_the_pauses_double_up_to_half_a_minute() -> None:
    assert [backoff(n) for n in (1, 2, 3, 100)] == [0.5, 1.0, 2.0, 30.0]


def send(node: str, body: object, **more: Any) -> None:
    with Connection("memory://") as connection:
        queue = connection.SimpleQueue(bell_queue(node))
        queue.put(body, **more)
        queue.close()


@pytest.mark.parametrize("body", [[[], {}, {}], {"task": BELL_TASK}, "nonsense", {"attempt": "a9", "epoch": 10**30}])
def test_any_message_on_the_nodes_queue_rings_whatever_it_says(body: object) -> None:
    with listening(lambda ear, stop: broker_bell("memory://", "n1", ear, stop)) as ear:
        until(lambda: ear.rings == 1, "the listener")
        send("n1", body)
        until(lambda: ear.rings == 2, "the bell")


def test_another_nodes_messages_do_not_ring() -> None:
    with listening(lambda ear, stop: broker_bell("memory://", "n1", ear, stop)) as ear:
        until(lambda: ear.rings == 1, "the listener")
        send("n2", {})
        send("n1", {})
        until(lambda: ear.rings == 2, "our own bell")


def test_a_dead_broker_makes_the_node_look_and_is_tried_again() -> None:
    with listening(lambda ear, stop: broker_bell("redis://127.0.0.1:1/0", "n1", ear, stop)) as ear:
        until(lambda: ear.rings >= 2, "two tries")
