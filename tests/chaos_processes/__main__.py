"""``python -m tests.chaos_processes --runs N``: N runs of a house of real processes under faults, each from its seed.

One line a run; the last line is ``chaos: N runs, N kills, N violations``, and the exit status 0 only without any. A run
in which anything was wrong keeps its directory: ``wrong.txt``, ``record.txt`` (which fault when), every log, and
``events.jsonl`` and ``truth`` for ``python -m tests.checker``. ``--first SEED --runs 1`` is that run again.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

from tests import throwaway
from tests.chaos_processes import house, load
from tests.chaos_processes.database import Database
from tests.chaos_processes.disk import own_mounts
from tests.chaos_processes.network import Network, own_network
from tests.chaos_processes.story import Found, Setting, Story
from tests.chaos_processes.undisturbed import Undisturbed

FULL = Setting(nodes=8, load=load.full, seconds=75.0, kills=26, harms=9, scale=0.5, throttle_s=1.0)
SHORT = Setting(nodes=3, load=load.short, seconds=12.0, kills=5, harms=5, scale=0.3, throttle_s=0.6)
SHORT_SEEDS = (69972,)


def main(argv: list[str] | None = None) -> int:
    """The exit status: 0 when nothing was wrong, 1 when something was, 2 where it can't run."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos_processes", description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="how many runs (default 1)")
    parser.add_argument("--first", type=int, default=1, help="the seed of the first run; the next has the next")
    parser.add_argument("--short", action="store_true", help="three nodes and a few faults, seeds of its own")
    parser.add_argument("--keep", action="store_true", help="keep the directories of good runs too")
    given = parser.parse_args(argv)
    if not 1 <= given.runs <= 10_000:
        parser.error(f"--runs: a whole number from 1 to 10000, not {given.runs}")
    setting = SHORT if given.short else FULL
    seeds = SHORT_SEEDS if given.short and given.first == 1 else range(given.first, given.first + given.runs)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    mounts = own_mounts()
    network = own_network(setting.names) if mounts else None
    if network is None:
        _say("chaos: no network of hosts can be made here: its faults are a proxy's, and no gang's nodes are parted")
    try:
        found = _runs(list(seeds), setting, mounts=mounts, network=network, keep=given.keep)
    except throwaway.Missing as missing:
        _say(f"chaos: {missing} is needed: install it")
        return 2
    kills, wrong = sum(one.kills for one in found), sum(len(one.wrong) for one in found)
    _say(f"chaos: {len(found)} runs, {kills} kills, {wrong} violations")
    return 1 if wrong else 0


def _runs(seeds: list[int], setting: Setting, *, mounts: bool, network: Network | None, keep: bool) -> list[Found]:
    found: list[Found] = []
    with ExitStack() as stack:
        home = Path(tempfile.mkdtemp(prefix="emep-chaos-"))
        prepared = home / "prepared"
        stack.callback(lambda: keep or any(one.wrong for one in found) or shutil.rmtree(home, ignore_errors=True))
        database = stack.enter_context(closing(Database()))
        database.until_ready()
        house.prepare(database, prepared, setting.names)
        merges = stack.enter_context(closing(Undisturbed(prepared, sorted(setting.load([], 0).merges()))))
        for seed in seeds:
            begun, place = time.monotonic(), home / f"seed-{seed}"
            found.append(Story(seed, setting, place, database, merges, mounts=mounts, network=network).live(prepared))
            _tell(found[-1], time.monotonic() - begun, place)
            if not found[-1].wrong and not keep:
                shutil.rmtree(place, ignore_errors=True)
    return found


def _tell(found: Found, took_s: float, place: Path) -> None:
    words = [
        f"seed {found.seed}: {found.kills} kills, {found.harms} other faults, {found.jobs} jobs in {found.attempts}"
        f" attempts, settled {found.settled_s:.0f} s after the faults, {took_s:.0f} s"
    ]
    words += [f"{len(found.wrong)} VIOLATIONS, see {place}"] if found.wrong else ["ok"]
    _say(", ".join(words + found.notes))
    for line in found.wrong:
        _say(f"    {line}")


def _say(line: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
