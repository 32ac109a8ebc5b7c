"""The pages of what-ifs without scripts: every refusal beside its field, the result in words, who may see and apply."""

from __future__ import annotations

import html as entities
import re

import pytest

from scheduling.models import WhatIfRun
from scheduling.services import policy_versions, whatif_runs
from scheduling.store import load
from scheduling.store.commit import whatif_rows
from tests import builders as b
from tests.services.history import afternoon
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db
PAGE = "/what-if/"


@pytest.fixture
def day(monkeypatch):
    found = afternoon()
    monkeypatch.setattr("scheduling.web.whatif.now", lambda: found.end)
    return found


def page(address: str = PAGE, person: str = "alice") -> str:
    return entities.unescape(text(browser(person).get(address)))


def fields(html: str) -> dict[str, str]:
    """The form as a browser would send it untouched."""
    found = dict(re.findall(r'<input id="([^"]+)" name="[^"]+" value="([^"]*)"', html))
    for name, options in re.findall(r'<select id="([^"]+)" name="[^"]+"[^>]*>(.*?)</select>', html, re.S):
        chosen = re.search(r'<option(?: value="([^"]*)")? selected>([^<]*)', options)
        found[name] = (chosen.group(2) if chosen.group(1) is None else chosen.group(1)) if chosen else ""
    rules = re.findall(r'name="preempt" value="([^"]+)"[^>]*checked', html)
    return {**found, "matrix": "1", "preempt": rules}


def sent(person: str = "alice", **changed):
    """The answer to the form with these fields changed."""
    client = browser(person)
    form = {**fields(entities.unescape(text(client.get(PAGE)))), **changed}
    return client.post(PAGE, form)


def played(day, body, person="alice"):
    """The address of a replay that is done."""
    run = whatif_runs.ask({"days": 1, **body}, day.who[person], day.end)
    assert whatif_runs.play(str(run), lambda: day.end) == "done"
    return f"/what-if/{run}/"


def test_the_form_untouched_changes_nothing_and_says_so(day):
    answer = sent()
    assert answer.status_code == 422
    assert "Name at least one change" in entities.unescape(text(answer))
    assert WhatIfRun.objects.count() == 0


@pytest.mark.parametrize(
    ("typed", "change"),
    [
        ({"policy.project_weights.alpha": "3.5"}, {"policy": {"project_weights": {"alpha": 3.5}}}),
        ({"policy.queues.eval.weight": "4"}, {"policy": {"queues": {"eval": {"weight": 4}}}}),
        ({"policy.user_weights.alpha/alice": "2"}, {"policy": {"user_weights": {"alpha/alice": 2}}}),
        ({"policy.queues.eval.levels.High": "4"},
         {"policy": {"queues": {"eval": {"levels": {"High": 4, "Low": 1, "Normal": 2}}}}}),
        ({"policy.half_life_days": "1"}, {"policy": {"half_life_s": 86_400}}),
        ({"policy.ledgers": "project"}, {"policy": {"ledgers": ["project"]}}),
        ({"policy.prefer": "best_fit"}, {"policy": {"prefer": "best_fit"}}),
        ({"policy.evict.protect_s": "90"}, {"policy": {"evict": {"protect_s": 90}}}),
        ({"preempt": []}, {"policy": {"preemption": []}}),
        ({"remove": ["n1"]}, {"remove_nodes": ["n1"]}),
        ({"add_like": "n1", "add_like_count": "2"}, {"add_nodes": [{"like": "n1", "count": 2}]}),
        ({"add_gpus": "8", "add_memory": "80GB", "add_nvlink": "4"},
         {"add_nodes": [{"count": 1, "gpus": 8, "memory": "80GB", "nvlink": 4}]}),
    ],
)  # fmt: skip
def test_what_is_typed_is_the_change_and_nothing_else(day, typed, change):
    answer = sent(**typed)
    assert answer.status_code == 302, entities.unescape(text(answer))
    run = WhatIfRun.objects.get()
    assert (run.change, run.days, answer["Location"]) == (change, 7, f"/what-if/{run.pk}/")


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"days": "0"}, "days must be a whole number from 1 to 31, not 0"),
        ({"days": "a week"}, "days must be a whole number from 1 to 31, not 'a week'"),
        ({"policy.project_weights.alpha": "-1"}, "project_weights.alpha must be a number from 0 to 1e+06"),
        ({"policy.project_weights.alpha": "much"}, "must be a number from 0 to 1e+06, not 'much'"),
        ({"policy.project_weights.alpha": "nan"}, "must be a number from 0 to 1e+06, not 'nan'"),
        ({"policy.half_life_days": "-1"}, "half_life_s must be a number from 0 to 1e+09"),
        ({"policy.queues.merge.levels.Low": "4"}, "puts victims no lower than who evicts them"),
        ({"policy.prefer": "luck"}, "prefer must be one of whole_groups"),
        ({"preempt": ["eval/Low>merge/Normal"]}, "a job evicts only lower levels"),
        ({"preempt": ["nonsense"]}, "there is no level"),
        ({"remove": ["n9"]}, "must be the name of a node there is"),
        ({"add_like": "n1", "add_like_count": "many"}, "count must be a whole number from 1 to 1000"),
        ({"add_gpus": "0", "add_memory": "80GB"}, "gpus must be a whole number from 1 to 64"),
        ({"add_gpus": "8"}, "memory is missing"),
    ],
)
def test_what_can_not_be_is_said_and_what_was_typed_is_kept(day, typed, words):
    answer = sent(**typed)
    html = entities.unescape(text(answer))
    assert answer.status_code == 422
    assert words in html
    assert "Nothing was started: " in html
    name, value = next(iter(typed.items()))
    if name != "policy.prefer" and isinstance(value, str):
        assert fields(html)[name] == value
    assert WhatIfRun.objects.count() == 0


