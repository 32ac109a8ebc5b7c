"""An e-mail about jobs, in words: what happened, why, what to do next, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduling.core.words import agree, duration_in_words, instant_in_words

# So many jobs of a kind are named in one e-mail; of the rest it tells how many they are.
NAMED = 20
MAX_WHY = 600
DONE = {
    "succeeded": "succeeded",
    "failed": "failed",
    "timed_out": "reached its time limit",
    "cancelled": "was cancelled",
    "preempted": "lost its GPUs and waits again",
    "started": "has started",
}
DONE_MANY = {**DONE, "timed_out": "reached their time limit", "cancelled": "were cancelled",
             "preempted": "lost their GPUs and wait again", "started": "have started"}  # fmt: skip
NEXT = {
    "succeeded": "What it made can be downloaded from its page.",
    "failed": "Its page has the log. Retry there runs it again from where it saved last.",
    "timed_out": "Submit it again with a longer max_duration: its page has Clone, and what it saved.",
    "cancelled": "If that is not what you want, Retry on its page runs it again.",
    "preempted": "Nothing needs to be done: it keeps its place in the queue and goes on from where it saved last.",
    "started": "Nothing needs to be done.",
}


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that happened to one job. ``what`` is a key of :data:`DONE`; ``set_id`` that of its pipeline or sweep
    (``set_kind``), "" for none; ``waited_s`` how long it had waited, for a start."""

    what: str
    at_ms: int
    job: str
    kind: str
    project: str
    owner: str
    url: str
    why: str = ""
    waited_s: int | None = None
    set_kind: str = ""
    set_id: str = ""


@dataclass(frozen=True, slots=True)
class Mail:
    """What is sent: plain text."""

    subject: str
    text: str


def mail(told: Sequence[Told], *, server: str, choices: str) -> Mail:
    """One e-mail about all of it; ``told`` is not empty, ``server`` and ``choices`` are addresses.

    What happened alike to jobs of one pipeline or sweep is told once, with the first of them by name.
    """
    groups: dict[tuple[str, str], list[Told]] = {}
    for each in told:
        groups.setdefault((each.what, each.set_id), []).append(each)
    parts = [
        part for group in groups.values() for part in (_one(group[0]) if len(group) == 1 else _many(group, server))
    ]
    foot = f"You get this because you asked to be told. Change what you are told, or stop it: {choices}"
    return Mail(f"EMEP: {_subject(told, groups)}", "\n\n".join([*parts, "-- \n" + foot]) + "\n")


def _subject(told: Sequence[Told], groups: dict[tuple[str, str], list[Told]]) -> str:
    first = told[0]
    if len(told) == 1:
        return f"{_line(first.job)[:80]} {DONE[first.what]}"
    if len(groups) == 1:
        where = f" of one {first.set_kind}" if first.set_id else ""
        return f"{len(told):,} jobs{where} {DONE_MANY[first.what]}"
    counts = Counter(each.what for each in told)
    return ", ".join(
        f"{count:,} job{agree(count, '', 's')} {(DONE if count == 1 else DONE_MANY)[what]}"
        for what, count in counts.items()
    )


def _one(each: Told) -> Iterator[str]:
    waited = "" if each.waited_s is None else f" after waiting {duration_in_words(each.waited_s // 60 * 60)}"
    yield (
        f"{_line(each.job)} ({each.kind}, project {each.project}, by {each.owner}) {DONE[each.what]}{waited}: "
        f"{instant_in_words(each.at_ms // 1000 * 1000)}."
    )
    if each.why:
        yield f"Why: {_line(each.why)[:MAX_WHY]}"
    yield f"Next: {NEXT[each.what]}\n{each.url}"


def _many(group: Sequence[Told], server: str) -> Iterator[str]:
    first = group[0]
    where = f" of {first.set_kind} {first.set_id}" if first.set_id else ""
    begin, last = (instant_in_words(each.at_ms // 1000 * 1000) for each in (group[0], group[-1]))
    yield f"{len(group):,} jobs{where} {DONE_MANY[first.what]}, {begin} to {last}."
    reasons = Counter(_line(each.why)[:MAX_WHY] for each in group if each.why)
    for why, count in reasons.most_common(3):
        yield f"Why ({count:,} of them): {why}"
    rest = len(group) - NAMED
    lines = [f"  {_line(each.job)}: {each.url}" for each in group[:NAMED]]
    yield "\n".join([*lines, *([f"  and {rest:,} more"] if rest > 0 else [])])
    address = f"{server}/jobs/?{first.set_kind}={first.set_id}" if first.set_id else f"{server}/jobs/"
    yield f"Next, for each of them: {NEXT[first.what]}\nAll of them: {address}"


def _line(text: str) -> str:
    """On one line, whatever it holds."""
    return " ".join(text.split())
