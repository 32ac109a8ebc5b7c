"""Is a GPU well enough for work? Its states, what moves it, and the verdict on one received report (D20, D23).

HEALTHY gets work. SUSPECT: its last check failed, jobs of several people fail on it, the NVLink of its group is at
fault, or it is to be reset when its job has ended; it gets no new work. UNHEALTHY: three checks in a row failed, or
one fatal Xid; its job moves away. QUARANTINED: empty, until a test on it and three clean checks return it. Nothing
here reads a clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from scheduling.core import gpu_return
from scheduling.core.gpu_checks import MISSING, Failure, Number, Sample, failures
from scheduling.core.gpu_record import Cause, Known, Record
from scheduling.core.gpu_xids import Effect, Need, in_words, meaning_of
from scheduling.core.lifecycle import GpuState

FAILS = 3
TWICE = 2


class GpuEvent(StrEnum):
    """What can happen to a GPU."""

    DOUBT = "DOUBT"
    CLEAR = "CLEAR"
    CONDEMN = "CONDEMN"
    QUARANTINE = "QUARANTINE"
    RETURN = "RETURN"
    RETIRE = "RETIRE"
    REINSTATE = "REINSTATE"


GPU_TABLE: dict[tuple[GpuState, GpuEvent], GpuState] = {
    (GpuState.HEALTHY, GpuEvent.DOUBT): GpuState.SUSPECT,
    (GpuState.HEALTHY, GpuEvent.CONDEMN): GpuState.UNHEALTHY,
    (GpuState.HEALTHY, GpuEvent.QUARANTINE): GpuState.QUARANTINED,
    (GpuState.HEALTHY, GpuEvent.RETIRE): GpuState.RETIRED,
    (GpuState.SUSPECT, GpuEvent.CLEAR): GpuState.HEALTHY,
    (GpuState.SUSPECT, GpuEvent.CONDEMN): GpuState.UNHEALTHY,
    (GpuState.SUSPECT, GpuEvent.QUARANTINE): GpuState.QUARANTINED,
    (GpuState.SUSPECT, GpuEvent.RETIRE): GpuState.RETIRED,
    (GpuState.UNHEALTHY, GpuEvent.QUARANTINE): GpuState.QUARANTINED,
    (GpuState.UNHEALTHY, GpuEvent.RETIRE): GpuState.RETIRED,
    (GpuState.QUARANTINED, GpuEvent.RETURN): GpuState.HEALTHY,
    (GpuState.QUARANTINED, GpuEvent.RETIRE): GpuState.RETIRED,
    (GpuState.RETIRED, GpuEvent.REINSTATE): GpuState.QUARANTINED,
}


def advance_gpu(state: GpuState, event: GpuEvent) -> GpuState | None:
    """The GPU's state after ``event``, or None when it is not allowed in ``state``."""
    return GPU_TABLE.get((state, event))


def gpu_sources_of(event: GpuEvent) -> frozenset[GpuState]:
    """Every GPU state in which ``event`` is allowed."""
    return frozenset(state for state, known in GPU_TABLE if known is event)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to be told of a GPU, in words and numbers; ``event`` None when its state stays."""

    event: GpuEvent | None
    words: str
    numbers: tuple[tuple[str, Number], ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The GPU after a report. ``answers``: a job on it could still save a checkpoint.

    ``link``: why from now on the NVLink of its whole group is in doubt; ``node``: why its node is to be emptied.
    """

    state: GpuState
    record: Record
    steps: tuple[Step, ...] = ()
    answers: bool = True
    link: str = ""
    node: str = ""


