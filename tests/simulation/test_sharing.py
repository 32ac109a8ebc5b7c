"""The error of sharing, against the definition: half the sum of |held - due| over all that is due, averaged in time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.simulation.sharing import ShareMeter, due

DEMANDS = st.lists(st.tuples(st.integers(0, 50), st.sampled_from([0.0, 0.5, 1.0, 3.0])), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("demands", "weights", "expected"),
    [
        ([10, 10], [1, 1], [4, 4]),
        ([2, 10], [1, 1], [2, 6]),
        ([10, 10], [3, 1], [6, 2]),
        ([1, 10, 10], [6, 1, 1], [1, 3.5, 3.5]),
        ([10, 10], [0, 1], [0, 8]),
        ([10, 3], [0, 1], [5, 3]),
        ([10, 10], [0, 0], [4, 4]),
        ([0, 0], [1, 1], [0, 0]),
    ],
)
def test_due_is_max_min_by_weight_and_demand(demands, weights, expected):
    assert due(demands, weights, 8) == pytest.approx(expected)


@settings(max_examples=60, deadline=None)
@given(DEMANDS, st.integers(0, 60))
def test_everything_is_due_to_somebody_as_long_as_anyone_wants_more(pairs, capacity):
    demands, weights = [d for d, _ in pairs], [w for _, w in pairs]
    dues = due(demands, weights, capacity)
    assert sum(dues) == pytest.approx(min(capacity, sum(demands)))
    assert all(0 <= ought <= demand + 1e-9 for ought, demand in zip(dues, demands, strict=True))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 30)), min_size=1, max_size=6), st.integers(1, 60))
def test_equal_weights_give_the_same_error_by_the_short_way(pairs, capacity):
    names = [f"p{place}" for place in range(len(pairs))]
    quick = ShareMeter(names, {}, capacity)
    quick.held, quick.wanted = [held for held, _ in pairs], [wanted for _, wanted in pairs]
    demands = [held + wanted for held, wanted in pairs]
    dues = due(demands, [1.0] * len(pairs), capacity)
    whole = sum(dues)
    expected = sum(abs(h - d) for (h, _), d in zip(pairs, dues, strict=True)) / (2 * whole) if whole else 0.0
    assert quick.error() == pytest.approx(expected)


def test_the_error_is_averaged_over_the_time_in_which_anyone_waits():
    meter = ShareMeter(["A", "B"], {}, 4)
    meter.held, meter.wanted = [4, 0], [0, 4]  # B is due 2 and has none: half of (2 + 2) over 4 due
    meter.advance(1000, waiting=1)
    meter.held, meter.wanted = [2, 2], [2, 2]  # fair
    meter.advance(4000, waiting=1)
    meter.advance(9000, waiting=0)
    assert meter.mean() == pytest.approx(0.5 * 1000 / 4000)


def test_the_error_is_0_when_nobody_ever_waits():
    assert ShareMeter(["A"], {}, 4).mean() == 0.0
