"""The form refuses what REST refuses, beside the field, all at once, and keeps what was typed."""

from __future__ import annotations

import html as entities
import re

import pytest

from scheduling.models import Job, Membership, Queue
from scheduling.services import jobs
from tests import builders as b
from tests.web.pages import beside, browser, form, text
from workers.merge_strategies import STRATEGIES

pytestmark = pytest.mark.django_db


def world():
    lab = b.lab()
    return lab.who["alice"], lab.models


def test_a_rightly_filled_form_makes_the_job_that_rest_would_make():
    alice, models = world()
    response = browser().post("/jobs/new/", form(models))
    job = Job.objects.get()
    assert response["Location"] == f"/jobs/{job.pk}/"
    assert (job.state, job.gpu_count, job.nvlink_required, job.params["t"]) == ("QUEUED", 2, True, 0.5)
    assert jobs.body_again(str(job.pk), alice)["max_duration"] == "1h"


def test_posted_twice_it_makes_one_job():
    _, models = world()
    client = browser()
    places = [client.post("/jobs/new/", form(models))["Location"] for _ in range(2)]
    assert places[0] == places[1]
    assert Job.objects.count() == 1


def test_sent_again_with_other_values_it_names_the_first_job():
    _, models = world()
    client = browser()
    client.post("/jobs/new/", form(models))
    html = text(client.post("/jobs/new/", form(models, t="0.7")))
    assert f"/jobs/{Job.objects.get().pk}/" in html
    assert "already sent" in html


def test_every_error_is_shown_at_once_beside_its_field():
    world()
    filled = form(["nothing-1", "nothing-2"], gpu_count="0", gpu_memory_min="900GB", max_duration="4 parsecs", t="1.4",
                  priority="Critical", name="../x")  # fmt: skip
    response = browser().post("/jobs/new/", filled)
    html = text(response)
    silent = [
        f for f in ("gpu_count", "gpu_memory_min", "max_duration", "t", "priority", "name") if not beside(html, f)
    ]
    assert (response.status_code, silent) == (422, [])


def test_an_unknown_model_is_named_beside_its_own_row():
    _, models = world()
    html = text(browser().post("/jobs/new/", form([models[0], "digits-5-8"])))
    assert "digits-5-8" in beside(html, "2")
    assert not beside(html, "1")


@pytest.mark.parametrize("t", ["half", "nan", "inf", "-0.1", "1.01", "1e400"])
def test_a_t_outside_its_range_is_refused_beside_it(t):
    _, models = world()
    assert "from 0 (the first model) to 1" in beside(text(browser().post("/jobs/new/", form(models, t=t))), "t")


@pytest.mark.parametrize("count", ["0", "-1", "1.5", "two", "1000000000"])
def test_a_gpu_count_that_can_not_be_is_refused_beside_it(count):
    _, models = world()
    assert beside(text(browser().post("/jobs/new/", form(models, gpu_count=count))), "gpu_count")


def test_the_form_and_rest_say_the_same():
    alice, models = world()
    filled = form(models, gpu_count="9", t="2")
    shown = text(browser().post("/jobs/new/", filled))
    body = b.merge_body(models, gpu_count="9", params={"t": 2.0})
    _, _, errors = jobs.check(body, alice, b.NOON)
    assert errors
    assert all(entities.escape(e["message"]) in shown for e in errors)


def test_what_was_typed_is_still_there_after_an_error():
    _, models = world()
    html = text(browser().post("/jobs/new/", form(models, t="7", name="kept <b>name")))
    assert 'value="7"' in html
    assert 'value="kept &lt;b&gt;name"' in html
    assert f'value="{models[1]}" selected' in html


def test_a_linear_merge_takes_weights_row_by_row():
    alice, models = world()
    third = b.model(alice, "c", 3)
    filled = form(models, strategy="linear", weight=["2", "", "", ""])
    filled["model"] = [models[0], "", third, ""]
    filled["weight"] = ["2", "", "1", ""]
    browser().post("/jobs/new/", filled)
    params = Job.objects.get().params
    assert (params["models"], params["weights"]) == ([models[0], third], [2.0, 1.0])


def on_a_base(**changes):
    """What the form posts for TIES of two models on a third, and that one."""
    alice, models = world()
    base = b.model(alice, "c", 3)
    filled = {"strategy": "ties", "base_model": base, "density": "0.2", "lambda": "", "normalize": "", "gamma": "0.1"}
    return base, models, form(models, **{**filled, **changes})


