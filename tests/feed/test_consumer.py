"""The socket: who gets in, what is sent first, what follows, and what is not told."""

from __future__ import annotations

import json
import time

import pytest
from django.db import DatabaseError

from scheduling.feed import consumers, messages, tail
from scheduling.services import jobs
from scheduling.store import journal, seed
from scheduling.store.queries import events
from scheduling.store.queries import jobs as queries
from tests import builders as b
from tests.feed.socket import Socket, do, of, person, socket, world

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("nobody_listens_on")]
NOWHERE = "00000000-0000-4000-8000-000000000000"


async def test_nobody_is_refused_before_the_socket_opens():
    await world()
    assert await Socket(await person(None)).open() == (False, consumers.ANONYMOUS)


async def test_someone_who_was_shut_out_is_refused():
    await world()
    alice = await person("alice")
    alice.is_active = False
    await do(alice.save)()
    assert await Socket(alice).open() == (False, consumers.ANONYMOUS)


async def test_the_board_begins_with_a_snapshot_of_everything_on_it():
    await world()
    s = await socket()
    await s.say({"subscribe": {"board": True}})
    tick = await s.until(of("snapshot", "tick"))
    await s.close()
    seen = [(f["object"], f["id"]) for f in s.frames]
    assert seen[:5] == [("node", "n1"), *(("gpu", f"GPU-n1-{i}") for i in range(4))]
    assert {i for o, i in seen if o == "queue"} == {"merge", "eval", "inference"}
    assert set(tick) == {"v", "seq", "type", "object", "id", "version", "data"}
    assert "0 of 4 GPUs busy" in tick["data"]["headline"]


async def test_a_change_follows_what_a_service_has_done():
    w = await world()
    s = await socket()
    await s.say({"subscribe": {"board": True}})
    await s.until(of("snapshot", "tick"))
    await do(b.running)(w.alice, w.models)
    gpu = await s.until(lambda f: of("change", "gpu", busy=True)(f) and f["id"] == "GPU-n1-0")
    await s.close()
    assert gpu["data"]["job"]["name"] == "slerp-a-b"


async def test_only_what_has_changed_is_sent():
    w = await world()
    s = await socket()
    await s.say({"subscribe": {"board": True}})
    await s.until(of("snapshot", "tick"))
    begun = len(s.frames)
    await do(b.running)(w.alice, w.models)
    await s.until(of("change", "queue", running=1))
    await s.close()
    assert {f["id"] for f in s.frames[begun:] if f["object"] == "gpu"} <= {"GPU-n1-0", "GPU-n1-1"}


async def test_samples_without_an_event_reach_the_board():
    await world()
    s = await socket()
    await s.say({"subscribe": {"board": True}})
    await s.until(of("snapshot", "tick"))
    await do(_sampled)(utilization=71.0)
    gpu = await s.until(of("change", "gpu", utilization=71.0))
    await s.close()
    assert gpu["id"] == "GPU-n1-0"


def _sampled(**sample):
    from scheduling.services import now

    b.beat(now=now(), gpus=[{"uuid": "GPU-n1-0", **sample}])


async def test_a_job_of_another_project_that_holds_a_gpu_is_just_busy():
    w = await world()
    await do(b.running)(w.alice, w.models)
    s = await socket("bob")
    await s.say({"subscribe": {"board": True}})
    gpu = await s.until(lambda f: f["object"] == "gpu" and f["id"] == "GPU-n1-0")
    await s.close()
    assert (gpu["data"]["busy"], gpu["data"]["job"]) == (True, None)


@pytest.mark.parametrize("known", [True, False])
async def test_a_foreign_job_reads_like_one_that_does_not_exist(known):
    w = await world()
    job = await do(b.submitted)(w.alice, b.merge_body(w.models)) if known else NOWHERE
    s = await socket("bob")
    await s.say({"subscribe": {"job": job}})
    frame = await s.until(lambda f: True)
    await s.close()
    assert {**frame, "seq": 0} == messages.gone("job", job, 0)


