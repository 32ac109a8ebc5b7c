"""Stored bytes are read again in time; what is damaged is marked and told, and can be mended; nothing is removed."""

from __future__ import annotations

import errno
import hashlib
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduling import tasks
from scheduling.models import Artifact, BlobCheck, Event
from scheduling.services import alarming, artifact_files, artifacts, collection, upkeep, verification
from scheduling.services import artifact_deletion as deletion
from scheduling.services.collection import ForeignStore
from scheduling.services.verification import Pace
from tests import builders as b
from tests import stored

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("each_store")]
DAY = timedelta(days=1)
DUE = b.NOON + 31 * DAY


@pytest.fixture
def who():
    return b.people()


class Time:
    """Seconds that pass only where somebody waits."""

    def __init__(self) -> None:
        self.at = 0.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.at

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.at += seconds


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def damage(content: bytes) -> bytes:
    """One bit of the stored bytes has turned; how they are now."""
    changed = bytearray(content)
    changed[-1] ^= 1
    stored.spoil(sha(content), bytes(changed))
    return bytes(changed)


def corrupt() -> set[str]:
    return {a.name for a in Artifact.objects.filter(corrupt=True)}


def events(kind: str) -> list[str]:
    return list(Event.objects.filter(type=kind).order_by("pk").values_list("message", flat=True))


def test_a_turned_bit_is_found_told_once_and_nothing_is_deleted(who):
    b.artifact(who["alice"], "a", {"a.txt": b"abc", "b.txt": b"def"})
    damaged = damage(b"def")
    first, second = (verification.some(DUE + n * 31 * DAY) for n in range(2))
    assert (first.checked, first.corrupt, first.read, first.bytes) == (1, 1, 2, 6)
    assert (second.checked, second.corrupt) == (1, 1)
    assert (corrupt(), stored.content(sha(b"def"))) == ({"a"}, damaged)
    assert events("artifact_corrupt") == ["the stored bytes of 'b.txt' do not match their sha256, or are missing"]
    (event,) = Event.objects.filter(type="artifact_corrupt")
    assert (event.project, event.data["files"]) == ("alpha", 1)


@pytest.mark.parametrize("left", [None, b"ab"])
def test_bytes_that_are_missing_or_cut_off_are_found(who, left):
    b.artifact(who["alice"], "a", {"a.txt": b"abc", "b.txt": b"x"})
    stored.spoil(sha(b"abc"), left)
    assert verification.some(DUE).corrupt == 1


def test_every_artifact_that_has_the_bytes_is_marked_at_once_in_every_project(who):
    b.artifact(who["alice"], "old", {"a.txt": b"abc"})
    b.artifact(who["bob"], "new", {"b.txt": b"abc", "c.txt": b"c"}, project="beta", now=DUE)
    b.artifact(who["bob"], "other", {"c.txt": b"c"}, project="beta", now=DUE)
    damage(b"abc")
    assert verification.some(DUE).checked == 1
    assert corrupt() == {"old", "new"}


def test_what_was_stored_or_read_within_the_period_is_not_read_again(who):
    b.artifact(who["alice"], "a", {"a.txt": b"abc"})
    assert verification.some(b.NOON + 30 * DAY).read == 0
    assert verification.some(DUE).read == 1
    assert verification.some(DUE + 29 * DAY).read == 0
    assert DUE <= Artifact.objects.get().verified_at < DUE + timedelta(minutes=1)


def test_bytes_that_two_artifacts_share_are_read_once(who):
    b.artifact(who["alice"], "a", {"a.txt": b"abc"})
    b.artifact(who["alice"], "b", {"a.txt": b"abc", "b.txt": b"d"})
    done = verification.some(DUE)
    assert (done.checked, done.read, done.bytes) == (2, 2, 4)


def test_without_a_period_nothing_is_read_by_itself(who, settings):
    settings.VERIFY_DAYS = 0
    b.artifact(who["alice"], "a", {"a.txt": b"abc"})
    assert verification.some(b.NOON + 9999 * DAY).read == 0