def test_a_merge_on_a_base_takes_the_fields_of_its_strategy_and_no_others():
    base, models, filled = on_a_base(weight=["2", "", "", ""], normalize="false")
    browser().post("/jobs/new/", filled)
    assert Job.objects.get().params == {
        "strategy": "ties", "models": models, "base_model": base, "weights": [2.0, 1.0], "normalize": False,
        "lambda": 1.0, "density": [0.2, 0.2], "seed": 0,
    }  # fmt: skip


def test_a_density_for_each_model_is_typed_with_commas_and_comes_back_so():
    _, _, filled = on_a_base(density="0.2, 0.7")
    client = browser()
    client.post("/jobs/new/", filled)
    job = Job.objects.get()
    assert job.params["density"] == [0.2, 0.7]
    again = text(client.get(f"/jobs/new/?from={job.pk}"))
    assert 'name="density" value="0.2, 0.7"' in again
    assert f'<option value="{job.params["base_model"]}" selected>' in again


@pytest.mark.parametrize(
    ("field", "typed", "words"),
    [
        ("base_model", "", "ties needs Base model: the id or name of the model"),
        ("base_model", "gone", "there is no artifact"),
        ("density", "", "density is needed"),
        ("density", "0.2, 2", "at most 1"),
        ("density", "half", "half"),
        ("lambda", "much", "lambda must be a finite number"),
        ("normalize", "maybe", "true or false"),
    ],
)
def test_what_is_wrong_with_a_field_of_a_strategy_stands_beside_it(field, typed, words):
    _, _, filled = on_a_base(**{field: typed})
    assert words in entities.unescape(beside(text(browser().post("/jobs/new/", filled)), field))


def test_a_base_that_is_merged_too_is_refused_beside_it():
    _, models, filled = on_a_base()
    found = beside(text(browser().post("/jobs/new/", {**filled, "base_model": models[0]})), "base_model")
    assert "leave it out of models" in found


def test_a_base_of_another_shape_is_refused_beside_it():
    alice, models = world()
    odd = b.model(alice, "odd", 5, shapes={"fc.weight": (9, 9), "fc.bias": (4,)})
    html = text(browser().post("/jobs/new/", form(models, strategy="ties", base_model=odd, density="0.2")))
    assert "9 x 9 in &#x27;odd&#x27;" in beside(html, "base_model")


def test_each_field_of_a_strategy_is_for_the_strategies_that_have_it():
    world()
    html = text(browser().get("/jobs/new/"))
    shown = {name: names.split() for names, name in re.findall(r'data-for="([^"]*)"><label for="id_(\w+)">', html)}
    own = ("base_model", "t", "density", "epsilon", "gamma", "lambda", "scale", "rescale", "granularity", "normalize")
    by_name = {name: [s.name for s in STRATEGIES.values() if name in s.own] for name in own}
    others = {
        "recipe": ["recipe"],
        "recipe_file": ["recipe"],
        "seed": [*by_name["rescale"], "recipe"],
        "out_dtype": list(STRATEGIES),
        "tokenizer_source": list(STRATEGIES),
        "layer_pattern": [*STRATEGIES, "recipe"],
        "on_mismatch": [*STRATEGIES, "recipe"],
    }
    assert shown == by_name | others


def test_the_limits_of_the_pool_stand_beside_the_fields():
    world()
    html = text(browser().get("/jobs/new/"))
    assert "1 to 4 on one node; the pool has 4 GPUs" in html
    assert "GPUs of 80 GB" in html
    assert "a number alone is GB" in html


def test_a_number_alone_is_taken_for_gb_and_the_page_of_the_job_says_so():
    _, models = world()
    page = browser().post("/jobs/new/", form(models, gpu_memory_min="40"), follow=True)
    assert Job.objects.get().gpu_memory_min_mib == 38_147  # 40 * 10^9 bytes
    assert "<dt>Memory</dt><dd>40 GB or more each</dd>" in text(page)


def test_the_limit_of_a_queue_stands_beside_the_field_as_the_largest_that_is_accepted():
    _, models = world()
    Queue.objects.filter(name="merge").update(max_duration_cap_s=5430)
    html = text(browser().get("/jobs/new/"))
    assert "At most: merge 1h 30m 30s" in html
    assert browser().post("/jobs/new/", form(models, max_duration="1h 30m 30s")).status_code == 302
    assert "Time limit may be at most 1 h 30 min 30 s in queue merge" in beside(
        text(browser().post("/jobs/new/", form(models, key="another", max_duration="5431"))), "max_duration"
    )


