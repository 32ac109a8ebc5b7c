"""The numbers of a reason on the page: none that its sentence has, and none of changes, which have their own place."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from django.template.loader import render_to_string

from scheduling.core.plan import Reason
from scheduling.services.reasons import plain
from scheduling.web.job_words import cause


@pytest.mark.parametrize("name", ["less_on_fewer_nodes", "without_waiting", "gpus_at_most"])
def test_a_change_that_would_help_is_no_number_beside_the_reason(name):
    assert cause(plain(Reason("BUSY", "Too few.", ((name, 2),))), {})["pairs"] == []


def test_a_job_that_evicts_nobody_is_told_so_by_its_sentence_alone():
    numbers = (("free_at_ms", 7), ("would_evict", 2), ("save_s", 120), ("evictable", 3), ("evictable_gpus", 4))
    assert cause(plain(Reason("AS_SOON", "It may evict others.", numbers)), {})["pairs"] == []


def test_the_end_of_a_nomination_is_called_so_and_no_deadline_of_the_job():
    (pair,) = cause(plain(Reason("PREEMPTING", "2 GPUs are kept for it.", (("deadline_ms", 60_000),))), {})["pairs"]
    assert (pair["word"], pair["at"].timestamp()) == ("kept until", 60)


@pytest.mark.parametrize(("one", "wide"), [(True, False), (False, True), (False, False)])
def test_each_time_of_an_expected_start_is_one_that_is_never_past(one, wide):
    at = datetime(2026, 3, 2, 12, tzinfo=UTC)
    when = {"soon": False, "one": one, "wide": wide, "at": at, "low": at, "high": at}
    times = re.findall("<time[^>]*>", render_to_string("parts/when.html", {"when": when}))
    assert (bool(times), [time for time in times if "data-due" not in time]) == (True, [])
