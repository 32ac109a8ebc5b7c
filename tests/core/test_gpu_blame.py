"""Jobs that fail alike on one GPU: how many, of how many people, within what time."""

from __future__ import annotations

import pytest

from scheduling.core.gpu_blame import JobFailure, alike

HOUR = 3_600_000


def failed(user, at_h, error="CUDA error: an illegal memory access at 0x7f00 in step 3", code=1):
    return JobFailure(user, round(at_h * HOUR), code, error)


def blamed(*failures, since_h=0.0, now_h=30.0):
    return alike(failures, now_ms=round(now_h * HOUR), since_ms=round(since_h * HOUR))


def test_three_failures_alike_of_two_people_in_a_day_are_blamed_on_the_gpu():
    found = blamed(failed("alice", 10), failed("bob", 20), failed("alice", 29))
    assert (found.failures, found.users) == (3, 2)
    assert found.words.startswith("3 jobs of 2 people failed alike on it within 24 h: CUDA error")


@pytest.mark.parametrize(
    "failures",
    [
        [failed("alice", 10), failed("bob", 20)],
        [failed("alice", 10), failed("alice", 20), failed("alice", 29)],
        [failed("alice", 5.9), failed("bob", 20), failed("bob", 29)],
        [failed("alice", 10), failed("bob", 20, "file not found"), failed("bob", 29)],
        [failed("alice", 10), failed("bob", 20, code=2), failed("bob", 29)],
    ],
    ids=["two", "one person's", "one is older than a day", "another error", "another exit code"],
)
def test_fewer_or_other_failures_are_the_jobs_own(failures):
    assert blamed(*failures) is None


def test_numbers_addresses_and_paths_do_not_make_a_difference():
    assert blamed(
        failed("alice", 10, "device 3 at 0xAB: no /tmp/a"), failed("bob", 11, "device 12 at 0xCD: no /tmp/b"),
        failed("bob", 12, "device 7 at 0x0: no /x"),
    )  # fmt: skip


def test_the_last_lines_of_their_logs_make_no_difference_and_are_not_told_to_others():
    tail = "exit code 1; the last line of its log: "
    found = blamed(
        failed("alice", 10, f"{tail}'a: b'"), failed("bob", 11, "exit code 1"), failed("bob", 12, f'{tail}"it\'s c"')
    )
    assert found.words == "3 jobs of 2 people failed alike on it within 24 h: exit code 1"


def test_what_happened_before_the_gpu_was_found_well_is_forgiven():
    assert blamed(failed("alice", 10), failed("bob", 20), failed("alice", 29), since_h=15) is None
