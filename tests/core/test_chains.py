"""The order of jobs that wait for each other, and the circles there are."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.chains import in_order


def test_each_comes_behind_all_that_it_waits_for_and_else_as_given():
    assert in_order({"best": ["e2", "e1"], "e1": ["m"], "e2": ["m"], "m": []}) == (["m", "e2", "e1", "best"], [])
    assert in_order({"b": [], "a": [], "c": []}) == (["b", "a", "c"], [])
    assert in_order({}) == ([], [])


def test_a_circle_is_told_from_a_key_back_to_it():
    assert in_order({"a": ["a"]}) == ([], ["a", "a"])
    assert in_order({"x": ["a"], "a": ["b"], "b": ["c"], "c": ["a"]}) == ([], ["a", "b", "c", "a"])


def test_a_long_chain_is_no_matter_of_the_stack():
    many = {str(i): [str(i + 1)] if i < 5000 else [] for i in range(5001)}
    assert in_order(many)[0][0] == "5000"
    assert len(in_order({**many, "5000": ["0"]})[1]) == 5002


@given(st.dictionaries(st.integers(0, 7), st.lists(st.integers(0, 7), max_size=4), max_size=8))
def test_there_is_an_order_or_a_circle_and_each_is_one(drawn):
    after = {str(k): [str(v) for v in vs if v in drawn] for k, vs in drawn.items()}
    order, circle = in_order(after)
    if circle:
        assert not order
        assert circle[0] == circle[-1]
        assert all(b in after[a] for a, b in pairwise(circle))
    else:
        assert sorted(order) == sorted(after)
        assert all(order.index(b) < order.index(a) for a, waits in after.items() for b in waits)
