"""Long waits: answered by the change itself, by the deadline, or at once; never by polling, never holding a thread."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient

from scheduling.services import jobs as service
from scheduling.services import now, pool
from tests import builders as b
from tests.api.calls import ROOT, World, problem, token, world
from tests.elsewhere import elsewhere

pytestmark = pytest.mark.django_db(transaction=True)
SOON = 5.0


@pytest.fixture(autouse=True)
async def nobody_waits_afterwards() -> AsyncIterator[None]:
    """The thread that serves waiting requests has ended, and no thread keeps a connection to the test's database."""
    yield
    for thread in threading.enumerate():
        if thread.name == "waiting":
            await asyncio.to_thread(thread.join, 10)
    await sync_to_async(connections.close_all)()


async def asked(secret: str, path: str) -> Any:
    """The response to a GET, through the async handler."""
    return await AsyncClient().get(f"{ROOT}/{path}", headers={"Authorization": f"Bearer {secret}"})


async def while_waiting(secret: str, path: str, do: Callable[[], Any]) -> tuple[Any, float]:
    """(the response, seconds until it came) of a GET that has looked and waits for news when ``do`` happens."""
    waiting = asyncio.create_task(asked(secret, path))
    from scheduling.api.waiting import switchboard

    while not any(ear._heard._waiters for ear in switchboard._ears):
        await asyncio.sleep(0.01)
        assert not waiting.done(), waiting.result().content
    begun = time.monotonic()
    worker = elsewhere(do)
    response = await asyncio.wait_for(waiting, 30)
    took = time.monotonic() - begun
    await sync_to_async(worker.join)()
    return response, took


def queued() -> tuple[World, str, str]:
    w = world()
    return w, b.submitted(w.who["alice"], w.body(), now=now()), token(w.who["alice"])


async def test_a_wait_without_since_ends_with_the_next_change_of_state():
    w, job, secret = await sync_to_async(queued)()
    response, took = await while_waiting(
        secret, f"jobs/{job}/?wait=30", lambda: service.hold(job, w.who["alice"], now())
    )
    assert (response.status_code, response.json()["state"]) == (200, "HELD")
    assert took < SOON


async def test_a_wait_with_since_ends_as_soon_as_the_version_is_above_it():
    w, _job, secret = await sync_to_async(queued)()
    run = await sync_to_async(lambda: running_now(w))()
    version = json.loads((await asked(secret, f"jobs/{run.job}/")).content)["version"]
    report = {"type": "progress", "attempt": run.attempt, "epoch": run.epoch, "step": 1, "total": 2}
    response, took = await while_waiting(
        secret, f"jobs/{run.job}/?wait=30&since={version}", lambda: pool.report("n1", report, now())
    )
    assert (response.json()["version"], response.json()["progress"]["step"]) == (version + 1, 1)
    assert took < SOON


def running_now(w: World) -> b.Running:
    b.beat(now=now())
    b.ticked(now())
    wanted = b.beat(now=now())["desired"][-1]
    launch = pool.claim("n1", wanted["attempt"], wanted["epoch"], now())
    pool.report("n1", {"type": "started", "attempt": wanted["attempt"], "epoch": wanted["epoch"], "pid": 1}, now())
    return b.Running(launch["job"], wanted["attempt"], wanted["epoch"], "n1", launch["gpus"])


async def test_a_version_already_above_since_is_answered_at_once():
    _, job, secret = await sync_to_async(queued)()
    response = await asyncio.wait_for(asked(secret, f"jobs/{job}/?wait=60&since=0"), SOON)
    assert response.json()["version"] == 1


async def test_an_ended_job_is_answered_at_once():
    w, job, secret = await sync_to_async(queued)()
    await sync_to_async(lambda: service.cancel(job, w.who["alice"], now()))()
    response = await asyncio.wait_for(asked(secret, f"jobs/{job}/?wait=60&since=99"), SOON)
    assert response.json()["state"] == "CANCELLED"


