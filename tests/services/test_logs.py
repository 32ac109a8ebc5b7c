"""The log of an attempt: in order, once, capped, and whatever bytes a job writes."""

from __future__ import annotations

import pytest

from scheduling.models import Job
from scheduling.store.queries import jobs as queries
from tests import builders as b

pytestmark = pytest.mark.django_db


def running():
    return b.busy_lab()[1]


def say(run, offset, text):
    report = {"type": "logs", "attempt": run.attempt, "epoch": run.epoch, "offset": offset, "text": text}
    return b.beat(reports=[report])["answers"][0].get("next")


def text_of(run, **kw):
    return queries.log(Job.objects.get(pk=run.job), attempt=None, **kw)


def test_chunks_join_in_order():
    run = running()
    assert say(run, 0, "one\n") == 4
    assert say(run, 4, "two\n") == 8
    assert text_of(run)["text"] == "one\ntwo\n"


def test_a_chunk_sent_twice_is_kept_once():
    run = running()
    say(run, 0, "one\n")
    assert say(run, 0, "one\n") == 4
    assert text_of(run)["text"] == "one\n"


def test_an_overlapping_chunk_adds_only_what_is_new():
    run = running()
    say(run, 0, "one\n")
    assert say(run, 2, "e\ntwo\n") == 8
    assert text_of(run)["text"] == "one\ntwo\n"


def test_a_gap_is_answered_with_the_offset_to_send_again():
    run = running()
    say(run, 0, "one\n")
    assert say(run, 100, "late") == 4
    assert text_of(run)["text"] == "one\n"


def test_offsets_count_bytes():
    run = running()
    assert say(run, 0, "é\n") == 3
    assert say(run, 3, "x") == 4
    assert text_of(run, offset=3)["text"] == "x"


def test_nul_and_lone_surrogates_are_shown_as_what_they_are():
    run = running()
    size = len("a\x00b\ud800".encode("utf-8", "surrogatepass"))
    assert say(run, 0, "a\x00b\ud800") == size
    assert text_of(run)["text"] == "a\\x00b\\ud800"


def test_past_the_cap_nothing_more_is_kept_and_the_last_line_says_so(settings):
    settings.LOG_BYTES_PER_ATTEMPT = 10
    run = running()
    say(run, 0, "12345678\n")
    assert say(run, 9, "x" * 50) == 59
    assert say(run, 59, "y" * 50) == 109
    kept = text_of(run)["text"]
    assert kept.startswith("12345678\nx\n[log capped")
    assert "y" not in kept.replace("only", "")


def test_reading_goes_on_from_an_offset_and_says_where_it_ends():
    run = running()
    say(run, 0, "one\n")
    first = text_of(run)
    assert (first["next"], first["eof"]) == (4, False)
    b.finished(run, "FAILED", exit_code=1)
    assert text_of(run, offset=4) == {"attempt": 1, "offset": 4, "next": 4, "text": "", "eof": True}
