"""The largest number that does."""

from __future__ import annotations

import pytest

from scheduling.core.halving import ONE_BY_ONE, largest_by_halves, largest_that


@pytest.mark.parametrize("most", [0, 1, 5, ONE_BY_ONE, ONE_BY_ONE + 1, 100])
def test_it_is_found_wherever_it_is(most):
    assert [largest_that(lambda n, limit=limit: n <= limit, most) for limit in range(most + 1)] == list(range(most + 1))


def test_few_are_asked_of_many():
    asked: list[int] = []

    def does(number: int) -> bool:
        asked.append(number)
        return number <= 3

    assert largest_that(does, 65_536) == 3
    assert len(asked) <= ONE_BY_ONE + 17


def test_by_halves_every_limit_is_found():
    found = [[largest_by_halves(lambda n, limit=limit: n <= limit, most) for limit in range(9)] for most in (0, 1, 8)]
    assert found == [[min(limit, most) for limit in range(9)] for most in (0, 1, 8)]
