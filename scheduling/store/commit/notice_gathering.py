"""From the event table to notices: what is told to whom, once each, and which of it goes into one message."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Min

from scheduling.core.notices import EVENT_TYPES, PROJECTS, Choice, kind_of
from scheduling.models import (
    Attempt,
    Delivery,
    Event,
    Job,
    Membership,
    Notice,
    NoticeChoice,
    NoticeCursor,
    Webhook,
)
from scheduling.store.wake import newest_event

# A row's number is handed out before it is committed: what happened within this time is read again.
LATE = timedelta(minutes=2)
CHUNK = 2000
IN_ONE_POST = 100


class Line(NamedTuple):
    """A line of a job's timeline."""

    id: int
    at: datetime
    type: str
    actor: str
    job: str
    attempt: UUID | None
    message: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Listener:
    """A webhook, or a person by e-mail (``webhook`` is None), with what they want to hear of."""

    user: int
    username: str
    webhook: UUID | None
    choice: Choice
    since: datetime
    projects: frozenset[str]
    every_project: bool

    def hears(self, line: Line, kind: str, job: dict[str, Any], waited_s: float | None, who: str) -> bool:
        """Whether this is a notice for the listener. Nobody gets an e-mail about what they did themselves."""
        if line.at < self.since or (self.webhook is None and who == f"user {self.username}"):
            return False
        if not (self.every_project or job["project__name"] in self.projects):
            return False
        own = job["user_id"] == self.user
        if not own and job["project__name"] not in self.projects:
            return False  # an admin may see every project, and has not asked to be told of all of them
        return self.choice.wants(kind, own=own, waited_s=waited_s)


def gather(now: datetime) -> int:
    """Everything that has happened and was not told yet is a notice of each who wants to hear of it; returns how many
    lines were looked at. Looking twice, or two at a time, makes no second notice."""
    floor, newest = _floor(), newest_event()
    seen = 0
    everybody = listeners()
    if everybody:
        for lines in _lines(floor, newest):
            _tell(lines, everybody)
            seen += len(lines)
    _raise_floor(newest, now)
    return seen


def listeners() -> list[Listener]:
    """Everybody who wants to hear of anything and can be reached."""
    people = NoticeChoice.objects.filter(user__is_active=True).select_related("user")
    hooks = Webhook.objects.filter(user__is_active=True, off_at__isnull=True).select_related("user")
    waits = dict(NoticeChoice.objects.values_list("user_id", "long_wait_minutes"))
    belongs: dict[int, set[str]] = defaultdict(set)
    for user, project in Membership.objects.values_list("user_id", "project__name"):
        belongs[user].add(project)

    def made(user: Any, hook: UUID | None, events: Sequence[str], of: str, since: datetime) -> Listener:
        long = waits.get(user.pk)
        choice = Choice(frozenset(events), of) if long is None else Choice(frozenset(events), of, long)
        return Listener(
            user.pk, user.get_username(), hook, choice, since, frozenset(belongs[user.pk]), bool(user.is_superuser)
        )

    mails = [made(p.user, None, p.email_events, p.email_of, p.since) for p in people if p.user.email]
    posts = [made(h.user, h.pk, h.events, h.of, h.since) for h in hooks]
    return [each for each in (*mails, *posts) if each.choice.events]


def _floor() -> int:
    row = NoticeCursor.objects.filter(pk=1).first()
    if row is None:  # nobody was told of what happened before notices were there
        row, _ = NoticeCursor.objects.get_or_create(pk=1, defaults={"floor": newest_event()})
    return row.floor


def _raise_floor(newest: int, now: datetime) -> None:
    """Nothing below the first row of the last :data:`LATE` is read again."""
    first = Event.objects.filter(at__gte=now - LATE).aggregate(first=Min("id"))["first"]
    floor = newest if first is None else min(newest, first - 1)
    NoticeCursor.objects.filter(pk=1, floor__lt=floor).update(floor=floor)


def _lines(floor: int, newest: int) -> Iterator[list[Line]]:
    """Jobs' lines that may be notices, some at a time. What they are about is not asked of the database: SQLite would
    look through every line of every job instead of the newest."""
    columns = ("id", "at", "type", "actor", "object_id", "attempt", "message", "data", "object")
    while True:
        rows = Event.objects.filter(id__gt=floor, id__lte=newest, type__in=EVENT_TYPES).order_by("id")
        found = list(rows.values_list(*columns)[:CHUNK])
        if not found:
            return
        floor = found[-1][0]
        yield [Line(*line) for *line, about in found if about == "job"]