class _Case:
    """A GPU whose verdict is being found: each step is taken through the table."""

    def __init__(self, known: Known) -> None:
        self.state, self.record, self.busy = known.state, known.record, known.busy
        self.link_down = known.link_down
        self.steps: list[Step] = []
        self.answers = True
        self.link = self.node = ""

    def move(
        self,
        event: GpuEvent,
        words: str,
        *,
        cause: Cause | None = None,
        need: Need = Need.NOTHING,
        numbers: tuple[tuple[str, Number], ...] = (),
    ) -> None:
        """The GPU has gone where ``event`` leads; ``cause`` and its ``words`` are kept as the reason."""
        target = advance_gpu(self.state, event)
        if target is None:
            raise ValueError(f"a GPU that is {self.state} can't take {event}")
        self.state = target
        if target is GpuState.HEALTHY:
            self.record = replace(
                self.record, cause=Cause.NONE, reason="", need=Need.NOTHING, tested=False, link=False, machine=""
            )
        elif cause is not None:
            kept = max(need, self.record.need) if target is not GpuState.SUSPECT else need
            self.record = replace(self.record, cause=cause, reason=words, need=kept, tested=False)
        self.steps.append(Step(event, words, numbers))

    def note(self, words: str, numbers: tuple[tuple[str, Number], ...] = ()) -> None:
        """Something is told, and the state stays."""
        self.steps.append(Step(None, words, numbers))

    def verdict(self) -> Verdict:
        """What was found."""
        return Verdict(self.state, self.record, tuple(self.steps), self.answers, self.link, self.node)


def receive(known: Known, sample: Sample | None, *, boot_id: str, seq: int, now_ms: int) -> Verdict:
    """The GPU after the report number ``seq`` of the node's boot ``boot_id``; ``sample`` None: it does not mention it.

    A report that is not newer than the newest judged one is no check: only Xids in it that were not told yet count.
    A retired GPU is not judged.
    """
    case = _Case(known)
    if known.state is GpuState.RETIRED:
        return case.verdict()
    if known.record.boot_id != boot_id:
        case.record = registered(known.record, boot_id)
    seen = sample or MISSING
    told = case.record.xids_told
    fatal = _xids(case, seen, now_ms)
    if seq <= case.record.seq:
        _condemn_by_xid(case, fatal)
        return case.verdict()
    found = failures(seen, memory_mib=known.memory_mib, ecc_before=case.record.ecc)
    case.answers = all(failure.answers for failure in found)
    failed = case.record.failed + 1 if found else 0
    # Even an Xid that is the job's fault is no clean check of a GPU that no job is on.
    clean = not found and case.record.xids_told == told
    case.record = replace(
        case.record, seq=seq, failed=failed, clean=case.record.clean + 1 if clean else 0,
        ecc=case.record.ecc if seen.ecc is None else seen.ecc,
    )  # fmt: skip
    _condemn_by_xid(case, fatal)
    if case.state in (GpuState.HEALTHY, GpuState.SUSPECT):
        _in_service(case, seen, found, now_ms)
    if case.state in (GpuState.UNHEALTHY, GpuState.QUARANTINED):
        _out_of_service(case, seen, clean=clean, now_ms=now_ms)
    return case.verdict()


def registered(record: Record, boot_id: str) -> Record:
    """The record when the node registers: its reports count anew; after a new boot so do the board's own counters.

    What needed a reset or a reboot has had it then.
    """
    if record.boot_id == boot_id:
        return replace(record, seq=0, xids_told=0)
    need = record.need if record.need is Need.OPERATOR or not record.boot_id else Need.NOTHING
    return replace(
        record, boot_id=boot_id, seq=0, xids_told=0, ecc=None, failed=0, clean=0, tested=False, need=need, machine=""
    )


def _xids(case: _Case, sample: Sample, now_ms: int) -> list[int]:
    """The new Xids of the report are on record and told; returns the fatal ones."""
    new = sample.xids[max(0, case.record.xids_told - sample.xids_before) :]
    if not new:
        return []
    told = max(case.record.xids_told, sample.xids_before + len(sample.xids))
    case.record = replace(case.record.with_xids(new, now_ms), xids_told=told)
    fatal: list[int] = []
    for number in dict.fromkeys(new):
        effect, times = meaning_of(number).effect, case.record.times_seen(number)
        if effect is Effect.FATAL or (effect is Effect.TWICE and times >= TWICE):
            fatal.append(number)
            continue
        day = f"{times} in the last day" if times > 1 else "the first in a day"
        case.note(f"{in_words(number)}: {day}", (("xid", number), ("in_a_day", times)))
        if effect is Effect.AFTER:
            _wear(case, in_words(number), meaning_of(number).need)
    return fatal


