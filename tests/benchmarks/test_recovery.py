"""What the benchmark of recovery refuses, and how it writes figures."""

from __future__ import annotations

import pytest

from benchmarks import recovery


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("--rounds=0", "argument --rounds: write a whole number from 1 to 100, not '0'"),
        ("--scale=0", "argument --scale: write a number from 0.1 to 1, not '0'"),
        ("--scale=2", "argument --scale: write a number from 0.1 to 1, not '2'"),
        ("--scale=slow", "argument --scale: write a number from 0.1 to 1, not 'slow'"),
    ],
)
def test_what_can_not_be_used_is_refused_in_one_line(argument, words, capsys):
    with pytest.raises(SystemExit) as ended:
        recovery.main([argument])
    told = capsys.readouterr().err
    assert (ended.value.code, told.count("\n")) == (2, 1)
    assert words in told


def test_a_figure_is_the_median_with_its_range():
    assert recovery.spread([3.0, 1.0, 2.0]) == "2.0 s (1.0 to 3.0)"


def test_of_a_figure_something_known_can_be_left_off():
    assert recovery.spread([5.0], 2.0) == "3.0 s (3.0 to 3.0)"


def test_no_values_are_no_figure():
    assert recovery.spread([]) == "(none)"
