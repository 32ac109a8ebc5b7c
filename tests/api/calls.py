"""REST as a client sees it: callers with tokens, sessions and node tokens, and the worlds they call into."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.test import Client

from scheduling.models.access import SCOPES
from scheduling.store import seed
from scheduling.store.queries.access import Actor
from tests import builders as b

ROOT = "/api/v1"
PROBLEM = "application/problem+json"


class Caller:
    """Calls REST with one credential; bodies are JSON unless they are bytes."""

    def __init__(self, token: str = "", *, session: str = "", csrf: bool = False) -> None:
        self.client = Client(enforce_csrf_checks=csrf)
        self.token = token
        if session:
            self.client.force_login(
                get_user_model().objects.get(username=session), "django.contrib.auth.backends.ModelBackend"
            )

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        kind = sent.pop("Content-Type", "application/octet-stream" if isinstance(body, bytes) else "application/json")
        data = body if isinstance(body, bytes | str) else b"" if body is None else json.dumps(body)
        where = path if path.startswith("/") else f"{ROOT}/{path}"
        return self.client.generic(method, where, data, content_type=kind, headers=sent)

    def get(self, path: str, **headers: str) -> Any:
        return self("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self("POST", path, body, **headers)

    def put(self, path: str, body: Any = None, **headers: str) -> Any:
        return self("PUT", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Any:
        return self("DELETE", path, **headers)


def token(actor: Actor, *scopes: str, days: int = 90) -> str:
    """A token of the person with these scopes, or with all."""
    return seed.token(actor.user_id, "test", scopes or [s for s in SCOPES if s != "admin"], days=days)[0]


@dataclass
class World:
    """Alice (alpha), Bob (beta) and an admin, one node with 4 GPUs, and two models of alpha."""

    who: dict[str, Actor]
    node_token: str
    models: list[str]

    def caller(self, name: str, *scopes: str) -> Caller:
        return Caller(token(self.who[name], *scopes))

    @property
    def alice(self) -> Caller:
        return self.caller("alice")

    @property
    def node(self) -> Caller:
        return Caller(self.node_token)

    def body(self, **changed: Any) -> dict[str, Any]:
        return b.merge_body(self.models, **changed)


def world(*, node: bool = True) -> World:
    """The world of most tests."""
    if node:
        lab = b.lab()
        return World(lab.who, lab.node_token, lab.models)
    who = b.people()
    return World(who, "", [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)])


def busy_world() -> tuple[World, b.Running]:
    """The world of most tests, with a merge of alice's running on 2 of the 4 GPUs."""
    lab, run = b.busy_lab()
    return World(lab.who, lab.node_token, lab.models), run


def problem(response: Any, status: int, code: str | None = None) -> dict[str, Any]:
    """The problem document of the response, which must be one with this status and (first) code."""
    assert response.status_code == status, (response.status_code, response.content[:600])
    assert response["Content-Type"] == PROBLEM
    document = json.loads(response.content)
    assert document["status"] == status
    assert {"type", "title", "detail", "errors"} <= document.keys()
    assert all({"field", "code", "message"} <= e.keys() for e in document["errors"])
    assert document["errors"]
    if code is not None:
        assert code in [document["code"], *(e["code"] for e in document["errors"])], document
    return document


def error(response: Any, status: int, field: str, code: str) -> dict[str, Any]:
    """The one error of the problem with that field and code."""
    document = problem(response, status)
    found = [e for e in document["errors"] if (e["field"], e["code"]) == (field, code)]
    assert len(found) == 1, document["errors"]
    return found[0]


def sha(content: bytes) -> str:
    """The sha256 in hex."""
    return hashlib.sha256(content).hexdigest()


def fetched(response: Any) -> bytes:
    """All bytes of a response, streamed or not."""
    return b"".join(response.streaming_content) if response.streaming else response.content
