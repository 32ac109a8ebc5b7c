"""What the collection removes, when, and what it never does."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path

import pytest

from scheduling.models import Artifact, Event, Job, ProjectBlob, UnusedBlob
from scheduling.models.jobs import ENDED
from scheduling.services import artifact_deletion as deletion
from scheduling.services import artifact_files, artifacts, collection, jobs
from scheduling.services.artifacts import Owner
from tests import builders as b
from tests import stored as at_rest

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("each_store")]

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def lab():
    made = b.lab()
    collection.collect(b.NOON)
    return made


def weights(model: str) -> str:
    """The sha256 of the model's tensors."""
    return next(f["sha256"] for f in Artifact.objects.get(pk=model).files if f["path"] == "model.safetensors")


def stored(model: str) -> bool:
    return at_rest.content(weights(model)) is not None


def test_bytes_of_a_deleted_artifact_go_when_a_pass_a_day_after_the_first_finds_them_unneeded_still(lab):
    alice, (model, other) = lab.who["alice"], lab.models
    deletion.delete(model, alice, b.later(1))
    size = artifact_files.blob_size(weights(model))
    first = collection.collect(b.later(2))
    assert (first.removed.count, first.waiting) == (0, collection.Some(1, size))
    assert collection.collect(b.later(2) + 23 * HOUR).removed.count == 0
    assert stored(model)
    last = collection.collect(b.later(2) + DAY)
    assert (last.removed, last.waiting.count) == (collection.Some(1, size), 0)
    assert (stored(model), stored(other)) == (False, True)
    assert (UnusedBlob.objects.count(), ProjectBlob.objects.filter(sha256=weights(model)).exists()) == (0, False)
    (event,) = Event.objects.filter(type="store_collected")
    assert event.data == {"blobs": 1, "bytes": size}


def test_the_first_pass_removes_nothing_however_long_ago_it_was_deleted(lab):
    deletion.delete(lab.models[0], lab.who["alice"], b.later(1))
    assert collection.collect(b.later(1) + 30 * DAY).removed.count == 0
    assert stored(lab.models[0])


def test_bytes_that_another_artifact_has_too_stay(lab):
    alice, (model, _) = lab.who["alice"], lab.models
    theirs = b.model(lab.who["bob"], "theirs", 1, project="beta")
    assert weights(theirs) == weights(model)
    deletion.delete(model, alice, b.later(1))
    collection.collect(b.later(2))
    collection.collect(b.later(2) + 2 * DAY)
    assert stored(theirs)


def test_bytes_that_are_needed_again_begin_their_time_anew(lab):
    alice, model = lab.who["alice"], lab.models[0]
    deletion.delete(model, alice, b.later(1))
    collection.collect(b.later(2))
    deletion.restore(model, alice, b.later(3))
    collection.collect(b.later(4))
    assert UnusedBlob.objects.count() == 0
    deletion.delete(model, alice, b.later(5))
    assert collection.collect(b.later(2) + DAY).removed.count == 0
    assert collection.collect(b.later(2) + 2 * DAY).removed.count == 1


def test_bytes_of_a_job_that_slipped_in_while_its_input_was_deleted_stay_until_it_ends(lab):
    alice, model = lab.who["alice"], lab.models[0]
    job = b.submitted(alice, b.merge_body(lab.models), now=b.later(1))
    Artifact.objects.filter(pk=model).update(deleted_at=b.later(1), deleted_by="user alice", deleted_why="by alice")
    collection.collect(b.later(2))
    collection.collect(b.later(2) + 5 * DAY)
    assert stored(model)
    jobs.cancel(job, alice, b.later(3) + 5 * DAY)
    collection.collect(b.later(4) + 5 * DAY)
    collection.collect(b.later(4) + 6 * DAY)
    assert not stored(model)


def test_bytes_that_an_upload_relies_on_stay_and_it_is_committed(lab):
    alice, model = lab.who["alice"], lab.models[0]
    deletion.delete(model, alice, b.later(1))
    collection.collect(b.later(2))
    entry = {"path": "m.safetensors", "size": artifact_files.blob_size(weights(model)), "sha256": weights(model)}
    begun = artifacts.begin(Owner(actor=alice), {"project": "alpha", "name": "x", "files": [entry]}, b.later(3))
    assert begun["have"] == {"m.safetensors": entry["size"]}
    collection.collect(b.later(4) + DAY)
    assert "artifact" in artifacts.commit(Owner(actor=alice), begun["upload"], {}, b.later(5) + DAY)
    assert stored(model)


def test_a_dry_run_tells_what_would_go_and_changes_nothing(lab):
    deletion.delete(lab.models[0], lab.who["alice"], b.later(1))
    collection.collect(b.later(2))
    events, unused = Event.objects.count(), list(UnusedBlob.objects.values())
    would = collection.collect(b.later(3) + DAY, dry_run=True)
    assert (Event.objects.count(), list(UnusedBlob.objects.values()), stored(lab.models[0])) == (events, unused, True)
    does = collection.collect(b.later(3) + DAY)
    assert (would.removed, would.kept, would.expired) == (does.removed, does.kept, does.expired)
    assert would.removed.count == 1


