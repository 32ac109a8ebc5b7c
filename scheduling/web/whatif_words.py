"""A replay in sentences: what the change would have done, how far the replay is from what really was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from scheduling.web.wording import amount, duration, gpu_hours

STATES = {
    "QUEUED": "waits for a worker", "RUNNING": "is being played", "DONE": "done", "FAILED": "broken",
    "CANCELLED": "cancelled",
}  # fmt: skip
NOTED_S = 1.0  # smaller differences of waits are none
NAMED = 3
CLOSE, FAR = 0.1, 0.3  # of the real mean wait


def headline(found: Mapping[str, Any]) -> str:
    """The replay in one sentence, first of all what differs."""
    days = amount(found["days"], "day")
    if found["state"] == "RUNNING":
        progress = found["progress"]
        whole = progress["total"] or 1
        return f"Playing the last {days} twice: {100 * progress['done'] // whole} % done."
    if found["result"] is None:
        words = {"QUEUED": "It waits for a worker.", "FAILED": "The replay broke.", "CANCELLED": "It was cancelled."}
        return words[found["state"]]
    moves = list(_moves(found["result"]))
    if moves:
        told = ", ".join(moves[:NAMED])
        return f"Jobs of {told}{' and others differ too' if len(moves) > NAMED else ''}."
    result = found["result"]
    more = result["after"]["preemptions"] - result["before"]["preemptions"]
    if more:
        return f"Nobody would have waited longer or shorter, with {amount(abs(more), 'preemption')} {_more(more)}."
    if result["after"]["rejected"] != result["before"]["rejected"]:
        return f"{amount(result['after']['rejected'], 'job')} could never have run on these nodes."
    return "It would have changed nobody's wait."


def summary(result: Mapping[str, Any]) -> str:
    """All jobs together: waits, utilization, preemptions."""
    before, after = result["before"], result["after"]
    moved = result["moved"]
    parts = [f"{amount(moved['sooner'], 'job')} would have started sooner and {moved['later']:,} later"]
    if before["mean_wait_s"] is not None and after["mean_wait_s"] is not None:
        parts.append(f"the mean wait {duration(after['mean_wait_s'])} instead of {duration(before['mean_wait_s'])}")
    if after["utilization"] is not None and before["utilization"] is not None:
        parts.append(
            f"GPUs held {percent(after['utilization'])} of the time instead of {percent(before['utilization'])}"
        )
    lost = after["rejected"] - before["rejected"]
    rejected = f" {amount(lost, 'job')} more could never have run on these nodes." if lost > 0 else ""
    preempted = f"{amount(after['preemptions'], 'preemption')} instead of {before['preemptions']}"
    return f"{', '.join(parts)}; {preempted}.{rejected}"


def trust(result: Mapping[str, Any]) -> dict[str, str]:
    """How far the replay without the change is from what really was, and what to make of that."""
    really, before = result["recorded"], result["before"]
    if not really["jobs"]:
        return {"word": "no", "said": "No job waited for its first start in these days: there is nothing to compare."}
    real, played = really["mean_wait_s"] or 0.0, before["mean_wait_s"] or 0.0
    off = abs(played - real)
    close = off <= max(NOTED_S * 30, CLOSE * real)
    word = "close" if close else "fair" if off <= FAR * real else "far"
    verdict = {
        "close": "The replay is close to what really was.",
        "fair": "The replay is some way from what really was: look at the direction of a difference, not at its size.",
        "far": "The replay is far from what really was: trust large differences only.",
    }[word]
    said = (
        f"{verdict} Without the change it has {amount(before['jobs'], 'job')} waiting {duration(played)} in the mean, "
        f"really {duration(real)}; GPUs held {percent(before['utilization'])} of the time, really "
        f"{percent(really['utilization'])}; {amount(before['preemptions'], 'preemption')}, really "
        f"{really['preemptions']}."
    )
    return {"word": word, "said": said}


def rows(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """Each figure in the three tellings, and how much the change makes of it."""
    sides = [result[name] for name in ("recorded", "before", "after")]
    told = (
        ("Jobs that waited", "jobs", _count), ("of these started", "started", _count),
        ("Mean wait", "mean_wait_s", duration), ("Wait of 95 of 100 at most", "p95_wait_s", duration),
        ("GPUs held", "utilization", percent), ("GPU-hours", "gpu_hours", gpu_hours),
        ("Preemptions", "preemptions", _count), ("GPUs", "gpus", _count),
        ("Jobs that could never run", "rejected", _count),
    )  # fmt: skip
    return [
        {"what": what, **{side: _or_dash(each[key], words) for side, each in zip(("really", "before", "after"), sides,
                                                                                strict=True)},
         "differs": difference(sides[1][key], sides[2][key], _points if words is percent else words)}
        for what, key, words in told
    ]  # fmt: skip


def groups(result: Mapping[str, Any], which: str) -> list[dict[str, str]]:
    """Waits, preemptions and shares of each group in both tellings."""
    before, after = result["before"][which], result["after"][which]
    found = []
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name, {}), after.get(name, {})
        found.append(
            {
                "name": name.replace("/", ": "), "jobs": _or_dash(old.get("jobs"), _count),
                "before": _or_dash(old.get("mean_wait_s"), duration),
                "after": _or_dash(new.get("mean_wait_s"), duration),
                "differs": difference(old.get("mean_wait_s"), new.get("mean_wait_s"), duration),
                "preempted_before": _or_dash(old.get("preemptions"), _count),
                "preempted_after": _or_dash(new.get("preemptions"), _count),
                "share_before": _or_dash(old.get("share"), percent), "share_after": _or_dash(new.get("share"), percent),
            }
        )  # fmt: skip
    return found


def job(row: Mapping[str, Any]) -> dict[str, Any]:
    """A job that fares otherwise, as a line."""
    return {
        **row,
        "before": _wait(row["wait_before_s"], row["started_before"]),
        "after": _wait(row["wait_after_s"], row["started_after"]),
        "differs": difference(row["wait_before_s"], row["wait_after_s"], duration),
    }


def difference(before: float | None, after: float | None, words: Any) -> str:
    """``12m 00s less``, ``3 more``, ``the same``; nothing where one of them is not known."""
    if before is None or after is None:
        return ""
    off = after - before
    told = words(abs(off))
    return "the same" if not off or told == words(0) else f"{told} {_more(off)}"


def percent(share: float | None) -> str:
    """A share as ``12.5 %``."""
    return "–" if share is None else f"{100 * share:.1f} %"


def _moves(result: Mapping[str, Any]) -> Iterator[str]:
    """Projects whose jobs would have waited otherwise, those first that it moves most."""
    before, after = result["before"]["projects"], result["after"]["projects"]
    moved = []
    for name, row in before.items():
        waits = row["mean_wait_s"], after.get(name, {}).get("mean_wait_s")
        if waits[0] is not None and waits[1] is not None and abs(waits[1] - waits[0]) >= NOTED_S:
            moved.append((waits[1] - waits[0], name))
    for place, (off, name) in enumerate(sorted(moved, key=lambda each: (-abs(each[0]), each[1]))):
        would = "would have waited " if not place else ""
        yield f"{name} {would}{duration(abs(off))} {_more(off)}"


def _wait(seconds: float | None, started: bool) -> str:
    if seconds is None:
        return "never possible"
    return duration(seconds) if started else f"over {duration(seconds)}"


def _more(off: float) -> str:
    return "more" if off > 0 else "less"


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"


def _count(value: float) -> str:
    return f"{int(value):,}"


def _or_dash(value: Any, words: Any) -> str:
    return "–" if value is None else str(words(value))
