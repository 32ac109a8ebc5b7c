"""The fence clock: silence counts, an explicit refusal pauses (D33)."""

from __future__ import annotations

from workers.agent.fence import FenceClock
from workers.protocol import Timings

T = Timings()
ACKNOWLEDGED = FenceClock(0.0).acknowledged(100.0, T)


def test_the_deadline_is_45_s_after_the_send_time_of_the_last_acknowledged_call() -> None:
    assert ACKNOWLEDGED.deadline == 145.0


def test_43_s_of_silence_do_not_fence_and_45_do() -> None:
    assert (ACKNOWLEDGED.silent().over(143.0), ACKNOWLEDGED.silent().over(145.0)) == (False, True)


def test_an_answer_that_overtakes_a_later_one_does_not_shorten_the_time() -> None:
    assert ACKNOWLEDGED.acknowledged(90.0, T) == ACKNOWLEDGED


def refused_every(step: float, clock: FenceClock, begin: float, end: float) -> FenceClock:
    at = begin
    while at <= end:
        clock = clock.refused(at, T)
        at += step
    return clock


def test_refusals_pause_the_clock_at_what_was_left() -> None:
    clock = refused_every(3.0, ACKNOWLEDGED, 110.0, 410.0)
    assert clock.deadline - 410.0 == 35.0


def test_the_pause_ends_after_the_outage_grace() -> None:
    clock = refused_every(3.0, ACKNOWLEDGED, 110.0, 4000.0)
    assert clock.deadline == 145.0 + T.outage_grace_s


def test_silence_after_refusals_counts_again() -> None:
    clock = refused_every(3.0, ACKNOWLEDGED, 110.0, 140.0).silent()
    assert clock.refused(165.0, T).deadline == clock.deadline


def test_a_refusal_just_before_the_fence_leaves_time_for_the_next_call() -> None:
    assert ACKNOWLEDGED.silent().refused(144.9, T).deadline == 144.9 + 2 * T.retry_s


def test_an_acknowledgement_makes_the_whole_outage_grace_available_again() -> None:
    clock = refused_every(3.0, ACKNOWLEDGED, 110.0, 1500.0).acknowledged(1510.0, T)
    assert clock.paused_s == 0.0
