"""The published description of REST is valid, complete, and says what the answers hold."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from drf_spectacular.generators import SchemaGenerator

from scheduling.api.shapes import nodes, pool
from tests import builders as b
from tests.api.calls import Caller, busy_world, world

pytestmark = pytest.mark.django_db


def test_the_schema_is_valid_and_has_no_warning(tmp_path):
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", str(tmp_path / "schema.yml"))


def test_every_operation_tells_its_errors_and_its_credential():
    paths = SchemaGenerator().get_schema(public=True)["paths"]
    operations = [o for methods in paths.values() for o in methods.values()]
    assert operations
    assert all("4XX" in o["responses"] and o["security"] and o["summary"] for o in operations)


def test_the_schema_is_for_those_who_are_signed_in():
    w = world(node=False)
    assert Caller()("GET", "/api/schema/").status_code == 401
    assert w.alice("GET", "/api/schema/").status_code == 200


def test_the_page_of_the_schema_loads_nothing_from_elsewhere():
    world(node=False)
    assert Caller()("GET", "/api/docs/").status_code == 302
    page = Caller(session="alice")("GET", "/api/docs/")
    assert page.status_code == 200
    assert "'unsafe-inline'" in page["Content-Security-Policy"]
    assert b"//cdn" not in page.content


def test_the_pools_answers_have_exactly_the_documented_members():
    w, run = busy_world()
    whole = w.alice.get("pool/").json()
    assert whole.keys() == pool.PoolShape().fields.keys()
    assert whole["scheduler"].keys() == pool.SchedulerShape().fields.keys()
    assert whole["nodes"][0].keys() == pool.NodeShape().fields.keys()
    assert w.alice.get("pool/nodes/n1/").json().keys() == pool.NodeDetailShape().fields.keys()
    assert w.alice.get(f"pool/gpus/{run.gpus[0]}/").json().keys() == pool.GpuDetailShape().fields.keys()
    queue = w.alice.get("queues/").json()["results"][0]
    assert queue.keys() == pool.QueueShape().fields.keys()
    assert queue["levels"][0].keys() == pool.LevelShape().fields.keys()
    share = w.alice.get("share/").json()
    assert share.keys() == pool.ShareShape().fields.keys()
    assert share["users"][0].keys() == pool.UserShareRow().fields.keys()


def test_a_launch_document_has_exactly_the_documented_members():
    w = world()
    b.submitted(w.who["alice"], w.body())
    b.ticked()
    wanted = b.beat()["desired"][0]
    launch = w.node.post(f"attempts/{wanted['attempt']}/claim/", {"epoch": wanted["epoch"]}).json()
    assert launch.keys() == nodes.LaunchShape().fields.keys()
