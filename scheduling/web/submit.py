"""What will happen if I submit this?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any
from uuid import UUID, uuid4

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse

from scheduling.core.policy import DEFAULT_POLICY
from scheduling.services import jobs as verbs
from scheduling.services import levels, now, replacing, whatif
from scheduling.services.jobs import Accepted, KeyConflict
from scheduling.services.whatif import Planned
from scheduling.store.queries import known, pages, pool
from scheduling.store.queries.access import Actor
from scheduling.web import (
    after_lines,
    command_form,
    evaluate_form,
    evolve_form,
    in_place,
    infer_form,
    kept_lines,
    merge_form,
    rows_form,
    rule_lines,
    space_lines,
    where_when,
)
from scheduling.web.access import posted, signed_in
from scheduling.web.command_words import READINGS
from scheduling.web.form_fields import rest_rows
from scheduling.web.job_words import jobs_in
from scheduling.web.metric_words import METRIC_WORDS
from scheduling.web.outlook_words import changed_by, planned
from scheduling.web.wording import amount, gb, limit
from workers.catalog import KINDS
from workers.command_params import AFTER_SIGNAL, MAX_NPROC, SIGNALS
from workers.evolve_params import GRID, SIGMA
from workers.harness_params import HARNESSES
from workers.infer_params import MAX_TEMPERATURE, NEW_TOKENS
from workers.merge_strategies import GRANULARITIES, RESCALES, STRATEGIES
from workers.model_layers import MAX_PATTERN
from workers.recipe_check import DTYPES, MAX_TEXT, TOP
from workers.rows_params import BATCH, FORMATS
from workers.tokenizer_source import BASE

MAX_KEY = 100
RECIPE_FILE = "recipe_file"
FORMS: Mapping[str, ModuleType] = {
    form.KIND: form for form in (merge_form, evolve_form, evaluate_form, infer_form, command_form)
}
ADDRESSES = {
    merge_form.KIND: "submit", evolve_form.KIND: "submit-evolve", evaluate_form.KIND: "submit-evaluate",
    infer_form.KIND: "submit-infer",
    command_form.KIND: "submit-command",
}  # fmt: skip
# What the button of each form queues.
QUEUED = {
    merge_form.KIND: "A merge of these models", evolve_form.KIND: "The search", evaluate_form.KIND: "The evaluation",
    infer_form.KIND: "The run over these rows", command_form.KIND: "The program",
}  # fmt: skip
# What the address of a form may choose.
CHOSEN = {evaluate_form.KIND: evaluate_form.ARTIFACTS, infer_form.KIND: infer_form.ARTIFACTS}
# What stands in the file of a data set.
DATA_WORDS = {
    evaluate_form.KIND: "input and label for a model that tells classes apart, text for a language model. It is read "
    "whole before the first sample is computed.",
    infer_form.KIND: "text for a language model, input for a model that tells classes apart; a label is not read. It "
    "is read whole before the first row is computed.",
}


@signed_in
def submit(request: HttpRequest, actor: Actor, kind: str = merge_form.KIND) -> HttpResponse:
    """The form; posted, a new job, or the form again with everything that is wrong. Posted twice, one job."""
    if request.method != "POST":
        return _first(request, actor, kind)
    form = FORMS[kind]
    values, unread = _read(request, actor, form)
    instead = in_place.posted(request.POST)
    key = request.POST.get("key", "")[:MAX_KEY] or str(uuid4())
    body = {**form.body_of(values), **instead.body}
    if unread:  # there is no whole body to submit; what else is wrong is told with it
        wrong = form.refused(values, _with_others(unread, verbs.check(body, actor, now())[2], form))
        return _form(request, actor, wrong, kind, instead, key=key, status=422)
    result = verbs.submit(body, actor, now(), key=f"form:{key}")
    if isinstance(result, Accepted):
        return redirect("job", job_id=result.job_id)
    if isinstance(result, KeyConflict):
        return _form(request, actor, values, kind, instead, sent_before=result.job_id)
    return _form(request, actor, form.refused(values, result.errors), kind, instead, key=key, status=422)


@posted
@signed_in
def plan(request: HttpRequest, actor: Actor, kind: str = merge_form.KIND) -> HttpResponse:
    """What would happen if the form were submitted as it is: the panel alone for a script, else the form with it."""
    form = FORMS[kind]
    values, unread = _read(request, actor, form)
    key = request.POST.get("key", "")[:MAX_KEY]
    instead = in_place.posted(request.POST)
    found = whatif.plan({**form.body_of(values), **instead.body}, actor, now())
    if isinstance(found, Planned) and not unread:
        never = [{**each, "field": each["numbers"].get("field", "")} for each in found.reasons]
        told = form.refused(values, never if found.verdict == "never" else ())
        names = known.names(actor, jobs_in(found.reasons))
        context: dict[str, object] = {"plan": planned(found, names), "beside": told.errors}
        if not request.htmx:  # type: ignore[attr-defined]
            return _form(request, actor, told, kind, instead, key=key, more=context)
        return render(request, "parts/plan.html", context)
    errors = () if isinstance(found, Planned) else found.errors
    wrong = form.refused(values, _with_others(unread, errors, form))
    if not request.htmx:  # type: ignore[attr-defined]
        return _form(request, actor, wrong, kind, instead, key=key, status=422)
    faults = [{"message": message} for messages in wrong.errors.values() for message in messages]
    return render(request, "parts/plan.html", {"faults": faults, "beside": wrong.errors})


def _read(request: HttpRequest, actor: Actor, form: Any) -> tuple[Any, list[dict[str, str]]]:
    """(the values that were sent, with the ids of the jobs that they name; what of them can't be read)."""
    values, unknown = after_lines.resolved(form.posted(_sent(request)), actor)
    return values, [*form.faults(values), *unknown]


def _sent(request: HttpRequest) -> QueryDict:
    """What was typed. A file with a recipe counts as if its text had been typed."""
    file = request.FILES.get(RECIPE_FILE)
    typed = after_lines.sent(request.POST)
    if file is None or not file.size:
        return typed
    # What is no text then has characters that no recipe may have, and is refused as such.
    typed[merge_form.RECIPE] = file.read(4 * MAX_TEXT + 1).decode("utf-8", "backslashreplace")
    return typed


def _with_others(
    unread: Sequence[Mapping[str, Any]], errors: Sequence[Mapping[str, Any]], form: Any
) -> list[Mapping[str, Any]]:
    """What can't be read, and the errors of the other fields: of a field that can't be read they would mislead, but not
    those of the lines of one that were read."""
    if not unread:
        return list(errors)
    fields = {each["field"] for each in unread}
    return [
        *unread,
        *(each for each in errors if (at := form.place(str(each["field"]))) not in fields or at in form.BY_LINE),
    ]


def _first(request: HttpRequest, actor: Actor, kind: str) -> HttpResponse:
    """The form that nobody has sent yet: as a preset has it, or as an earlier job was, in the form of its kind."""
    body = verbs.body_again(request.GET["from"], actor) if "from" in request.GET else None
    form = FORMS[kind]
    if body is None:
        project = next(iter(actor.projects), "")
        values = form.empty(project=project, preset=request.GET.get("preset", ""))
        chosen = {name: request.GET[name] for name in CHOSEN.get(kind, ()) if request.GET.get(name)}
        values = replace(values, texts={**values.texts, **chosen})
        return _form(request, actor, values, kind, in_place.InPlace())
    if body.get("kind") != kind and body.get("kind") in ADDRESSES:
        return redirect(f"{reverse(ADDRESSES[str(body['kind'])])}?{request.GET.urlencode()}")
    instead = in_place.of_address(request.GET, body, actor)
    asked = {name: value for name, value in body.items() if name != replacing.FIELD}
    return _form(request, actor, form.again({**asked, **changed_by(request.GET)}), kind, instead)


def _form(
    request: HttpRequest,
    actor: Actor,
    values: Any,
    kind: str,
    instead: in_place.InPlace,
    *,
    key: str = "",
    status: int = 200,
    sent_before: UUID | None = None,
    more: Mapping[str, object] | None = None,
) -> HttpResponse:
    form, queues = FORMS[kind], pool.queues(now())
    texts = {**values.texts, **_by_default(values.texts, queues, actor, kind)}
    priorities = _priorities(queues, levels.permitted(actor))
    found = sum(len(messages) for messages in values.errors.values())
    context: dict[str, Any] = {
        "values": values,
        "texts": texts,
        "errors": values.errors,
        "errors_top": values.errors.get("", []),
        "rest": json.dumps(values.rest) if values.rest else "",
        "rest_rows": rest_rows(values.rest),
        "key": key or str(uuid4()),
        "sent_before": sent_before,
        "kept": kept_lines.shown(values.texts),
        "unknown_place": instead.unknown,
        "in_place": in_place.shown(instead, actor),
        "copied": in_place.left_as_it_is(instead, actor),
        "here": ADDRESSES[kind],
        "kind": kind,
        "forms": [(address, KINDS[of].title, of) for of, address in ADDRESSES.items()],
        "projects": pages.project_names(actor),
        "queues": queues,
        "priorities": priorities,
        "priority_note": _barred(priorities),
        "purposes": DEFAULT_POLICY.purposes,
        "exactly": where_when.is_said(values.texts, values.errors),
        "waits": after_lines.is_said(values.texts, values.errors),
        "after_rows": after_lines.rows_shown(values.texts, actor),
        "to_wait_for": after_lines.suggested(actor),
        "outputs": after_lines.outputs(values, actor),
        "another_output": after_lines.OTHER,
        "levels": where_when.LEVELS.items(),
        "rungs": where_when.RUNGS.items(),
        "like": rule_lines.LIKE,
        "may_unpreemptible": actor.may_unpreemptible,
        "presets": [(name, title) for name, (title, _) in form.PRESETS.items()],
        "limits": _limits(queues, kind),
        "sentence": _sentence(found, kind),
        **_choices(kind, actor),
        **(more or {}),
    }
    context["foreign"] = _foreign(texts, context)
    return render(request, form.TEMPLATE, context, status=status)


def _by_default(
    texts: Mapping[str, str], queues: Sequence[Mapping[str, Any]], actor: Actor, kind: str
) -> dict[str, str]:
    """What a body means that leaves these out: a list from which one is chosen always shows one."""
    queue = texts.get("queue") or KINDS[kind].queue
    level = next((row["default_level"] for row in queues if row["name"] == queue), "")
    project = texts.get("project") or next(iter(actor.projects), "")
    return {"queue": queue, "priority": texts.get("priority") or level, "project": project}


def _choices(kind: str, actor: Actor) -> dict[str, object]:
    """What the form of this kind lets one choose from."""
    if kind == merge_form.KIND:
        models = pages.models_to_merge(actor)
        return {
            "models": models,
            "strategies": merge_form.strategies(),
            "having": merge_form.having(),
            "rescales": RESCALES,
            "granularities": GRANULARITIES,
            "dtypes": DTYPES,
            "most_recipe": MAX_TEXT,
            "recipe_fields": ", ".join(TOP),
            "recipe_like": merge_form.RECIPE_LIKE,
            "most_pattern": MAX_PATTERN,
        }
    if kind == evolve_form.KIND:
        return {
            "models": pages.models_to_merge(actor),
            "datasets": pages.datasets(actor),
            "metrics": METRIC_WORDS.items(),
            "strategies": evolve_form.strategies(),
            "batch": BATCH,
            "grid": GRID,
            "sigma": SIGMA,
            "space_like": space_lines.LIKE,
            "settings_like": evolve_form.SETTINGS_LIKE,
            "architecture_like": rows_form.ARCHITECTURE_LIKE,
        }
    if kind in (evaluate_form.KIND, infer_form.KIND):
        return {
            "models": pages.models_to_merge(actor),
            "datasets": pages.datasets(actor),
            "metrics": METRIC_WORDS.items(),
            "batch": BATCH,
            "data_hint": f"One file, {', '.join(FORMATS)}: {DATA_WORDS[kind]}",
            "harnesses": HARNESSES,
            "architecture_like": rows_form.ARCHITECTURE_LIKE,
            "new_tokens": NEW_TOKENS,
            "most_temperature": f"{MAX_TEMPERATURE:g}",
        }
    return {
        "artifacts": pages.artifacts_to_work_on(actor),
        "readings": READINGS.items(),
        "signals": SIGNALS,
        "after_signal": AFTER_SIGNAL,
        "most_nproc": MAX_NPROC,
    }


def _foreign(texts: Mapping[str, str], context: Mapping[str, Any]) -> dict[str, str]:
    """What was sent, or asked of an earlier job, and is none of a list's choices: it is shown among them, since a
    browser would put the first in its place."""
    models, datasets = (
        [row[name] for row in context.get(listed, ()) for name in ("id", "name")] for listed in ("models", "datasets")
    )
    lists = {
        "strategy": [*STRATEGIES, merge_form.RECIPE],
        "project": context["projects"],
        "queue": [row["name"] for row in context["queues"]],
        "priority": [row["name"] for row in context["priorities"]],
        "purpose": context["purposes"],
        "required_level": where_when.RUNGS,
        "out_dtype": DTYPES,
        "rescale": RESCALES,
        "normalize": merge_form.SWITCH,
        "granularity": GRANULARITIES,
        "base_model": models,
        "tokenizer_source": [BASE, *models],
        "model": models,
        "dataset": datasets,
        "harness": HARNESSES,
        "input": datasets,
        "test": datasets,
        "preempt_signal": SIGNALS,
        "exit_zero_after_signal": AFTER_SIGNAL,
        "files": [row[name] for row in context.get("artifacts", ()) for name in ("id", "name")],
    }
    outputs = {row["value"] for rows in context["outputs"].values() for row in rows}
    return {
        name: texts[name]
        for name, known in lists.items()
        if texts.get(name) and texts[name] not in known and texts[name] not in outputs
    }


def _priorities(queues: list[dict[str, Any]], permitted: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Every priority once, the highest first, with the queues that have it and the projects in which it may be asked
    for."""
    found: dict[str, dict[str, Any]] = {}
    for queue in queues:
        for level in queue["levels"]:
            new = {"name": level["name"], "value": level["value"], "queues": [], "projects": permitted[level["name"]]}
            found.setdefault(level["name"], new)["queues"].append(queue["name"])
    return sorted(found.values(), key=lambda row: -int(row["value"]))


def _barred(priorities: list[dict[str, Any]]) -> str:
    """Why some of the priorities can't be chosen; "" when all can."""
    names = [row["name"] for row in priorities if not row["projects"]]
    needs = "needs a permission" if len(names) == 1 else "need a permission"
    return f"{' and '.join(names)} {needs} that you don't have; an admin can give it." if names else ""


def _limits(queues: list[dict[str, object]], kind: str) -> dict[str, str]:
    limits = pool.limits()
    if not limits["gpus"]:
        nothing = "No node has registered yet: the job would wait for the first."
        return {"gpu_count": nothing, "gpu_memory_min": nothing, "nvlink": nothing, "max_duration": _caps(queues)}
    sizes = ", ".join(gb(m) for m in limits["memory_mib"])
    largest, group = verbs.largest(kind), verbs.largest(kind, nvlink=True)
    return {
        "gpu_count": _up_to(largest, limits["gpus"], kind),
        "gpu_memory_min": f"Of each GPU; a number alone is GB. The pool has GPUs of {sizes}. Empty: any.",
        "nvlink": f"All in one NVLink group; the largest has {amount(group, 'GPU')}."
        if group
        else "The pool has no NVLink group.",
        "max_duration": _caps(queues),
    }


def _up_to(largest: int, installed: int, kind: str) -> str:
    """How many GPUs may be asked for, and why not more."""
    over_nodes = KINDS[kind].over_nodes
    told = f"1 to {largest}{'' if over_nodes else ' on one node'}; the pool has {amount(installed, 'GPU')}."
    spread = verbs.largest(kind, spread=True) if over_nodes else largest
    if spread <= largest:
        return told
    return (
        f"{told} Each of its nodes gives as many, but for one that may give fewer; up to {spread} with Spread over "
        "nodes, where each gives what it has."
    )


def _caps(queues: list[dict[str, object]]) -> str:
    caps = ", ".join(f"{q['name']} {limit(float(str(q['max_duration_cap'])))}" for q in queues)
    return f"Like 90m, 4h or 1h30m. The job is stopped after it. At most: {caps}."


def _sentence(found: int, kind: str) -> str:
    if found:
        where = "beside its field" if found == 1 else "each beside its field"
        return f"Nothing was submitted: {amount(found, 'thing')} to mend, {where}."
    return f"{QUEUED[kind]} is queued at once and starts when its GPUs are free."
