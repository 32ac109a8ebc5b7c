"""Every route times every role. The routes come from the URL resolver: a new one without a row here fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from scheduling.models import Delivery, Webhook
from scheduling.services import whatif_runs
from tests import builders as b
from tests.api.calls import Caller, World, busy_world, token

pytestmark = pytest.mark.django_db

# What a person of the project, one of another project, and the admin get; nobody gets 401, a node 401, and a token
# without the scope 403. The codes are those of a call that is right in form; ANY_SCOPE needs no scope.
PEOPLE: dict[tuple[str, str], tuple[int, int, int]] = {
    ("GET", "jobs/"): (200, 200, 200),
    ("POST", "jobs/"): (422, 422, 422),
    ("POST", "jobs/plan/"): (422, 422, 422),
    ("POST", "jobs/pipeline/"): (422, 422, 422),
    ("POST", "jobs/sweep/"): (422, 422, 422),
    ("POST", "pipelines/{pipeline}/cancel/"): (200, 404, 200),
    ("POST", "sweeps/{sweep}/cancel/"): (200, 404, 200),
    ("GET", "jobs/{job}/"): (200, 404, 200),
    ("POST", "jobs/{job}/cancel/"): (200, 404, 200),
    ("POST", "jobs/{job}/hold/"): (409, 404, 409),
    ("POST", "jobs/{job}/release/"): (409, 404, 409),
    ("POST", "jobs/{job}/clone/"): (201, 404, 201),
    ("POST", "jobs/{job}/retry/"): (409, 404, 409),
    ("GET", "jobs/{job}/events/"): (200, 404, 200),
    ("GET", "jobs/{job}/attempts/"): (200, 404, 200),
    ("GET", "jobs/{job}/logs/"): (200, 404, 200),
    ("GET", "jobs/{job}/metrics/"): (200, 404, 200),
    ("POST", "plan/replay/"): (403, 403, 422),
    ("GET", "queues/"): (200, 200, 200),
    ("GET", "share/"): (200, 200, 200),
    ("GET", "share/statement/"): (200, 200, 200),
    ("GET", "share/over-time/"): (200, 200, 200),
    ("GET", "share/forecast/"): (200, 200, 200),
    ("GET", "pool/"): (200, 200, 200),
    ("GET", "pool/nodes/{node}/"): (200, 200, 200),
    ("POST", "pool/nodes/{node}/cordon/"): (403, 403, 200),
    ("POST", "pool/nodes/{node}/drain/"): (403, 403, 200),
    ("POST", "pool/nodes/{node}/return/"): (403, 403, 200),
    ("POST", "pool/silence/confirm/"): (403, 403, 409),
    ("GET", "pool/gpus/{gpu}/"): (200, 200, 200),
    ("POST", "pool/gpus/{gpu}/return/"): (403, 403, 200),
    ("POST", "pool/gpus/{gpu}/retire/"): (403, 403, 409),
    ("GET", "pool/windows/"): (200, 200, 200),
    ("POST", "pool/windows/"): (403, 403, 422),
    ("DELETE", "pool/windows/{window}/"): (403, 403, 404),
    ("GET", "reports/usage/"): (200, 200, 200),
    ("GET", "reports/waits/"): (200, 200, 200),
    ("GET", "reports/lost/"): (200, 200, 200),
    ("GET", "reports/capacity/"): (200, 200, 200),
    ("GET", "reports/idle/"): (200, 200, 200),
    ("GET", "what-if/"): (200, 200, 200),
    ("POST", "what-if/"): (422, 422, 422),
    ("GET", "what-if/{run}/"): (200, 404, 200),
    ("POST", "what-if/{run}/cancel/"): (200, 404, 200),
    ("GET", "leaderboard/"): (200, 200, 200),
    ("GET", "artifacts/"): (200, 200, 200),
    ("POST", "artifacts/"): (422, 422, 422),
    ("GET", "artifacts/uploads/{upload}/"): (200, 404, 404),
    ("DELETE", "artifacts/uploads/{upload}/"): (204, 404, 404),
    ("PUT", "artifacts/uploads/{upload}/files/{path}"): (200, 404, 404),
    ("POST", "artifacts/uploads/{upload}/commit/"): (409, 404, 404),
    ("GET", "artifacts/{artifact}/"): (200, 404, 200),
    ("DELETE", "artifacts/{artifact}/"): (409, 404, 409),
    ("POST", "artifacts/{artifact}/restore/"): (200, 404, 200),
    ("GET", "artifacts/{artifact}/files/{path}"): (200, 404, 200),
    ("GET", "artifacts/{artifact}/lineage/"): (200, 404, 200),
    ("GET", "notices/"): (200, 200, 200),
    ("PUT", "notices/"): (200, 200, 200),
    ("POST", "notices/test/"): (409, 409, 409),
    ("GET", "webhooks/"): (200, 200, 200),
    ("POST", "webhooks/"): (422, 422, 422),
    ("GET", "webhooks/{webhook}/"): (200, 404, 404),
    ("PUT", "webhooks/{webhook}/"): (200, 404, 404),
    ("DELETE", "webhooks/{webhook}/"): (204, 404, 404),
    ("POST", "webhooks/{webhook}/secret/"): (201, 404, 404),
    ("POST", "webhooks/{webhook}/test/"): (202, 404, 404),
    ("GET", "webhooks/{webhook}/deliveries/"): (200, 404, 404),
    ("POST", "webhooks/{webhook}/deliveries/{delivery}/redeliver/"): (202, 404, 404),
    ("GET", "tokens/"): (200, 200, 200),
    ("POST", "tokens/"): (422, 422, 422),
    ("DELETE", "tokens/{token}/"): (404, 404, 404),
}
ANY_SCOPE = {("GET", "tokens/"), ("POST", "tokens/"), ("DELETE", "tokens/{token}/")}

# What the node gets; everybody else gets 401.
NODES: dict[tuple[str, str], int] = {
    ("POST", "nodes/register/"): 422,
    ("POST", "nodes/heartbeat/"): 409,
    ("GET", "nodes/bell/"): 200,
    ("POST", "attempts/{attempt}/claim/"): 422,
    ("POST", "attempts/{attempt}/ready/"): 422,
    ("POST", "attempts/{attempt}/started/"): 422,
    ("POST", "attempts/{attempt}/progress/"): 422,
    ("POST", "attempts/{attempt}/metric/"): 422,
    ("POST", "attempts/{attempt}/logs/"): 422,
    ("POST", "attempts/{attempt}/checkpoint/"): 422,
    ("POST", "attempts/{attempt}/finished/"): 422,
    ("GET", "attempts/{attempt}/inputs/{artifact}/files/{path}"): 409,
    ("POST", "attempts/{attempt}/inputs/{artifact}/bundle/"): 422,
    ("POST", "attempts/{attempt}/artifacts/"): 422,
    ("POST", "attempts/{attempt}/artifacts/{upload}/bundle/"): 422,
    ("PUT", "attempts/{attempt}/artifacts/{upload}/files/{path}"): 422,
    ("POST", "attempts/{attempt}/artifacts/{upload}/commit/"): 422,
}
NAMES = {"job_id": "job", "name": "node", "uuid": "gpu", "artifact_id": "artifact", "token_id": "token",
         "pipeline_id": "pipeline", "sweep_id": "sweep", "webhook_id": "webhook",
         "delivery_id": "delivery"}  # fmt: skip


def routes() -> Iterator[tuple[str, str]]:
    """(method, address with its parameters) of everything below ``/api/v1/``."""

    def walk(patterns: list[Any], before: str) -> Iterator[tuple[str, Any]]:
        for p in patterns:
            if isinstance(p, URLResolver):
                yield from walk(p.url_patterns, before + str(p.pattern))
            elif isinstance(p, URLPattern):
                yield before + str(p.pattern), p.callback

    for address, view in walk(get_resolver().url_patterns, ""):
        if address.startswith("api/v1/"):
            path = address.removeprefix("api/v1/")
            for written, plain in [("<str:", "{"), ("<int:", "{"), ("<path:", "{"), (">", "}")]:
                path = path.replace(written, plain)
            for parameter, name in NAMES.items():
                path = path.replace("{" + parameter + "}", "{" + name + "}")
            yield from ((m, path) for m in ("GET", "POST", "PUT", "DELETE") if hasattr(view.cls, m.lower()))


def test_every_route_has_its_row():
    assert set(routes()) == PEOPLE.keys() | NODES.keys()


def world_of(path: str) -> tuple[World, str]:
    """A world, and the address for things of alice's project in it."""
    w, run = busy_world()
    files = [{"path": "config.json", "size": 2}]
    upload = w.alice.post("artifacts/", {"name": "m", "project": "alpha", "files": files}).json()["upload"]
    sets = {kind: b.a_set(w.who["alice"], kind) for kind in ("pipeline", "sweep")}
    hook, delivery = told(w.who["alice"].user_id)
    what_if = whatif_runs.ask({"remove_nodes": ["n1"]}, w.who["alice"], b.NOON)
    return w, path.format(**sets, run=what_if, webhook=hook, delivery=delivery,
                          job=run.job, node="n1", gpu=run.gpus[0], artifact=w.models[0], path="config.json",
                          upload=upload, token="0" * 16, attempt=run.attempt, window=7)  # fmt: skip