def test_checkpoints_and_what_an_attempt_has_stored_are_read_and_what_was_deleted_is_not(who):
    lab = b.lab()
    run = b.running(lab.who["alice"], lab.models)
    b.output(run, "checkpoint", b"{}", kind="checkpoint")
    deletion.delete(lab.models[1], lab.who["admin"], b.NOON)  # refused: the job needs it
    Artifact.objects.filter(pk=lab.models[1]).update(deleted_at=b.NOON)
    assert verification.some(DUE).checked == 2
    assert set(Artifact.objects.filter(verified_at__isnull=True).values_list("pk", flat=True)) == {UUID(lab.models[1])}


# ---------------------------------------------------------------- mended


def test_the_same_bytes_once_more_mend_what_is_damaged_and_every_artifact_that_has_them(who):
    alice = who["alice"]
    b.artifact(alice, "a", {"a.txt": b"abc"})
    b.artifact(alice, "b", {"a.txt": b"abc", "b.txt": b"d"})
    damage(b"abc")
    verification.some(DUE)
    assert corrupt() == {"a", "b"}
    entry = {"path": "a.txt", "size": 3, "sha256": hashlib.sha256(b"abc").hexdigest()}
    owner = artifacts.Owner(actor=alice)
    begun = artifacts.begin(owner, {"project": "alpha", "name": "again", "files": [entry]}, DUE)
    assert begun["have"] == {}
    artifacts.put(owner, begun["upload"], "a.txt", 0, iter([b"abc"]))
    assert "artifact" in artifacts.commit(owner, begun["upload"], {}, DUE)
    assert (stored.content(sha(b"abc")), corrupt()) == (b"abc", set())
    assert events("artifact_mended") == ["its stored bytes match its sha256 again"] * 2
    assert verification.some(DUE + 31 * DAY).corrupt == 0


def test_one_of_two_damaged_files_mended_leaves_the_artifact_damaged(who):
    alice = who["alice"]
    b.artifact(alice, "a", {"a.txt": b"abc", "b.txt": b"def"})
    damage(b"abc")
    damage(b"def")
    verification.some(DUE)
    b.artifact(alice, "b", {"x.txt": b"abc"})
    assert corrupt() == {"a"}
    b.artifact(alice, "c", {"x.txt": b"def"})
    assert corrupt() == set()


def test_missing_and_cut_off_bytes_are_mended_too_even_before_anybody_has_noticed(who):
    alice, files = who["alice"], {"a.txt": b"abc", "b.txt": b"def"}
    b.artifact(alice, "a", files)
    stored.spoil(sha(b"abc"), b"ab")
    stored.spoil(sha(b"def"), None)
    b.artifact(alice, "a", files)
    assert [stored.content(sha(each)) for each in files.values()] == [b"abc", b"def"]


def test_bytes_that_came_back_by_themselves_are_noticed(who):
    b.artifact(who["alice"], "a", {"a.txt": b"abc", "b.txt": b"x"})
    stored.spoil(sha(b"abc"), None)
    assert verification.some(DUE).corrupt == 1
    stored.spoil(sha(b"abc"), b"abc")
    assert verification.some(DUE + 31 * DAY).corrupt == 0
    assert events("artifact_mended")


def test_nothing_is_remembered_of_bytes_that_were_removed(who):
    made = b.artifact(who["alice"], "a", {"a.txt": b"abc"})
    collection.collect(b.NOON)
    damage(b"abc")
    verification.some(DUE)
    assert BlobCheck.objects.count() == 1
    deletion.delete(made, who["alice"], DUE)
    for day in range(3):
        collection.collect(DUE + day * DAY)
    assert BlobCheck.objects.count() == 0


# ---------------------------------------------------------------- told


def test_the_board_warns_until_it_is_mended_or_deleted(who):
    made = b.artifact(who["alice"], "a", {"a.txt": b"abc"})
    damage(b"abc")
    assert alarming.alarms(DUE, can_store=True) == []
    verification.some(DUE)
    (alarm,) = alarming.alarms(DUE, can_store=True)
    assert (alarm.code, alarm.numbers) == ("ARTIFACTS_DAMAGED", (("artifacts", 1),))
    assert alarm.message.startswith("1 artifact is damaged: stored bytes no longer match their sha256.")
    deletion.delete(made, who["alice"], DUE)
    assert alarming.alarms(DUE, can_store=True) == []


