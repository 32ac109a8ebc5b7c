"""Is the process alive (no database), and is the service ready: database, scheduler, broker?"""

from __future__ import annotations

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from kombu.connection import Connection

from scheduling.services import now
from scheduling.store.queries import pool

BROKER_WAIT_S = 1.0


@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """200 as long as the process answers at all."""
    return JsonResponse({"status": "ok"})


@require_safe
def ready(request: HttpRequest) -> HttpResponse:
    """200 when work can be taken and will move; 503 with what is missing. The board's alarms are named beside it."""
    missing: dict[str, str] = {}
    alarms: list[str] = []
    try:
        tick = pool.scheduler(now())
        age, alarms = tick["age_s"], [alarm["code"] for alarm in tick["alarms"]]
        if age is None or age > pool.LATE_S:
            missing["scheduler"] = "it has not ticked yet" if age is None else f"its last tick was {age} s ago"
    except DatabaseError:
        missing["database"] = "it does not answer"
    if settings.BROKER_URL and (problem := _broker_problem()):
        missing["broker"] = problem
    return JsonResponse(
        {"status": "not ready" if missing else "ready", "missing": missing, "alarms": alarms},
        status=503 if missing else 200,
    )


def _broker_problem() -> str | None:
    options = {"socket_connect_timeout": BROKER_WAIT_S, "socket_timeout": BROKER_WAIT_S}
    broker = Connection(settings.BROKER_URL, connect_timeout=BROKER_WAIT_S, transport_options=options)
    try:
        broker.connect()
    except (OSError, *broker.connection_errors):
        return "it can't be reached"
    finally:
        broker.release()
    return None