def _wear(case: _Case, words: str, need: Need) -> None:
    """It is to be reset once its job has ended, and gets no new one."""
    if case.state is GpuState.HEALTHY:
        case.move(GpuEvent.DOUBT, f"no new work until it is reset: {words}", cause=Cause.WEAR, need=need)
    elif case.state is GpuState.SUSPECT and case.record.cause is not Cause.WEAR:
        reason = f"no new work until it is reset: {words}"
        case.record = replace(case.record, cause=Cause.WEAR, need=need, reason=reason)
        case.note(reason)


def _condemn_by_xid(case: _Case, fatal: list[int]) -> None:
    if not fatal:
        return
    meanings = [meaning_of(number) for number in fatal]
    need = max(meaning.need for meaning in meanings)
    case.answers = case.answers and all(meaning.answers for meaning in meanings)
    words = " and ".join(in_words(number) for number in fatal)
    numbers = (("xid", fatal[0]),)
    case.link = " and ".join(in_words(number) for number in fatal if meaning_of(number).link)
    case.node = " and ".join(in_words(number) for number in fatal if meaning_of(number).node)
    case.record = replace(
        case.record, link=case.record.link or bool(case.link), machine=case.node or case.record.machine
    )
    if case.state in gpu_sources_of(GpuEvent.CONDEMN):
        case.move(GpuEvent.CONDEMN, words, cause=Cause.XID, need=need, numbers=numbers)
        return
    case.record = replace(
        case.record, cause=Cause.XID, reason=words, need=max(need, case.record.need), tested=False, clean=0
    )
    case.note(words, numbers)


def _in_service(case: _Case, sample: Sample, found: tuple[Failure, ...], now_ms: int) -> None:
    """A GPU that is HEALTHY or SUSPECT after a check with these failures."""
    if found:
        _failed(case, found)
    elif case.state is GpuState.SUSPECT and case.record.cause is Cause.CHECKS:
        case.move(GpuEvent.CLEAR, "its check passed again")
    elif case.state is GpuState.SUSPECT and case.record.cause is Cause.LINK and not case.link_down:
        case.move(GpuEvent.CLEAR, "the NVLink of its group is no longer at fault")
    if case.state is GpuState.UNHEALTHY:
        return
    if sample.remap_pending:
        _wear(case, "a memory row is to be replaced", Need.RESET)
    if case.state is not GpuState.SUSPECT or case.busy:
        return
    if case.record.cause is Cause.WEAR:
        _quarantine(case, now_ms)
    elif sample.canary is not None and gpu_return.may_be_tested(case.record):
        if sample.canary.passed:
            case.move(GpuEvent.CLEAR, f"it passed its test: {sample.canary.detail or 'passed'}")
        else:
            case.move(GpuEvent.CONDEMN, f"it failed its test: {sample.canary.detail}", cause=Cause.CANARY)


def _failed(case: _Case, found: tuple[Failure, ...]) -> None:
    words = "; ".join(failure.words for failure in found)
    count = case.record.failed
    numbers: tuple[tuple[str, Number], ...] = (("failed_checks", count), *(n for f in found for n in f.numbers))
    if count >= FAILS:
        case.move(GpuEvent.CONDEMN, f"{count} checks in a row failed: {words}", cause=Cause.CHECKS, numbers=numbers)
    elif case.state is GpuState.HEALTHY:
        case.move(GpuEvent.DOUBT, f"a check failed: {words}", cause=Cause.CHECKS, numbers=numbers)
    else:
        case.note(f"check {count} of {FAILS} in a row failed: {words}", numbers)


def _quarantine(case: _Case, now_ms: int) -> None:
    """The GPU is empty and out of service; its checks count anew."""
    case.move(GpuEvent.QUARANTINE, f"empty, and out of service until it is tested: {case.record.reason}")
    case.record = replace(gpu_return.quarantined(case.record, now_ms), clean=0)