def test_nothing_is_removed_while_somebody_relies_on_what_is_stored(lab):
    model = lab.models[0]
    deletion.delete(model, lab.who["alice"], b.later(1))
    collection.collect(b.later(2))
    with artifact_files.nothing_collected():
        assert collection.collect(b.later(3) + DAY).busy
    assert stored(model)
    assert not collection.collect(b.later(3) + DAY).busy
    assert not stored(model)


def test_a_commit_holds_the_collection_off_from_looking_at_its_bytes_until_its_row_is_there(lab, monkeypatch):
    alice, held = lab.who["alice"], []
    known = artifacts._known

    def looking(*args):
        with artifact_files.collecting() as alone:
            held.append(alone)
        return known(*args)

    committing = artifacts.rows.commit_upload

    def writing(*args, **kw):
        with artifact_files.collecting() as alone:
            held.append(alone)
        return committing(*args, **kw)

    entry = {"path": "m.safetensors", "size": len(b.tensors(1)), "sha256": weights(lab.models[0])}
    begun = artifacts.begin(Owner(actor=alice), {"project": "alpha", "name": "x", "files": [entry]}, b.later(3))
    monkeypatch.setattr(artifacts, "_known", looking)
    monkeypatch.setattr(artifacts.rows, "commit_upload", writing)
    assert "artifact" in artifacts.commit(Owner(actor=alice), begun["upload"], {}, b.later(4))
    assert held == [False, False]


def test_a_crash_between_removing_bytes_and_writing_that_down_is_made_good_by_the_next_pass(lab, monkeypatch):
    model = lab.models[0]
    deletion.delete(model, lab.who["alice"], b.later(1))
    collection.collect(b.later(2))
    with monkeypatch.context() as broken:
        broken.setattr(collection.blobs, "gone", lambda *a: (_ for _ in ()).throw(OSError("power")))
        with pytest.raises(OSError, match="power"):
            collection.collect(b.later(3) + DAY)
    assert not stored(model)
    found = collection.collect(b.later(4) + DAY)
    assert (found.removed.count, UnusedBlob.objects.count()) == (0, 0)
    assert b.model(lab.who["alice"], "a", 1) == model  # its bytes are asked for again, and come
    assert stored(model)


def test_the_store_of_another_database_is_left_alone(lab):
    from scheduling.models import SchedulerState

    at_rest.lay(Path(artifact_files.NAME), b"someone-elses\n")
    with pytest.raises(collection.ForeignStore, match="belongs to another database: nothing was deleted or removed"):
        collection.collect(b.later(1))
    SchedulerState.objects.update(store_name="")
    with pytest.raises(collection.ForeignStore):
        collection.collect(b.later(1), dry_run=True)


def test_an_unnamed_store_with_bytes_is_no_empty_databases():
    sha256 = "ab" + "0" * 62
    at_rest.spoil(sha256, b"whose?")
    b.people()
    with pytest.raises(collection.ForeignStore):
        collection.collect(b.NOON)
    assert at_rest.content(sha256) == b"whose?"


def test_a_new_database_and_its_new_store_get_a_name():
    b.people()
    assert collection.collect(b.NOON).kept.count == 0
    assert at_rest.name().strip() == collection.blobs.store_name()


@pytest.mark.parametrize(
    ("each_store", "seed"), [*(("directory", seed) for seed in range(12)), ("bucket", 12)], indirect=["each_store"]
)
def test_whatever_happens_what_is_there_and_what_jobs_need_keeps_its_bytes(each_store, seed):
    """Random uploads, deletions, returns, jobs and passes over weeks: after each of them nothing needed is gone."""
    dice, lab, at = random.Random(seed), b.lab(), b.NOON
    alice = lab.who["alice"]
    for _ in range(80 if each_store == "directory" else 15):  # requests take their time
        at += timedelta(minutes=dice.randint(1, 600))
        known = [str(key) for key in Artifact.objects.values_list("pk", flat=True)]
        match dice.choice(["upload", "delete", "delete", "restore", "submit", "end", "collect", "collect"]):
            case "upload":
                b.model(alice, f"m{dice.randint(0, 5)}", dice.randint(1, 6))
            case "delete":
                name = dice.choice(["", f"m{dice.randint(0, 5)}"])
                deletion.delete(dice.choice(known), alice, at, everywhere=not name, name=name)
            case "restore":
                deletion.restore(dice.choice(known), alice, at)
            case "submit":
                jobs.submit(b.merge_body(dice.sample(known, 2)), alice, at)
            case "end":
                for job in Job.objects.exclude(state__in=ENDED)[:1]:
                    jobs.cancel(str(job.pk), alice, at)
            case "collect":
                collection.collect(at)
        needed = list(Artifact.objects.filter(deleted_at__isnull=True))
        for job in Job.objects.exclude(state__in=ENDED):
            needed += Artifact.objects.filter(pk__in=[i["artifact"] for i in job.spec["inputs"]])
        assert all(artifact_files.blob_size(f["sha256"]) == f["size"] for a in needed for f in a.files)
    for job in Job.objects.exclude(state__in=ENDED):
        jobs.cancel(str(job.pk), alice, at)
    for artifact in Artifact.objects.all():
        deletion.delete(str(artifact.pk), alice, at, everywhere=True)
    collection.collect(at)
    collection.collect(at + DAY)
    assert artifact_files.blobs() == {}
