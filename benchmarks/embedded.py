"""The embedded set: start-up time, memory, and submit-to-running latency, on this machine.

    python -m benchmarks.embedded [--jobs 20]

Start-up is from the command to the first ready answer with both nodes registered: once from an empty directory
(database, demo models), once again. Memory is the proportional set size of everything the supervisor started.
Latency is from sending the POST of a one-GPU merge to the server's own ``started_at``, on an idle pool, with the real
timings (not those of the tests).
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.arguments import Parser, whole
from tests.journeys.house import House, house


def memory_mb(made: House) -> dict[str, float]:
    """Proportional set size in MB by program."""
    sums: dict[str, float] = {}
    for p in made.family():
        line = " ".join(p.cmdline())
        known = ("valkey", "emep_site.serve", "runscheduler", "celery", "workers keeper", "workers agent")
        name = next((w for w in known if w in line), "other")
        sums[name] = sums.get(name, 0.0) + p.memory_full_info().pss / 1e6
    return sums


def latencies_s(made: House, jobs: int) -> tuple[list[float], list[float]]:
    """(submit to granted, submit to running) of each of ``jobs`` merges, one after the other."""
    granted, running = [], []
    for n in range(jobs):
        sent = datetime.now(UTC)
        job = made.merge(f"latency-{n}", gpu_count=1, nvlink_required=False)
        done = made.until_state(job["id"], "SUCCEEDED", "FAILED")
        events = made.client().get(f"/jobs/{job['id']}/attempts/").json()
        first = (events if isinstance(events, list) else events["results"])[0]
        granted.append((datetime.fromisoformat(first["granted_at"]) - sent).total_seconds())
        running.append((datetime.fromisoformat(done["started_at"]) - sent).total_seconds())
    return granted, running


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the figures."""
    parser = Parser("embedded", __doc__)
    parser.add_argument("--jobs", type=whole(1, 10_000), default=20, help="merges whose latency is measured")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="emep-bench-") as tmp:
        begun = time.monotonic()
        with house(Path(tmp), scale="1") as made:
            print(f"start-up from an empty directory   {time.monotonic() - begun:6.1f} s")
            made.stop()
            begun = time.monotonic()
            made.start()
            print(f"start-up again                     {time.monotonic() - begun:6.1f} s")
            sums = memory_mb(made)
            print(f"memory (PSS) of the set            {sum(sums.values()):6.0f} MB")
            for name, mb in sorted(sums.items()):
                print(f"    {name:<30} {mb:6.0f} MB")
            granted, running = latencies_s(made, options.jobs)
            for name, values in (("submit to granted", granted), ("submit to running", running)):
                print(f"{name}, median of {len(values):<3}         {statistics.median(values) * 1000:6.0f} ms"
                      f"  (min {min(values) * 1000:.0f}, max {max(values) * 1000:.0f})")  # fmt: skip
            made.stop()


if __name__ == "__main__":
    main()
