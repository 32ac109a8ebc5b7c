"""The part of both forms for rules of placement, places shared or kept apart, and times."""

from __future__ import annotations

import html as entities
import re

import pytest

from scheduling.core.pool import Gpu, Node, Pool
from scheduling.core.resources import AffinityTerm
from scheduling.core.rules import holds
from scheduling.models import Job
from scheduling.services import jobs
from scheduling.web import rule_lines, where_when
from tests import builders as b
from tests.web.pages import beside, browser, form, text

pytestmark = pytest.mark.django_db

FILLED = {
    "must_run": "rack_id=r1,r2\r\n\r\nnetwork_bandwidth_gbps>10\r\n!spot", "should_run": "gpu_model=H100 *10\r\nssd",
    "required_level": "rack", "not_before": "2030-01-31T09:00Z", "start_by": "2030-02-01 09:00+01:00", "group": "sweep",
    "beside": "base", "beside_level": "rack", "apart": "noisy", "apart_level": "node",
}  # fmt: skip
BODY = {
    "affinity": {
        "required": [
            {"key": "rack_id", "op": "In", "values": ["r1", "r2"]},
            {"key": "network_bandwidth_gbps", "op": "Gt", "values": [10.0]},
            {"key": "spot", "op": "DoesNotExist"},
        ],
        "preferred": [
            {"key": "gpu_model", "op": "In", "values": ["H100"], "weight": 10},
            {"key": "ssd", "op": "Exists"},
        ],
    },
    "required_level": "rack", "not_before": "2030-01-31T09:00Z", "start_by": "2030-02-01 09:00+01:00", "group": "sweep",
    "with": {"group": "base", "level": "rack"}, "anti_affinity": {"group": "noisy", "level": "node"},
}  # fmt: skip


@pytest.fixture
def lab():
    return b.lab()


def test_all_that_is_filled_is_sent_as_rest_takes_it(lab):
    browser().post("/jobs/new/", form(lab.models, **FILLED))
    sent = jobs.body_again(str(Job.objects.get().pk), lab.who["alice"])
    assert {name: sent.get(name) for name in BODY} == BODY


def test_an_earlier_job_is_shown_in_these_fields_and_nothing_of_it_is_left_to_send_along(lab):
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models, **BODY))
    page = text(browser().get(f"/jobs/new/?from={job}"))
    assert 'name="rest"' not in page
    assert "rack_id=r1,r2\nnetwork_bandwidth_gbps&gt;10\n!spot</textarea>" in page
    assert "gpu_model=H100 *10\nssd</textarea>" in page
    assert "<details open><summary>Where and when exactly" in page


def test_an_empty_form_says_nothing_of_it_and_keeps_it_closed(lab):
    assert "<details ><summary>Where and when exactly" in text(browser().get("/jobs/new/command/"))
    browser().post("/jobs/new/", form(lab.models, **dict.fromkeys(where_when.TEXTS, "")))
    assert not {*BODY, "preemptible"} & jobs.body_again(str(Job.objects.get().pk), lab.who["alice"]).keys()


@pytest.mark.parametrize("line", ["=r1", "rack_id=", "rack_id=r1,,r2", "!a=b", "rack id=r1", "*5", ">", "a=b *", "a*5"])
def test_a_line_that_is_no_rule_is_named_by_its_number(lab, line):
    page = text(browser().post("/jobs/new/", form(lab.models, must_run=f"ssd\n\n{line}", name="../x")))
    said = entities.unescape(beside(page, "must_run"))
    assert "line 3 is not a rule: write it like rack_id=r1,r2" in said
    assert beside(page, "name")  # what else is wrong is told with it


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("slots>=3", "write slots>2.99999 for 3 or more, there is no >= here"),
        ("slots =< 3", "write slots<3.00001 for 3 or less, there is no =< here"),
        ("slots>=1.5", "write slots>1.49999 for 1.5 or more, there is no >= here"),
        ("slots<=-100", "write slots<-99.9999 for -100 or less, there is no <= here"),
        ("slots>=0", "write slots>-0.000001 for 0 or more, there is no >= here"),
        ("slots>=1234567", "write slots> and a number, there is no >= here"),
        ("slots>=many", "write slots> and a number, there is no >= here"),
        ("node==a1", "write node=a1, there is no == here"),
        ("node !== a1,a2", "write node!=a1,a2, there is no !== here"),
    ],
)
def test_a_sign_of_other_languages_is_told_as_it_is_written_here(lab, line, meant):
    page = text(browser().post("/jobs/new/", form(lab.models, must_run=line)))
    assert f"line 1 is not a rule: {meant}<" in entities.unescape(beside(page, "must_run"))


def test_what_is_meant_by_at_least_holds_from_that_number_on_and_not_below():
    (fault,) = where_when.faults({"must_run": "network_bandwidth_gbps>=100"})
    line = re.search(r"write (\S+) for 100 or more", fault["message"])[1]
    (rule,) = rule_lines.rules_of(line, wishes=False)
    term = AffinityTerm(rule["key"], rule["op"], tuple(f"{value:g}" for value in rule["values"]))
    board = Gpu("u", "n", 0, "A100", 1)
    passed = [
        gbps
        for gbps in (99.0, 99.5, 99.999, 100.0, 400.0)
        if holds(term, Pool((Node("n", "", gbps),), (board,)), board)
    ]
    assert passed == [100.0, 400.0]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("ssd>yes\nfoo bar", ["line 2 is not a rule", "> needs exactly one number in the values of line 1"]),
        ("foo bar\nssd>yes", ["line 1 is not a rule", "> needs exactly one number in the values of line 2"]),
        ("foo bar\nssd>yes\nrack_id=zzz", ["line 1 is not a rule", "values of line 2", "hold (rack_id=zzz)"]),
    ],
)
@pytest.mark.parametrize("address", ["/jobs/new/", "/jobs/new/plan/"])
def test_lines_that_are_no_rules_do_not_hide_wrong_values_of_others(lab, lines, told, address):
    page = entities.unescape(beside(text(browser().post(address, form(lab.models, must_run=lines))), "must_run"))
    assert [each for each in told if each not in page] == []


