"""GPUs kept for a job that others make way for are no free ones, on the board, in REST and in the live frames."""

from __future__ import annotations

import pytest

from scheduling.feed import snapshots
from scheduling.models import Job, Nomination
from scheduling.services import jobs
from scheduling.store.clock import now
from scheduling.store.queries import events, pool
from scheduling.store.queries.access import Actor
from tests import builders as b
from tests.services.test_eviction import GRACE_S, World
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db


def made() -> tuple[World, str]:
    """alice's Low job is asked to leave 2 GPUs of 4; with the 2 that are free they are kept for a Critical job."""
    world = World(gpu_count=2)
    job = world.critical(100, gpu_count=4)
    world.tick(100)
    return world, job


def told(world: World, actor: Actor | None = None) -> tuple[dict, dict]:
    """(a GPU that the victim holds, one that nobody does)."""
    gpus = pool.pool(actor)[0]["gpus"]
    return (
        next(g for g in gpus if g["uuid"] in world.victim.gpus),
        next(g for g in gpus if g["uuid"] not in world.victim.gpus),
    )


def test_one_that_nobody_holds_says_for_which_job_it_is_kept_and_until_when():
    world, job = made()
    free = told(world)[1]
    until = Nomination.objects.get().deadline
    assert (free["idle"], free["busy"], free["kept_for"]["id"], free["kept_until"], free["leaves_by"]) == (
        "kept for another job", False, job, until, None,
    )  # fmt: skip


def test_one_that_a_victim_holds_says_by_when_it_leaves_and_for_whom():
    world, job = made()
    held = told(world)[0]
    assert (held["idle"], held["busy"], held["kept_for"]["id"], held["leaves_by"]) == (
        None, True, job, b.later(100 + GRACE_S),
    )  # fmt: skip


def test_rest_has_them_for_one_gpu_too():
    world, job = made()
    uuid = told(world)[1]["uuid"]
    assert browser().get(f"/api/v1/pool/gpus/{uuid}/").json()["kept_for"]["id"] == job


def test_who_may_not_know_of_the_job_is_told_only_that_they_are_kept():
    world, _ = made()
    free = told(world, world.who["bob"])[1]
    assert (free["idle"], free["kept_for"], free["kept_until"] is None) == ("kept for another job", None, False)


def test_the_live_frames_name_the_job_to_those_who_may_know_of_it_alone():
    world, job = made()
    uuid = told(world)[1]["uuid"]
    item = next(i for i in snapshots.board(now()) if i.id == uuid)
    seen = [snapshots.shown_to(world.who[name], item).data["kept_for"] for name in ("alice", "bob")]
    assert [each and each["id"] for each in seen] == [job, None]


def test_a_nomination_and_its_end_are_news_of_the_node():
    world = World(gpu_count=2)
    before = {n["name"]: n for n in pool.pool()}
    seq = events.newest()
    job = world.critical(100, gpu_count=4)
    world.tick(100)
    changes = [c for c in events.since(seq) if c.object_id == job]
    kept = {n["name"]: n for n in pool.pool()}
    ended = [c for c in changes if c.type == "submitted"]  # any news of the job while they are kept for it
    assert (snapshots.touched(changes, before)[1], snapshots.touched(ended, kept)[1]) == ({"n1"}, {"n1"})


def test_the_headline_counts_those_that_nobody_holds():
    made()
    assert "2 of 4 GPUs busy, 2 kept for jobs that start next, 1 job waiting" in text(browser().get("/"))


def test_the_board_shows_for_whom_they_are_kept_and_that_the_victim_leaves():
    _, job = made()
    html = text(browser().get("/"))
    name = Job.objects.get(pk=job).name
    link = f'kept for <a href="/jobs/{job}/" title="{name}">{name}</a>'
    assert (html.count(link), html.count("or free again"), html.count("asked to leave; its time ends")) == (2, 2, 2)


def test_a_job_that_no_longer_waits_has_none_kept():
    world, job = made()
    jobs.cancel(job, world.who["admin"], b.later(101))
    assert [g["kept_until"] for g in told(world)] == [None, None]
