"""How memory (D26) and durations (D25) are read."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.units import as_memory, gb, parse_duration, parse_memory


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("80GB", 76294), (80, 76294), ("80", 76294), ("80 gb", 76294), (80.0, 76294), ("24GB", 22889),
        ("80GiB", 81920), ("40960MiB", 40960), ("1TiB", 1048576), ("1TB", 953675), ("512MB", 489), (" 1.5 GiB ", 1536),
        (0.5, 477), ("1MiB", 1),
    ],
)  # fmt: skip
def test_d26_plain_numbers_and_gb_are_decimal_and_gib_is_binary(text, mib):
    assert parse_memory(text) == mib


def test_an_80_gb_board_of_81559_mib_fits_80gb_and_not_80gib():
    assert parse_memory("80GB") <= 81559 < parse_memory("80GiB")


@pytest.mark.parametrize(
    "junk",
    [
        0, -1, "0GB", "-4GB", 0.0, math.nan, math.inf, -math.inf, True, None, "", "GB", "lots", "4 parsecs", "40Gb/s",
        "1e3GB", "0x10GB", "４０GB", [40], {}, "nan", 10**4000, "9" * 5000 + "GB", "1GB\n2GB", "40 G B",
    ],
)  # fmt: skip
def test_d26_memory_that_cannot_be_read_or_is_not_positive_is_refused_with_a_sentence(junk):
    with pytest.raises(ValueError, match="memory"):
        parse_memory(junk)


@given(st.integers(1, 2**31 - 1))
def test_memory_in_mib_is_read_back_as_it_was_written(mib):
    assert parse_memory(as_memory(mib)) == mib


@pytest.mark.parametrize(("mib", "text"), [(76294, "80 GB"), (22889, "24 GB"), (81559, "85.5 GB"), (0, "0 GB")])
def test_people_see_decimal_gb(mib, text):
    assert gb(mib) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("4h", 14400), ("90m", 5400), ("1h30m", 5400), ("PT4H", 14400), ("2d", 172800), (45, 45), ("3600", 3600),
        ("45s", 45), ("1d2h3m4s", 93784), ("P1DT2H", 93600), ("PT1H30M", 5400), ("1.5h", 5400), ("90 min", 5400),
        (" 1h 30m ", 5400), ("PT0.5S", 1), (1.2, 2),
    ],
)  # fmt: skip
def test_d25_durations_are_read_as_people_write_them(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "junk",
    [
        0, -1, "0h", "-5", "0", "4 parsecs", "", "h", "P", "PT", "P1DT", "4h4h", "30m1h", "1h30", True, None, math.nan,
        math.inf, [4], {"hours": 4}, "٤h", 10**4000, "9" * 5000, 2**31,
    ],
)  # fmt: skip
def test_d25_durations_that_cannot_be_read_or_are_not_positive_are_refused_with_a_sentence(junk):
    with pytest.raises(ValueError, match="duration"):
        parse_duration(junk)
