"""One GPU through its reports, for tests: each call is one report of its node."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from scheduling.core import health
from scheduling.core.gpu_checks import CanaryResult, Sample
from scheduling.core.gpu_record import EMPTY, Known, Record
from scheduling.core.lifecycle import GpuState

GOOD = Sample(memory_mib=81920, temperature_c=50.0, temperature_limit_c=95.0, ecc=0)
HOT = replace(GOOD, temperature_c=95.0)
HUNG = Sample(error="the driver gave no answer within 1 s", fault="hung")
PASSED, TEST_FAILED = CanaryResult(True, "matmul right"), CanaryResult(False, "matmul wrong")
BEAT_MS = 10_000


@dataclass
class Life:
    """A GPU that reports every ten seconds; ``told`` are the words of every step, ``states`` each state it was in."""

    state: GpuState = GpuState.HEALTHY
    record: Record = EMPTY
    busy: bool = False
    boot: str = "boot-1"
    seq: int = 0
    now_ms: int = 1_000_000
    answers: bool = True
    told: list[str] = field(default_factory=list)
    states: list[GpuState] = field(default_factory=list)

    @property
    def known(self) -> Known:
        return Known(self.state, self.record, 81920, self.busy)

    def take(self, verdict: health.Verdict) -> GpuState:
        """The GPU is as the verdict says."""
        self.state, self.record, self.answers = verdict.state, verdict.record, verdict.answers
        self.told += [step.words for step in verdict.steps]
        self.states.append(self.state)
        return self.state

    def report(self, *samples: Sample | None) -> GpuState:
        """Each sample has come in a report of its own, in order; returns the state after the last."""
        for sample in samples:
            self.seq += 1
            self.now_ms += BEAT_MS
            self.late(sample, self.seq)
        return self.state

    def late(self, sample: Sample | None, seq: int) -> GpuState:
        """The report of that number has come now."""
        return self.take(health.receive(self.known, sample, boot_id=self.boot, seq=seq, now_ms=self.now_ms))

    def reboots(self) -> None:
        """Its node has started anew."""
        self.boot += "+"
        self.seq = 0

    def returns(self) -> GpuState:
        """It is quarantined, tested and back, as far as nothing else is needed."""
        return self.report(GOOD, replace(GOOD, canary=PASSED), GOOD, GOOD, GOOD)


def out_of_service(**more: object) -> Life:
    """A GPU that three failed checks have put in quarantine."""
    life = Life(**more)  # type: ignore[arg-type]
    life.report(HOT, HOT, HOT)
    return life
