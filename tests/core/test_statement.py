"""A statement of an account: exact values, and for any history opening + charged - given back - faded = closing."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.decay import interval
from scheduling.core.fairshare import FairShare, Run
from scheduling.core.ledger import MICRO
from scheduling.core.policy import DEFAULT_POLICY
from scheduling.core.snapshot import Usage
from scheduling.core.statement import Charge, Credit, Line, Statement, balances, statement

HOUR = 3_600_000
WEEK = 7 * 24 * HOUR
OWNER = ("merge", "alpha", "alice")


def told(charges, credits=(), *, start=0, end=2 * WEEK, half_life=WEEK):
    return statement(charges, credits, start_ms=start, end_ms=end, half_life_ms=half_life)


def test_an_account_that_nobody_moves_only_fades():
    before = Charge("a", -HOUR, 0, 2, 2 * MICRO)
    found = told([before], end=WEEK)
    opening = interval(2.0, -HOUR, 0, 0, half_life_ms=WEEK)
    assert (found.opening, found.lines) == (opening, {})
    assert (found.faded, found.closing) == (opening / 2, opening / 2)


def test_what_is_held_all_the_time_fades_as_it_runs():
    # One GPU of weight 1 for one half-life: H / ln 2 * (1 - 1/2) of H is left.
    found = told([Charge("a", 0, 5 * WEEK, 1, MICRO)], end=WEEK)
    line = found.lines["a"]
    assert (line.held_ms, line.charged_micro, line.credited) == (WEEK, WEEK * MICRO, 0.0)
    assert line.kept == pytest.approx(WEEK / math.log(2) / 2, rel=1e-12)
    assert found.closing == line.kept
    assert found.faded == pytest.approx(WEEK * (1 - 1 / math.log(2) / 2), rel=1e-12)


def test_without_a_half_life_nothing_fades_and_all_is_whole():
    charges = [Charge("a", -10, 30, 2, 3 * MICRO), Charge("b", 20, 90, 1, MICRO // 2)]
    found = told(charges, [Credit("a", 10, 30, 30, 3 * MICRO)], end=60, half_life=0)
    assert (found.opening, found.faded, found.closing) == (30.0, 0.0, 30.0 + 90.0 - 60.0 + 20.0)
    assert found.lines["a"] == Line(held_ms=60, charged_micro=90 * MICRO, credited=60.0, kept=30.0)
    assert found.lines["b"] == Line(held_ms=40, charged_micro=20 * MICRO, credited=0.0, kept=20.0)


def test_a_credit_counts_when_it_is_given_with_what_the_time_still_counted_then():
    # Held from a week before the period to its first hour; all of it was in vain, which came out at the end.
    held = Charge("a", -WEEK, HOUR, 1, MICRO)
    found = told([held], [Credit("a", -WEEK, HOUR, HOUR, MICRO)])
    line = found.lines["a"]
    assert found.opening == pytest.approx(WEEK / math.log(2) / 2)
    assert line.charged_micro == HOUR * MICRO
    assert line.credited == interval(1.0, -WEEK, HOUR, HOUR, half_life_ms=WEEK)
    assert found.closing == pytest.approx(0.0, abs=1e-3)
    # What the opening balance lost in the hour before it was given back is all that faded.
    assert found.faded == pytest.approx(found.opening + HOUR - line.credited)


def test_what_happens_at_the_first_instant_belongs_to_the_opening_balance():
    held, back = Charge("a", -HOUR, 0, 1, MICRO), Credit("a", -HOUR, 0, 0, MICRO)
    assert told([held], [back]) == Statement(0.0, 0.0, {})
    late = told([held], [back._replace(at_ms=1)])
    assert late.opening == interval(1.0, -HOUR, 0, 0, half_life_ms=WEEK)
    assert late.lines["a"].credited == interval(1.0, -HOUR, 0, 1, half_life_ms=WEEK)
    after = told([held], [back._replace(at_ms=2 * WEEK + 1)])
    assert after.lines == {}


def test_balances_of_no_instants_are_none():
    assert balances([Charge("a", 0, 1, 1, MICRO)], [], [], half_life_ms=WEEK) == []


@st.composite
def histories(draw):
    """Runs within a thousand hours, ended or not, of which some were partly in vain."""
    charges, credits = [], []
    for number in range(draw(st.integers(0, 8))):
        start, length = draw(st.integers(0, 1000 * HOUR)), draw(st.integers(0, 300 * HOUR))
        gpus, weight = draw(st.integers(1, 64)), draw(st.sampled_from([MICRO, MICRO // 3, 2_500_000, 0]))
        end, micro, whose = start + length, gpus * weight, f"run-{number}"
        charges.append(Charge(whose, start, end, gpus, micro))
        if draw(st.booleans()):
            redo = draw(st.integers(start, end))
            credits.append(Credit(whose, redo, end, end, micro))
            if draw(st.booleans()):
                credits.append(Credit(whose, start, draw(st.integers(start, redo)), end, micro))
    return charges, credits


instants = st.integers(-10 * HOUR, 1400 * HOUR)
half_lives = st.sampled_from([0, HOUR, 50 * HOUR, WEEK, 52 * WEEK])


def balance(charges, credits, at, half_life):
    """What is on the account at ``at``, from the first day on."""
    sums = [
        interval(c.micro / MICRO, c.start_ms, min(c.end_ms, at), at, half_life_ms=half_life)
        for c in charges
        if c.start_ms < at
    ]
    sums += [
        -interval(c.micro / MICRO, c.since_ms, c.until_ms, at, half_life_ms=half_life) for c in credits if c.at_ms <= at
    ]
    return math.fsum(sums)


@settings(deadline=None)
@given(histories(), instants, instants, half_lives)
def test_the_sums_agree_for_any_history(history, one, other, half_life):
    (charges, credits), (start, end) = history, sorted((one, other))
    found = told(charges, credits, start=start, end=end, half_life=half_life)
    whole = found.total
    size = sum(c.micro / MICRO * (c.end_ms - c.start_ms) for c in charges)
    near = {"abs": 1e-9 * size + 0.1}
    assert found.opening == pytest.approx(balance(charges, credits, start, half_life), **near)
    assert found.closing == pytest.approx(balance(charges, credits, end, half_life), **near)
    assert found.opening + whole.charged - whole.credited - found.faded == pytest.approx(found.closing, **near)
    inside = [(c, max(0, min(c.end_ms, end) - max(c.start_ms, start))) for c in charges]
    assert whole.held_ms == sum(c.gpus * ms for c, ms in inside)
    assert whole.charged_micro == sum(c.micro * ms for c, ms in inside)
    assert found.faded >= -near["abs"]


@settings(deadline=None)
@given(histories(), st.lists(instants, min_size=2, max_size=9, unique=True).map(sorted), half_lives)
def test_periods_that_follow_each_other_are_one(history, edges, half_life):
    charges, credits = history
    parts = [told(charges, credits, start=start, end=end, half_life=half_life) for start, end in pairwise(edges)]
    whole = told(charges, credits, start=edges[0], end=edges[-1], half_life=half_life)
    size = sum(c.micro / MICRO * (c.end_ms - c.start_ms) for c in charges)
    near = {"abs": 1e-9 * size + 0.1}
    for before, after in pairwise(parts):
        assert after.opening == pytest.approx(before.closing, **near)
    assert sum(p.total.charged_micro for p in parts) == whole.total.charged_micro
    assert sum(p.total.credited for p in parts) == pytest.approx(whole.total.credited, **near)
    assert sum(p.faded for p in parts) == pytest.approx(whole.faded, **near)
    held = balances(charges, credits, edges, half_life_ms=half_life)
    assert held == pytest.approx([parts[0].opening, *(p.closing for p in parts)], **near)


@settings(deadline=None)
@given(histories(), instants)
def test_it_fades_at_the_rate_of_the_half_life_of_what_is_on_the_account(history, start):
    charges, credits = history
    steps = range(start, start + 5 * HOUR + 1, 5 * HOUR // 400)
    on = balances(charges, credits, steps, half_life_ms=WEEK)
    found = told(charges, credits, start=start, end=steps[-1])
    # By the trapezium rule, which a jump within a step makes wrong by that step at most.
    integral = sum((a + b) / 2 for a, b in pairwise(on)) * steps.step * math.log(2) / WEEK
    most = max(map(abs, on)) + sum(c.micro / MICRO for c in charges) * steps.step + 1
    assert found.faded == pytest.approx(integral, abs=most * steps.step * math.log(2) / WEEK * (len(credits) + 1))


@settings(deadline=None)
@given(histories(), st.lists(instants, min_size=1, max_size=6).map(sorted), half_lives)
def test_the_closing_balance_is_the_one_that_the_scheduler_orders_by(history, moments, half_life):
    charges, credits = history
    policy = replace(DEFAULT_POLICY, half_life_s=half_life / 1000)
    share = FairShare(policy, 8, Usage(), now_ms=-20 * HOUR)
    runs = [Run(OWNER, c.micro, c.start_ms, end_ms=c.end_ms) for c in charges]
    lost = [[(x.since_ms, x.until_ms) for x in credits if x.whose == c.whose] for c in charges]
    happens = [(c.start_ms, 0, n) for n, c in enumerate(charges)] + [(c.end_ms, 1, n) for n, c in enumerate(charges)]
    happens += [(at, 2, 0) for at in moments]
    for at, what, n in sorted(happens):
        share.move(at)
        if what == 0:
            share.start(runs[n])
        elif what == 1:
            share.stop(runs[n], lost[n])
        else:
            found = told(charges, credits, start=at, end=at, half_life=half_life)
            size = sum(c.micro / MICRO * (c.end_ms - c.start_ms) for c in charges)
            on = share.projects.entity("alpha").consumed(share.clock)
            # The scheduler adds whole millionths and rounds to a GPU-ms.
            assert on == pytest.approx(found.closing, abs=1 + 1e-6 * size)
