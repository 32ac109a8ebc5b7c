"""When it starts and what would help, as sentences: for a job that waits, and for one that is only thought of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from scheduling.core.words import duration_in_words
from scheduling.services.given_up import says_more
from scheduling.services.outlook import Foretold, Span
from scheduling.services.replacing import FIELD
from scheduling.services.whatif import Change, Planned, changes
from scheduling.store.clock import from_ms
from scheduling.store.queries.after import CODE as AFTER
from scheduling.web.job_words import cause
from scheduling.web.people_words import GIVEN_UP, parts, said
from scheduling.web.wording import amount, gpu_hours, limit
from workers.merge_table import grouped

# So wide is what is told in whole minutes of one instant.
SAME_S = 60
# "About" an instant is said where both ends of the range are off by a tenth of the wait at most; else they are told.
NEAR = 0.1
# Of less the seconds count, where they are known.
IN_SECONDS = timedelta(minutes=10)
MAX_NODES = 3
MAX_TYPED = 5000
# Fields of the request that a change may touch and the form has.
IN_FORM = (
    "gpu_count", "gpu_memory_min", "max_duration", "nvlink_required", "nvlink_exclusive", "node_count", "gpus_per_node",
    "required_level", "max_wait_for_level", "group", "with", "anti_affinity", "affinity", "start_by", "allow_span",
)  # fmt: skip
# Reasons of a job that has nobody to run beside, now or by the time it could start.
ALONE = frozenset({"NO_PARTNER", "PARTNER_LEAVES", "CIRCULAR"})
# The order of the queue: priority, then who has had less of what is his, then time.
GOES_BEFORE = "a job of higher priority, or of the same priority whose owner has used less of his share"
_ALONE = "Nothing tells when a job that it is to run beside will run."
MINUTE = timedelta(minutes=1)
LEDGERS = (("project", "the project"), ("queue", "the queue"), ("user", "you in the project"))


def foretold(
    found: Foretold | None,
    job: str,
    names: Mapping[str, str],
    *,
    now: datetime,
    start_by: datetime | None = None,
    alone: bool = False,
    started: bool = False,
) -> dict[str, Any] | None:
    """The outlook of a waiting job as its page tells it; None when there is none. ``names``: of the jobs in its way,
    as far as the reader may know of them. ``start_by``: when it leaves the queue. ``alone``: none runs beside which
    it is to run. ``started``: it has had GPUs before, so a changed one can't take its place."""
    if found is None:
        return None
    as_of = now if found.start is None else found.start.as_of
    again = {"from": job} if started else {"from": job, FIELD: job}
    return {
        "when": when(found.start),
        "place": _place(found),
        "assumes": _ALONE if alone else f"{_assumes(found)}{_beside(found)}",
        "leaves": None if start_by is None or _in_time(found.start, start_by) else start_by,
        "as_of": as_of,
        "rank": found.rank,
        "promised": found.promised and found.rank is not None,
        "where": _nodes(found.nodes),
        "left": "has" if len(found.in_the_way) == 1 else "have",
        "known": [{"id": each, "name": names[each]} for each in found.in_the_way if each in names],
        "unknown": sum(1 for each in found.in_the_way if each not in names),
        "helps": [_help(each, as_of, again=again) for each in changes(found.alternatives, as_of, asked=found.asked)],
        "nothing": _nothing(found),
    }


def when(start: Span | None) -> dict[str, Any] | None:
    """The range with how it reads; None for no start that could be foretold.

    ``how``: soon, with the next pass of the scheduler; at an instant; by the late end, of a minute that has begun;
    about an instant, one of whole minutes or, as about_in_range, one of which the ends are worth telling; between both.
    """
    if start is None:
        return None
    return {"how": _how(start), "at": start.at, "low": start.low, "high": start.high}


def _how(start: Span) -> str:
    if start.high <= start.as_of:
        return "soon"
    if start.low == start.high:
        return "at"
    if _is_near(start):
        return "about" if _is_one(start) else "about_in_range"
    return "by" if _is_one(start) and start.low <= start.as_of else "between"


def _is_near(start: Span) -> bool:
    """Whether what is expected stands for all of the range."""
    return max(start.high - start.at, start.at - start.low) <= NEAR * (start.at - start.as_of)


def _nodes(names: Sequence[str]) -> str:
    """``n1``, ``n1 and n2``, ``n1, n2, n3 and 5 more``; "" for none."""
    told = list(names[:MAX_NODES])
    if len(names) > MAX_NODES:
        told.append(f"{len(names) - MAX_NODES} more")
    return " and ".join(filter(None, [", ".join(told[:-1]), *told[-1:]]))


def _is_one(start: Span) -> bool:
    return (start.high - start.low).total_seconds() <= SAME_S


