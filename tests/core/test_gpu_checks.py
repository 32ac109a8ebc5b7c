"""When a check of a GPU has failed, and when it has not."""

from __future__ import annotations

import math

import pytest

from scheduling.core.gpu_checks import MISSING, Sample, failures, read

GOOD = {"uuid": "g", "utilization": 40.0, "memory_used_mib": 100, "memory_mib": 81920, "temperature_c": 94.9,
        "temperature_limit_c": 95.0, "power_w": 300.0, "ecc": 0, "remap_failure": 0, "remap_pending": 0,
        "retired_pages": 62, "recovery": 0}  # fmt: skip


def codes(row, *, installed=81920, ecc_before=0):
    return [failure.code for failure in failures(read(row), memory_mib=installed, ecc_before=ecc_before)]


def test_a_good_report_fails_nothing():
    assert codes(GOOD) == []


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_metric_that_the_board_cannot_give_never_fails_a_check(name):
    assert codes({key: value for key, value in GOOD.items() if key != name}) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"error": "Unknown Error"}, "error"),
        ({"error": "no answer within 1 s", "fault": "hung"}, "hung"),
        ({"error": "GPU is lost", "fault": "lost"}, "lost"),
        ({"temperature_c": 95.0}, "overheated"),
        ({"ecc": 1}, "ecc_rising"),
        ({"remap_failure": 1}, "remap_failed"),
        ({"retired_pages": 63}, "pages_retired"),
        ({"memory_mib": 40960}, "wrong_memory"),
        ({"recovery": 1}, "recovery"),
        ({"recovery": 2}, "recovery"),
        ({"recovery": 4}, "recovery"),
        ({"recovery": 9}, "recovery"),
    ],
)
def test_a_check_fails_for_one_named_reason(change, code):
    assert codes({**GOOD, **change}) == [code]


def test_a_gpu_that_the_report_does_not_mention_has_failed_its_check():
    assert [f.code for f in failures(MISSING, memory_mib=1, ecc_before=None)] == ["missing"]


def test_draining_the_peers_is_the_peers_affair():
    assert codes({**GOOD, "recovery": 3}) == []


def test_the_first_count_of_memory_errors_is_where_counting_begins():
    assert codes({**GOOD, "ecc": 7}, ecc_before=None) == []


def test_a_count_that_fell_began_anew():
    assert codes({**GOOD, "ecc": 1}, ecc_before=9) == []


def test_what_the_driver_keeps_for_itself_does_not_change_the_size():
    assert codes({**GOOD, "memory_mib": 81920 - 1600}) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature_c", math.nan),
        ("temperature_c", math.inf),
        ("temperature_c", 4294967295),
        ("temperature_c", -273.2),
        ("temperature_c", "hot"),
        ("temperature_c", True),
        ("memory_mib", 0),
        ("memory_mib", 1.5),
        ("ecc", -1),
        ("ecc", 2**63),
        ("xids", "79"),
        ("xids", [7.9]),
        ("xids", [True]),
        ("retired_pages", [1]),
    ],
)
def test_a_value_that_no_board_can_have_fails_the_check_and_is_named(name, value):
    (failure,) = failures(read({**GOOD, name: value}), memory_mib=81920, ecc_before=0)
    assert (failure.code, name in failure.words) == ("unreadable", True)


@pytest.mark.parametrize(("fault", "answers"), [("hung", False), ("missing", False), ("lost", False), ("error", True)])
def test_who_does_not_answer_can_save_nothing(fault, answers):
    (failure,) = failures(Sample(error="x", fault=fault), memory_mib=1, ecc_before=None)
    assert failure.answers is answers


def test_a_failure_tells_its_numbers():
    (failure,) = failures(read({**GOOD, "temperature_c": 105.0}), memory_mib=81920, ecc_before=0)
    assert failure.words == "105 °C is at or above the board's slowdown limit of 95 °C"
    assert failure.numbers == (("temperature_c", 105.0), ("limit_c", 95.0))
