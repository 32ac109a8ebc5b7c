"""A job as its page and its row tell it: one sentence, and the numbers as people read them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from scheduling.core.lifecycle import LIVE, TERMINAL, JobEvent, JobState, sources_of
from scheduling.services import recipes
from scheduling.services.jobs import RETRIED
from scheduling.store.clock import past_in_words
from scheduling.store.queries.unheard import UNHEARD
from scheduling.web.file_lists import came_out
from scheduling.web.lost_words import used
from scheduling.web.people_words import label, parts, said
from scheduling.web.start_words import until_it_runs
from scheduling.web.wording import amount, duration, gb, gpu_hours, limit, per_second, steps_of

# Changes that would help have a place of their own on the page.
HINT = " It would start now "
# Numbers of reasons that are told there, or that the sentence has in words.
TOLD_APART = frozenset({
    "fits_if_at_most_s", "duration_at_most_s", "gpus_at_most", "nodes_at_most", "memory_at_most_mib", "without_nvlink",
    "without_level", "without_rule", "without_anti_affinity", "without_with", "without_neighbours", "without_group",
    "without_exclusive", "without_group_and_anti_affinity", "without_group_and_with", "without_group_and_neighbours",
    "less_on_fewer_nodes", "without_waiting", "closed", "evictable", "evictable_gpus", "would_evict", "free_at_ms",
    "save_s",
    "until_ms", "kept", "kept_until_ms", "if_saved",
    "window_from_ms", "window_until_ms", "start_by_ms", "expected_from_ms", "rules",
    "earliest_domain", "earliest_at_ms", "lost_gpu_s", "protected", "protected_until_ms",
    "group", "level", "running", "kept_away_by", "jobs_ahead", "gpus_taken", "field", "limit", "limits",
})  # fmt: skip

WAITED = "Has waited "
JOBS = ("first", "held_for", "victim")  # numbers that are ids of jobs
WORDS = {
    "need": "needs", "best_domain": "nearest", "best_free": "free there", "short": "missing",
    "first": "the first of them", "need_nodes": "nodes needed",
    "ready_nodes": "nodes ready", "short_nodes": "nodes missing", "deadline": "kept until",
}  # fmt: skip


def shown(job: Mapping[str, Any], now: datetime, *, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The job's dictionary with what its page and its row show beside it. ``names``: of the jobs its reasons speak of,
    as far as the reader may know of them. What goes on growing while a page is open has its seconds, too: ``waited_s``,
    ``ran_s`` (None: it grows no more), and ``counts`` in the parts of a sentence."""
    began, ended = job["started_at"], job["ended_at"]
    progress = job["progress"]
    told = sentence(job, now)
    waited_s = ((began or ended or now) - job["submitted_at"]).total_seconds()
    return {
        **job,
        "sentence": told,
        "sentence_parts": _counting(list(parts(told)), _waits_s(job, now)),
        "waited": duration(waited_s),
        "waited_s": None if began or ended else waited_s,
        "ran": duration(job["run_s"]) if began else "",
        "ran_s": job["run_s"] if _runs(job) else None,
        "of_limit": of_limit(job),
        "limit": limit(job["max_duration"]) if job["max_duration"] else "",
        "memory": gb(job["gpu_memory_min_mib"]) if job["gpu_memory_min_mib"] else "any",
        "hours": used(job),
        "percent": _percent(progress),
        "so_far": steps_of(progress["step"], progress["total"], progress["unit"]) if progress else "",
        "rate": _rate(progress) if job["state"] == JobState.RUNNING else "",
        "causes": [cause(r, names or {}) for r in job["reasons"]],
        "asked": "–" if job["state"] == JobState.REJECTED else job["gpu_count"],
        "eta": duration(progress["eta_s"]) if progress and progress["eta_s"] is not None else "",
        "unheard": _unheard(job),
        "why": _foremost(job["reasons"]) or (job["error"] or "").split("\n")[0],
        "went_wrong": went_wrong(job),
        "faults": [_fault(str(e["field"]), said(str(e["message"]))) for e in job["errors"]],
        "waiting": job["state"] in (JobState.QUEUED, JobState.HELD),
        "live": job["state"] in LIVE,
        "can": verbs(JobState(job["state"]), started=bool(job["attempt"])),
        "files": came_out(job["artifacts"]),
    }