def test_too_many_at_a_time_are_told(day):
    for _ in range(3):
        whatif_runs.ask({"remove_nodes": ["n1"]}, day.who["alice"], day.end)
    answer = sent(remove=["n1"])
    assert answer.status_code == 409
    assert "3 of your replays wait or run" in text(answer)


def test_people_of_other_projects_are_not_in_the_form(day):
    assert "alpha: alice" in page()
    assert "beta: bob" not in page()
    assert "beta: bob" in page(person="admin")


def test_the_result_is_said_first_in_words_and_can_be_checked(day):
    html = page(played(day, {"add_nodes": [{"like": "n1", "count": 2}]}))
    assert "Jobs of alpha would have waited 59m 59s less, beta 59m 58s less." in html
    assert "2 jobs would have started sooner and 0 later, the mean wait 0 s instead of 59m 59s" in html
    assert "The replay is close to what really was." in html
    assert "2 nodes more, like n1" in html
    assert html.count("<svg") >= 5
    assert "a job of another project" in html
    assert ">two<" in html
    assert ">three<" not in html


def test_jobs_that_fare_otherwise_are_a_csv(day):
    address = played(day, {"add_nodes": [{"like": "n1", "count": 2}]})
    lines = text(browser().get(f"{address}jobs.csv")).splitlines()
    assert lines[0].startswith("job,name,project,priority,gpus,wait_before_s")
    assert lines[1].split(",")[:5] == [day.jobs[1], "two", "alpha", "Normal", "4"]
    assert lines[2].split(",")[:5] == ["", "", "", "Normal", "4"]


def test_while_it_waits_it_says_how_far_it_is_and_can_be_cancelled(day):
    client = browser()
    run = whatif_runs.ask({"remove_nodes": ["n1"]}, day.who["alice"], day.end)
    assert '<noscript><meta http-equiv="refresh"' in text(client.get(f"/what-if/{run}/"))
    whatif_rows.take_up(run, day.end)
    whatif_rows.told(run, day.end, done=3, total=6, rate=1.5)
    assert "3 of 6 jobs played, 2 jobs/s, about 2 s left" in text(
        client.get(f"/what-if/{run}/", HTTP_HX_REQUEST="true")
    )
    assert "Playing the last 7 days twice: 50 % done." in text(client.get(f"/what-if/{run}/"))
    client.post(f"/what-if/{run}/cancel/")
    assert whatif_rows.told(run, day.end, done=4, total=6, rate=1.5) is False
    whatif_rows.ended(run, day.end)
    assert client.get(f"/what-if/{run}/", HTTP_HX_REQUEST="true")["HX-Refresh"] == "true"
    assert "It was cancelled." in text(client.get(f"/what-if/{run}/"))


def test_one_that_broke_says_why_and_what_to_do(day):
    run = whatif_runs.ask({"remove_nodes": ["n1"]}, day.who["alice"], day.end)
    whatif_rows.take_up(run, day.end)
    whatif_rows.ended(run, day.end, error=whatif_runs.BROKEN)
    html = page(f"/what-if/{run}/")
    assert "The replay broke." in html
    assert "Its worker ended before it was done; ask again" in html


