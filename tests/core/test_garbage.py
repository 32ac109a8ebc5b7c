"""The search for garbage is held back for a while, and then is as it was."""

from __future__ import annotations

import gc

import pytest

from scheduling.core.garbage import SELDOM, not_searched, searched_seldom


def test_within_it_searches_are_rare_and_afterwards_as_before():
    before = gc.get_threshold()
    with searched_seldom():
        assert gc.get_threshold() == (SELDOM, *before[1:])
    assert gc.get_threshold() == before


def test_who_has_turned_it_off_is_left_alone():
    before = gc.get_threshold()
    gc.set_threshold(0, *before[1:])
    try:
        with searched_seldom():
            assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize("on", [True, False])
def test_nothing_is_searched_within_it_and_afterwards_as_before_also_when_it_fails(on):
    def fail() -> None:
        with not_searched():
            assert not gc.isenabled()
            raise KeyError

    was = gc.isenabled()
    (gc.enable if on else gc.disable)()
    try:
        with pytest.raises(KeyError):
            fail()
        assert gc.isenabled() is on
    finally:
        (gc.enable if was else gc.disable)()
