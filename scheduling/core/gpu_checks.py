"""When has a check of a GPU failed? One received sample, read and judged (D20).

A metric that the board can't give is absent and never fails a check. An error, a GPU that is missing from the report
and a driver that does not answer do; so does a value that no board can have, because whoever says such a thing can't
be believed in the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

Number = int | float | str
HOTTEST_C, COLDEST_C = 250.0, -60.0
# Below this share a difference in size is the driver's own reserve, which changes with its version.
SIZE_SLACK = 0.02
RETIRED_PAGES_MAX = 63
MAX_COUNT = 2**62
MAX_XIDS = 256
RECOVERY_WORDS = {1: "reset it", 2: "reboot its node", 3: "drain its peers", 4: "drain and reset it"}
PEERS_ONLY = 3
SHOWN = ("utilization", "memory_used_mib", "memory_mib", "temperature_c", "temperature_limit_c", "power_w", "ecc")
# These errors say that nobody can talk to the device: a job on it can't save what it holds.
SILENT_FAULTS = ("missing", "hung", "lost")


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """What the test on the GPU came to."""

    passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one report says of one GPU; None for what the board can't tell. ``fault`` is the kind of the error.

    ``xids`` are those not acknowledged yet, ``xids_before`` how many the agent had told before them since it started.
    """

    error: str = ""
    fault: str = ""
    memory_mib: int | None = None
    temperature_c: float | None = None
    temperature_limit_c: float | None = None
    ecc: int | None = None
    remap_failure: bool = False
    remap_pending: bool = False
    retired_pages: int | None = None
    recovery: int | None = None
    xids: tuple[int, ...] = ()
    xids_before: int = 0
    canary: CanaryResult | None = None
    unreadable: tuple[str, ...] = ()


MISSING = Sample(error="its node's report does not mention it", fault="missing")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a check failed: a code, a clause for people, and its numbers. ``answers``: a job could still save."""

    code: str
    words: str
    numbers: tuple[tuple[str, Number], ...] = ()
    answers: bool = True


def read(row: Mapping[str, object]) -> Sample:
    """The sample in a report's row. A field that is not what the protocol says is named in ``unreadable``."""
    wrong: list[str] = []

    def number(name: str, least: float, most: float) -> float | None:
        value = row.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            wrong.append(name)
            return None
        if not least <= value <= most:
            wrong.append(name)
            return None
        return float(value)

    def whole(name: str, least: int = 0, most: int = MAX_COUNT) -> int | None:
        value = number(name, least, most)
        if value is not None and value != int(value):
            wrong.append(name)
            return None
        return None if value is None else int(value)

    return Sample(
        error=_text(row.get("error"), 300),
        fault=_text(row.get("fault"), 20),
        memory_mib=whole("memory_mib", 1, 2**31 - 1),
        temperature_c=number("temperature_c", COLDEST_C, HOTTEST_C),
        temperature_limit_c=number("temperature_limit_c", 1, HOTTEST_C),
        ecc=whole("ecc"),
        remap_failure=bool(whole("remap_failure")),
        remap_pending=bool(whole("remap_pending")),
        retired_pages=whole("retired_pages"),
        recovery=whole("recovery"),
        xids=_xids(row.get("xids"), wrong),
        xids_before=whole("xids_before") or 0,
        canary=_canary(row.get("canary")),
        unreadable=tuple(wrong),
    )


def _xids(value: object, wrong: list[str]) -> tuple[int, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(type(n) is int and 0 <= n < 2**31 for n in value):
        wrong.append("xids")
        return ()
    return tuple(value[:MAX_XIDS])


def _canary(value: object) -> CanaryResult | None:
    if not isinstance(value, Mapping):
        return None
    return CanaryResult(value.get("passed") is True, _text(value.get("detail"), 300))


def _text(value: object, limit: int) -> str:
    """The text as every database can hold it."""
    if not value:
        return ""
    return str(value)[:limit].replace("\x00", "").encode("utf-8", "backslashreplace").decode()


def tidy(row: Mapping[str, object]) -> dict[str, object]:
    """What is kept of a report's row to be shown: the metrics that are numbers, and the error."""
    shown: dict[str, object] = {"uuid": _text(row.get("uuid"), 80)}
    for name in SHOWN:
        value = row.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAX_COUNT:
            shown[name] = value
    if row.get("error"):
        shown["error"] = _text(row.get("error"), 300)
    return shown


def failures(sample: Sample, *, memory_mib: int, ecc_before: int | None) -> tuple[Failure, ...]:
    """Every reason why the check failed, the gravest first; empty when it passed.

    ``memory_mib`` is what was installed when the GPU joined, ``ecc_before`` the count of uncorrectable errors in the
    sample before (None: none is known, so the first count is where counting begins).
    """
    found: list[Failure] = []
    if sample.error or sample.fault:
        kind = sample.fault or "error"
        found.append(Failure(kind, sample.error or kind, answers=kind not in SILENT_FAULTS))
    if sample.unreadable:
        found.append(Failure("unreadable", f"its report has values no board can have: {', '.join(sample.unreadable)}"))
    found += _memory(sample, memory_mib)
    heat, limit = sample.temperature_c, sample.temperature_limit_c
    if heat is not None and limit is not None and heat >= limit:
        words = f"{heat:g} °C is at or above the board's slowdown limit of {limit:g} °C"
        found.append(Failure("overheated", words, (("temperature_c", heat), ("limit_c", limit))))
    if sample.ecc is not None and ecc_before is not None and sample.ecc > ecc_before:
        words = f"uncorrectable memory errors rose from {ecc_before} to {sample.ecc}"
        found.append(Failure("ecc_rising", words, (("ecc_before", ecc_before), ("ecc", sample.ecc))))
    if sample.recovery and sample.recovery != PEERS_ONLY:
        asked = RECOVERY_WORDS.get(sample.recovery, f"take action {sample.recovery}")
        found.append(Failure("recovery", f"the driver asks to {asked}", (("recovery", sample.recovery),)))
    return tuple(found)


def _memory(sample: Sample, installed: int) -> list[Failure]:
    found: list[Failure] = []
    size = sample.memory_mib
    if size is not None and not same_size(size, installed):
        words = f"it reports {size} MiB of memory and had {installed} MiB"
        found.append(Failure("wrong_memory", words, (("memory_mib", size), ("installed_mib", installed))))
    if sample.remap_failure:
        found.append(Failure("remap_failed", "a memory row could not be replaced; the board is worn out"))
    pages = sample.retired_pages
    if pages is not None and pages >= RETIRED_PAGES_MAX:
        words = f"{pages} memory pages are retired; {RETIRED_PAGES_MAX} is the limit"
        found.append(Failure("pages_retired", words, (("pages", pages), ("limit", RETIRED_PAGES_MAX))))
    return found


def same_size(reported: int, installed: int) -> bool:
    """True when both are the size of the same board, in MiB."""
    return abs(reported - installed) <= SIZE_SLACK * installed
