"""Windows and planning by hand: the admin refuses what can't be, and tells the scheduler of what changes."""

from __future__ import annotations

import pytest

from scheduling.models import Event, Node, PlanningSettings, Window
from tests import builders as b

from .test_admin import boss

pytestmark = pytest.mark.django_db


def form(**changed):
    return {"name": "move", "nodes": [str(Node.objects.get(name="n1").pk)], "start_0": "2030-01-01",
            "start_1": "00:00:00", "end_0": "2030-01-01", "end_1": "06:00:00", "note": "", "project": "",
            **changed}  # fmt: skip


@pytest.fixture
def admin():
    b.people()
    b.node("n1")
    return boss()


def events() -> list[str]:
    return list(Event.objects.filter(object="window").order_by("id").values_list("type", flat=True))


def test_a_window_made_in_the_admin_has_its_nodes_and_its_maker(admin):
    admin.post("/admin/scheduling/window/add/", form())
    window = Window.objects.get()
    assert ([node.name for node in window.nodes.all()], window.created_by.username) == (["n1"], "admin")


def test_the_scheduler_hears_of_every_change_of_a_window(admin):
    admin.post("/admin/scheduling/window/add/", form())
    page = f"/admin/scheduling/window/{Window.objects.get().pk}"
    admin.post(f"{page}/change/", form(name="later"))
    admin.post(f"{page}/delete/", {"post": "yes"})
    assert events() == ["window_added", "window_changed", "window_removed"]


def test_windows_are_removed_by_the_lists_action(admin):
    admin.post("/admin/scheduling/window/add/", form())
    key = str(Window.objects.get().pk)
    admin.post("/admin/scheduling/window/", {"action": "delete_selected", "_selected_action": [key], "post": "yes"})
    assert (Window.objects.count(), events()[-1]) == (0, "window_removed")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"end_1": "00:00:00"}, "a window must end after its start"),
        ({"end_0": "9999-12-31"}, "it must lie in the years 1970 to 2199"),
        ({"nodes": []}, "This field is required"),
        ({"name": " "}, "This field is required"),
    ],
)
def test_a_window_that_can_not_be_is_refused(admin, wrong, says):
    assert says in admin.post("/admin/scheduling/window/add/", form(**wrong)).content.decode()
    assert not Window.objects.exists()


def test_planning_settings_are_one_row(admin):
    assert admin.get("/admin/scheduling/planningsettings/add/").status_code == 403
    key = PlanningSettings.objects.get().pk
    assert admin.post(f"/admin/scheduling/planningsettings/{key}/delete/", {"post": "yes"}).status_code == 403


@pytest.mark.parametrize(
    ("field", "value"), [("prefer", "worst_fit"), ("ledgers", "queue queue"), ("aged_after_s", "0"),
                         ("reservations_per_level", "-1"), ("protect_times", "0")]
)  # fmt: skip
def test_a_planning_number_that_the_scheduler_could_not_use_is_refused(admin, field, value):
    row = PlanningSettings.objects.get()
    fields = [f.name for f in PlanningSettings._meta.concrete_fields if f.name != "id"]
    sent = {name: str(getattr(row, name)) for name in fields} | {field: value}
    assert admin.post(f"/admin/scheduling/planningsettings/{row.pk}/change/", sent).status_code == 200
    row.refresh_from_db()
    assert str(getattr(row, field)) != value
