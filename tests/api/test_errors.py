"""Every error is a problem document, whoever raised it."""

from __future__ import annotations

import pytest
from django.db import OperationalError
from django.test import Client, override_settings

from tests.api.calls import Caller, problem, world

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["/api/", "/api/v1/", "/api/v1/nothing/", "/api/v2/jobs/", "/api/v1/jobs/x/y/z/"])
def test_an_address_under_api_that_there_is_not_is_a_problem(path: str):
    problem(Caller()("POST", path, {}), 404, "not_found")


def test_a_missing_slash_is_told():
    assert "/api/v1/jobs/" in problem(Caller()("POST", "/api/v1/jobs", {}), 404)["detail"]


def test_an_address_elsewhere_is_no_problem_document():
    assert Client().get("/nothing-here/")["Content-Type"].startswith("text/html")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "jobs/"),
        ("PUT", "jobs/x/"),
        ("POST", "queues/"),
        ("OPTIONS", "jobs/"),
        ("PATCH", "jobs/x/"),
        ("GET", "jobs/x/cancel/"),
    ],
)
def test_a_wrong_method_is_405_and_tells_the_right_ones(method: str, path: str):
    w = world(node=False)
    answer = w.alice(method, path)
    found = problem(answer, 405, "method_not_allowed")
    assert answer["Allow"]
    assert f"use {answer['Allow'].replace(', ', ' or ')}" in found["detail"]
    assert found["errors"][0]["limit"] == answer["Allow"].split(", ")


def test_a_fault_of_the_server_tells_nothing_of_its_inside(monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the secret inside")

    monkeypatch.setattr("scheduling.store.queries.pool.queues", broken)
    w = world(node=False)
    alice = w.alice
    alice.client.raise_request_exception = False
    answer = alice.get("queues/")
    problem(answer, 500, "server_error")
    assert b"secret" not in answer.content
    assert b"Traceback" not in answer.content


def test_a_database_that_is_away_is_503_so_that_agents_wait(monkeypatch):
    def away(*_: object) -> None:
        raise OperationalError("connection refused")

    w = world()
    node = w.node
    monkeypatch.setattr("scheduling.services.pool.heartbeat", away)
    answer = node.post("nodes/heartbeat/", {})
    problem(answer, 503, "database_unavailable")
    assert answer["Retry-After"]


@override_settings(ALLOWED_HOSTS=["emep.example"])
def test_a_name_that_the_server_does_not_go_by_is_refused_with_what_to_set():
    refused = problem(Caller()("GET", "/api/v1/jobs/", Host="evil.example"), 400, "unknown_host")
    assert refused["errors"][0]["field"] == "Host"
    page = Caller()("GET", "/", Host="evil.example")
    assert page.status_code == 400
    for words in (refused["detail"], page.content.decode()):
        assert "EMEP_URL" in words
        assert "EMEP_ALLOWED_HOSTS" in words
        assert "evil.example" not in words
        assert "emep.example" not in words


def test_a_request_that_asks_for_html_still_gets_json():
    w = world(node=False)
    assert w.alice.get("queues/", Accept="text/html")["Content-Type"] == "application/json"
    problem(w.alice.get("queues/?format=xml"), 400, "unknown_parameter")


def test_what_somebody_sent_can_not_break_the_answer():
    w = world()
    answer = w.alice.post("jobs/", {**w.body(), "colour<script>\u2028🧬": 1})
    assert problem(answer, 422)["errors"][0]["field"].startswith("colour<script>")
    assert answer.content.isascii()