def told(user: int) -> tuple[Any, Any]:
    """A webhook of the person's and a delivery that it took."""
    hook = Webhook.objects.create(
        user_id=user, name="ci", url="https://ci.example/", created_at=b.NOON, since=b.NOON, events=["failed"]
    )
    sent = Delivery.objects.create(user_id=user, webhook=hook, state="SENT", created_at=b.NOON, ended_at=b.NOON)
    return hook.pk, sent.pk


def called(caller: Caller, method: str, path: str) -> int:
    body: Any = None if method in ("GET", "DELETE") else b"{}" if "/files/" in path else {}
    return caller(method, path, body).status_code


@pytest.mark.parametrize(("method", "path"), list(PEOPLE), ids=lambda value: value)
def test_people(method: str, path: str):
    w, address = world_of(path)
    member, stranger, _admin = PEOPLE[method, path]
    got = {
        "nobody": called(Caller(), method, address),
        "node": called(w.node, method, address),
        "bob": called(w.caller("bob"), method, address),
        "token without the scope": called(Caller(token(w.who["alice"], "jobs:submit:critical")), method, address),
        "session without csrf": called(Caller(session="alice", csrf=True), method, address) if method != "GET" else 403,
    }
    assert got == {
        "nobody": 401,
        "node": 401,
        "bob": stranger,
        "token without the scope": member if (method, path) in ANY_SCOPE else 403,
        "session without csrf": 403,
    }
    assert called(w.alice, method, address) == member


@pytest.mark.parametrize(("method", "path"), list(PEOPLE), ids=lambda value: value)
def test_the_admin(method: str, path: str):
    w, address = world_of(path)
    assert called(Caller(token(w.who["admin"], "admin")), method, address) == PEOPLE[method, path][2]


@pytest.mark.parametrize(("method", "path"), list(NODES), ids=lambda value: value)
def test_nodes(method: str, path: str):
    w, address = world_of(path)
    people = [Caller(), w.alice, w.caller("bob"), Caller(token(w.who["admin"], "admin")), Caller(session="alice")]
    assert [called(c, method, address) for c in people] == [401] * 5
    assert called(w.node, method, address) == NODES[method, path]
