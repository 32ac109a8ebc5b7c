"""Weights by hand: what would be due to whom is told before they are saved, and links may fill them in."""

from __future__ import annotations

import re

import pytest

from scheduling.models import Level, Membership, PlanningSettings, Project, Queue
from scheduling.store import seed
from scheduling.store.queries.share import share
from scheduling.store.queries.share_preview import preview
from tests import builders as b

from .test_admin import boss

pytestmark = pytest.mark.django_db


def posted(rows, weights, **more):
    form = {"form-TOTAL_FORMS": str(len(rows)), "form-INITIAL_FORMS": str(len(rows)), **more}
    for i, (row, weight) in enumerate(zip(rows, weights, strict=True)):
        form |= {f"form-{i}-id": str(row.pk), f"form-{i}-weight": str(weight)}
    return form


def projects(*weights, **more):
    return posted(list(Project.objects.order_by("name")), weights, **more)


def cells(html):
    """``{name: the numbers of its row}`` of the preview."""
    rows = re.findall(r'<th scope="row">([^ <]+).*?</th>(.*?)</tr>', html, re.S)
    numbers = {name: re.findall(r'<td class="n">(.*?)</td>', row) for name, row in rows}
    return {name: [re.sub("<[^>]*>", "", cell) for cell in found] for name, found in numbers.items()}


def both_at_work():
    """Alpha's merge runs, and beta's waits."""
    lab, _ = b.full_lab()
    models = [b.model(lab.who["bob"], name, n, project="beta") for n, name in enumerate(("x", "y"))]
    b.submitted(lab.who["bob"], b.merge_body(models, project="beta"))
    return lab


def test_the_shares_under_other_weights_are_those_that_the_scheduler_then_reckons_with():
    lab = both_at_work()
    found = {row.name: row for row in preview("project", {("beta",): 6.0}, b.later(60))}
    Project.objects.filter(name="beta").update(weight=6.0)
    now = {row["name"]: row for row in share(lab.who["admin"], b.later(60))["projects"]}
    for name in ("alpha", "beta"):
        assert found[(name,)].after.target_gpu_h == pytest.approx(now[name]["target_gpu_h"], abs=1e-3)
        assert found[(name,)].after.weight == now[name]["weight"]
    assert found[("alpha",)].before.part == pytest.approx(2 / 3)
    assert found[("alpha",)].after.part == pytest.approx(2 / 8)
    assert found[("alpha",)].after.target_gpu_h < found[("alpha",)].before.target_gpu_h


@pytest.mark.parametrize(
    ("ledger", "name", "parts"),
    [("queue", ("merge",), (2 / 6, 4 / 8)), ("user", ("alpha", "alice"), (1.0, 1.0))],
)
def test_queues_and_people_are_reckoned_in_their_own_ledgers(ledger, name, parts):
    lab = both_at_work()
    rows = {row.name: row for row in preview(ledger, {name: 4.0}, b.later(60))}
    assert (rows[name].before.part, rows[name].after.part) == pytest.approx(parts)
    assert rows[name].active
    kept = [row for row in rows.values() if row.name != name]
    assert kept
    assert all(row.before.weight == row.after.weight for row in kept)
    assert lab


def test_weights_of_zero_leave_nothing_due():
    both_at_work()
    rows = {row.name: row for row in preview("project", {("alpha",): 0.0, ("beta",): 0.0}, b.later(60))}
    assert [(rows[(n,)].after.part, rows[(n,)].after.target_gpu_h) for n in ("alpha", "beta")] == [(0, 0), (0, 0)]


def test_the_preview_shows_before_and_after_and_saves_nothing_until_it_is_confirmed():
    both_at_work()
    client = boss()
    html = client.post("/admin/scheduling/project/", projects(2, 6, _preview="1")).content.decode()
    assert "1 weight would change. Nothing is saved yet." in html
    found = cells(html)
    assert found["alpha"][:4] == ["2", "2", "66.7 %", "25.0 %"]
    assert found["beta"][:4] == ["1", "6", "33.3 %", "75.0 %"]
    assert float(found["beta"][5].replace(",", "")) > float(found["beta"][4].replace(",", "")) > 0
    assert Project.objects.get(name="beta").weight == 1.0
    form = dict(re.findall(r'<input type="hidden" name="(form-[^"]+)" value="([^"]*)">', html))
    assert client.post("/admin/scheduling/project/", {**form, "_save": "Save"}).status_code == 302
    beta = Project.objects.get(name="beta")
    assert beta.weight == 6.0
    assert beta.history.first().history_user.username == "admin"


