"""Queries that are worded once say each time what Django would have said anew."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from scheduling.models import Attempt, AttemptNode, Event, Job, Node, NodeLive
from scheduling.store.fixed import Fixed, FixedInsert, FixedObjects, FixedUpdate, FixedValues
from tests import builders as b

pytestmark = pytest.mark.django_db

COLUMNS = ("id", "granted_at", "ended_at", "epoch", "job__preemptible", "job__params")


def test_rows_come_as_the_database_gives_them_for_what_a_call_brings():
    b.node("n1")
    b.node("n2")
    asked = Fixed(lambda name: Node.objects.filter(name=name).values_list("name", "boot_id"))
    assert [asked(name) for name in ("n1", "n2", "n3")] == [
        list(Node.objects.filter(name=name).values_list("name", "boot_id")) for name in ("n1", "n2", "n3")
    ]


def test_times_ids_truth_and_json_are_what_django_makes_of_them():
    b.busy_lab()
    asked = FixedValues(lambda key, until: Attempt.objects.filter(pk=key, granted_at__lte=until).values_list(*COLUMNS))
    attempt = Attempt.objects.get()
    assert asked(attempt.pk, b.later(0)) == list(Attempt.objects.values_list(*COLUMNS))
    assert asked(attempt.pk, b.later(-1)) == []


def test_a_second_wording_is_made_for_another_number_of_values():
    for name in ("n1", "n2", "n3"):
        b.node(name)
    asked = Fixed(lambda *some: Node.objects.filter(name__in=some).order_by("name").values_list("name"))
    assert [asked("n1"), asked("n1", "n3"), asked("n2")] == [[("n1",)], [("n1",), ("n3",)], [("n2",)]]


def test_objects_come_with_those_that_are_selected_along():
    b.busy_lab()
    asked = FixedObjects(lambda node: AttemptNode.objects.select_related("attempt", "node").filter(node__name=node))
    (right,) = AttemptNode.objects.all()[:1]
    found = asked.first(right.node.name)
    with CaptureQueriesContext(connection) as queries:
        seen = (found, found.attempt, found.node, found.attempt.granted_at, found.end)
    assert seen == (right, right.attempt, right.node, right.attempt.granted_at, right.end)
    assert not queries.captured_queries
    assert asked.first("nowhere") is None


def test_an_object_that_was_read_can_be_saved():
    b.node("n1")
    node = FixedObjects(lambda name: Node.objects.filter(name=name)).first("n1")
    node.rack_id = "r7"
    node.save()
    assert Node.objects.get(name="n1").rack_id == "r7"


def test_the_named_columns_are_written_and_those_that_always_are():
    b.node("n1")
    written = FixedUpdate(lambda name: NodeLive.objects.filter(node__name=name), seq=F("seq") + 5)
    before = NodeLive.objects.get()
    assert written("n1", disk_low=True, samples={"GPU-1": {"ecc": None}}, last_heartbeat_at=b.later(9)) == 1
    assert written("n1", sampled_at=None) == 1
    assert written("n2", disk_low=False) == 0
    after = NodeLive.objects.get()
    assert (after.disk_low, after.samples, after.last_heartbeat_at, after.sampled_at, after.seq) == (
        True, {"GPU-1": {"ecc": None}}, b.later(9), None, before.seq + 10,
    )  # fmt: skip


@pytest.mark.parametrize("count", [1, 3])
def test_rows_are_made_with_their_defaults(count):
    FixedInsert(Event)([Event(at=b.NOON, type=f"t{n}", object="job", object_id="x") for n in range(count)])
    made = Event.objects.filter(object_id="x").order_by("id")
    assert [(e.type, e.at, e.data, e.attempt, e.epoch) for e in made] == [
        (f"t{n}", b.NOON, {}, None, 0) for n in range(count)
    ]


def test_words_outlive_the_connection_that_they_were_first_said_on():
    b.busy_lab()
    asked = FixedValues(lambda: Job.objects.order_by("pk").values_list("submitted_at", "params"))
    first = asked()
    converters = next(iter(asked._known.values())).read
    assert all(getattr(each, "__self__", None) is not connection.ops for _, steps, _ in converters for each in steps)
    assert asked() == first == list(Job.objects.order_by("pk").values_list("submitted_at", "params"))
