"""Which is the largest number that does, where asking is dear?"""

from __future__ import annotations

from collections.abc import Callable

ONE_BY_ONE = 16


def largest_that(does: Callable[[int], bool], most: int) -> int:
    """The largest number from 1 to ``most`` that does; 0 for none.

    The largest ones are tried one by one, and the rest by halves, as if all below one that does did too.
    """
    least = max(0, most - ONE_BY_ONE)
    for number in range(most, least, -1):
        if does(number):
            return number
    return _halved(does, 0, least)


def largest_by_halves(does: Callable[[int], bool], most: int) -> int:
    """The largest number from 1 to ``most`` that does, where all below one that does do too; 0 for none."""
    if most < 1 or not does(1):
        return 0
    return _halved(does, 1, most)


def _halved(does: Callable[[int], bool], found: int, most: int) -> int:
    """The largest number from ``found``, which does, to ``most`` that does, as if all below one that does did too."""
    while found < most:
        middle = (found + most + 1) // 2
        if does(middle):
            found = middle
        else:
            most = middle - 1
    return found
