"""The numbers of a reason on the page: none that its sentence has, and none of changes, which have their own place."""

from __future__ import annotations

import pytest

from scheduling.core.plan import Reason
from scheduling.services.reasons import plain
from scheduling.web.job_words import cause


@pytest.mark.parametrize("name", ["less_on_fewer_nodes", "without_waiting", "gpus_at_most"])
def test_a_change_that_would_help_is_no_number_beside_the_reason(name):
    assert cause(plain(Reason("BUSY", "Too few.", ((name, 2),))), {})["pairs"] == []


def test_a_job_that_evicts_nobody_is_told_so_by_its_sentence_alone():
    numbers = (("free_at_ms", 7), ("would_evict", 2), ("save_s", 120), ("evictable", 3), ("evictable_gpus", 4))
    assert cause(plain(Reason("AS_SOON", "It may evict others.", numbers)), {})["pairs"] == []
