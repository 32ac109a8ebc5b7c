"""Whoever waits for news is woken by everything that others commit, in whatever order, and not by its own writing."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, transaction

from scheduling.store import journal
from scheduling.store.wake import Waiter
from tests import builders as b
from tests.elsewhere import elsewhere

pytestmark = pytest.mark.django_db(transaction=True)

SOON_S = 20.0  # for what comes at once


def write(name: str) -> None:
    journal.write([journal.Note("told", "queue", name)], b.NOON)


def test_what_is_committed_before_the_first_wait_is_told():
    waiter = Waiter()
    elsewhere(lambda: write("early")).join()
    assert waiter.wait(SOON_S)
    assert not waiter.wait(0)


def test_what_is_committed_while_it_waits_is_told_at_once():
    waiter = Waiter()
    assert not waiter.wait(0)
    writing = elsewhere(lambda: write("now"))
    assert waiter.wait(SOON_S)
    writing.join()


def test_its_own_writing_is_no_news():
    waiter = Waiter()
    assert not waiter.wait(0)
    write("mine")
    assert not waiter.wait(0.1)


def test_a_row_with_a_lower_number_that_is_committed_later_is_told():
    waiter, numbered, go = Waiter(), threading.Event(), threading.Event()

    def slow() -> None:
        with transaction.atomic():
            write("slow")
            numbered.set()
            assert connection.vendor == "sqlite" or go.wait(SOON_S)  # SQLite has one writer at a time

    writing = elsewhere(slow)
    assert numbered.wait(SOON_S)
    elsewhere(lambda: write("quick")).join()
    assert waiter.wait(SOON_S)
    while waiter.wait(0):
        pass  # all that has been told so far
    go.set()
    assert waiter.wait(SOON_S) or connection.vendor == "sqlite"
    writing.join()


def test_a_connection_that_is_replaced_listens_again():
    waiter = Waiter()
    connection.close()
    elsewhere(lambda: write("meanwhile")).join()
    assert waiter.wait(SOON_S)
    elsewhere(lambda: write("later")).join()
    assert waiter.wait(SOON_S)