def test_a_wish_that_is_no_rule_does_not_hide_the_wrong_weight_of_another(lab):
    page = text(browser().post("/jobs/new/", form(lab.models, should_run="*5\nrack_id=r1 *0")))
    said = entities.unescape(beside(page, "should_run"))
    assert "line 1 is not a rule" in said
    assert "the weight of line 2 must be a whole number from 1 to 100, not 0" in said


def test_a_wish_with_such_a_sign_keeps_its_weight_in_what_is_meant():
    (fault,) = where_when.faults({"should_run": "node==a1 *5"})
    assert fault["message"] == "Should run where: line 1 is not a rule: write node=a1 *5, there is no == here"


@pytest.mark.parametrize(
    ("field", "lines", "told"),
    [
        ("must_run", "ssd\nnetwork_bandwidth_gbps>fast", "> needs exactly one number in the values of line 2"),
        ("must_run", "\nnetwork_bandwidth_gbps>1,2", "> needs exactly one number in the values of line 2"),
        (
            "should_run",
            "ssd *101",
            "should run where: the weight of line 1 must be a whole number from 1 to 100, not 101",
        ),
        ("should_run", "\n".join(["ssd"] * 17), "this field must be a list of at most 16 rules"),
    ],
)
def test_a_rule_that_is_refused_is_told_with_its_line(lab, field, lines, told):
    page = text(browser().post("/jobs/new/", form(lab.models, **{field: lines})))
    assert told in entities.unescape(beside(page, field)).lower()


@pytest.mark.parametrize(
    ("given", "field", "told"),
    [
        ({"unpreemptible": "on"}, "unpreemptible", "which an admin can give; untick Never preempted<"),
        ({"beside": "g", "apart": "g"}, "apart", "Run beside wants a node where group g runs, Keep away from a node"),
        ({"beside": "a/b"}, "beside", "The group of Run beside "),
        (
            {"nvlink_exclusive": "on", "nvlink_required": ""},
            "nvlink_exclusive",
            "so NVLink required must be ticked with it",
        ),
        (
            {"allow_span": "on", "max_wait_for_level": "9m", "nvlink_required": ""},
            "allow_span",
            "Spread over nodes lets the GPUs lie on several nodes, and a job of this kind lies on one node; leave it",
        ),
        ({"max_wait_for_level": "9m", "nvlink_required": ""}, "max_wait_for_level", "How long to hold out for it "),
        ({"apart": "a/b"}, "apart", "The group of Keep away from "),
    ],
)
def test_a_refusal_is_told_in_the_words_of_the_form(lab, given, field, told):
    assert told in entities.unescape(beside(text(browser().post("/jobs/new/", form(lab.models, **given))), field))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"required_level": "planet"}, "required_level"),
        ({"not_before": "tomorrow"}, "not_before"),
        ({"start_by": "2001-01-01T00:00Z"}, "start_by"),
        ({"max_wait_for_level": "30m"}, "max_wait_for_level"),
        ({"allow_span": "on"}, "allow_span"),
        ({"nvlink_exclusive": "on", "nvlink_required": ""}, "nvlink_exclusive"),
        ({"unpreemptible": "on"}, "unpreemptible"),
        ({"group": "a/b"}, "group"),
        ({"beside": "a/b"}, "beside"),
        ({"apart": "a/b"}, "apart"),
        ({"beside": "g", "beside_level": "planet"}, "beside"),
    ],
)
def test_each_is_refused_beside_its_own_field(lab, given, field):
    page = text(browser().post("/jobs/new/", form(lab.models, **given)))
    assert beside(page, field)
    assert "<details open><summary>Where and when exactly" in page


@pytest.mark.parametrize(
    "rule",
    [
        {"key": "a b", "op": "Exists"},
        {"key": "rack_id", "op": "In", "values": ["r1,r2"]},
        {"key": "rack_id", "op": "In", "values": [" r1"]},
        {"key": "rack_id", "op": "Near", "values": ["r1"]},
        {"key": "rack_id", "op": "In", "values": "r1"},
        {"key": "rack_id", "op": "In", "values": ["r1"], "weight": 5},
        {"key": "rack_id", "op": "Exists", "more": 1},
        {"key": 7, "op": "Exists"},
        "nonsense",
        None,
    ],
)
def test_a_rule_that_no_line_can_say_is_sent_along_as_it_is(rule):
    affinity = {"required": [{"key": "node", "op": "In", "values": ["a1"]}, rule]}
    texts, covered = where_when.again({"affinity": affinity})
    assert (texts["must_run"], "affinity" in covered) == ("node=a1", True)
    assert where_when.body_of(texts) == {"affinity": affinity}


def test_a_change_that_would_help_opens_the_form_with_it(lab):
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models, **BODY))
    page = text(browser().get(f"/jobs/new/?from={job}&with=&group=&required_level=&gpu_count=1"))
    assert re.search(r'name="gpu_count" value="1"', page)
    assert re.search(r'name="beside" value=""', page)
    assert re.search(r'name="group" value=""', page)
    assert re.search(r'name="apart" value="noisy"', page)
