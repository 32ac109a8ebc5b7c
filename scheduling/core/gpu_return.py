"""How a GPU comes back (D23): what it needs, its test, three clean checks; the third return in a week asks a person."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scheduling.core.gpu_checks import Sample
from scheduling.core.gpu_record import Cause, Known, Record
from scheduling.core.gpu_xids import NEED_WORDS, Need
from scheduling.core.lifecycle import GpuState

CLEAN_CHECKS = 3
FREE_RETURNS = 2
TESTS_MAX = 3
TEST_PAUSE_MS = 600_000
# A doubt that no check can clear: only the test does.
TESTED_DOUBTS = (Cause.JOBS, Cause.OPERATOR)


@dataclass(frozen=True, slots=True)
class Progress:
    """The record after a report; ``words`` if something is to be told; ``returned`` says why it is well again."""

    record: Record
    words: str = ""
    returned: str = ""


def quarantined(record: Record, now_ms: int) -> Record:
    """The record of a GPU that has just been taken out of service: its third return in seven days asks a person."""
    returns = record.recent_returns(now_ms)
    need = Need.OPERATOR if len(returns) >= FREE_RETURNS else record.need
    return replace(record, returns=returns, need=need, tested=False, tests_failed=0, test_after_ms=0)


def may_be_tested(record: Record) -> bool:
    """True for a doubt that the test settles."""
    return record.cause in TESTED_DOUBTS


def wants_test(known: Known, now_ms: int) -> bool:
    """True when the test is to be run now: nothing else is needed, no job is on it, and its last check passed."""
    record = known.record
    if known.busy or not record.clean or now_ms < record.test_after_ms:
        return False
    if known.state is GpuState.SUSPECT:
        return may_be_tested(record)
    return known.state is GpuState.QUARANTINED and record.need is Need.NOTHING and not record.tested


def progress(record: Record, sample: Sample, *, clean: bool, now_ms: int) -> Progress:
    """A QUARANTINED GPU after a check that was ``clean`` or failed."""
    if record.need is Need.RESET and sample.recovery == 0:
        # A driver that knows what its boards need says that this one needs nothing.
        record = replace(record, need=Need.NOTHING)
    if not clean:
        return Progress(replace(record, tested=False))
    if record.need is not Need.NOTHING:
        return Progress(record)
    if not record.tested:
        return _tested(record, sample, now_ms)
    if record.clean < CLEAN_CHECKS:
        return Progress(record)
    returns = (*record.recent_returns(now_ms), now_ms)
    done = replace(record, returns=returns, tested=False, tests_failed=0, test_after_ms=0)
    return Progress(done, returned=f"it passed its test and {CLEAN_CHECKS} clean checks")


def _tested(record: Record, sample: Sample, now_ms: int) -> Progress:
    """The record after the result of the test, if the report has one that was asked for."""
    result = sample.canary
    if result is None or now_ms < record.test_after_ms:
        return Progress(record)
    if result.passed:
        words = f"it passed its test ({result.detail or 'passed'}); {CLEAN_CHECKS} clean checks are wanted now"
        return Progress(replace(record, tested=True, clean=0, tests_failed=0), words)
    times = record.tests_failed + 1
    failed = replace(record, tests_failed=times, test_after_ms=now_ms + TEST_PAUSE_MS)
    words = f"it failed its test, {times} of {TESTS_MAX}: {result.detail or 'no reason was given'}"
    if times >= TESTS_MAX:
        failed = replace(failed, need=Need.OPERATOR)
    return Progress(failed, words)


def outlook(known: Known, now_ms: int) -> str:
    """What has to happen before the GPU gets work again, for people; empty for a HEALTHY or RETIRED one."""
    record, state = known.record, known.state
    if state in (GpuState.HEALTHY, GpuState.RETIRED):
        return ""
    if state is GpuState.UNHEALTHY:
        return "its job is leaving it" if known.busy else "it is being taken out of service"
    if state is GpuState.SUSPECT:
        if record.cause is Cause.CHECKS:
            return "the next check decides"
        if record.cause is Cause.LINK:
            return "waits until the NVLink of its group is mended, or an operator asks for its return"
        return "waits until its job has ended" if known.busy else "is being tested"
    if record.need is not Need.NOTHING:
        often = len(record.recent_returns(now_ms)) >= FREE_RETURNS and record.need is Need.OPERATOR
        return (f"came back {FREE_RETURNS} times in 7 days; " if often else "") + NEED_WORDS[record.need]
    if record.tested:
        return f"passed its test; {record.clean} of {CLEAN_CHECKS} clean checks"
    if now_ms < record.test_after_ms:
        minutes = -(-(record.test_after_ms - now_ms) // 60_000)
        return f"failed its test ({record.tests_failed} of {TESTS_MAX}); it is tested again in {minutes} min"
    return "is being tested" if record.clean else "waits for a clean check before its test"
