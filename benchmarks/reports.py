"""Reports over a year of jobs, on this machine: seconds for each, by the clock and of the processor.

    python -m benchmarks.reports [--jobs 100000]

The jobs are written to a test database beside that of the settings, which is removed again; they run up to four times,
on 1 to 4 GPUs. A report is asked for the whole year by month, and for its last month by day.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import django

from benchmarks.arguments import Parser, whole

BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
END = datetime(2026, 1, 1, tzinfo=UTC)
TIMES = {"the year": ("2025-01-01", "2025-12-31"), "its last month": ("2025-12-01", "2025-12-31")}


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the figures."""
    parser = Parser("reports", __doc__)
    parser.add_argument("--jobs", type=whole(1, 10_000_000), default=100_000, help="jobs of the year")
    options = parser.parse_args(argv)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "emep_site.settings")
    django.setup()

    from django.test.utils import setup_databases, teardown_databases

    made = setup_databases(verbosity=0, interactive=False)
    try:
        _measure(options.jobs)
    finally:
        teardown_databases(made, verbosity=0)


def _measure(jobs: int) -> None:
    from scheduling.models import Allocation, Attempt, PoolHour
    from scheduling.services import share_over_time, share_statement
    from scheduling.services.reports import asked, capacity, idle, lost, usage, waits
    from tests import builders as b
    from tests.services.reports import history

    actor = b.people()["admin"]
    history.write(BEGIN, 360, jobs, on=2048)
    hours = [BEGIN + timedelta(hours=n) for n in range(365 * 24)]
    PoolHour.objects.bulk_create(
        PoolHour(hour=h, since=h, until=h + timedelta(hours=1), installed_ms=2048 * 3_600_000) for h in hours
    )
    print(
        f"{jobs:,} jobs, {Attempt.objects.count():,} attempts, {Allocation.objects.count():,} allocations", flush=True
    )
    for name, (first, last) in TIMES.items():
        wanted, _ = asked.read(actor, {"from": first, "to": last}, END)
        assert wanted is not None
        reports: dict[str, Callable[[], Any]] = {
            "the page": lambda w=wanted: _page(actor, w),
            "usage": lambda w=wanted: usage.usage(actor, w, END),
            "waits": lambda w=wanted: waits.waits(w),
            "lost": lambda w=wanted: lost.lost(w),
            "capacity": lambda w=wanted: capacity.capacity(actor, w, END),
            "idle": lambda w=wanted: idle.idle(actor, w),
            "statement": lambda w=wanted: share_statement.told(
                actor, share_statement.Asked(w.period, "alpha", ""), END
            ),
            "shares": lambda w=wanted: share_over_time.told(actor, share_over_time.Asked(w.period, "", ""), END),
        }
        for report, ask in reports.items():
            begun, worked = time.perf_counter(), time.process_time()
            ask()
            wall, work = time.perf_counter() - begun, time.process_time() - worked
            print(f"{report:10} of {name:15} {wall:7.2f} s, {work:7.2f} s of the processor", flush=True)


def _page(actor: Any, wanted: Any) -> None:
    """Everything that the page asks for."""
    from scheduling.services.reports import capacity, idle, lost, usage, waits

    found = usage.usage(actor, wanted, END)
    capacity.capacity(actor, wanted, END, found)
    lost.lost(wanted, found)
    waits.waits(wanted)
    idle.idle(actor, wanted)


if __name__ == "__main__":
    main()