def _out_of_service(case: _Case, sample: Sample, *, clean: bool, now_ms: int) -> None:
    """A GPU that is UNHEALTHY or QUARANTINED after a check that was ``clean`` or not."""
    if case.state is GpuState.UNHEALTHY:
        if case.busy:
            return
        _quarantine(case, now_ms)
        return
    told = gpu_return.progress(case.record, sample, clean=clean, now_ms=now_ms)
    case.record = told.record
    if told.words:
        case.note(told.words)
    if told.returned:
        case.move(GpuEvent.RETURN, told.returned)


def blame(known: Known, words: str, numbers: tuple[tuple[str, Number], ...] = ()) -> Verdict:
    """The HEALTHY GPU is SUSPECT because jobs fail on it; any other stays as it is."""
    case = _Case(known)
    if case.state is GpuState.HEALTHY:
        case.move(GpuEvent.DOUBT, words, cause=Cause.JOBS, numbers=numbers)
    return case.verdict()


def doubt_link(known: Known, words: str) -> Verdict:
    """The GPU gets no new work until the NVLink of its group is mended; what runs on it goes on.

    Nothing changes where it is out of service, or is to be reset when its job has ended.
    """
    case = _Case(known)
    reason = f"no new work while the NVLink of its group is at fault: {words}"
    if case.state is GpuState.HEALTHY:
        case.move(GpuEvent.DOUBT, reason, cause=Cause.LINK)
    elif case.state is GpuState.SUSPECT and case.record.cause not in (Cause.WEAR, Cause.LINK):
        case.record = replace(case.record, cause=Cause.LINK, reason=reason)
        case.note(reason)
    return case.verdict()


def take_out(known: Known, cause: Cause, words: str, *, need: Need, now_ms: int) -> Verdict:
    """The GPU is out of service at once: QUARANTINED, or UNHEALTHY while a job is still to leave it."""
    case = _Case(known)
    event = GpuEvent.CONDEMN if known.busy else GpuEvent.QUARANTINE
    if advance_gpu(case.state, event) is not None:
        case.move(event, words, cause=cause, need=need)
        if event is GpuEvent.QUARANTINE:
            case.record = replace(gpu_return.quarantined(case.record, now_ms), clean=0)
    elif case.state is not GpuState.RETIRED and (case.record.cause, case.record.reason) != (cause, words):
        kept = max(need, case.record.need)
        case.record = replace(case.record, cause=cause, reason=words, need=kept, tested=False, clean=0)
        case.note(words)
    return case.verdict()


def retire(known: Known, words: str) -> Verdict | None:
    """The GPU counts as installed no more (again, when it was so already); None while a job holds it."""
    case = _Case(known)
    if known.busy:
        return None
    if case.state is not GpuState.RETIRED:
        case.move(GpuEvent.RETIRE, words, cause=Cause.OPERATOR)
        case.record = replace(case.record, machine="")
    return case.verdict()


def may_return(known: Known) -> bool:
    """True where an operator's word changes something."""
    if known.state is GpuState.SUSPECT:
        return known.record.cause is not Cause.CHECKS
    return known.state is not GpuState.HEALTHY


def readmit(known: Known, words: str) -> Verdict:
    """An operator answers for the GPU: nothing but its test and the clean checks stands between it and work.

    A SUSPECT one is tested when it is empty, but for one that the next check decides on. A HEALTHY one stays so.
    """
    case = _Case(known)
    if not may_return(known):
        return case.verdict()
    if case.state is GpuState.RETIRED:
        case.move(GpuEvent.REINSTATE, words, cause=Cause.OPERATOR)
    else:
        case.note(words)
    cause = Cause.OPERATOR if case.state is GpuState.SUSPECT else case.record.cause
    case.record = replace(
        case.record, cause=cause, need=Need.NOTHING, tested=False, tests_failed=0, test_after_ms=0, returns=(), clean=0
    )
    return case.verdict()
