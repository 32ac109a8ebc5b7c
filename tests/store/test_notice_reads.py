"""What is asked every few seconds reads what is new, however long the timeline and the log have become."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.models import Event
from scheduling.store.commit import notice_gathering
from tests import builders as b

pytestmark = pytest.mark.django_db


def test_new_lines_are_found_by_their_number():
    old = [Event(at=b.later(n / 50), type="succeeded", object="job", object_id=str(n)) for n in range(5000)]
    Event.objects.bulk_create(old)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE scheduling_event")
    newest = Event.objects.latest("id").pk
    with CaptureQueriesContext(connection) as asked:
        found = [line.id for lines in notice_gathering._lines(newest - 3, newest) for line in lines]
    assert found == [newest - 2, newest - 1, newest]
    explain = "EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN "
    with connection.cursor() as cursor:
        cursor.execute(explain + asked.captured_queries[0]["sql"])
        plan = " ".join(str(row) for row in cursor.fetchall())
    assert "INTEGER PRIMARY KEY" in plan or "scheduling_event_pkey" in plan, plan


def test_a_quiet_round_asks_a_fixed_number_of_questions(django_assert_max_num_queries):
    b.lab()
    notice_gathering.gather(b.NOON)
    with django_assert_max_num_queries(12):
        notice_gathering.gather(b.later(10))
        notice_gathering.bundle(b.later(10), join=b.later(1) - b.NOON, every=b.later(1) - b.NOON)
