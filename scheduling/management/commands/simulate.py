"""Replays a trace of jobs on a cluster in virtual time, with the scheduling core of the live system."""

from __future__ import annotations

import gc
import json
import time
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduling.core.policy import DEFAULT_POLICY
from scheduling.simulation.cluster import HOW, ClusterError, cluster, says_types
from scheduling.simulation.policy_patch import PatchError, patch_of, patched
from scheduling.simulation.queueing import CLASSES, ESTIMATES, QueueingError, queue_jobs
from scheduling.simulation.report import Report, report
from scheduling.simulation.table import TableError
from scheduling.simulation.workload import read_trace
from scheduling.simulation.world import simulate

MAX_PAUSE_S = 86_400


class Command(BaseCommand):
    help = (
        "Replays a trace of jobs on a cluster in virtual time and prints how they fared. Needs no database. "
        "Jobs that could never fit the empty cluster are rejected and left out."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--nodes", required=True, metavar="FILE|SPEC", help=f"a CSV(.gz) file of nodes, or {HOW}")
        parser.add_argument("--jobs", required=True, metavar="FILE", type=Path, help="a CSV(.gz) file of jobs")
        parser.add_argument("--policy", metavar="FILE", type=Path, help="JSON: what differs from the default policy")
        parser.add_argument(
            "--classes", choices=CLASSES, default="none", help="none: all Normal; hash: drawn by job id"
        )
        parser.add_argument(
            "--estimates",
            choices=ESTIMATES,
            default="oracle",
            help="max_duration: the recorded duration, or the walltime that was requested",
        )
        parser.add_argument(
            "--restore-s", type=_pause, default=60, help="seconds an evicted job restores (%(default)s)"
        )
        parser.add_argument("--save-s", type=_pause, default=0, help="seconds an evicted job saves (%(default)s)")
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            found = _replay(options)
        except (ClusterError, PatchError, QueueingError, TableError) as wrong:
            raise CommandError(str(wrong)) from wrong
        self.stdout.write(json.dumps(found.as_json()) if options["json"] else found.as_text())


def _replay(options: dict[str, Any]) -> Report:
    pool = cluster(options["nodes"])
    policy = patched(DEFAULT_POLICY, patch_of(options["policy"])) if options["policy"] else DEFAULT_POLICY
    trace = read_trace(options["jobs"])
    jobs = queue_jobs(trace, policy, classes=options["classes"], estimates=options["estimates"], types=says_types(pool))
    gc.freeze()  # the jobs live to the end: collections need not look at them again and again
    try:
        began = time.perf_counter()
        outcome = simulate(jobs, pool, policy, restore_s=options["restore_s"], save_s=options["save_s"])
        return report(outcome, wall_s=time.perf_counter() - began, left_out=trace.left_out)
    finally:
        gc.unfreeze()


def _pause(text: str) -> int:
    """Whole seconds from 0 to ``MAX_PAUSE_S``."""
    if not text.isascii() or not text.isdecimal() or int(text) > MAX_PAUSE_S:
        raise ArgumentTypeError(f"write whole seconds from 0 to {MAX_PAUSE_S}, not {text!r}")
    return int(text)