def cause(reason: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A reason as the page tells it. When it starts and what would help are told beside it, with what is known now."""
    here = {name: value for name, value in reason["numbers"].items() if name not in TOLD_APART}
    message = said(reason["message"].split(HINT)[0])
    message = message[:1].upper() + message[1:]
    return {"message": message, "parts": list(parts(message)), "pairs": _pairs(here, names)}


def _foremost(reasons: Sequence[Mapping[str, Any]]) -> str:
    """The reason that a line has room for."""
    return str(reasons[0]["message"]) if reasons else ""


def _unheard(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """That nodes of it are silent and what follows, piece by piece; nothing while all are heard of."""
    return [part for r in job["reasons"] if r["code"] == UNHEARD for part in parts(r["message"])]


def _fault(field: str, message: str) -> dict[str, str]:
    """What was wrong with a field, which is named before the sentence unless that begins with it."""
    what = label(field)
    return {"what": "" if message.startswith(what) else what, "message": message}


def jobs_in(reasons: Sequence[Mapping[str, Any]]) -> list[str]:
    """The ids of the jobs that the reasons speak of."""
    return [value for r in reasons for name, value in r["numbers"].items() if name in JOBS]


def went_wrong(job: Mapping[str, Any]) -> str:
    """The error of a job that has ended; "" while it goes on, and for a refused one, whose reasons are told apart."""
    over = job["state"] in TERMINAL and job["state"] != JobState.REJECTED
    return str(job["error"] or "").strip() if over else ""


def asked(body: Mapping[str, Any], names: Mapping[str, str]) -> list[dict[str, str]]:
    """What a refused body asked for, a row a field that was filled; ``names`` are the models' by their ids."""
    flat = {**{k: v for k, v in body.items() if k != "params"}, **body["params"]}
    return [_row(key, v, names) for key, v in flat.items() if v not in (None, "", [], {})]


def _row(key: str, value: Any, names: Mapping[str, str]) -> dict[str, str]:
    """A recipe is shown as it was written; one that came as an object as the YAML that it would be."""
    if key == "recipe":
        text = value if isinstance(value, str) else recipes.as_text(value)
        return {"word": label(key), "value": text, "whole": "yes"}
    return {"word": label(key), "value": _said(value, names)}


def _said(value: Any, names: Mapping[str, str]) -> str:
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(_said(v, names) for v in value) if isinstance(value, list) else json.dumps(value)


def verbs(state: JobState, *, started: bool) -> dict[str, bool]:
    """What may be done to a job in this state; ``started``: it has had GPUs before."""
    return {
        "change": state in (JobState.QUEUED, JobState.HELD) and not started,
        "cancel": state in sources_of(JobEvent.CANCEL),
        "force": state == JobState.CANCELLING,
        "hold": state in sources_of(JobEvent.HOLD),
        "release": state in sources_of(JobEvent.RELEASE),
        "clone": state != JobState.REJECTED,
        "retry": state in RETRIED,
    }


def sentence(job: Mapping[str, Any], now: datetime) -> str:
    """What is happening to the job, why, or what came out."""
    state, name = JobState(job["state"]), job["outcome"]
    gpus = "" if state is JobState.REJECTED else amount(job["gpu_count"], "GPU")  # that may be anything then
    where = " and ".join(sorted({g["node"] for g in job["gpus"]}))
    ran = f"{duration(job['run_s'])}{_in_all(job)}" if job["started_at"] else ""
    waited = duration((now - job["submitted_at"]).total_seconds())
    if state is JobState.QUEUED:
        why = _foremost(job["reasons"]).split(". ")[0].rstrip(".")
        return f"{_has_waited(job, gpus, ran, now)}. {why}.".replace(" .", "")
    if state is JobState.RUNNING:
        began = job["attempt_started_at"]
        since = f" since {past_in_words(began)}" if began else ""
        known = ", as far as is known" if _unheard(job) else ""
        return f"Running on {gpus} of {where}{since}{_which(job)}{known}."
    if state is JobState.SUCCEEDED:
        return f"Succeeded after {ran} on {gpus} with {amount(len(job['artifacts']), 'artifact')}."
    if state is JobState.FAILED:
        why = job["error"] or ("out of memory." if name == "OOM" else "its process ended badly.")
        return f"Failed after {ran or waited}: {why}"
    return {
        JobState.HELD: "Held: it does not start until it is released.",
        JobState.DISPATCHING: f"Granted {gpus} of {where}; {until_it_runs(job)}.",
        JobState.PREEMPTING: job["reasons"][0]["message"] if job["reasons"] else "",
        JobState.CANCELLING: job["reasons"][0]["message"] if job["reasons"] else "",
        JobState.TIMED_OUT: f"Stopped after {ran}, at the end of its time limit of {limit(job['max_duration'])}.",
        JobState.CANCELLED: _cancelled(job, ran),
        JobState.REJECTED: f"Refused for {amount(len(job['errors']), 'reason')}; nothing ran.",
    }[state]


def _has_waited(job: Mapping[str, Any], gpus: str, ran: str, now: datetime) -> str:
    """For how long it waits now, and that it does so again."""
    told = f"{WAITED}{duration(_waits_s(job, now))} for {gpus}"
    if not job["attempt"]:
        return told
    return f"{told} once more; it ran for {ran} before" if ran else f"{told} once more; it has not run yet"


def _waits_s(job: Mapping[str, Any], now: datetime) -> float | None:
    """For how many seconds it has been waiting; None for a job that doesn't."""
    return None if job["waits_since"] is None else (now - job["waits_since"]).total_seconds()


def _runs(job: Mapping[str, Any]) -> bool:
    """Whether its time goes on counting as that of a run."""
    return job["attempt_started_at"] is not None and JobState(job["state"]) in LIVE


def _counting(told: list[dict[str, Any]], seconds: float | None) -> list[dict[str, Any]]:
    """The pieces of a sentence, with how long the job has waited so far in one of its own."""
    first = str(told[0].get("text", ""))
    if seconds is None or not first.startswith(WAITED):
        return told
    spelled = duration(seconds)
    return [{"text": WAITED}, {"text": spelled, "counts": seconds}, {"text": first.removeprefix(WAITED + spelled)},
            *told[1:]]  # fmt: skip


def of_limit(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """How much of its time limit a job that runs, or waits, after an earlier run has used, and what is left, piece by
    piece; nothing for any other, of which the times that are told are its first run's alone."""
    before = job["attempt"] > 1 or (job["attempt"] and job["waits_since"] is not None)
    if job["left_s"] is None or not before or not job["run_s"]:
        return []
    used, left = (job["run_s"], job["left_s"]) if _runs(job) else (None, None)
    return [
        {"text": duration(job["run_s"]), "counts": used},
        {"text": f" of {limit(job['max_duration'])}, "},
        {"text": duration(job["left_s"]), "counts": left, "down": True},
        {"text": " left"},
    ]


def _cancelled(job: Mapping[str, Any], ran: str) -> str:
    if job["replaced_by"]:
        return "Cancelled before it started: another job took its place."
    return f"Cancelled after running for {ran}." if ran else "Cancelled before it started."


def _which(job: Mapping[str, Any]) -> str:
    """In which attempt, where it is not the first."""
    return f", in attempt {job['attempt']}" if job["attempt"] > 1 else ""


def _in_all(job: Mapping[str, Any]) -> str:
    return f" in {amount(job['attempt'], 'attempt')}" if job["attempt"] > 1 else ""


def at_stake(job: Mapping[str, Any], events: Sequence[Mapping[str, Any]], now: datetime, *, waiting: int = 0) -> str:
    """What is lost when the job is cancelled now; ``waiting``: so many jobs are cancelled with it."""
    lost = _lost_by_cancelling(job, events, now)
    return (
        f"{lost} {amount(waiting, 'job')} that wait{'s' * (waiting == 1)} for it will be cancelled too."
        if waiting
        else lost
    )


def _lost_by_cancelling(job: Mapping[str, Any], events: Sequence[Mapping[str, Any]], now: datetime) -> str:
    if job["state"] in (JobState.QUEUED, JobState.HELD):
        so_far = "It is not running" if job["attempt"] else "It has not started"
        return f"{so_far}, so no work is lost; its place in the queue is."
    began = job["attempt_started_at"]
    if began is None:
        return "It has not started to work yet; the GPUs are given back."
    saved = [e["at"] for e in events if e["type"] in ("checkpoint", "checkpointed")]
    lately = bool(saved) and saved[-1] > began
    since = saved[-1] if lately else began
    lost = (now - since).total_seconds() * job["gpu_count"] / 3600
    kept = "its newest checkpoint stays in the store" if saved else "there is no checkpoint"
    start = f"the start of attempt {job['attempt']}" if job["attempt"] > 1 else "its start"
    return f"The work since {'the last checkpoint' if lately else start} is lost ({gpu_hours(lost)}); {kept}."


def _pairs(numbers: Mapping[str, Any], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """The numbers of a reason as people read them; an instant (``..._ms``) as a time, a job by its name."""
    pairs: list[dict[str, Any]] = []
    for key, value in numbers.items():
        if key in JOBS:
            known = names.get(value)
            pairs.append({"word": key, "value": known or "a job of another project", "job": value if known else None})
        elif key.endswith("_mib"):
            pairs.append({"word": key.removesuffix("_mib"), "value": gb(int(value))})
        elif key.endswith("_ms"):
            pairs.append({"word": key.removesuffix("_ms"), "at": _moment(value)})
        else:
            pairs.append({"word": key, "value": value})
    return [{**p, "word": WORDS.get(str(p["word"]), str(p["word"]).replace("_", " "))} for p in pairs]


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, tz=UTC)


def _percent(progress: Mapping[str, Any] | None) -> int | None:
    return min(100, 100 * progress["step"] // progress["total"]) if progress and progress["total"] else None


def _rate(progress: Mapping[str, Any] | None) -> str:
    if not progress or not progress["rate"]:
        return ""
    return per_second(progress["rate"], progress["unit"])
