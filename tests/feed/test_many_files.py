"""A job's frame stays small however many files came out: it is sent on every change."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.feed import messages, snapshots
from scheduling.store.queries import jobs as queries
from tests import builders as b
from tests.web.test_many_files import many as many

pytestmark = pytest.mark.django_db


def test_of_thousands_of_files_the_frame_tells_how_many_they_are(many):
    job, _ = many
    (item,) = snapshots.job_items({job}, b.later(60))
    (made,) = item.data["artifacts"]
    assert (made["files"], made["of_files"]) == ([], 5001)
    assert len(messages.encode(messages.frame("change", item, 1))) < 4000


def test_the_files_are_counted_where_they_lie_and_not_read(many):
    job, _ = many
    with CaptureQueriesContext(connection) as asked:
        snapshots.job_items({job}, b.later(60))
    read = [
        each["sql"] for each in asked if re.search(r'(?<!_array_length\()"scheduling_artifact"."files"', each["sql"])
    ]
    assert (len(asked) > 0, read) == (True, [])


def test_rest_still_has_all_of_them(many):
    job, _ = many
    (made,) = queries.as_dict(queries.full(queries.Job.objects.filter(pk=job)).get())["artifacts"]
    assert len(made["files"]) == 5001