def _in_time(start: Span | None, start_by: datetime) -> bool:
    return start is not None and start.high < start_by


def _place(found: Foretold) -> str:
    if found.rank is None:
        return ""
    rank = "It is the first in the queue" if found.rank == 1 else f"{amount(found.rank - 1, 'job')} ahead of it"
    return f"{rank}{' and it holds a reservation.' if found.promised else '.'}"


def _assumes(found: Foretold) -> str:
    """What the range rests on."""
    if found.start is None:
        return "The pool as it is now has no place for it: nodes or GPUs must come, or come back, first."
    if found.if_saved:
        saves, runs = ("saves", "it runs") if found.if_saved == 1 else ("save", "they run")
        who = f"{amount(found.if_saved, 'running job')} that may not be stopped unsaved"
        return f"Only if {who} {saves} by then; otherwise {runs} on, and this job waits anew."
    if found.rank is None:
        return ""
    if not found.promised and _is_one(found.start):
        return (
            "By then enough of what runs must have ended for it, by the time limits. A job ahead of it may take its "
            f"place, and so may {GOES_BEFORE}.{_guard(found)}"
        )
    if found.promised:
        return (
            "Its GPUs are kept from every job behind it: it starts sooner when what runs on them ends before its time "
            f"limit, and later only through a fault or {GOES_BEFORE}, even one submitted later.{_guard(found)}"
        )
    return (
        "The soonest if nothing ahead of it took its place, the latest if what is ahead runs to its time limits and "
        "packs half as well as it could."
    )


def _guard(found: Foretold) -> str:
    """After how long a wait GPUs are kept for it though others go first, as a sentence that follows another."""
    if found.guarded_after_s is None:
        return ""
    return (
        f" After {limit(found.guarded_after_s)} of waiting GPUs are kept for it from the jobs behind it whatever its "
        "rank, if it is among those that wait longest."
    )


def _beside(found: Foretold) -> str:
    """What a start beside others rests on, as a sentence that follows another."""
    if found.start is None or not found.beside:
        return ""
    return f" A job of group {found.beside} must still run beside it then."


def _nothing(found: Foretold) -> str:
    """What is said when no change would help."""
    if found.rank is not None or found.start is None or _is_kept_past_its_time(found):
        kinds = " and ".join(filter(None, [", ".join(found.tried[:-1]), *found.tried[-1:]]))
        return f"No single change was found that would help it much; tried: {kinds}."
    if found.promised:
        return "Nothing is needed: its GPUs are its own, or are being freed for it."
    return "Nothing: it waits for its time, not for GPUs."


def _is_kept_past_its_time(found: Foretold) -> bool:
    """Whether it is expected to start later than it may."""
    until = [dict(each.numbers)["until_ms"] for each in found.reasons if each.code in ("NOT_BEFORE", "BACKOFF")]
    return bool(until) and found.start is not None and found.start.at > from_ms(int(until[0]))


