"""What is remembered of one GPU's health between two reports, as a value and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

from scheduling.core.gpu_xids import Need
from scheduling.core.lifecycle import GpuState

DAY_MS = 86_400_000
RETURNS_WINDOW_MS = 7 * DAY_MS
KEPT_XIDS = 50


class Cause(StrEnum):
    """Why a GPU is not HEALTHY."""

    NONE = ""
    CHECKS = "checks"
    XID = "xid"
    WEAR = "wear"
    LINK = "link"
    JOBS = "jobs"
    CANARY = "canary"
    UNCLEAN = "unclean"
    GONE = "gone"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Record:
    """``failed`` and ``clean`` count checks in a row; ``seq`` is the newest judged report of the boot.

    ``reason`` is told to people; ``need`` must have happened before the test; ``tested``: the test was passed since
    it is out of service; ``link``: its NVLink is at fault, until it is HEALTHY again; ``machine``: why its node is
    closed until its machine was restarted, or it is HEALTHY again; ``returns`` are the instants of its returns,
    ``xids`` (number, instant) of the last day, all in milliseconds since 1970.
    """

    boot_id: str = ""
    seq: int = 0
    failed: int = 0
    clean: int = 0
    ecc: int | None = None
    xids_told: int = 0
    xids: tuple[tuple[int, int], ...] = ()
    cause: Cause = Cause.NONE
    reason: str = ""
    need: Need = Need.NOTHING
    tested: bool = False
    link: bool = False
    machine: str = ""
    tests_failed: int = 0
    test_after_ms: int = 0
    returns: tuple[int, ...] = ()

    def recent_returns(self, now_ms: int) -> tuple[int, ...]:
        """The returns of the last seven days."""
        return tuple(at for at in self.returns if at > now_ms - RETURNS_WINDOW_MS)

    def with_xids(self, numbers: tuple[int, ...], now_ms: int) -> Record:
        """The record with these Xids, and without those older than a day."""
        kept = [(n, at) for n, at in self.xids if at > now_ms - DAY_MS]
        return replace(self, xids=(*kept, *((n, now_ms) for n in numbers))[-KEPT_XIDS:])

    def times_seen(self, number: int) -> int:
        """How often the Xid of that number came within the day before the newest."""
        return sum(1 for known, _ in self.xids if known == number)


EMPTY = Record()
NAMES = tuple(f.name for f in fields(Record))


@dataclass(frozen=True, slots=True)
class Known:
    """A GPU as it is on record. ``busy``: a job holds it; ``memory_mib`` is what it had when it joined; ``link_down``:
    another GPU of its NVLink group is out of service with its NVLink at fault."""

    state: GpuState
    record: Record
    memory_mib: int
    busy: bool = False
    link_down: bool = False


def pack(record: Record) -> dict[str, object]:
    """The record as JSON, without what is as in an empty one."""
    return {name: value for name in NAMES if (value := getattr(record, name)) != getattr(EMPTY, name)}


def unpack(stored: Mapping[str, object]) -> Record:
    """The record that :func:`pack` made the JSON of; unknown members are left out."""
    values: dict[str, Any] = {name: value for name, value in stored.items() if name in NAMES}
    values["cause"] = Cause(values.get("cause", ""))
    values["need"] = Need(values.get("need", 0))
    values["xids"] = tuple((number, at) for number, at in values.get("xids", ()))
    values["returns"] = tuple(values.get("returns", ()))
    return Record(**values)
