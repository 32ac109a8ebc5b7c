"""What is a notice, for whom, and when is it tried again?"""

from __future__ import annotations

import pytest

from scheduling.core.notices import BACKOFF_S, KINDS, MAX_TRIES, Choice, backoff_s, kind_of


@pytest.mark.parametrize(
    ("event", "before", "kind"),
    [
        ("succeeded", "RUNNING", "succeeded"),
        ("failed", "QUEUED", "failed"),
        ("timed_out", "RUNNING", "failed"),
        ("cancelled", "QUEUED", "cancelled"),
        ("requeued", "PREEMPTING", "preempted"),
        ("requeued", "RUNNING", "preempted"),
        ("requeued", "DISPATCHING", "preempted"),
        ("requeued", "HELD", None),
        ("running", "DISPATCHING", "started"),
        ("running", "PREEMPTING", None),
        ("preempting", "RUNNING", None),
        ("progress", None, None),
        ("rejected", None, None),
    ],
)
def test_what_a_line_of_the_timeline_is_to_its_people(event, before, kind):
    assert kind_of(event, {"from": before}) == kind


def test_nobody_is_told_anything_unasked():
    assert not any(Choice().wants(kind, own=True, waited_s=1e9) for kind in KINDS)


def test_others_jobs_are_told_to_whoever_asked_for_those_of_their_projects():
    events = frozenset({"failed"})
    assert Choice(events, "own").wants("failed", own=True, waited_s=None)
    assert not Choice(events, "own").wants("failed", own=False, waited_s=None)
    assert Choice(events, "projects").wants("failed", own=False, waited_s=None)
    assert not Choice(events, "projects").wants("succeeded", own=True, waited_s=None)


def test_a_start_is_told_when_it_was_waited_for_long_enough():
    told = Choice(frozenset({"started"}), long_wait_minutes=30)
    waits = (None, 0.0, 1799.0, 1800.0, 1e6)
    assert [told.wants("started", own=True, waited_s=w) for w in waits] == [False, False, False, True, True]


def test_the_waits_between_tries_grow_and_stay_within_a_fifth():
    waits = [backoff_s("one", tries) for tries in range(1, MAX_TRIES)]
    assert len(waits) == len(BACKOFF_S)
    assert all(0.8 * base <= wait <= 1.2 * base for wait, base in zip(waits, BACKOFF_S, strict=True))
    assert waits == [backoff_s("one", tries) for tries in range(1, MAX_TRIES)]
    assert len({backoff_s(f"delivery {n}", 1) for n in range(50)}) == 50
