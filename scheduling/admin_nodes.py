"""Many nodes at once: what runs on them is told first, and only then they are cordoned, drained or returned."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from scheduling import models
from scheduling.services import now, pool
from scheduling.store.queries.access import Actor, actor_of
from scheduling.store.queries.at_work_on import AtWork, at_work_on

DOES = {
    "cordon": ("Cordon", "They take no new work. What runs on them goes on to its end."),
    "drain": (
        "Drain",
        "They take no new work. What runs on them goes on to its end, or until the deadline: what still runs then is "
        "asked to save, and goes on elsewhere from its newest checkpoint.",
    ),
    "return": ("Return to service", "They take new work at once. What runs on them goes on."),
}


class NodesForm(forms.Form):
    """Why the nodes are closed, and of a drain until when what runs may stay."""

    reason = forms.CharField(
        required=False, label="Why", help_text=f"shown to all; {pool.REASON_MAX} characters at most"
    )
    deadline = forms.CharField(
        required=False, help_text="from now, like 30m or 4h, 30d at most; empty: what runs goes on to its end"
    )

    def __init__(self, verb: str, *args: Any, **kwargs: Any) -> None:
        """The fields that the verb takes."""
        super().__init__(*args, **kwargs)
        if verb not in pool.WITH_REASON:
            del self.fields["reason"]
        if verb != "drain":
            del self.fields["deadline"]

    def clean_reason(self) -> str:
        """The reason in one line, within its length."""
        try:
            return pool.reason_of(self.cleaned_data["reason"])
        except ValueError as wrong:
            raise forms.ValidationError(str(wrong)) from wrong

    def clean_deadline(self) -> int | None:
        """The deadline in seconds from now; None for none."""
        try:
            return pool.deadline_s(self.cleaned_data["deadline"] or None)
        except ValueError as wrong:
            raise forms.ValidationError(str(wrong)) from wrong


def operate(
    request: HttpRequest, nodes: QuerySet[models.Node], verb: str, context: dict[str, Any]
) -> HttpResponse | None:
    """The page that asks, with what runs there; once it was confirmed, None, and each node is as the verb says.

    It asks again when anything is wrong, or when other jobs run there than those that were told.
    """
    names = [node.name for node in nodes]
    runs = at_work_on(names)
    seen, told = _of(runs), request.POST.get("seen")
    form = NodesForm(verb, request.POST if told is not None else None, initial={"reason": request.POST.get("reason")})
    if told is not None and form.is_valid() and told == seen:
        _do(request, names, verb, form.cleaned_data)
        return None
    actor = actor_of(request.user)
    title, what = DOES[verb]
    return TemplateResponse(
        request,
        "admin/scheduling/node/operate.html",
        {
            **context, "title": f"{title}: {len(names)} node{'' if len(names) == 1 else 's'}", "what": what,
            "verb": verb, "button": title, "form": form, "seen": seen, "changed": told not in (None, seen),
            "action": request.POST.get("action"), "checkbox": ACTION_CHECKBOX_NAME,
            "nodes": [{"node": node, "runs": _shown(runs, node.name, actor)} for node in nodes],
            "jobs": len({run.job for run in runs}),
        },
    )  # fmt: skip


def _do(request: HttpRequest, names: Sequence[str], verb: str, said: dict[str, Any]) -> None:
    actor, moment = actor_of(request.user), now()
    for name in names:
        result = pool.operate(name, verb, actor, moment, reason=said.get("reason", ""), deadline_s=said.get("deadline"))
        if result is None:
            messages.warning(request, f"{name} is not there any more")
        elif not result[0]:
            messages.warning(request, f"{name} is {result[1].lower()}: it can't be asked to {verb}")
        else:
            messages.success(request, f"{name} is {result[1].lower()}")


def _shown(runs: Sequence[AtWork], node: str, actor: Actor) -> list[dict[str, Any]]:
    """What runs on the node; of jobs that the operator may not know of only the project and the GPUs."""
    return [
        {"run": run, "known": actor.sees(run.project), "name": run.name if actor.sees(run.project) else "a job"}
        for run in runs
        if run.node == node
    ]


def _of(runs: Sequence[AtWork]) -> str:
    """Equal for equal attempts."""
    told = ",".join(sorted(f"{run.node} {run.attempt}" for run in runs))
    return hashlib.sha256(told.encode()).hexdigest()[:16]
