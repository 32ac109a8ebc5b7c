"""No number without its unit, and always in the same words."""

from __future__ import annotations

import pytest

from scheduling.web import wording


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1m 00s"),
        (3840, "1h 04m"),
        (86_400 * 2 + 3 * 3600, "2d 03h"),
        (-5, "0 s"),
        (None, ""),
    ],
)
def test_a_duration_reads(seconds, words):
    assert wording.duration(seconds) == words


@pytest.mark.parametrize(("seconds", "words"), [(14_400, "4h"), (5400, "1h 30m"), (604_800, "7d"), (45, "45 s"),
                                               (90_061, "1d 1h 1m 1s"), (5430, "1h 30m 30s")])  # fmt: skip
def test_a_limit_reads_as_it_would_be_written(seconds, words):
    assert wording.limit(seconds) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_960, "1.0 MB"),
        (12_345_678, "12.3 MB"),
        (2 * 10**15, "2000.0 TB"),
    ],
)
def test_bytes_read_in_decimal_units(count, words):
    assert wording.size(count) == words


@pytest.mark.parametrize(
    ("gpu_seconds", "words"),
    [
        (0, "0 GPU-seconds"),
        (1, "1 GPU-second"),
        (59.4, "59 GPU-seconds"),
        (60, "1.0 GPU-minutes"),
        (160, "2.7 GPU-minutes"),
        (359.4, "6.0 GPU-minutes"),
        (360, "0.10 GPU-hours"),
        (4444.2, "1.23 GPU-hours"),
    ],
)
def test_gpu_time_reads_in_a_unit_in_which_it_is_not_nothing(gpu_seconds, words):
    assert wording.gpu_hours(gpu_seconds / 3600) == words


def test_one_is_not_many():
    assert (wording.amount(1, "job"), wording.amount(0, "job")) == ("1 job", "0 jobs")


@pytest.mark.parametrize(
    ("unit", "many"),
    [
        ("step", "steps"),
        ("tensors", "tensors"),
        ("batch", "batches"),
        ("loss", "losses"),
        ("entry", "entries"),
        ("day", "days"),
        ("training step", "training steps"),
        ("MB", "MB"),
        ("it", "it"),
        ("%", "%"),
        ("Größe", "Größe"),
        ("", ""),
    ],
)
def test_a_unit_s_name_has_the_plural_that_english_gives_it(unit, many):
    assert wording.plural(unit) == many


@pytest.mark.parametrize(
    ("step", "total", "unit", "words"),
    [
        (24, 30, "step", "24 of 30 steps"),
        (0, 1, "step", "0 of 1 step"),
        (3, 4, "", "3 of 4"),
        (1_200_000, 3_000_000, "bytes", "1.2 MB of 3.0 MB"),
    ],
)
def test_how_far_a_job_is_reads_with_its_unit(step, total, unit, words):
    assert wording.steps_of(step, total, unit) == words


@pytest.mark.parametrize(
    ("rate", "unit", "words"),
    [(2.5, "step", "2.5 steps/s"), (1, "step", "1 step/s"), (0.5, "", "0.5 steps/s"), (1_200_000, "B", "1.2 MB/s")],
)
def test_how_fast_a_job_is_reads_with_its_unit(rate, unit, words):
    assert wording.per_second(rate, unit) == words
