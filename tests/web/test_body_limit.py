"""A form that is too large: 413 in words, before its body is read; REST answers for itself."""

from __future__ import annotations

import logging

import pytest
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse
from django.test import AsyncClient, Client, RequestFactory

from emep_site.body_limit import BodyLimit
from tests import builders as b
from tests.web.pages import text

LIMIT = 2 * 1024 * 1024


class Unread:
    """A body that nobody may read."""

    def read(self, *size: int) -> bytes:
        raise AssertionError("the body was read")


def answered(length: str, path: str = "/jobs/new/") -> int:
    request = RequestFactory().post(path, content_type="application/x-www-form-urlencoded")
    request.META["CONTENT_LENGTH"] = length
    request.environ["wsgi.input"] = request._stream = Unread()
    return BodyLimit(lambda _: HttpResponse("reached")).__call__(request).status_code


@pytest.mark.parametrize(
    ("length", "status"), [("", 200), ("0", 200), (str(LIMIT), 200), (str(LIMIT + 1), 413), (str(50 * 10**6), 413)]
)
def test_the_length_alone_decides(length, status):
    assert answered(length) == status


@pytest.mark.parametrize("path", ["/", "/jobs/new/", "/admin/login/", "/nowhere/"])
def test_every_page_has_the_limit(path):
    assert answered(str(50 * 10**6), path) == 413


def test_rest_is_left_to_answer_for_itself():
    assert answered(str(50 * 10**6), "/api/v1/artifacts/") == 200


@pytest.mark.django_db
def test_the_page_names_the_limit_and_what_to_do_and_logs_no_trace(caplog):
    b.people()
    client = Client(enforce_csrf_checks=True)
    client.login(username="alice", password=b.PASSWORD)
    with caplog.at_level(logging.WARNING):
        response = client.post("/jobs/new/", {"name": "x" * (LIMIT + 1)})
    html = text(response)
    assert response.status_code == 413
    assert "at most 2.1 MB" in html
    assert "send less" in html
    assert "Content-Security-Policy" in response
    assert not [record for record in caplog.records if record.exc_info]


async def test_an_async_server_answers_the_same():
    response = await AsyncClient().post("/login/", {"username": "x" * (LIMIT + 1)})
    assert response.status_code == 413
    assert isinstance(response.asgi_request, ASGIRequest)
