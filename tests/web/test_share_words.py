"""Fair share in words: every row says where its place comes from, with the numbers that are beside it."""

from __future__ import annotations

import pytest

from scheduling.web.share_words import compared, example, headline, ledger
from tests import builders as b
from tests.web.pages import browser, text

LEVELS = [{"value": 1, "names": "Low"}, {"value": 2, "names": "Normal"}]


def row(name, target=40.0, consumed=0.0, in_flight=0.0, **kw):
    """A row as the query gives it; its deficit follows from its numbers."""
    deficit = (target - consumed - in_flight) / target if target else None
    return {"name": name, "weight": 1.0, "active": True, "target_gpu_h": target, "consumed_gpu_h": consumed,
            "in_flight_gpu_h": in_flight, "deficit": deficit, **kw}  # fmt: skip


def sentences(*rows) -> dict[str, str]:
    return {each["name"]: each["sentence"] for each in ledger("", rows, LEVELS, about="")["rows"]}


def test_who_has_had_less_goes_before_the_others():
    told = sentences(row("alpha", consumed=10, in_flight=2), row("beta", consumed=30))
    assert told == {
        "alpha": "alpha has used 12.00 of its 40.00 GPU-hours, so it goes before beta.",
        "beta": "beta has used 30.00 of its 40.00 GPU-hours, so it goes after alpha.",
    }


def test_the_same_part_of_the_share_leaves_it_to_the_time_of_submission():
    told = sentences(row("alpha", consumed=10), row("beta", target=80.0, consumed=20))
    assert told["beta"].endswith("the same part as alpha: submission time decides between them.")


def test_who_is_alone_goes_before_nobody():
    assert sentences(row("alpha"))["alpha"].endswith("nobody else here has work.")


def test_who_has_no_work_and_who_has_no_weight_are_told_apart():
    told = sentences(row("idle", target=0.0, active=False, consumed=3), row("weightless", target=0.0))
    assert told["idle"] == (
        "No work of idle waits or runs, so nothing is due to it now. It has 3.00 GPU-hours on its account."
    )
    assert "weight 0" in told["weightless"]


def test_many_are_not_all_named():
    told = sentences(row("first"), *(row(f"p{i}", consumed=1 + i) for i in range(5)))
    assert told["first"].endswith("so it goes before p0, p1 and 3 others.")


def test_people_are_compared_within_their_project():
    told = sentences(row("ann", project="alpha", consumed=9), row("bob", project="beta"))
    assert all(each.endswith("nobody else here has work.") for each in told.values())


def test_the_scores_follow_the_formula_and_the_numbers_stay_apart():
    shown = ledger("", [row("alpha", consumed=10, in_flight=2)], LEVELS, about="")["rows"][0]
    assert [(each["level"], each["score"]) for each in shown["scores"]] == [("Low", 1.7), ("Normal", 3.4)]
    assert (shown["consumed_gpu_h"], shown["in_flight_gpu_h"], shown["percent"]) == (10, 2, 30.0)


def test_the_example_is_of_the_project_that_is_first():
    rows = [row("beta", consumed=30), row("alpha", consumed=10, in_flight=2)]
    assert example(rows, LEVELS) == {
        "name": "alpha", "level": "Normal", "value": 2, "target": 40.0, "used": 12.0, "score": 3.4,
    }  # fmt: skip
    assert example([row("idle", target=0.0)], LEVELS) is None


def test_the_headline_names_the_first_and_the_last():
    rows = [row("beta", consumed=30), row("alpha")]
    assert headline(rows) == (
        "Within a priority, alpha is first: it has had the least of its share; beta has had the most."
    )


def test_only_the_ledgers_of_the_policy_are_called_compared():
    assert compared(("queue", "user")) == "queues, then people in a project, then the time of submission"


@pytest.mark.django_db
def test_the_page_has_the_formula_with_numbers_and_a_sentence_for_every_row(monkeypatch):
    monkeypatch.setattr("scheduling.web.share.now", lambda: b.NOON)
    b.busy_lab()
    html = " ".join(text(browser().get("/share/")).split())
    assert "score = priority × (1 + (target − used) ÷ target)" in html
    assert "alpha has used 2.00 of its" in html
    assert "No work of beta waits or runs" in html
    assert "Critical/Realtime <b>" in html
    assert "queues, then projects, then people in a project, then the time of submission" in html
