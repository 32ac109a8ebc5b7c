"""In which order can jobs be stored that wait for each other, and do they wait in a circle?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def in_order(after: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    """(the keys, each behind all that it waits for and else as they were given; a circle, from a key back to it).

    One of the two is empty. ``after``: the keys that each one waits for, all of them there.
    """
    order: list[str] = []
    done: set[str] = set()
    for first in after:
        path: list[str] = []  # from ``first`` down to the key that is looked at, each waiting for the next
        on_path: set[str] = set()
        left: list[tuple[str, int]] = [(first, 0)]
        while left:
            key, place = left.pop()
            if place == 0:
                if key in done:
                    continue
                if key in on_path:
                    return [], [*path[path.index(key) :], key]
                path.append(key)
                on_path.add(key)
            if place < len(after[key]):
                left += [(key, place + 1), (after[key][place], 0)]
                continue
            order.append(key)
            done.add(key)
            path.pop()
            on_path.discard(key)
    return order, []
