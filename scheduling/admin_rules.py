"""Who may preempt whom, as one table: a row for each level that may evict, a column for each that may have to leave."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse

from scheduling import models

Pair = tuple[int, int]
ALLOW, FORBID = "allow", "forbid"


def matrix(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    """The table of checkboxes; posted, the rules are as it was ticked, and every change is in their history.

    It is refused whole when a rule would not go down, or when the rules have changed since the table was shown. Asked
    for with ``?allow=merge/High>eval/Low&forbid=...`` (each as often as wanted) the table is filled so, and not saved.
    """
    if not request.user.has_perm("scheduling.view_preemptionrule"):
        raise PermissionDenied
    levels = list(models.Level.objects.select_related("queue").order_by("queue__order", "queue__name", "-value"))
    rules = _rules()
    ticked, wrong = set(rules), list[str]()
    if request.method == "POST":
        if not _may_change(request):
            raise PermissionDenied
        ticked, wrong = _posted(request.POST.getlist("rule"), levels)
        if not wrong and request.POST.get("seen") != _of(rules):
            wrong = ["the rules have been changed since this table was shown: look at it again, then save"]
            ticked = set(rules)
        if not wrong:
            told = _save(ticked)
            messages.success(request, told)
            return redirect("admin:scheduling_preemptionrule_matrix")
    elif request.GET:
        wrong = _fill(request, ticked, levels)
    return TemplateResponse(
        request,
        "admin/scheduling/preemptionrule/matrix.html",
        {
            **context, "title": "Who may preempt whom", "columns": levels, "wrong": wrong, "seen": _of(rules),
            "rows": [{"level": above, "cells": _cells(above, levels, ticked, rules)} for above in levels],
            "changes": len(ticked ^ rules.keys()), "may_change": _may_change(request),
        },
    )  # fmt: skip


def _may_change(request: HttpRequest) -> bool:
    return all(request.user.has_perm(f"scheduling.{verb}_preemptionrule") for verb in ("add", "delete"))


def _rules() -> dict[Pair, models.PreemptionRule]:
    return {(rule.preemptor_id, rule.victim_id): rule for rule in models.PreemptionRule.objects.all()}


def _cells(
    above: models.Level, levels: Sequence[models.Level], ticked: set[Pair], rules: Mapping[Pair, Any]
) -> list[dict[str, Any]]:
    """One for each level that may have to leave. A rule that does not go down can be taken away, and not made."""
    cells = []
    for below in levels:
        pair = (above.pk, below.pk)
        cells.append(
            {
                "value": f"{above.pk}-{below.pk}", "on": pair in ticked,
                "can": below.value < above.value or pair in rules, "changed": (pair in ticked) != (pair in rules),
                "says": f"{above} may preempt {below}",
            }
        )  # fmt: skip
    return cells


def _posted(values: Iterable[str], levels: Sequence[models.Level]) -> tuple[set[Pair], list[str]]:
    """The pairs that were ticked, and why they can't be the rules."""
    known = {level.pk: level for level in levels}
    pairs: set[Pair] = set()
    wrong: list[str] = []
    for value in values:
        ends = value.split("-")
        if len(ends) != 2 or not all(end.isascii() and end.isdecimal() and int(end) in known for end in ends):
            wrong.append(f"there are no levels {value[:40]!r}: one of them may have been deleted; open the table again")
            continue
        above, below = known[int(ends[0])], known[int(ends[1])]
        pairs.add((above.pk, below.pk))
        if below.value >= above.value:
            wrong.append(_goes_up(above, below))
    return pairs, wrong


def _goes_up(above: models.Level, below: models.Level) -> str:
    return (
        f"the rule {above} > {below} does not go down: the number of the victim's level ({below.value}) must be below "
        f"{above.value}, else jobs would evict each other without end"
    )


def _fill(request: HttpRequest, ticked: set[Pair], levels: Sequence[models.Level]) -> list[str]:
    """The table has what the address asks for; what of it can't be is told."""
    named = {str(level): level for level in levels}
    wrong = []
    for verb in (ALLOW, FORBID):
        for text in request.GET.getlist(verb):
            above, below = (named.get(name) for name in text.split(">", 1)) if ">" in text else (None, None)
            if above is None or below is None:
                wrong.append(
                    f"{verb}: {text[:120]!r} names no two levels; write QUEUE/LEVEL>QUEUE/LEVEL as they stand here"
                )
            elif verb == FORBID:
                ticked.discard((above.pk, below.pk))
            elif below.value >= above.value:
                wrong.append(_goes_up(above, below))
            else:
                ticked.add((above.pk, below.pk))
    return wrong


@transaction.atomic
def _save(ticked: set[Pair]) -> str:
    """The rules are these; returns what has changed. Each is saved and deleted by itself, for the history."""
    rules = _rules()
    for pair in sorted(rules.keys() - ticked):
        rules[pair].delete()
    for above, below in sorted(ticked - rules.keys()):
        models.PreemptionRule.objects.create(preemptor_id=above, victim_id=below)
    added, gone = len(ticked - rules.keys()), len(rules.keys() - ticked)
    if not added and not gone:
        return "Nothing was changed."
    told = [(added, "added"), (gone, "taken away")]
    parts = [f"{count} rule{'' if count == 1 else 's'} {what}" for count, what in told if count]
    return f"{' and '.join(parts)}. The next tick goes by it."


def _of(rules: Iterable[Pair]) -> str:
    """Equal for equal rules."""
    return hashlib.sha256(repr(sorted(rules)).encode()).hexdigest()[:16]