async def test_a_wait_that_nothing_ends_is_answered_after_its_time_with_the_job_as_it_is():
    _, job, secret = await sync_to_async(queued)()
    begun = time.monotonic()
    response = await asked(secret, f"jobs/{job}/?wait=0.3")
    assert (response.status_code, response.json()["state"]) == (200, "QUEUED")
    assert 0.25 < time.monotonic() - begun < SOON


async def test_another_jobs_change_does_not_end_the_wait():
    w, job, secret = await sync_to_async(queued)()
    other = await sync_to_async(lambda: b.submitted(w.who["alice"], w.body(), now=now()))()

    def both() -> None:
        service.hold(other, w.who["alice"], now())
        service.hold(job, w.who["alice"], now())

    response, _ = await while_waiting(secret, f"jobs/{job}/?wait=30", both)
    assert (response.json()["id"], response.json()["state"]) == (job, "HELD")


async def test_many_waits_share_one_thread(settings):
    # Outside a server all requests of the test share one thread, which a middleware that is not async would keep.
    settings.MIDDLEWARE = [m for m in settings.MIDDLEWARE if "whitenoise" not in m]
    w, job, secret = await sync_to_async(queued)()
    waits = [asyncio.create_task(asked(secret, f"jobs/{job}/?wait=30")) for _ in range(20)]
    from scheduling.api.waiting import switchboard

    while len(switchboard._ears) < 20:
        await asyncio.sleep(0.02)
    assert sum(t.name == "waiting" for t in threading.enumerate()) == 1
    worker = elsewhere(lambda: service.hold(job, w.who["alice"], now()))
    responses = await asyncio.wait_for(asyncio.gather(*waits), 30)
    assert {r.json()["state"] for r in responses} == {"HELD"}
    assert not switchboard._ears
    await sync_to_async(worker.join)()


async def test_a_client_that_goes_away_is_forgotten():
    _, job, secret = await sync_to_async(queued)()
    waiting = asyncio.create_task(asked(secret, f"jobs/{job}/?wait=30"))
    from scheduling.api.waiting import switchboard

    while not switchboard._ears:
        await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not switchboard._ears


async def test_a_token_revoked_during_the_wait_is_noticed_at_the_next_change():
    from scheduling.models import ApiToken

    w, job, secret = await sync_to_async(queued)()

    def revoke_and_hold() -> None:
        ApiToken.objects.all().delete()
        service.hold(job, w.who["alice"], now())

    response, _ = await while_waiting(secret, f"jobs/{job}/?wait=30", revoke_and_hold)
    problem(response, 401, "invalid_token")


@pytest.mark.parametrize(
    "query", ["wait=soon", "wait=-1", "wait=nan", "wait=5&since=new", "wait=inf", "wait=60.5", "wait=99999"]
)
async def test_a_wait_that_is_no_time_is_400(query: str):
    _, job, secret = await sync_to_async(queued)()
    document = problem(await asked(secret, f"jobs/{job}/?{query}"), 400, "bad_parameter")
    assert document["errors"][0]["limit"] == [0, 60]


async def test_a_foreign_job_is_404_at_once():
    w, job, _ = await sync_to_async(queued)()
    secret = await sync_to_async(token)(w.who["bob"])
    problem(await asyncio.wait_for(asked(secret, f"jobs/{job}/?wait=60"), SOON), 404, "not_found")


async def test_the_bell_is_answered_as_soon_as_the_node_has_work():
    w, _job, _ = await sync_to_async(queued)()
    since = json.loads((await asked(w.node_token, "nodes/bell/?timeout=0")).content)["since"]

    def grant() -> None:
        b.beat(now=now())
        b.ticked(now())

    response, took = await while_waiting(w.node_token, f"nodes/bell/?since={since}", grant)
    assert response.json()["look"] is True
    assert response.json()["since"] > since
    assert took < SOON


async def test_a_download_through_the_async_handler_is_streamed():
    w, _, secret = await sync_to_async(queued)()
    response = await asked(secret, f"artifacts/{w.models[0]}/files/model.safetensors")
    assert response.is_async
    assert b"".join([piece async for piece in response.streaming_content]) == b.tensors(1)