async def test_a_jobs_frame_is_the_job_that_rest_gives():
    w = await world()
    run = await do(b.running)(w.alice, w.models)
    s = await socket()
    await s.say({"subscribe": {"job": run.job}})
    frame = await s.until(of("snapshot", "job"))
    await s.close()
    rest = json.loads(messages.encode(await do(lambda: queries.as_dict(queries.one(w.alice, run.job)))()))
    growing = {"gpu_hours": 0, "run_s": 0, "left_s": 0}
    assert {**frame["data"], **growing} == {**rest, **growing}
    assert (frame["version"], frame["log"]) == (rest["version"], {"attempt": 1, "end": 0})


async def test_progress_and_the_end_of_the_log_are_told():
    w = await world()
    run = await do(b.running)(w.alice, w.models)
    s = await socket()
    await s.say({"subscribe": {"job": run.job}})
    await s.until(of("snapshot", "job"))
    head = {"attempt": run.attempt, "epoch": run.epoch}
    progress = {"type": "progress", **head, "step": 3, "total": 9, "unit": "tensors", "rate": 1.5}
    await do(b.beat)(reports=[progress, {"type": "logs", **head, "offset": 0, "text": "hello\n"}])
    frame = await s.until(lambda f: (f.get("log") or {}).get("end") == 6)
    await s.close()
    assert frame["data"]["progress"] == {"step": 3, "total": 9, "unit": "tensors", "rate": 1.5, "eta_s": 4.0}


async def test_a_waiting_job_hears_of_new_reasons_with_the_tick_that_found_them():
    w = await world()
    await do(b.running)(w.alice, w.models, gpu_count=1, nvlink_required=False)
    job = await do(b.submitted)(w.alice, b.merge_body(w.models, gpu_count=4))
    s = await socket()
    await s.say({"subscribe": {"job": job}})
    first = await s.until(of("snapshot", "job"))
    await do(b.ticked)(b.later(5))
    second = await s.until(of("change", "job"))
    await s.close()
    assert first["data"]["reasons"][0]["code"] == "NEW"
    assert second["data"]["reasons"][0]["code"] != "NEW"
    assert second["version"] == first["version"]


async def test_the_list_of_jobs_hears_of_every_job_of_ones_projects_and_of_no_other():
    w = await world()
    s, foreign = await socket(), await socket("bob")
    for each in (s, foreign):
        await each.say({"subscribe": {"jobs": True}})
        await each.heard()
    job = await do(b.submitted)(w.alice, b.merge_body(w.models))
    frame = await s.until(of("change", "job", state="QUEUED"))
    await foreign.say({"subscribe": {"board": True}})
    await foreign.until(of("snapshot", "tick"))
    await s.close()
    await foreign.close()
    assert frame["id"] == job
    assert all(f.get("object") != "job" for f in foreign.frames)


async def test_coming_back_with_a_number_replays_only_what_was_missed():
    w = await world()
    old = await do(b.submitted)(w.alice, b.merge_body(w.models, name="old"))
    await do(jobs.hold)(old, w.alice, b.NOON)
    await do(_far_behind)()
    seq = await do(events.newest)()
    run = await do(b.running)(w.alice, w.models, name="new", priority="High")
    s = await socket(since=seq)
    await s.say({"subscribe": {"board": True, "jobs": True}})
    await s.until(of("change", "job", name="new"))
    await s.close()
    assert {f["type"] for f in s.frames} == {"change"}
    jobs_told = {f["id"] for f in s.frames if f["object"] == "job"}
    assert (run.job in jobs_told, old in jobs_told) == (True, False)


def _far_behind():
    """So many events that what came before them is not taken for a late commit."""
    notes = [journal.Note("write_refused", "node", "n9", node="n9") for _ in range(events.LATE_IDS + 1)]
    journal.write(notes, b.NOON)


