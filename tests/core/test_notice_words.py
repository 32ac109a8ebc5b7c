"""An e-mail says what happened, why, what to do next, and where."""

from __future__ import annotations

from dataclasses import replace

from scheduling.core.notice_words import NAMED, Told, mail

NOON_MS = 1_772_452_800_000
ONE = Told("failed", NOON_MS, "slerp-a-b", "merge", "alpha", "alice", "http://emep/jobs/1/", why="out of memory")


def written(*told: Told):
    return mail(told, server="http://emep", choices="http://emep/account/#notices")


def test_one_job_is_told_whole():
    sent = written(ONE)
    assert sent.subject == "EMEP: slerp-a-b failed"
    assert sent.text == (
        "slerp-a-b (merge, project alpha, by alice) failed: 2 Mar 2026, 12:00 UTC.\n\n"
        "Why: out of memory\n\n"
        "Next: Its page has the log. Retry there runs it again from where it saved last.\nhttp://emep/jobs/1/\n\n"
        "-- \nYou get this because you asked to be told. Change what you are told, or stop it: "
        "http://emep/account/#notices\n"
    )


def test_a_start_tells_how_long_it_was_waited_for():
    text = written(replace(ONE, what="started", why="", waited_s=7265)).text
    assert "slerp-a-b (merge, project alpha, by alice) has started after waiting 2 h 1 min: 2 Mar 2026" in text
    assert "Why" not in text


def test_a_sweep_of_a_thousand_failures_is_one_short_e_mail():
    of_a_sweep = replace(ONE, set_kind="sweep", set_id="s-1")
    told = [replace(of_a_sweep, job=f"t-{n}", why="bad t" if n else "no disk") for n in range(1000)]
    sent = written(*told)
    assert sent.subject == "EMEP: 1,000 jobs of one sweep failed"
    assert "1,000 jobs of sweep s-1 failed" in sent.text
    assert "Why (999 of them): bad t" in sent.text
    assert "Why (1 of them): no disk" in sent.text
    assert f"and {1000 - NAMED} more" in sent.text
    assert "All of them: http://emep/jobs/?sweep=s-1" in sent.text
    assert len(sent.text) < 4000


def test_different_things_stand_apart_and_the_subject_counts_them():
    sent = written(ONE, replace(ONE, job="other"), replace(ONE, what="timed_out"), replace(ONE, what="succeeded"))
    assert sent.subject == "EMEP: 2 jobs failed, 1 job reached its time limit, 1 job succeeded"
    assert "longer max_duration" in sent.text


def test_a_name_or_a_reason_of_several_lines_stays_on_one():
    sent = written(replace(ONE, job="a\r\nBcc: all", why="first\n\nsecond"))
    assert sent.subject == "EMEP: a Bcc: all failed"
    assert "Why: first second" in sent.text
