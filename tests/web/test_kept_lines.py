"""What no line can say of an earlier job is kept beside the lines that say the others, unless it is left out."""

from __future__ import annotations

import html as entities
import re

import pytest

from scheduling.models import Job
from scheduling.services import jobs
from scheduling.web import command_form, rule_lines, where_when
from tests import builders as b
from tests.web.pages import beside, browser, text

pytestmark = pytest.mark.django_db
PLAIN = {"key": "node", "op": "In", "values": ["n1"]}
ODD = {"key": "zone", "op": "NotIn", "values": ["x y,z"]}
WISH = {"key": "a=b", "op": "Exists", "weight": 3}
ENV = {"LR": "0.1", "TEXT": "1\n2"}


def sent(html: str, **changed: str) -> dict[str, str]:
    """What a browser sends of the form's fields that were filled, with some of them changed."""
    pattern = (
        r'<(?:input(?! type="(?:checkbox|radio)")[^>]*|textarea[^>]*) ?name="(\w+)"(?:[^>]* value="([^"]*)")?[^>]*>'
    )
    filled = {name: entities.unescape(value) for name, value in re.findall(pattern, html)}
    areas = re.findall(r'<textarea[^>]* name="(\w+)"[^>]*>([^<]*)</textarea>', html)
    return {**filled, **{name: entities.unescape(value) for name, value in areas}, "reads": "line",
            "project": "alpha", "queue": "merge", "priority": "Normal", "key": "9" * 36, **changed}  # fmt: skip


@pytest.fixture
def opened(lab) -> str:
    """The form that changes a job with rules and variables of which lines can say some."""
    affinity = {"required": [PLAIN, ODD], "preferred": [WISH]}
    params = {"argv": ["python", "train.py"], "env": ENV}
    job = b.submitted(lab.who["alice"], b.command_body(affinity=affinity, params=params))
    return text(browser().get(f"/jobs/new/command/?from={job}"))


def resent(lab, html: str, **changed: str) -> dict:
    """The body of the job that is made of the form."""
    answer = browser().post("/jobs/new/command/", sent(html, **changed))
    assert answer.status_code == 302, text(answer)
    return jobs.body_again(answer["Location"].split("/")[2], lab.who["alice"])


def test_what_lines_can_say_is_filled_in_and_the_rest_is_told_beside_the_field(opened):
    assert 'spellcheck="false" placeholder="rack_id=r1,r2" >node=n1</textarea>' in opened
    assert 'placeholder="LR=0.1" >LR=0.1</textarea>' in opened
    kept = [entities.unescape(code) for code in re.findall("<code>([^<]*)</code>", opened)]
    assert [told for told in kept if told.startswith(('"zone', '"a=b', "TEXT"))] == [
        'TEXT="1\\n2"', '"zone" is not "x y,z"', '"a=b" is there *3',
    ]  # fmt: skip
    assert ("<dt>Rules of placement</dt>" in opened, "<details open><summary>Where and when" in opened) == (False, True)


def test_sent_as_it_is_the_copy_asks_for_the_same(lab, opened):
    body = resent(lab, opened)
    assert (body["affinity"], body["params"]["env"]) == ({"required": [PLAIN, ODD], "preferred": [WISH]}, ENV)


def test_what_is_kept_stays_when_the_lines_are_edited(lab, opened):
    body = resent(lab, opened, must_run="node=n2", should_run="ssd", env="A=1")
    assert body["affinity"] == {
        "required": [{**PLAIN, "values": ["n2"]}, ODD], "preferred": [{"key": "ssd", "op": "Exists"}, WISH],
    }  # fmt: skip
    assert body["params"]["env"] == {"A": "1", "TEXT": "1\n2"}


def test_what_is_kept_can_be_left_out_field_by_field(lab, opened):
    body = resent(lab, opened, must_run_drop="on", env_drop="on")
    assert body["affinity"] == {"required": [PLAIN], "preferred": [WISH]}
    assert body["params"]["env"] == {"LR": "0.1"}


def test_a_form_with_an_error_still_keeps_it_and_knows_what_was_ticked(opened):
    again = text(browser().post("/jobs/new/command/", sent(opened, gpu_count="0", should_run_drop="on")))
    assert sent(again)["must_run_more"] == sent(opened)["must_run_more"]
    assert re.findall(r'name="(\w+)_drop" (checked)?>', again) == [
        ("env", ""), ("must_run", ""), ("should_run", "checked"),
    ]  # fmt: skip


def test_what_is_typed_counts_for_a_name_that_is_kept_too(lab, opened):
    assert resent(lab, opened, env="TEXT=short")["params"]["env"] == {"TEXT": "short"}


def test_what_is_wrong_with_a_kept_rule_is_told_of_it_and_not_of_a_line(opened):
    kept = '[{"key": "zone", "op": "Near", "values": ["x"]}]'
    page = text(browser().post("/jobs/new/command/", sent(opened, must_run_more=kept)))
    assert "Must run where: the op of a kept rule must be one of" in entities.unescape(beside(page, "must_run"))


@pytest.mark.parametrize("more", ["nonsense", "7", "{}", "[" * 50_001])
def test_what_comes_back_and_is_none_of_ours_is_no_harm(opened, more):
    answer = browser().post("/jobs/new/command/", sent(opened, must_run_more=more, env_more=more))
    assert (answer.status_code, Job.objects.count()) == (302, 2)


@pytest.mark.parametrize("affinity", [7, {"required": {"key": "a"}}, {"requires": [PLAIN]}])
def test_what_is_no_two_lists_of_rules_stays_whole_as_no_field_is_its_own(affinity):
    _, covered = where_when.again({"affinity": affinity})
    assert command_form.again({"affinity": affinity}).rest == {"affinity": affinity}
    assert "affinity" not in covered


@pytest.mark.parametrize(("rule", "words"), [
    ({"key": "a", "op": "In", "values": [" x", "y"]}, '"a" is " x" or "y"'),
    ({"key": "a", "op": "In", "values": ["*5"], "weight": None}, '"a" is "*5"'),
    ({"key": "a", "op": "Exists", "more": 1}, '{"key": "a", "op": "Exists", "more": 1}'),
    ({"op": "Exists"}, '{"op": "Exists"}'),
    ("nonsense", '"nonsense"'),
])  # fmt: skip
def test_a_kept_rule_is_told_with_its_texts_in_quotes(rule, words):
    assert rule_lines.in_words(rule) == words


@pytest.mark.parametrize("pair", [("A", " x"), ("A", "x\r"), ("", "x"), ("A", 1), ("A=B", "x"), (" A", "x")])
def test_inputs_and_variables_come_back_as_they_were(pair):
    name, value = pair
    params = {"argv": ["x"], "env": {name: value, "B": "1"}, "inputs": {name: value, "b": "1"}}
    made = command_form.body_of(command_form.again({"params": params}))["params"]
    assert made == params
