"""How long one look at the queue serves those who ask: plans, promises and explanations."""

from __future__ import annotations

import pytest

from scheduling.services import outlook, whatif
from scheduling.store import load
from tests import builders as b

from .asking import broken, planned

pytestmark = pytest.mark.django_db


def looks(monkeypatch) -> list[int]:
    """One entry for each snapshot that is read from now on; a slow one is not spared, however busy we are."""
    read, made = load.snapshot, []
    monkeypatch.setattr(outlook, "SPARING", 0.0)
    monkeypatch.setattr(load, "snapshot", lambda now: made.append(1) or read(now))
    return made


def test_one_outlook_serves_until_something_happens(who, models, monkeypatch):
    made = looks(monkeypatch)
    body = b.merge_body(models)
    planned(who["alice"], body)
    planned(who["alice"], body, b.later(4))
    assert len(made) == 1
    b.submitted(who["alice"], body)
    planned(who["alice"], body, b.later(4))
    assert len(made) == 2


def test_an_outlook_is_not_used_for_longer_than_five_seconds(who, models, monkeypatch):
    made = looks(monkeypatch)
    planned(who["alice"], b.merge_body(models))
    planned(who["alice"], b.merge_body(models), b.later(6))
    assert len(made) == 2


def test_a_new_job_is_foretold_though_the_outlook_there_is_would_still_serve(who, models, monkeypatch):
    first = b.submitted(who["alice"], b.merge_body(models))
    whatif.foretell(first, b.NOON)
    monkeypatch.setattr(outlook, "SPARING", 1e9)
    second = b.submitted(who["alice"], b.merge_body(models))
    assert whatif.foretell(second, b.NOON).start is not None


def test_explanations_of_a_large_queue_spare_the_server(who, models, monkeypatch):
    job = b.submitted(who["alice"], b.merge_body(models))
    whatif.foretell(job, b.NOON)
    b.submitted(who["alice"], b.merge_body(models))
    made = looks(monkeypatch)
    monkeypatch.setattr(outlook, "SPARING", 1e9)
    whatif.foretell(job, b.later(60))
    assert made == []


def test_plans_of_a_large_queue_spare_the_server_but_promises_are_kept_as_of_now(who, models, monkeypatch):
    monkeypatch.setattr(outlook, "SPARING", 1e9)
    monkeypatch.setattr(outlook, "DEAR_S", 0.0)
    body = b.merge_body(models, gpu_count=4)
    token = planned(who["alice"], body).token
    b.running(who["alice"], models)
    assert planned(who["alice"], body, b.later(60)).verdict == "now"
    assert broken(token, body, who["alice"], b.later(60)) is not None
