"""Which places does a bit set name? Cells, nodes and the GPUs of a cell are kept as big integers, a bit for each."""

from __future__ import annotations


def places_in(bits: int) -> list[int]:
    """The positions of the bits that are set, the lowest first."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


def lowest_in(bits: int, count: int) -> list[int]:
    """The lowest ``count`` positions of bits that are set, or as many as there are."""
    found: list[int] = []
    while bits and len(found) < count:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found