async def test_coming_back_with_a_number_from_the_future_gets_a_snapshot():
    await world()
    s = await socket(since=10**9)
    await s.say({"subscribe": {"board": True}})
    frame = await s.until(of("snapshot", "tick"))
    await s.close()
    assert frame["seq"] < 10**9


@pytest.mark.parametrize("since", ["-1", "x", "", "9" * 40])
async def test_a_number_that_is_none_counts_as_none(since):
    await world()
    s = Socket(await person("alice"), since)
    assert (await s.open())[0]
    await s.say({"subscribe": {"board": True}})
    await s.until(of("snapshot", "tick"))
    await s.close()


@pytest.mark.parametrize(
    ("said", "code"),
    [([], "not_an_object"), ({"hello": 1}, "unknown_message"), ({"ack": True}, "unknown_message"),
     ({"subscribe": {"bord": True}}, "unknown_subscription"),
     ({"subscribe": {"job": 7}}, "bad_job"), ({"subscribe": []}, "unknown_message")],
)  # fmt: skip
async def test_what_is_not_understood_is_answered_and_the_socket_stays_open(said, code):
    await world()
    s = await socket()
    await s.say(said)
    frame = await s.until(lambda f: f["type"] == "error")
    await s.say({"subscribe": {"board": True}})
    await s.until(of("snapshot", "tick"))
    await s.close()
    assert frame["code"] == code


async def test_what_is_not_json_is_answered():
    await world()
    s = await socket()
    await s.wire.send_to(text_data="{")
    frame = await s.until(lambda f: True)
    await s.close()
    assert frame["code"] == "not_json"


async def test_a_message_above_its_size_closes_the_socket():
    await world()
    s = await socket()
    await s.wire.send_to(text_data="x" * (messages.MAX_BYTES + 1))
    assert (await s.until(lambda f: True))["code"] == "too_large"
    assert (await s.wire.receive_output(timeout=10))["code"] == consumers.TOO_MUCH


async def test_the_eleventh_message_of_a_second_closes_the_socket():
    await world()
    s = await socket()
    for _ in range(messages.MAX_A_SECOND + 1):
        await s.say({"ack": 0})
    assert (await s.until(lambda f: True))["code"] == "too_often"
    assert (await s.wire.receive_output(timeout=10))["code"] == consumers.TOO_MUCH


async def test_many_changes_in_a_moment_become_few_batches(monkeypatch):
    w = await world()
    looks = []
    advance = tail.Cursor.advance
    monkeypatch.setattr(
        tail.Cursor, "advance", lambda self, *a, **k: looks.append(found := advance(self, *a, **k)) or found
    )
    monkeypatch.setattr(tail, "PACE_S", 1.0)
    s = await socket()
    await s.say({"subscribe": {"jobs": True}})
    await s.heard()
    first = await do(b.submitted)(w.alice, b.merge_body(w.models, name="first"))
    await s.until(lambda f: f["id"] == first)
    begun = time.monotonic()
    ids = [await do(b.submitted)(w.alice, b.merge_body(w.models, name=f"job-{i}")) for i in range(20)]
    await s.until(lambda f: f["id"] == ids[-1])
    spent = time.monotonic() - begun
    await s.close()
    batches = [found for found in looks if found and any(i.object == "job" for i in found.items)]
    assert len(batches) <= 2 + spent / tail.PACE_S


async def test_a_reader_that_stops_acknowledging_gets_a_snapshot_instead_of_a_backlog(monkeypatch):
    w = await world()
    monkeypatch.setattr(consumers, "WINDOW", 2)
    monkeypatch.setattr(tail, "PACE_S", 0.01)
    run = await do(b.running)(w.alice, w.models)
    s = await socket()
    await s.say({"subscribe": {"job": run.job}})
    await s.until(of("snapshot", "job"))
    await s.say({"ack": 0})
    head = {"type": "progress", "attempt": run.attempt, "epoch": run.epoch, "total": 99, "unit": "x"}
    for step in (1, 2):
        await do(b.beat)(reports=[{**head, "step": step}])
        told = await s.until(lambda f, step=step: f["data"]["progress"]["step"] == step)
    for step in range(3, 9):
        await do(b.beat)(reports=[{**head, "step": step}])
        assert await s.wire.receive_nothing(timeout=0.3)
    await s.say({"ack": told["seq"]})
    caught_up = await s.until(lambda f: True)
    await s.close()
    assert (caught_up["type"], caught_up["data"]["progress"]["step"]) == ("snapshot", 8)


