"""Shares over some days: the held parts are those of the allocations, and the accounts those of statements."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduling.models import Allocation
from scheduling.services import share_over_time, share_statement
from scheduling.services.share_ahead import DAYS
from scheduling.store.clock import to_ms
from tests import builders as b
from tests.services.reports import history

pytestmark = pytest.mark.django_db
HOUR_MS = 3_600_000


def told(actor, now=b.NOON, **given):
    asked, wrong = share_over_time.read(actor, {"from": "2026-02-20", "to": "2026-03-02", **given}, now)
    assert not wrong
    return share_over_time.told(actor, asked, now)


def of(found):
    return {each.project: each for each in found.shares}


@pytest.fixture
def past():
    who = b.people()
    history.write(b.NOON - timedelta(days=60), 59, 200)
    return who


@pytest.mark.parametrize(("each", "zone"), [("day", "UTC"), ("week", "Europe/Berlin")])
def test_every_piece_is_what_the_allocations_and_the_statements_say(past, each, zone):
    found = told(past["alice"], each=each, zone=zone)
    assert of(found).keys() == {"alpha", "beta"}
    pieces = found.asked.period.pieces
    for project, share in of(found).items():
        for piece, shown in zip(pieces, share.pieces, strict=True):
            start, end = to_ms(piece.start), min(to_ms(piece.end), to_ms(b.NOON))
            rows = list(
                Allocation.objects.all().values_list("granted_at", "released_at", "attempt__job__project__name")
            )
            held = dict.fromkeys(("alpha", "beta"), 0)
            for granted, released, name in rows:
                held[name] += max(0, min(to_ms(released), end) - max(to_ms(granted), start))
            assert shown.held == held[project]
            whole = sum(held.values())
            assert shown.part == (pytest.approx(held[project] / whole) if whole else None)
        assert sum(p.held for p in share.pieces) > 0
        asked, _ = share_statement.read(
            past["alice"], {"from": "2026-02-20", "to": "2026-03-02", "zone": zone, "project": project}, b.NOON
        )
        account = share_statement.told(past["alice"], asked, b.NOON).account
        assert share.at_first == pytest.approx(account.opening, abs=1e-3)
        assert share.pieces[-1].account == pytest.approx(account.closing, abs=1e-3)
    assert (of(found)["alpha"].due, of(found)["beta"].due) == pytest.approx((2 / 3, 1 / 3))
    moments = list(share_over_time.instants(found.asked.period, b.NOON))
    assert (moments[0], moments[-1], len(moments)) == (pieces[0].start, b.NOON, len(pieces) + 1)


def test_a_queue_narrows_what_was_held_and_not_the_accounts(past):
    whole, narrow = told(past["alice"]), told(past["alice"], queue="merge")
    alpha, fewer = of(whole)["alpha"], of(narrow)["alpha"]
    assert sum(p.held for p in fewer.pieces) < sum(p.held for p in alpha.pieces)
    assert [p.account for p in fewer.pieces] == [p.account for p in alpha.pieces]


def test_one_project_alone_keeps_its_part_of_all(past):
    found = told(past["bob"], project="alpha")
    assert found.shares == tuple(each for each in told(past["bob"]).shares if each.project == "alpha")


def test_days_to_come_have_nothing_yet(past):
    found = told(past["alice"], to="2026-03-05")
    assert [(p.held, p.part, p.account) for p in of(found)["alpha"].pieces[-3:]] == [(0, None, None)] * 3
    later = told(past["alice"], **{"from": "2026-03-03", "to": "2026-03-05"})
    assert later.shares == ()


def test_who_has_work_has_a_target_and_is_foreseen():
    lab, _ = b.busy_lab()
    found = told(lab.who["alice"], b.later(3600))
    (alpha,) = found.shares
    assert (alpha.project, alpha.due) == ("alpha", 1.0)
    # Four GPUs of 242.373 hours each; beta has nothing to do.
    assert alpha.target == pytest.approx(4 * 242.373 * HOUR_MS, rel=1e-5)
    assert len(alpha.foreseen.points) == DAYS + 1
    assert alpha.foreseen.points[0].consumed == pytest.approx(alpha.pieces[-1].account, abs=1e-3)
    assert alpha.foreseen.points[0].consumed == pytest.approx(2 * HOUR_MS, rel=3e-3)


def test_without_a_word_it_is_the_last_four_weeks():
    who = b.people()
    asked, _ = share_over_time.read(who["alice"], {}, b.NOON)
    assert (str(asked.period.first), str(asked.period.last), asked.period.each) == ("2026-02-03", "2026-03-02", "day")


def test_every_wrong_value_is_told_at_once():
    who = b.people()
    _, wrong = share_over_time.read(who["alice"], {"from": "x", "project": "gamma", "queue": "marge"}, b.NOON)
    assert {each["field"]: each["message"] for each in wrong} == {
        "from": "from must be a day like 2026-11-30, of the years 2000 to 9998, not 'x'; or leave it out",
        "project": "there is no project 'gamma' that you may know of; give one of alpha, beta, or leave project out",
        "queue": "there is no queue 'marge' (did you mean 'merge'?); give one of merge, eval, inference, or leave "
        "queue out",
    }