def test_of_those_without_work_it_says_so():
    b.people()
    html = boss().post("/admin/scheduling/project/", projects(2, 6, _preview="1")).content.decode()
    assert cells(html)["beta"] == ["1", "6", "33.3 %", "75.0 %", "no work", "no work"]


@pytest.mark.parametrize("weight", ["-1", "nan", "heavy", ""])
def test_a_weight_that_can_not_be_is_refused_beside_its_field_and_not_previewed(weight):
    b.people()
    answer = boss().post("/admin/scheduling/project/", projects(2, weight, _preview="1"))
    html = answer.content.decode()
    assert answer.status_code == 200
    assert "errorlist" in html
    assert "would change" not in html
    assert Project.objects.get(name="beta").weight == 1.0


def test_the_people_of_a_project_are_compared_with_each_other():
    b.people()
    seed.user("carol", b.PASSWORD, projects=[("alpha", 3)])
    rows = list(Membership.objects.all())
    form = posted(rows, [3 if row.user.username == "carol" else 1 for row in rows], _preview="1")
    form |= {f"form-{i}-level_cap": "3" for i in range(len(rows))}
    found = cells(boss().post("/admin/scheduling/membership/", form).content.decode())
    assert found["carol"][:4] == ["1", "3", "50.0 %", "75.0 %"]
    assert found["bob"][:4] == ["1", "1", "100.0 %", "100.0 %"]


def test_a_link_fills_weights_in_and_saves_nothing():
    b.people()
    client = boss()
    html = client.get("/admin/scheduling/project/", {"set": ["beta:6", "alpha:2"]}).content.decode()
    assert 'value="6.0"' in html
    assert "Filled in, and not saved yet: beta 1 → 6." in html
    html = client.get("/admin/scheduling/membership/?set=alpha/alice:2.5&project__id__exact=1").content.decode()
    assert "Filled in, and not saved yet: alpha/alice 1 → 2.5." in html
    html = client.get("/admin/scheduling/queue/?set=merge:3").content.decode()
    assert "merge 2 → 3" in html
    assert Project.objects.get(name="beta").weight == 1.0


def test_every_field_of_the_list_says_whose_it_is():
    b.people()
    assert 'aria-label="Weight of beta"' in boss().get("/admin/scheduling/project/").content.decode()
    assert 'aria-label="Weight of alpha/alice"' in boss().get("/admin/scheduling/membership/").content.decode()


def test_what_is_filled_in_can_be_saved_from_that_address():
    b.people()
    client = boss()
    assert client.post("/admin/scheduling/project/?set=beta:6", projects(2, 6, _save="Save")).status_code == 302
    assert Project.objects.get(name="beta").weight == 6.0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gamma:3", "there is no &#x27;gamma&#x27; in this list"),
        ("beta:-1", "the weight of beta must be from 0 to"),
        ("beta:much", "not &#x27;much&#x27;"),
        ("beta", "there is no &#x27;&#x27; in this list"),
    ],
)
def test_a_link_that_asks_for_what_can_not_be_is_told_so(text, says):
    b.people()
    html = boss().get("/admin/scheduling/project/", {"set": text}).content.decode()
    assert says in html
    assert "not saved yet" not in html


def test_a_link_fills_in_a_queues_page_and_its_levels():
    b.people()
    client = boss()
    page = f"/admin/scheduling/queue/{Queue.objects.get(name='inference').pk}/change/"
    html = client.get(page, {"weight": "7", "level": ["Realtime:9", "Normal:2"]}).content.decode()
    assert "Filled in, and not saved yet: weight 3.0 → 7, Realtime 4 → 9." in html
    assert re.search(r'name="levels-\d-value" value="9"', html)
    assert Level.objects.get(name="Realtime").value == 4


def test_a_link_fills_in_numbers_of_the_whole_pool():
    b.people()
    page = f"/admin/scheduling/planningsettings/{PlanningSettings.objects.get().pk}/change/"
    html = boss().get(page, {"protect_s": "30", "nonsense": "1"}).content.decode()
    assert "Filled in, and not saved yet: protect_s 60 → 30." in html
    assert PlanningSettings.objects.get().protect_s == 60
