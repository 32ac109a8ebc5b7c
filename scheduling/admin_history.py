"""Who changed what of the policy, when, and what was it before? Every change of any of its tables, the newest first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from scheduling import models

PAGE = 50
TOGETHER = 200  # changes of one instant that are told on one page
OF = {
    "queue": models.Queue, "level": models.Level, "preemptionrule": models.PreemptionRule, "project": models.Project,
    "membership": models.Membership, "fairsharesettings": models.FairShareSettings,
    "planningsettings": models.PlanningSettings, "billingweight": models.BillingWeight,
}  # fmt: skip
WINDOW = "window"
DID = {"+": "added", "~": "changed", "-": "deleted"}
NOBODY = "a command"  # whoever changes a policy in a browser or by REST is known


@dataclass(frozen=True, slots=True)
class Change:
    """One change: of what, what was done by whom and when, and each field that differs: (name, before, after)."""

    at: datetime
    key: int
    of: str
    what: str
    did: str
    who: str
    fields: tuple[tuple[str, str, str], ...]


def changes(request: HttpRequest) -> HttpResponse:
    """The changes that the address asks for: ``of`` one table, ``who`` made them, ``before`` an instant."""
    allowed = [name for name in (*OF, WINDOW) if request.user.has_perm(f"scheduling.view_{name}")]
    if not allowed:
        raise PermissionDenied
    of, who = request.GET.get("of", ""), request.GET.get("who", "")[:150].replace("\x00", "")
    before = _instant(request.GET.get("before", ""))
    shown = [of] if of in allowed else allowed
    found = newest(shown, who=who, before=before, limit=PAGE + TOGETHER)
    page = [row for n, row in enumerate(found) if n < PAGE or row.at == found[PAGE - 1].at]
    context = {
        **admin.site.each_context(request), "title": "Changes of policy", "rows": page, "of": of, "who": who,
        "known": [(name, OF.get(name, models.Window)._meta.verbose_name) for name in allowed],
        "following": page[-1].at.isoformat() if len(found) > len(page) else "",
    }  # fmt: skip
    return TemplateResponse(request, "admin/scheduling/history.html", context)


def newest(of: Collection[str], *, who: str = "", before: datetime | None = None, limit: int = PAGE) -> list[Change]:
    """The newest changes of these tables, at most ``limit``; ``who``: a username, "" for
    anybody's. The number of queries does not depend on how many there are."""
    called = _Called()
    rows: list[Change] = []
    for name in of:
        rows += _windows(who, before, limit) if name == WINDOW else _of_table(name, who, before, limit, called)
    rows.sort(key=lambda row: (row.at, row.key), reverse=True)
    return rows[:limit]


def _of_table(name: str, who: str, before: datetime | None, limit: int, called: _Called) -> Iterator[Change]:
    history = OF[name].history  # type: ignore[attr-defined]
    rows = history.select_related("history_user").order_by("-history_date", "-history_id")
    if who:
        rows = rows.filter(history_user__isnull=True) if who == NOBODY else rows.filter(history_user__username=who)
    if before is not None:
        rows = rows.filter(history_date__lt=before)
    shown = list(rows[:limit])
    earlier: dict[Any, list[Any]] = {}
    for row in history.filter(id__in={row.id for row in shown}).order_by("history_date", "history_id"):
        earlier.setdefault(row.id, []).append(row)
    for row in shown:
        line = earlier[row.id]
        place = next(n for n, each in enumerate(line) if each.history_id == row.history_id)
        was = line[place - 1] if place else None
        yield Change(
            at=row.history_date, key=row.history_id, of=str(OF[name]._meta.verbose_name), what=_name(name, row, called),
            did=DID[row.history_type], who=row.history_user.get_username() if row.history_user else NOBODY,
            fields=tuple(_differs(row, was, called)),
        )  # fmt: skip


def _differs(row: Any, was: Any, called: _Called) -> Iterator[tuple[str, str, str]]:
    """What the change did to each field; of a deletion what is gone."""
    for field in row.tracked_fields:
        if field.primary_key:
            continue
        after = None if row.history_type == "-" else getattr(row, field.attname)
        before = getattr(row if row.history_type == "-" else was, field.attname, None)
        if before != after:
            name = str(field.verbose_name)
            yield name, called.said(field, before), called.said(field, after)


def _name(of: str, row: Any, called: _Called) -> str:
    if of == "level":
        return called.levels.get(row.id, row.name)
    if of == "preemptionrule":
        return f"{called.levels.get(row.preemptor_id, '?')} > {called.levels.get(row.victim_id, '?')}"
    if of == "membership":
        return f"{called.people.get(row.user_id, '?')} in {called.projects.get(row.project_id, '?')}"
    return str(getattr(row, "name", None) or getattr(row, "gpu_model", None) or "the pool")


class _Called:
    """What rows are called, or were called last, also when they are gone."""

    def __init__(self) -> None:
        self.queues = _last(models.Queue)
        self.projects = _last(models.Project)
        levels = models.Level.history.order_by("history_date", "history_id")
        self.levels = {
            key: f"{self.queues.get(queue, '?')}/{name}"
            for key, queue, name in levels.values_list("id", "queue_id", "name")
        }
        self.people = dict(get_user_model().objects.values_list("pk", "username"))

    def said(self, field: Any, value: Any) -> str:
        """A field's value as people read it; "–" for none."""
        if value is None or value == "":
            return "–"
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, float):
            return f"{value:g}"
        names: Mapping[Any, str] = {
            "queue_id": self.queues, "project_id": self.projects, "preemptor_id": self.levels, "victim_id": self.levels,
            "user_id": self.people,
        }.get(field.attname, {})  # fmt: skip
        return names.get(value, str(value))


def _last(model: Any) -> dict[int, str]:
    """The newest name of every row there ever was."""
    return dict(model.history.order_by("history_date", "history_id").values_list("id", "name"))


def _windows(who: str, before: datetime | None, limit: int) -> Iterator[Change]:
    """Changes of windows, as the journal has them: by whichever door they were made."""
    rows = models.Event.objects.filter(object=WINDOW).order_by("-id")
    if who:
        rows = rows.filter(actor=f"user {who}")
    if before is not None:
        rows = rows.filter(at__lt=before)
    shown = list(rows[:limit])
    line: dict[str, list[models.Event]] = {}
    keys = {row.object_id for row in shown}
    for row in models.Event.objects.filter(object=WINDOW, object_id__in=keys).order_by("id"):
        line.setdefault(row.object_id, []).append(row)
    for row in shown:
        place = next(n for n, each in enumerate(line[row.object_id]) if each.pk == row.pk)
        was = line[row.object_id][place - 1].message if place else "–"
        gone = row.type == "window_removed"
        yield Change(
            at=row.at, key=row.pk, of=WINDOW, what=row.message.split(":")[0], did=row.type.removeprefix("window_"),
            who=row.actor.removeprefix("user "), fields=(("nodes and time", was, "–" if gone else row.message),),
        )  # fmt: skip


def _instant(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