def test_beat_reads_with_the_settings(who, settings):
    b.artifact(who["alice"], "a", {"a.txt": b"abc"}, now=timezone.now() - 2 * DAY)
    tasks.verify_artifacts()
    assert not Artifact.objects.filter(verified_at__isnull=False).exists()
    settings.VERIFY_DAYS = 1
    tasks.verify_artifacts()
    assert Artifact.objects.filter(verified_at__isnull=False).exists()
    assert settings.CELERY_BEAT_SCHEDULE["verify-artifacts"]["schedule"] >= 3 * verification.WORKS_S


# ---------------------------------------------------------------- at a rate, a while at a time


def test_it_reads_at_the_rate_and_what_was_not_read_in_a_pause_is_not_caught_up_with():
    time = Time()
    pace = Pace(100.0, time, time.wait)
    pace.took(50, most_s=60)
    time.at += 10
    for _ in range(3):
        pace.took(50, most_s=60)
    assert time.waits == [0.5, 0.5, 0.5, 0.5]
    Pace(None, time, time.wait).took(10**9, most_s=60)
    assert len(time.waits) == 4


def test_it_begins_nothing_after_its_time_and_goes_on_there_the_next_time(who, monkeypatch):
    monkeypatch.setattr(verification, "WORKS_S", 2.0)
    files = {f"{n}.txt": bytes([n]) * 100 for n in range(5)}
    b.artifact(who["alice"], "a", files)
    runs = []
    for minute in range(4):
        time = Time()
        runs.append(verification.some(DUE + minute * timedelta(minutes=1), Pace(100.0, time, time.wait)))
    assert [(each.read, each.checked) for each in runs] == [(2, 0), (2, 0), (1, 1), (0, 0)]


def test_a_file_too_large_for_the_rate_is_read_faster(who, monkeypatch):
    monkeypatch.setattr(verification, "LONGEST_S", 10.0)
    b.artifact(who["alice"], "a", {"a.txt": b"x" * 5000})
    time = Time()
    assert verification.some(DUE, Pace(100.0, time, time.wait)).checked == 1
    assert time.at == pytest.approx(10.0)


def test_a_large_file_whose_reading_was_killed_is_left_alone_for_a_day_and_others_are_read(who, monkeypatch):
    monkeypatch.setattr(verification, "LARGE", 1000)
    b.artifact(who["alice"], "big", {"a.txt": b"x" * 5000})
    b.artifact(who["alice"], "small", {"a.txt": b"x"}, now=b.later(1))

    class Killed(BaseException):
        pass

    def killed(*_) -> None:
        raise Killed

    with pytest.raises(Killed):
        verification.some(DUE, Pace(1.0, Time(), killed))
    again = verification.some(DUE + timedelta(hours=1))
    assert (again.checked, again.left) == (1, 1)
    assert verification.some(DUE + timedelta(hours=25)).checked == 1


def test_a_process_that_is_to_end_stops_reading_in_the_middle_and_the_next_one_reads_it(who, monkeypatch):
    monkeypatch.setattr(verification, "LARGE", 1000)
    monkeypatch.setattr(artifact_files, "CHUNK", 100)
    b.artifact(who["alice"], "big", {"a.txt": b"x" * 5000})
    asked = iter([False] * 5 + [True] * 99)
    assert verification.some(DUE, stopping=lambda: next(asked)).checked == 0
    assert verification.some(DUE + timedelta(minutes=1)).checked == 1


def test_two_do_not_read_at_once(who):
    b.artifact(who["alice"], "a", {"a.txt": b"abc"})
    with artifact_files.verifying():
        assert verification.some(DUE).busy
    assert verification.some(DUE).checked == 1