async def test_who_is_shut_out_while_looking_is_closed(monkeypatch):
    await world()
    monkeypatch.setattr(consumers.FeedConsumer, "recheck_s", 0.05)
    s = await socket()
    alice = await person("alice")
    alice.is_active = False
    await do(alice.save)()
    assert (await s.wire.receive_output(timeout=10)) == {"type": "websocket.close", "code": consumers.NO_LONGER}


async def test_who_loses_the_project_hears_that_its_job_is_gone(monkeypatch):
    w = await world()
    job = await do(b.submitted)(w.alice, b.merge_body(w.models))
    monkeypatch.setattr(consumers.FeedConsumer, "recheck_s", 0.05)
    s = await socket()
    await s.say({"subscribe": {"job": job}})
    await s.until(of("snapshot", "job"))
    await do(_leave)("alice")
    frame = await s.until(lambda f: f["type"] == "gone")
    await s.close()
    assert frame["id"] == job


def _leave(name):
    from scheduling.models import Membership

    Membership.objects.filter(user__username=name).delete()


async def test_the_thread_ends_with_its_last_listener():
    await world()
    s = await socket()
    await s.say({"subscribe": {"board": True}})
    await s.until(of("snapshot", "tick"))
    thread = tail.TAILER._thread
    await s.close()
    thread.join(timeout=10)
    assert not thread.is_alive()


async def test_a_verb_on_the_watched_job_is_told_with_a_higher_version():
    w = await world()
    job = await do(b.submitted)(w.alice, b.merge_body(w.models))
    s = await socket()
    await s.say({"subscribe": {"job": job}})
    before = await s.until(of("snapshot", "job"))
    await do(jobs.cancel)(job, w.alice, b.later(1))
    after = await s.until(of("change", "job", state="CANCELLED"))
    await s.close()
    assert after["version"] > before["version"]
    assert after["seq"] > before["seq"]


async def test_an_admin_hears_of_every_project():
    w = await world()
    await do(seed.project)("gamma", weight=1.0)
    s = await socket("admin")
    await s.say({"subscribe": {"jobs": True}})
    await s.heard()
    job = await do(b.submitted)(w.alice, b.merge_body(w.models))
    frame = await s.until(of("change", "job"))
    await s.close()
    assert frame["id"] == job


async def test_a_quiet_feed_says_now_and_then_that_it_is_there(monkeypatch):
    w = await world()
    job = await do(b.submitted)(w.alice, b.merge_body(w.models))
    monkeypatch.setattr(tail, "KEEPALIVE_S", 0.5)
    s = await socket()
    await s.say({"subscribe": {"job": job}})
    await s.until(of("change", "tick"))
    await s.close()
    assert {f["object"] for f in s.frames} == {"job", "tick"}


async def test_a_database_that_can_not_be_read_makes_the_page_stale_and_is_read_again(monkeypatch):
    await world()
    s = await socket()
    await s.say({"subscribe": {"board": True}})
    await s.until(of("snapshot", "tick"))
    failing, unseen = [True], tail.live.unseen

    def broken(*args):
        if failing.pop() if failing else False:
            raise DatabaseError("gone")
        return unseen(*args)

    monkeypatch.setattr(tail.live, "unseen", broken)
    await do(_sampled)(utilization=33.0)
    await s.until(lambda f: f["type"] == "stale")
    await s.until(of("snapshot", "gpu", utilization=33.0))
    await s.close()
