"""How shares go on: the numbers of now are those of the page of shares, and when who is ahead falls behind."""

from __future__ import annotations

import pytest

from scheduling.models import Balance
from scheduling.services import share_ahead
from tests import builders as b

pytestmark = pytest.mark.django_db
HOUR_MS = 3_600_000


def waiting(who, name, project, now=b.NOON):
    models = [b.model(who[name], f"m{n}", n, project=project) for n in (5, 6)]
    return b.submitted(who[name], b.merge_body(models, project=project), now=now)


def on_account(project, user, hours):
    for ledger, key in (("project", project), ("user", f"{project}/{user}")):
        Balance.objects.create(ledger=ledger, key=key, gpu_ms=hours * HOUR_MS, settled_at=b.NOON)


def test_who_runs_counts_in_full_and_who_has_used_fades_so_the_order_turns():
    lab, _ = b.busy_lab()  # alpha has two GPUs for an hour, and twice beta's target
    on_account("beta", "bob", 1.001)
    waiting(lab.who, "bob", "beta")
    ledgers, found = share_ahead.shares(lab.who["admin"], b.NOON)
    alpha, alice, bob = (next(f for f in found if (f.name, f.project) == key) for key in (
        ("alpha", ""), ("alice", "alpha"), ("bob", "beta")))  # fmt: skip
    beta = next(f for f in found if f.name == "beta")
    for each, row in zip((alpha, beta), ledgers["projects"], strict=True):
        used = (row["consumed_gpu_h"] + row["in_flight_gpu_h"]) / row["target_gpu_h"]
        assert each.points[0].used_of_target == pytest.approx(used, abs=1e-6)
    assert (alpha.ahead, beta.ahead, alice.ahead, bob.ahead) == (None, "alpha", None, None)
    # 1.001 hours fade to one of which the other has used a part already within the hour.
    minutes = (beta.falls_behind_at - b.NOON).total_seconds() / 60
    assert 10 < minutes < 30
    assert beta.points == share_ahead.ahead(lab.who["bob"], b.NOON)[1].points


def test_who_only_fades_stays_in_order():
    who = b.people()
    b.node("n1")
    on_account("alpha", "alice", 1.0)
    for name, project in (("alice", "alpha"), ("bob", "beta")):
        waiting(who, name, project)
    found = {each.name: each for each in share_ahead.ahead(who["alice"], b.NOON)}
    assert (found["alpha"].ahead, found["alpha"].falls_behind_at) == ("beta", None)
    assert found["alpha"].points[7].consumed == pytest.approx(0.5 * HOUR_MS)
    assert found.keys() == {"alpha", "beta", "alice"}  # people only of one's own


def test_nobody_has_work():
    assert share_ahead.ahead(b.people()["alice"], b.NOON) == ()
