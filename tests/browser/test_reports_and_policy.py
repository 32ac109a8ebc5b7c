"""An admin looks who used what in their own zone, previews weights, ticks rules, and finds all of it on record."""

from __future__ import annotations

from datetime import timedelta

from scheduling.models import PreemptionRule, Project
from scheduling.services import now
from tests import builders as b
from tests.browser.person import Person
from tests.services.reports import history


def test_a_report_tells_the_days_of_the_readers_zone_and_follows_the_filter(chromium, server):
    b.people()
    history.write(now() - timedelta(days=40), 39, 60)
    person = Person(chromium, server, width=390)
    page = person.sign_in("admin")
    page.get_by_role("link", name="Reports").click()
    assert page.get_by_label("Zone").input_value() == "Europe/Berlin"
    page.get_by_role("link", name="12 months").click()
    assert "GPU-hours were held" in page.locator("h1").inner_text()
    page.locator("[name=project]").select_option("beta")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**project=beta**")
    assert "by jobs in beta" in page.locator("h1").inner_text()
    assert page.locator("#usage rect").count() > 0
    with page.expect_download() as saved:
        page.locator("#usage").get_by_role("link", name="CSV").click()
    lines = saved.value.path().read_text().splitlines()
    assert lines[0].startswith("first,last,project,user,kind,queue,held_gpu_h")
    assert len(lines) > 1
    assert all(",beta," in line for line in lines[1:])
    complaints = person.complaints
    person.leave()
    assert complaints == []


def test_weights_are_previewed_and_rules_ticked_and_both_are_on_record(chromium, server):
    b.people()
    person = Person(chromium, server)
    page = person.sign_in("admin")
    page.goto(f"{server.url}/admin/scheduling/project/?set=beta:6")
    page.get_by_role("button", name="Preview the shares").click()
    page.get_by_text("1 weight would change. Nothing is saved yet.").wait_for()
    assert Project.objects.get(name="beta").weight == 1.0
    page.get_by_role("button", name="Save").click()
    page.get_by_text("1 project was changed successfully.").wait_for()
    assert Project.objects.get(name="beta").weight == 6.0
    page.goto(f"{server.url}/admin/scheduling/preemptionrule/table/")
    page.get_by_label("merge/High may preempt eval/Low").check()
    page.get_by_role("button", name="Save").click()
    page.get_by_text("1 rule added. The next tick goes by it.").wait_for()
    assert PreemptionRule.objects.filter(preemptor__name="High", victim__name="Low").count() == 1
    page.goto(f"{server.url}/admin/scheduling/changes/?who=admin")
    rows = page.get_by_role("region", name="Changes").inner_text()
    assert "Project beta" in rows
    assert "merge/High > eval/Low" in rows
    complaints = person.complaints
    person.leave()
    assert complaints == []