def test_more_than_a_batch_is_read_to_the_end_and_what_is_left_alone_stops_nobody(who, monkeypatch):
    monkeypatch.setattr(verification, "BATCH", 2)
    for n in range(7):
        b.artifact(who["alice"], f"a{n}", {"a.txt": bytes([n])}, now=b.later(n))
    left = {hashlib.sha256(bytes([n])).hexdigest() for n in range(4)}
    monkeypatch.setattr(verification.checks, "unfinished", lambda _: left)
    found = verification.some(DUE)
    assert (found.checked, found.left) == (3, 4)


@stored.in_directory  # where the bytes are changes no write, and a hundred objects take their time
def test_an_artifact_of_many_files_costs_few_writes(who):
    b.artifact(who["alice"], "a", {f"{n}.txt": bytes([n]) for n in range(100)})
    verification.some(b.NOON)  # the store has its name
    with CaptureQueriesContext(connection) as asked:
        assert verification.some(DUE).read == 100
    assert len(asked) < 25


# ---------------------------------------------------------------- a store that is away


@stored.in_directory
def test_a_directory_that_is_not_mounted_has_lost_nothing(who, settings, tmp_path):
    b.artifact(who["alice"], "a", {"a.txt": b"abc"})
    collection.collect(b.NOON)
    settings.ARTIFACT_DIR = tmp_path / "elsewhere"
    for call in (verification.some, collection.collect):
        with pytest.raises(ForeignStore, match=r"has nothing of what this database has stored: is it mounted?"):
            call(DUE)
    assert (corrupt(), artifact_files.store_name()) == (set(), None)


@stored.in_directory
def test_one_that_goes_away_in_the_middle_has_lost_nothing(who, settings, tmp_path, monkeypatch):
    for n in range(3):
        b.artifact(who["alice"], f"a{n}", {"a.txt": bytes([n])}, now=b.later(n))
    collection.collect(b.NOON)
    sound = artifact_files.open_blob

    def opened(sha):
        file = sound(sha)
        settings.ARTIFACT_DIR = tmp_path / "elsewhere"
        return file

    monkeypatch.setattr(artifact_files, "open_blob", opened)
    with pytest.raises(ForeignStore):
        verification.some(DUE)
    assert (corrupt(), Artifact.objects.filter(verified_at__isnull=False).count()) == (set(), 1)


@stored.in_directory
@pytest.mark.parametrize(("number", "found"), [(errno.EIO, True), (errno.ESTALE, None)])
def test_a_disk_error_is_damage_and_a_store_that_does_not_answer_is_not(who, monkeypatch, number, found):
    b.artifact(who["alice"], "a", {"a.txt": b"abc"})

    def broken(_):
        raise OSError(number, "refused")

    monkeypatch.setattr(artifact_files, "open_blob", broken)
    if found:
        assert verification.some(DUE).corrupt == 1
    else:
        with pytest.raises(OSError, match="refused"):
            verification.some(DUE)
        assert corrupt() == set()


@stored.in_bucket
def test_another_bucket_than_the_one_that_was_filled_has_lost_nothing(who, s3, settings):
    b.artifact(who["alice"], "a", {"a.txt": b"abc"})
    collection.collect(b.NOON)
    name, settings.STORE_BUCKET = artifact_files.store_name(), s3.fresh_bucket()
    for call in (verification.some, collection.collect):
        with pytest.raises(ForeignStore, match=r"lab/one has nothing .* is EMEP_STORE_URL the right one?") as told:
            call(DUE)
    assert f"write {name} into the object lab/one/store-name of the bucket {settings.STORE_BUCKET}" in str(told.value)
    assert corrupt() == set()
    artifact_files.name_store(name)
    assert verification.some(DUE).corrupt == 1


@stored.in_directory
def test_a_lost_store_can_be_said_to_be_lost(who, settings, tmp_path):
    b.artifact(who["alice"], "a", {"a.txt": b"abc"})
    collection.collect(b.NOON)
    name = artifact_files.store_name()
    settings.ARTIFACT_DIR = tmp_path / "elsewhere"
    artifact_files.name_store(name)
    assert verification.some(DUE).corrupt == 1


def test_the_chore_is_one_call(who):
    assert upkeep.verify_artifacts(b.NOON) == verification.Report().as_dict()
