"""Weights edited in the list: what would be due to whom is told before they are saved, and a link may fill them in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from scheduling.core.policy import MAX_WEIGHT
from scheduling.services import now
from scheduling.store.queries.share_preview import Name, Row, preview

SET = "set"
PREVIEW = "_preview"


class Prefilled(ModelAdmin):
    """A page whose fields a link may fill in: ``?grace_s=60``, and of a queue's levels ``?level=Normal:3``, each as
    often as wanted. Nothing is saved by it."""

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The page, filled in as the address asks."""
        if request.method == "GET" and context.get("original") is not None:
            told = list(self._fill_page(request, context))
            if told:
                messages.warning(request, f"Filled in, and not saved yet: {', '.join(told)}.")
        return super().render_change_form(request, context, *args, **kwargs)

    def _fill_page(self, request: HttpRequest, context: dict[str, Any]) -> Iterable[str]:
        form = context["adminform"].form
        for name, value in request.GET.items():
            if name in form.fields and str(form.initial.get(name)) != value:
                yield f"{name} {form.initial.get(name)} → {value}"
                form.initial[name] = value
        levels = dict(text.rpartition(":")[::2] for text in request.GET.getlist("level"))
        for inline in context["inline_admin_formsets"]:
            for row in inline.formset.forms:
                name = getattr(row.instance, "name", "")
                if row.instance.pk and name in levels and str(row.initial.get("value")) != levels[name]:
                    yield f"{name} {row.initial.get('value')} → {levels[name]}"
                    row.initial["value"] = levels[name]


class WeightList(ModelAdmin):
    """A list with weights. ``ledger``: the one that they are of.

    ``?set=NAME:WEIGHT``, as often as wanted, fills weights in; of a person NAME is PROJECT/USER. **Preview** tells what
    would be due to whom, and only its **Save** keeps it.
    """

    ledger = ""
    change_list_template = "admin/scheduling/weights/change_list.html"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """The list; posted with ``_preview``, the shares before and after."""
        asked = _take(request)
        if request.method == "POST" and PREVIEW in request.POST:
            told = self._preview(request)
            if told is not None:
                return told
            request.POST = _saved(request.POST)  # its errors stand in the list
        response = super().changelist_view(request, extra_context)
        shown = (response.context_data or {}) if isinstance(response, TemplateResponse) else {}
        formset = getattr(shown.get("cl"), "formset", None)
        if formset is not None:
            _label(formset)
        if request.method == "GET" and asked:
            self._fill_list(request, formset, asked)
        return response

    def _preview(self, request: HttpRequest) -> HttpResponse | None:
        """The page with the shares; None when the weights can't be."""
        if not self.has_change_permission(request):
            return None
        make = self.get_changelist_formset(request)
        rows = self._get_list_editable_queryset(request, make.get_default_prefix())
        formset = make(request.POST, queryset=rows)
        if not formset.is_valid():
            return None
        weights = {_name_of(form.instance): float(form.cleaned_data["weight"]) for form in formset.forms}
        found = preview(self.ledger, weights, now())
        fields = [(name, value) for name, values in request.POST.lists() for value in values]
        context = {
            **self.admin_site.each_context(request), "title": "The shares under these weights", "opts": self.opts,
            "rows": [_shown(row) for row in found], "groups": self.ledger == "user",
            "changes": sum(row.before.weight != row.after.weight for row in found),
            "fields": [field for field in fields if field[0] not in (PREVIEW, "csrfmiddlewaretoken")],
        }  # fmt: skip
        return TemplateResponse(request, "admin/scheduling/weights/preview.html", context)

    def _fill_list(self, request: HttpRequest, formset: Any, asked: Mapping[str, str]) -> None:
        """The weights of the list are those that the address asks for; what of it can't be is told."""
        forms = {"/".join(_name_of(form.instance)): form for form in formset.forms} if formset else {}
        filled = []
        for name, text in asked.items():
            weight = _number(text)
            if name not in forms:
                messages.error(request, f"{SET}: there is no {name!r} in this list")
            elif weight is None:
                messages.error(
                    request, f"{SET}: the weight of {name} must be from 0 to {MAX_WEIGHT:g}, not {text[:40]!r}"
                )
            elif forms[name].initial.get("weight") != weight:
                filled.append(f"{name} {forms[name].initial.get('weight'):g} → {weight:g}")
                forms[name].initial["weight"] = weight
        if filled:
            messages.warning(request, f"Filled in, and not saved yet: {', '.join(filled)}.")


def _label(formset: Any) -> None:
    """Every field of the list says whose it is; its column alone does so to the eye only."""
    for form in formset.forms:
        for field in form.visible_fields():
            field.field.widget.attrs["aria-label"] = f"{field.label} of {'/'.join(_name_of(form.instance))}"


def _take(request: HttpRequest) -> dict[str, str]:
    """The weights in the address, by name, which then no longer is a filter of the list."""
    asked = {name: weight for name, _, weight in (text.rpartition(":") for text in request.GET.getlist(SET))}
    if SET in request.GET:
        rest = request.GET.copy()
        del rest[SET]
        request.GET = rest  # type: ignore[assignment]
        request.META["QUERY_STRING"] = rest.urlencode()
    return asked


def _saved(posted: Any) -> Any:
    """The same, as if it were to be saved."""
    found = posted.copy()
    found["_save"] = "Save"
    return found


def _name_of(row: Any) -> Name:
    """The queue, the project, or the project and the user."""
    return (row.name,) if hasattr(row, "name") else (row.project.name, row.user.get_username())


def _number(text: str) -> float | None:
    try:
        weight = float(text)
    except ValueError:
        return None
    return weight if math.isfinite(weight) and 0 <= weight <= MAX_WEIGHT else None


def _shown(row: Row) -> dict[str, Any]:
    return {
        "name": row.name[-1], "of": row.name[0] if len(row.name) > 1 else "", "active": row.active,
        "before": row.before, "after": row.after, "changed": row.before.weight != row.after.weight,
        "part_before": 100 * row.before.part, "part_after": 100 * row.after.part,
    }  # fmt: skip