def priorities(html: str) -> dict[str, tuple[bool, str]]:
    """Whether each priority is out of reach, and what it is called."""
    found = re.findall(
        r'<option value="(\w+)" data-queues="[^"]*" data-projects="[^"]*" ([^>]*)>([^<]*)</option>', html
    )
    return {name: ("disabled" in state, words) for name, state, words in found}


def test_a_priority_that_one_may_not_ask_for_can_not_be_chosen_and_the_form_says_why():
    world()
    html = text(browser().get("/jobs/new/"))
    assert priorities(html)["Critical"] == (True, "Critical (not permitted)")
    assert priorities(html)["Normal"] == (False, "Normal")
    assert "Critical and Realtime need a permission that you don&#x27;t have; an admin can give it." in html


def test_an_admin_may_choose_every_priority_and_reads_no_reason_against_it():
    world()
    html = text(browser("admin").get("/jobs/new/"))
    assert {barred for barred, _ in priorities(html).values()} == {False}
    assert "that you don&#x27;t have" not in html


def test_a_cap_of_one_project_bars_what_is_above_it_there_only():
    world()
    Membership.objects.filter(user__username="alice", project__name="alpha").update(level_cap=1)
    row = next(each for each in text(browser().get("/jobs/new/")).split("<option ") if each.startswith('value="High"'))
    assert 'data-projects=""' in row
    assert "disabled" in row


@pytest.mark.parametrize(("more", "words"), [({}, "1 thing to mend, beside its field"),
                                             ({"t": "2"}, "2 things to mend, each beside its field")])  # fmt: skip
def test_one_thing_to_mend_is_not_each(more, words):
    _, models = world()
    assert f"Nothing was submitted: {words}." in text(browser().post("/jobs/new/", form(models, gpu_count="0", **more)))


def test_only_models_of_ones_own_projects_are_offered():
    world()
    assert "choose model 1" in text(browser("bob").get("/jobs/new/"))
    assert "(alpha," not in text(browser("bob").get("/jobs/new/"))


def test_a_clone_fills_the_form_with_the_jobs_own_values():
    alice, models = world()
    job = b.submitted(alice, b.merge_body(models, name="again", max_duration="90m", params={"t": 0.25}))
    html = text(browser().get(f"/jobs/new/?from={job}"))
    assert 'value="again"' in html
    assert 'value="90m"' in html
    assert 'value="0.25"' in html


def test_another_projects_job_can_not_be_cloned():
    alice, models = world()
    job = b.submitted(alice, b.merge_body(models, name="secret-name"))
    assert "secret-name" not in text(browser("bob").get(f"/jobs/new/?from={job}"))


def test_a_name_of_ten_thousand_characters_is_refused_beside_its_field():
    _, models = world()
    assert "at most 100 characters" in beside(
        text(browser().post("/jobs/new/", form(models, name="x" * 10_000))), "name"
    )


@pytest.mark.parametrize(
    ("field", "typed", "label"),
    [("gpu_count", "1.5", "GPUs"), ("max_duration", "400d", "Time limit")],
)
def test_an_error_calls_the_field_by_its_label(field, typed, label):
    _, models = world()
    said = beside(text(browser().post("/jobs/new/", form(models, **{field: typed}))), field)
    assert f"<li>{label} " in said
    assert field not in said


def test_a_refused_job_can_be_mended_and_submitted_again():
    alice, models = world()
    job = jobs.submit(b.merge_body(models, gpu_count=99, name="mend-me"), alice, b.NOON).job_id
    html = text(browser().get(f"/jobs/new/?from={job}"))
    assert 'value="mend-me"' in html
    assert f'value="{models[1]}" selected' in html


@pytest.mark.parametrize("params", [{"models": 7, "weights": "heavy"}, {"models": {"a": 1}}, "nonsense"])
def test_a_refused_body_of_any_shape_opens_in_the_form_and_on_its_page(params):
    alice, models = world()
    body = {**b.merge_body(models), "params": params, "retries": ["x", {"y": None}]}
    job = jobs.submit(body, alice, b.NOON).job_id
    client = browser()
    assert [client.get(path).status_code for path in (f"/jobs/new/?from={job}", f"/jobs/{job}/")] == [200, 200]