def _help(each: Change, as_of: datetime, *, again: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A change as a sentence, with the form that has it filled in where the form has its fields."""
    fields = {name: _typed(name, value) for name, value in _by_nodes(each.fields).items()}
    link = f"{reverse('submit')}?{urlencode({**again, **fields})}" if again and fields else ""
    leads = "Change it so" if again and FIELD in again else "Submit it so beside this one"
    wait = each.starts_at - as_of
    holds = "if nothing else comes and all runs to its time limit" if each.expected else "at the soonest"
    start = f"in {_at_least(wait)} {holds}" if wait > timedelta() else "now"
    change = said(each.change, GIVEN_UP)
    sentence = f"{_upper(_with(change))}{',' if says_more(change) else ''} it would start {start}."
    return {"sentence": sentence, "parts": list(parts(sentence)), "link": link, "leads": leads}


def _by_nodes(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as the form has them: as many GPUs on each of the nodes; none at all where they are not."""
    each = fields.get("gpus_per_node")
    if each is None:
        return dict(fields)
    even = fields["gpu_count"] == fields["node_count"] * each
    return {**fields, "gpus_per_node": None} if even else {}


def _typed(name: str, value: Any) -> str:
    """The value as the form's address has it: as somebody would type it, "" for none, JSON for rules."""
    if value is None:
        return ""
    if name == "affinity":
        return json.dumps(value)
    return duration_in_words(value) if name == "max_duration" else str(value)


def changed_by(query: Mapping[str, str]) -> dict[str, Any]:
    """The fields of the body that such an address changes; what can't be read is left as it was."""
    found: dict[str, Any] = {name: query[name][:MAX_TYPED] or None for name in IN_FORM if name in query}
    for name in ("nvlink_required", "nvlink_exclusive", "allow_span"):
        if name in found:
            found[name] = found[name] == "True"
    if found.get("affinity"):
        try:
            found["affinity"] = json.loads(found["affinity"])
        except (ValueError, RecursionError):
            del found["affinity"]
    return found


def _with(change: str) -> str:
    return change if change.startswith("without") else f"with {change}"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def planned(found: Planned, names: Mapping[str, str]) -> dict[str, Any]:
    """The plan of a job as the form tells it; ``names`` are those of the jobs its reasons speak of."""
    return {
        "verdict": found.verdict,
        "sentence": _verdict(found),
        "when": when(found.start),
        "gpus": _where(found.gpus),
        "hours": gpu_hours(found.gpu_hours),
        "victims": [_victim(each) for each in found.victims],
        "causes": [cause(each, names) for each in found.reasons],
        "helps": [_help(each, found.as_of) for each in found.alternatives],
        "effects": _effects(found.share),
        "in_place_of": _in_place_of(found),
        "same": found.same,
        "groups": grouped(found.rows),
        "as_of": found.as_of,
    }


def _in_place_of(found: Planned) -> str:
    """Whose place it would take, and whether it is that place; "" for nobody's."""
    instead = found.in_place_of
    if instead is None:
        return ""
    if found.verdict == "never":
        return f"{instead.name} would stay where it is, as nothing is cancelled for a job that is refused."
    held = " It would be held as that job is; what is told here holds once it is released." if instead.held else ""
    place = f"a new place: {instead.new_place}" if instead.new_place else "its place in the queue"
    anew = f" It would begin anew: {instead.begins_anew}." if instead.begins_anew else ""
    return f"{instead.name} would be cancelled for it, and it would stand at {place}.{anew}{held}"


def _verdict(found: Planned) -> str:
    codes = {str(reason["code"]) for reason in found.reasons}
    if found.verdict == "never":
        if "ONE_NODE_ONLY" in codes:
            return "It would be refused: a job of this kind lies on one node."
        return "It would never start: the pool has nothing that could hold it."
    if found.verdict == "now":
        stop = f", once {amount(len(found.victims), 'running job')} made room" if found.victims else ""
        if unsure := sum(each["if_saved"] for each in found.victims):
            saves = f"{unsure} of them save" if len(found.victims) > 1 else "it saves"
            stop += f"; only if {saves} in the time given, and otherwise it would wait"
        return f"It would start now{stop}."
    if "EXPIRES" in codes:
        return "It would wait, and leave the queue before it starts."
    if AFTER in codes:
        return "It would wait for other jobs, and then be placed like any other."
    if found.start is None:
        return "It would wait, and nothing tells yet for how long."
    low, at, high = (when - found.as_of for when in (found.start.low, found.start.at, found.start.high))
    if high <= MINUTE:
        return "It would start within a minute."
    if low == high < IN_SECONDS:
        return f"It would wait about {limit(low.total_seconds())}."
    if _is_near(found.start):
        return f"It would wait about {_minutes(at)}."
    latest = _minutes(high + MINUTE - timedelta.resolution)
    return f"It would wait up to {latest}." if low < MINUTE else f"It would wait between {_minutes(low)} and {latest}."


def _minutes(wait: timedelta) -> str:
    """``59m``, ``1h 4m``: in whole minutes, down, as the pages count how far off an instant is."""
    return limit(wait // MINUTE * 60)


def _at_least(wait: timedelta) -> str:
    """The wait in whole minutes, and of what is shorter than one that it is."""
    return "less than a minute" if wait < MINUTE else _minutes(wait)


def _where(gpus: Iterable[Mapping[str, Any]]) -> str:
    """``n1: GPU 0, 1; n2: GPU 4``."""
    nodes: dict[str, list[int]] = {}
    for gpu in gpus:
        nodes.setdefault(str(gpu["node"]), []).append(int(gpu["index"]))
    return "; ".join(f"{node}: GPU {', '.join(map(str, sorted(found)))}" for node, found in nodes.items())


def _victim(victim: Mapping[str, Any]) -> dict[str, Any]:
    lost = gpu_hours(victim["lost_gpu_s"] / 3600)
    return {"job": victim["job"], "name": victim["name"], "costs": f"{amount(victim['gpus'], 'GPU')}, loses {lost}"}


def _effects(share: Mapping[str, Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    """How much of its share each ledger has had before and after."""
    found = []
    for name, words in LEDGERS if share else ():
        row = share[name] if share else {}
        if row["score_before"] is not None:
            target = row["target_gpu_h"]
            before, after = 100 * row["used_before_gpu_h"] / target, 100 * row["used_after_gpu_h"] / target
            found.append({"who": words, "before": before, "after": after,
                          "score_before": row["score_before"], "score_after": row["score_after"]})  # fmt: skip
    return found