def _tell(lines: Sequence[Line], everybody: Sequence[Listener]) -> None:
    told = [(line, kind) for line in lines if (kind := kind_of(line.type, line.data)) is not None]
    jobs = _jobs({line.job for line, _ in told})
    waits = _waits([line for line, kind in told if kind == "started"], jobs)
    cancelled = _cancelled_by([line.job for line, kind in told if kind == "cancelled"])
    by_user: dict[int, list[Listener]] = defaultdict(list)
    by_project: dict[str, list[Listener]] = defaultdict(list)
    for each in everybody:
        by_user[each.user].append(each)
        if each.choice.of == PROJECTS:
            for project in each.projects:
                by_project[project].append(each)
    notices = []
    for line, kind in told:
        job = jobs.get(line.job)
        if job is None:
            continue
        who = cancelled.get(line.job, line.actor) if kind == "cancelled" else line.actor
        waited = waits.get(line.id)
        others = (each for each in by_project[job["project__name"]] if each.user != job["user_id"])
        for listener in (*by_user[job["user_id"]], *others):
            if listener.hears(line, kind, job, waited, who):
                notices.append(_notice(line, kind, listener, waited))
    Notice.objects.bulk_create(notices, ignore_conflicts=True, batch_size=500)


def _notice(line: Line, kind: str, listener: Listener, waited: float | None) -> Notice:
    data: dict[str, Any] = {"what": line.type, "why": line.message, "to": line.data.get("to", "")}
    if waited is not None:
        data["waited_s"] = int(waited)
    return Notice(
        event=line.id, user_id=listener.user, webhook_id=listener.webhook, job_id=UUID(line.job), kind=kind,
        at=line.at, data=data,
    )  # fmt: skip


def _jobs(ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    columns = ("pk", "user_id", "project__name", "submitted_at", "not_before")
    rows = Job.objects.filter(pk__in=[UUID(each) for each in ids], user__isnull=False, project__isnull=False)
    return {str(row["pk"]): row for row in rows.values(*columns)}


def _waits(starts: Sequence[Line], jobs: dict[str, dict[str, Any]]) -> dict[int, float]:
    """Seconds that each start was waited for: since the submission (or the instant asked for), or since the run before
    ended, until GPUs were granted."""
    runs: dict[str, list[tuple[UUID, datetime, datetime | None]]] = defaultdict(list)
    rows = Attempt.objects.filter(job_id__in=[UUID(line.job) for line in starts]).order_by("number")
    for job, key, granted, ended in rows.values_list("job_id", "pk", "granted_at", "ended_at"):
        runs[str(job)].append((key, granted, ended))
    waits = {}
    for line in starts:
        of = jobs.get(line.job)
        if of is None:
            continue
        since = max(of["submitted_at"], of["not_before"] or of["submitted_at"])
        for key, granted, ended in runs[line.job]:
            if key == line.attempt:
                waits[line.id] = (granted - since).total_seconds()
                break
            since = ended or since
    return waits


def _cancelled_by(jobs: Sequence[str]) -> dict[str, str]:
    """Who asked for the end of each job that was running when it was cancelled."""
    rows = Event.objects.filter(object="job", object_id__in=jobs, type="cancelling").order_by("id")
    return dict(rows.values_list("object_id", "actor"))


def bundle(now: datetime, *, join: timedelta, every: timedelta) -> int:
    """Notices that wait are in messages that are due; returns how many messages there are more.

    A webhook gets what there is, up to :data:`IN_ONE_POST` in one POST. A person gets one e-mail about all of it, once
    the oldest is ``join`` old and the last e-mail ``every``.
    """
    waiting = Notice.objects.filter(delivery__isnull=True).order_by().values_list("webhook", "user")
    made = 0
    for hook, user, oldest in waiting.annotate(oldest=Min("at")):
        if hook is not None:
            made += _posts(hook, now)
        elif oldest <= now - join:
            made += _mail(user, now, every)
    return made


@transaction.atomic
def _posts(hook: UUID, now: datetime) -> int:
    row = Webhook.objects.select_for_update().filter(pk=hook).first()
    if row is None:
        return 0
    waiting = Notice.objects.filter(webhook=row, delivery__isnull=True).order_by("event").values_list("pk", flat=True)
    keys = list(waiting)
    for begin in range(0, len(keys), IN_ONE_POST):
        some = keys[begin : begin + IN_ONE_POST]
        made = Delivery.objects.create(user_id=row.user_id, webhook=row, events=len(some), created_at=now, due_at=now)
        Notice.objects.filter(pk__in=some).update(delivery=made)
    return -(-len(keys) // IN_ONE_POST)


@transaction.atomic
def _mail(user: int, now: datetime, every: timedelta) -> int:
    NoticeChoice.objects.select_for_update().filter(pk=user).first()
    last = Delivery.objects.filter(user_id=user, webhook__isnull=True, test=False, created_at__gt=now - every)
    if last.exists():
        return 0
    keys = list(Notice.objects.filter(user_id=user, webhook__isnull=True, delivery__isnull=True).values_list("pk"))
    if not keys:
        return 0
    made = Delivery.objects.create(user_id=user, events=len(keys), created_at=now, due_at=now)
    Notice.objects.filter(user_id=user, webhook__isnull=True, delivery__isnull=True).update(delivery=made)
    return 1
