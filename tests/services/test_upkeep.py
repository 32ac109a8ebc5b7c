"""The chores: usage by day, old events, verification of stored bytes, abandoned uploads."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduling import tasks
from scheduling.models import Availability, Event, Upload, UsageDay
from scheduling.services import artifact_files, artifacts, upkeep
from scheduling.store import record
from tests import builders as b

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("each_store")]


def ran(seconds: float, *, start: float = 0):
    lab = b.lab()
    who = lab.who
    run = b.running(who["alice"], lab.models, now=b.later(start))
    b.finished(run, "FAILED", exit_code=1, now=b.later(start + seconds))
    return who, run


def usage():
    return {(str(r.day), r.project, r.user, r.queue): r.gpu_ms for r in UsageDay.objects.all()}


def test_usage_is_rolled_up_from_the_intervals_and_twice_gives_the_same():
    ran(60)
    for _ in range(2):
        upkeep.roll_up_usage(b.later(3600))
    assert usage() == {("2026-03-02", "alpha", "alice", "merge"): 120_000}


def test_an_interval_over_midnight_is_split_between_its_days():
    ran(3600, start=11.5 * 3600)
    upkeep.roll_up_usage(b.later(13 * 3600))
    assert usage() == {
        ("2026-03-02", "alpha", "alice", "merge"): 2 * 1800 * 1000,
        ("2026-03-03", "alpha", "alice", "merge"): 2 * 1800 * 1000,
    }


def test_what_still_runs_counts_up_to_now():
    b.busy_lab()
    upkeep.roll_up_usage(b.later(10))
    assert usage() == {("2026-03-02", "alpha", "alice", "merge"): 20_000}


def test_old_events_go_and_the_newest_stays(settings):
    settings.EVENT_RETENTION_DAYS = 30
    ran(60)
    newest = Event.objects.order_by("-id").first()
    assert upkeep.retain_events(b.NOON + timedelta(days=31)) > 3
    assert list(Event.objects.all()) == [newest]


def test_progress_ticks_go_after_an_hour():
    run = b.busy_lab()[1]
    b.beat(reports=[{"type": "progress", "attempt": run.attempt, "epoch": run.epoch, "step": 1, "total": 2}])
    b.finished(run, "FAILED", exit_code=1)
    upkeep.retain_events(b.later(3700))
    assert not Event.objects.filter(type="progress").exists()
    assert Event.objects.filter(type="granted").exists()


def test_an_upload_that_nobody_finished_goes_with_its_bytes():
    who = b.people()
    owner = artifacts.Owner(actor=who["alice"])
    message = {"project": "alpha", "name": "x", "files": [{"path": "model.safetensors", "size": 9}]}
    opened = artifacts.begin(owner, message, b.NOON)
    artifacts.put(owner, opened["upload"], "model.safetensors", 0, iter([b"123"]))
    part = artifact_files.part(Upload.objects.get().pk, 0)
    assert part.exists()
    assert upkeep.collect_uploads(b.later(3600)) == 0
    assert upkeep.collect_uploads(b.later(90_000)) == 1
    assert not part.exists()
    assert not Upload.objects.exists()


@pytest.mark.parametrize(
    "chore", ["roll_up_usage", "look_at_gpus", "retain_events", "verify_artifacts", "collect_uploads"]
)
def test_each_chore_has_a_celery_task_that_beat_knows(chore, settings):
    b.people()
    getattr(tasks, chore)()
    assert f"scheduling.tasks.{chore}" in {row["task"] for row in settings.CELERY_BEAT_SCHEDULE.values()}


def test_a_gap_in_accepting_gives_everybody_a_fresh_lease():
    b.people()
    record.accepting(b.NOON, gap_s=10)
    record.accepting(b.later(9), gap_s=10)
    assert Availability.objects.get().since == b.NOON
    record.accepting(b.later(20), gap_s=10)
    assert Availability.objects.get().since == b.later(20)
