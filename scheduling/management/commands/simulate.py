"""Replays a trace of jobs on a cluster in virtual time, with the scheduling core of the live system."""

from __future__ import annotations

import gc
import json
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduling.core.garbage import searched_seldom
from scheduling.core.policy import DEFAULT_POLICY
from scheduling.management.telling import TellingParser
from scheduling.simulation.cluster import HOW, ClusterError, cluster, says_types
from scheduling.simulation.idle import idle_columns, idle_policy, idle_values
from scheduling.simulation.policy_patch import PatchError, patch_of, patched
from scheduling.simulation.queueing import CLASSES, ESTIMATES, QueueingError, beyond_limit, queue_jobs
from scheduling.simulation.report import Report, report
from scheduling.simulation.runtime import SimJob
from scheduling.simulation.table import TableError
from scheduling.simulation.workload import read_trace
from scheduling.simulation.world import simulate

REQUIRED = ("nodes", "jobs")
MAX_PAUSE_S = 86_400
MAX_DIGITS = 9
WRONG = 2  # the status when the arguments, or what they name, can't be used
HELP = "; see manage.py simulate --help"


@dataclass(frozen=True, slots=True)
class Fault:
    """In place of an option's value: why it can't be used. It is told with what is wrong with the others."""

    why: str


class Command(BaseCommand):
    help = (
        "Replays a trace of jobs on a cluster in virtual time and prints how they fared. Needs no database. "
        "Jobs that could never fit the empty cluster are rejected and left out."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--nodes", metavar="FILE|SPEC", help=f"required: a CSV(.gz) file of nodes, or {HOW}")
        parser.add_argument("--jobs", metavar="FILE", type=_kept(_file), help="required: a CSV(.gz) file of jobs")
        parser.add_argument(
            "--policy", metavar="FILE", type=_kept(_file), help="JSON: what differs from the default policy"
        )
        parser.add_argument(
            "--classes",
            type=_kept(_one_of(CLASSES)),
            metavar=f"{{{','.join(CLASSES)}}}",
            default="none",
            help="none: all Normal; hash: drawn by job id",
        )
        parser.add_argument(
            "--estimates",
            type=_kept(_one_of(ESTIMATES)),
            metavar=f"{{{','.join(ESTIMATES)}}}",
            default="oracle",
            help="max_duration: the recorded duration, or the walltime that was requested",
        )
        parser.add_argument(
            "--restore-s", type=_kept(_pause), default=60, help="seconds an evicted job restores (%(default)s)"
        )
        parser.add_argument(
            "--save-s", type=_kept(_pause), default=0, help="seconds an evicted job saves (%(default)s)"
        )
        parser.add_argument(
            "--json",
            action="store_true",
            help="print one JSON object instead of a table; what changes nothing is in details.notes",
        )

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """The parser, which leaves it to the run to tell what it refuses."""
        return TellingParser(super().create_parser(prog_name, subcommand, **kwargs))

    def handle(self, *args: Any, **options: Any) -> None:
        with searched_seldom():  # all that is read and made lives until the figures are known
            found = _replay(options)
        if options["json"]:
            self.stdout.write(json.dumps(found.as_json()))
            return
        self.stdout.write(found.as_text())
        for note in found.details["notes"]:
            self.stderr.write(f"note: {note}")


def _replay(options: dict[str, Any]) -> Report:
    wrong = _refused(options)
    usable = {name: value for name, value in options.items() if not isinstance(value, Fault)}
    chosen: dict[str, Any] = {name: usable[name] for name in ("classes", "estimates") if name in usable}
    made, trace, policy = None, None, DEFAULT_POLICY
    patch: Mapping[str, Any] = {}
    if usable["nodes"] is not None:
        with _naming("--nodes", wrong):
            made = cluster(usable["nodes"])
    with _naming("--policy", wrong):
        patch = {} if usable.get("policy") is None else patch_of(usable["policy"])
        policy = patched(DEFAULT_POLICY, patch)
    if usable.get("jobs") is not None:
        with _naming("--jobs", wrong):
            trace = read_trace(usable["jobs"], walltimes=chosen.get("estimates") == "requested")
    jobs: tuple[SimJob, ...] = ()
    if trace is not None:
        with _naming(None, wrong):
            jobs = queue_jobs(trace, policy, **chosen, types=made is None or says_types(made.pool))
    if made is None or trace is None or wrong:
        raise CommandError("\n".join(wrong), returncode=WRONG)
    pool = made.pool
    notes = (
        *made.idle, *beyond_limit(trace, options["estimates"]), *idle_columns(trace, pool, **chosen),
        *idle_values(DEFAULT_POLICY, patch), *idle_policy(policy, trace, pool),
    )  # fmt: skip
    gc.freeze()  # the jobs live to the end: collections need not look at them again and again
    try:
        began = time.perf_counter()
        outcome = simulate(jobs, pool, policy, restore_s=options["restore_s"], save_s=options["save_s"])
        return report(outcome, wall_s=time.perf_counter() - began, left_out=trace.left_out, notes=notes)
    finally:
        gc.unfreeze()


def _refused(options: Mapping[str, Any]) -> list[str]:
    """What is wrong with the arguments by themselves: those that the parser can't use, that are missing, and values."""
    refused: Mapping[str, str] = options["refused"]
    missing = [f"--{name}" for name in REQUIRED if options[name] is None and f"--{name}" not in refused]
    wrong = [*refused.values()]
    if missing:
        wrong.append(f"the following arguments are required: {', '.join(missing)}")
    wrong += (
        f"argument --{name.replace('_', '-')}: {value.why}"
        for name, value in options.items()
        if isinstance(value, Fault)
    )
    return [f"{why}{HELP}" for why in wrong]


@contextmanager
def _naming(argument: str | None, wrong: list[str]) -> Iterator[None]:
    """What is wrong with what the argument names is added to ``wrong`` with it in front, once: a cluster's names it."""
    try:
        yield
    except (ClusterError, PatchError, QueueingError, TableError) as fault:
        named = argument is None or isinstance(fault, ClusterError)
        wrong.append(str(fault) if named else f"{argument}: {fault}")


def _kept(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """What reads an option's value as ``read`` does, with a ``Fault`` in place of an error."""

    def kept(text: str) -> Any:
        try:
            return read(text)
        except ArgumentTypeError as wrong:
            return Fault(str(wrong))

    return kept


def _one_of(names: Sequence[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in names:
            known = ", ".join(map(repr, names))
            raise ArgumentTypeError(f"invalid choice: {text!r} (choose from {known})")
        return text

    return read


def _file(text: str) -> Path:
    """The path of a file, which may be there or not."""
    if not text.strip():
        raise ArgumentTypeError("is empty; write the path of a file")
    return Path(text)


def _pause(text: str) -> int:
    """Whole seconds from 0 to ``MAX_PAUSE_S``."""
    if not text.isascii() or not text.isdecimal() or len(text) > MAX_DIGITS or int(text) > MAX_PAUSE_S:
        raise ArgumentTypeError(f"write whole seconds from 0 to {MAX_PAUSE_S}, not {text[:40]!r}")
    return int(text)