def test_others_find_nothing(day):
    address = played(day, {"remove_nodes": ["n1"]})
    for end in ("", "jobs.csv"):
        assert browser("bob").get(address + end).status_code == 404
    assert browser("bob").post(f"{address}cancel/").status_code == 404
    assert browser("admin").get(address).status_code == 200


def test_only_an_admin_applies_and_reverts(day):
    address = played(day, {"policy": {"project_weights": {"alpha": 5}}})
    assert "Apply …" not in page(address)
    for end in (f"{address}apply/", "/what-if/policy/"):
        answer = browser().get(end)
        assert answer.status_code == 403
    assert browser().post(f"{address}apply/").status_code == 403
    assert browser().post("/what-if/policy/1/revert/").status_code == 403
    assert load.policy_of().project_weights["alpha"] == 2.0


def test_apply_shows_what_changes_and_what_this_button_can_not_do(day):
    body = {"policy": {"project_weights": {"alpha": 5}, "preemption": []}, "remove_nodes": ["n1"]}
    address = f"{played(day, body)}apply/"
    html = page(address, "admin")
    assert "Weight of project alpha" in html
    assert "merge Critical may evict merge Low" in html
    assert '<a href="/nodes/n1/">' in html
    client = browser("admin")
    assert client.post(address).status_code == 302
    assert load.policy_of().project_weights["alpha"] == 5.0
    assert load.policy_of().preemption == ()
    assert "There is nothing to apply." in page(address, "admin")
    client.post(address)
    assert "The policy is so already: nothing was changed. Nothing was changed." not in text(client.get(address))
    number = policy_versions.versions()[0].number
    client.post(f"/what-if/policy/{number}/revert/")
    assert load.policy_of().project_weights["alpha"] == 2.0
    assert len(load.policy_of().preemption) == 6


def test_a_name_that_is_markup_stays_a_name(day):
    bad = "<b>bold<b>"
    models = [b.model(day.who["alice"], "e", 5), b.model(day.who["alice"], "f", 6)]
    b.submitted(day.who["alice"], b.merge_body(models, name=bad, gpu_count=4), now=day.end)
    assert bad not in text(browser().get(played(day, {"remove_nodes": ["n1"]})))


def test_a_replay_is_changed_and_played_again_from_what_was_tried(day):
    new = {"count": 3, "gpus": 8, "memory": "80GB", "nvlink": 0}
    policy = {"project_weights": {"alpha": 5}, "half_life_s": 86_400, "ledgers": ["project"],
              "queues": {"eval": {"levels": {"High": 5, "Normal": 2, "Low": 1}}}, "preemption": []}  # fmt: skip
    body = {"add_nodes": [{"like": "n1", "count": 2}, new], "policy": policy}
    run = whatif_runs.ask({"days": 3, **body}, day.who["alice"], day.end)
    html = page(f"{PAGE}?from={run}")
    found = fields(html)
    wanted = {
        "days": "3", "policy.project_weights.alpha": "5", "policy.half_life_days": "1", "policy.ledgers": "project",
        "policy.queues.eval.levels.High": "5", "add_like": "n1", "add_like_count": "2", "add_count": "3",
        "add_gpus": "8", "add_memory": "80GB", "add_nvlink": "0", "preempt": [],
    }  # fmt: skip
    assert {name: found[name] for name in wanted} == wanted
    assert "now 2</small>" in html
    browser().post(PAGE, found)
    again = WhatIfRun.objects.exclude(pk=run).get()
    assert (again.change, again.days) == (body, 3)
    # Of another person's nothing is shown.
    assert fields(page(f"{PAGE}?from={run}", "bob"))["policy.project_weights.alpha"] == "2"
    assert browser().get(f"{PAGE}?from=nonsense").status_code == 200


def test_versions_say_who_changed_what_and_before_the_first_that_there_is_none(day):
    assert "The policy has not been changed since it was first known." in page("/what-if/policy/", "admin")
    policy_versions.apply(
        whatif_runs.ask({"policy": {"preemption": []}}, day.who["admin"], day.end), day.who["admin"], day.end
    )
    html = page("/what-if/policy/", "admin")
    assert "admin changed the policy last." in html
    assert "merge Critical may evict merge Low" in html
    assert "applied after a replay" in html


def test_apply_before_the_replay_is_played_is_possible_too(day):
    run = whatif_runs.ask({"remove_nodes": ["n1"], "days": 1}, day.who["admin"], day.end)
    for end in ("", "apply/"):
        assert browser("admin").get(f"/what-if/{run}/{end}").status_code == 200
