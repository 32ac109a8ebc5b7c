"""Who may preempt whom, as a table: what is ticked holds, goes down, and is in the history."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client

from scheduling.models import Level, PreemptionRule
from scheduling.services import policy_versions
from tests import builders as b

from .test_admin import boss

pytestmark = pytest.mark.django_db
PAGE = "/admin/scheduling/preemptionrule/table/"


def level(text):
    queue, name = text.split("/")
    return Level.objects.get(queue__name=queue, name=name)


def box(above, below):
    return f"{level(above).pk}-{level(below).pk}"


def rules():
    return {str(rule) for rule in PreemptionRule.objects.all()}


def seen(client):
    (found,) = re.findall(r'name="seen" value="(\w+)"', client.get(PAGE).content.decode())
    return found


def boxes(html):
    """``{value: ticked}`` of every box of the table."""
    found = re.findall(r'<input type="checkbox" name="rule" value="([\d-]+)" aria-label="[^"]*" (checked)?', html)
    return {value: bool(on) for value, on in found}


def post(client, *ticked, **more):
    return client.post(PAGE, {"rule": list(ticked), "seen": seen(client), **more})


def test_the_table_has_a_box_for_every_pair_that_goes_down_and_those_that_hold_are_ticked():
    b.people()
    shown = boxes(boss().get(PAGE).content.decode())
    levels = list(Level.objects.all())
    assert shown.keys() == {f"{a.pk}-{z.pk}" for a in levels for z in levels if z.value < a.value}
    assert {value for value, on in shown.items() if on} == {
        f"{rule.preemptor_id}-{rule.victim_id}" for rule in PreemptionRule.objects.all()
    }
    assert sum(shown.values()) == len(rules()) > 0


def test_what_is_changed_in_the_table_is_a_version_of_the_policy_that_can_be_reverted():
    who = b.people()
    before = rules()
    post(boss(), box("merge/High", "eval/Low"))
    newest = policy_versions.versions()[0]
    assert (newest.why, newest.may_revert) == ("changed in the admin", True)
    policy_versions.revert(newest.number, who["admin"], b.later(60))
    assert rules() == before


def test_what_is_ticked_holds_and_what_is_not_is_gone_and_both_are_in_the_history():
    b.people()
    client = boss()
    before = rules()
    answer = post(client, box("merge/High", "eval/Low"), box("inference/Realtime", "inference/Normal"))
    assert answer.status_code == 302
    assert rules() == {"merge/High > eval/Low", "inference/Realtime > inference/Normal"}
    history = PreemptionRule.history
    made = history.get(history_type="+", preemptor=level("merge/High"))
    assert made.history_user.username == "admin"
    gone = history.filter(history_type="-")
    assert gone.count() == len(before) - 1
    assert {row.history_user.username for row in gone} == {"admin"}


def test_saving_what_holds_changes_nothing():
    b.people()
    client = boss()
    before = rules()
    post(client, *(f"{r.preemptor_id}-{r.victim_id}" for r in PreemptionRule.objects.all()))
    assert rules() == before
    assert not PreemptionRule.history.filter(history_type="-").exists()
    assert "Nothing was changed." in client.get(PAGE).content.decode()


@pytest.mark.parametrize(
    ("above", "below"), [("merge/Normal", "merge/High"), ("merge/Normal", "eval/Normal"), ("merge/Low", "merge/Low")]
)
def test_a_rule_that_does_not_go_down_is_refused_and_nothing_is_saved(above, below):
    b.people()
    before = rules()
    answer = post(boss(), box(above, below), box("merge/High", "eval/Low"))
    assert answer.status_code == 200
    said = f"The rule {above} &gt; {below} does not go down: the number of the victim&#x27;s level"
    assert said in answer.content.decode()
    assert rules() == before


@pytest.mark.parametrize("value", ["x", "1-", "1-2-3", "999999-1", "١-٢"])
def test_levels_that_there_are_not_are_refused(value):
    b.people()
    before = rules()
    answer = post(boss(), value)
    assert "There are no levels" in answer.content.decode()
    assert rules() == before


def test_what_somebody_else_has_changed_meanwhile_is_not_overwritten():
    b.people()
    client = boss()
    old = seen(client)
    PreemptionRule.objects.create(preemptor=level("merge/High"), victim=level("eval/Low"))
    before = rules()
    answer = client.post(PAGE, {"rule": [], "seen": old})
    html = answer.content.decode()
    assert "The rules have been changed since this table was shown" in html
    assert rules() == before
    assert boxes(html)[box("merge/High", "eval/Low")]


def test_the_address_fills_the_table_and_saves_nothing():
    b.people()
    before = rules()
    query = {"allow": ["merge/High>eval/Low", "merge/High>merge/Low"], "forbid": "inference/Realtime>inference/Normal"}
    html = boss().get(PAGE, query).content.decode()
    shown = boxes(html)
    assert shown[box("merge/High", "eval/Low")]
    assert not shown[box("inference/Realtime", "inference/Normal")]
    assert "3 boxes differ from what holds now. Nothing is saved yet." in html
    assert html.count('class="changed"') == 3
    assert rules() == before


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"allow": "merge/High"}, "Allow: &#x27;merge/high&#x27; names no two levels"),
        ({"forbid": "a>b"}, "Forbid: &#x27;a&gt;b&#x27; names no two levels"),
        ({"allow": "merge/Low>merge/High"}, "The rule merge/Low &gt; merge/High does not go down"),
    ],
)
def test_an_address_that_asks_for_what_can_not_be_is_told_so(query, says):
    b.people()
    assert says.lower() in boss().get(PAGE, query).content.decode().lower()


def staff(*permissions):
    person = get_user_model().objects.create_user("ops", "", b.PASSWORD, is_staff=True)
    person.user_permissions.add(*Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.login(username="ops", password=b.PASSWORD)
    return client


def test_whoever_may_only_look_sees_the_table_and_changes_nothing():
    b.people()
    before = rules()
    client = staff("view_preemptionrule")
    html = client.get(PAGE).content.decode()
    assert "disabled" in html
    assert 'type="submit" class="default"' not in html
    assert client.post(PAGE, {"rule": [], "seen": seen(client)}).status_code == 403
    assert rules() == before


def test_whoever_may_not_look_does_not():
    b.people()
    assert staff().get(PAGE).status_code == 403
