"""What will happen if I submit this?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from scheduling.core.policy import DEFAULT_POLICY
from scheduling.services import jobs as verbs
from scheduling.services import levels, now, whatif
from scheduling.services.jobs import Accepted, KeyConflict
from scheduling.services.whatif import Planned
from scheduling.store.queries import known, pages, pool
from scheduling.store.queries.access import Actor
from scheduling.web import merge_form
from scheduling.web.access import posted, signed_in
from scheduling.web.job_words import jobs_in
from scheduling.web.merge_form import Values
from scheduling.web.outlook_words import IN_FORM, planned
from scheduling.web.wording import amount, gb, limit
from workers.catalog import DTYPES, STRATEGIES

MAX_KEY = 100


@signed_in
def submit(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The form; posted, a new job, or the form again with everything that is wrong. Posted twice, one job."""
    if request.method != "POST":
        return _form(request, actor, _first(request, actor))
    values = merge_form.posted(request.POST)
    key = request.POST.get("key", "")[:MAX_KEY] or str(uuid4())
    result = verbs.submit(merge_form.body_of(values), actor, now(), key=f"form:{key}")
    if isinstance(result, Accepted):
        return redirect("job", job_id=result.job_id)
    if isinstance(result, KeyConflict):
        return _form(request, actor, values, sent_before=result.job_id)
    return _form(request, actor, merge_form.refused(values, result.errors), key=key, status=422)


@posted
@signed_in
def plan(request: HttpRequest, actor: Actor) -> HttpResponse:
    """What would happen if the form were submitted as it is: the panel alone for a script, else the form with it."""
    values = merge_form.posted(request.POST)
    found = whatif.plan(merge_form.body_of(values), actor, now())
    if isinstance(found, Planned):
        context: dict[str, object] = {"plan": planned(found, known.names(actor, jobs_in(found.reasons)))}
        if not request.htmx:  # type: ignore[attr-defined]
            return _form(request, actor, values, key=request.POST.get("key", "")[:MAX_KEY], more=context)
        return render(request, "parts/plan.html", context)
    wrong = merge_form.refused(values, found.errors)
    if not request.htmx:  # type: ignore[attr-defined]
        return _form(request, actor, wrong, key=request.POST.get("key", "")[:MAX_KEY], status=422)
    faults = [{"message": message} for messages in wrong.errors.values() for message in messages]
    return render(request, "parts/plan.html", {"faults": faults})


def _first(request: HttpRequest, actor: Actor) -> Values:
    body = verbs.body_again(request.GET["from"], actor) if "from" in request.GET else None
    if body is not None:
        changed = {name: request.GET[name][:100] for name in IN_FORM if name in request.GET}
        if "nvlink_required" in changed:
            body["nvlink_required"] = changed.pop("nvlink_required") == "True"
        return merge_form.again({**body, **changed})
    return merge_form.empty(project=next(iter(actor.projects), ""), preset=request.GET.get("preset", ""))


def _form(
    request: HttpRequest,
    actor: Actor,
    values: Values,
    *,
    key: str = "",
    status: int = 200,
    sent_before: UUID | None = None,
    more: Mapping[str, object] | None = None,
) -> HttpResponse:
    queues = pool.queues(now())
    priorities = _priorities(queues, levels.permitted(actor))
    found = sum(len(messages) for messages in values.errors.values())
    context = {
        "values": values,
        "texts": values.texts,
        "errors": values.errors,
        "errors_top": values.errors.get("", []),
        "key": key or str(uuid4()),
        "sent_before": sent_before,
        "models": pages.models_to_merge(actor),
        "projects": pages.project_names(actor),
        "queues": queues,
        "priorities": priorities,
        "priority_note": _barred(priorities),
        "strategies": STRATEGIES.values(),
        "dtypes": DTYPES,
        "purposes": DEFAULT_POLICY.purposes,
        "presets": [(name, title) for name, (title, _) in merge_form.PRESETS.items()],
        "limits": _limits(queues),
        "sentence": _sentence(found),
        **(more or {}),
    }
    return render(request, "submit.html", context, status=status)


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


def _limits(queues: list[dict[str, object]]) -> dict[str, str]:
    limits = pool.limits()
    if not limits["gpus"]:
        nothing = "No node has registered yet: the job would wait for the first."
        return {"gpu_count": nothing, "gpu_memory_min": nothing, "nvlink": nothing, "max_duration": _caps(queues)}
    sizes = ", ".join(gb(m) for m in limits["memory_mib"])
    largest, group = verbs.largest("merge"), verbs.largest("merge", nvlink=True)
    return {
        "gpu_count": f"1 to {largest} on one node; the pool has {amount(limits['gpus'], 'GPU')}.",
        "gpu_memory_min": f"Of each GPU; a number alone is GB. The pool has GPUs of {sizes}. Empty: any.",
        "nvlink": f"All in one NVLink group; the largest has {amount(group, 'GPU')}."
        if group
        else "The pool has no NVLink group.",
        "max_duration": _caps(queues),
    }


def _caps(queues: list[dict[str, object]]) -> str:
    caps = ", ".join(f"{q['name']} {limit(float(str(q['max_duration_cap'])))}" for q in queues)
    return f"Like 90m, 4h or 1h30m. The job is stopped after it. At most: {caps}."


def _sentence(found: int) -> str:
    if found:
        where = "beside its field" if found == 1 else "each beside its field"
        return f"Nothing was submitted: {amount(found, 'thing')} to mend, {where}."
    return "A merge of these models is queued at once and starts when its GPUs are free."
