"""``manage.py verifyartifacts``: what it reads, what it says, and how it ends."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from io import StringIO
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from scheduling.management.commands import verifyartifacts
from scheduling.models import Artifact
from scheduling.services import artifact_deletion as deletion
from scheduling.services import artifact_files
from scheduling.store import clock
from tests import builders as b

pytestmark = pytest.mark.django_db


@pytest.fixture
def made() -> list[str]:
    """One that is due, and one that was stored today."""
    alice, now = b.people()["alice"], clock.now()
    return [
        b.artifact(alice, "old", {"a.txt": b"abc"}, now=now - timedelta(days=40)),
        b.artifact(alice, "new", {"a.txt": b"de"}, now=now),
    ]


def damage(content: bytes) -> None:
    path = artifact_files.blob(hashlib.sha256(content).hexdigest())
    path.chmod(0o644)
    path.write_bytes(bytes(len(content)))


def said(*arguments: str) -> str:
    out = StringIO()
    call_command("verifyartifacts", *arguments, stdout=out)
    return out.getvalue().strip()


def verified() -> set[str]:
    return {a.name for a in Artifact.objects.filter(verified_at__isnull=False)}


def test_it_reads_what_is_due_and_a_dry_run_only_says_how_much_that_is(made):
    assert said("--dry-run").startswith("1 artifact is due (3 bytes), the longest unread since 20")
    assert json.loads(said("--dry-run", "--json"))["due"] == 1
    assert verified() == set()
    assert said() == "1 artifact read: 1 blobs of 3 bytes, 0 damaged."
    assert verified() == {"old"}
    assert said("--dry-run") == "Nothing is due."


def test_it_reads_everything_or_just_those_that_are_named(made):
    assert said(made[1]) == "1 artifact read: 1 blobs of 2 bytes, 0 damaged."
    assert verified() == {"new"}
    assert json.loads(said("--all", "--json")) == {
        "checked": 2, "corrupt": 0, "read": 2, "bytes": 5, "left": 0, "busy": False,
    }  # fmt: skip


def test_a_damaged_one_is_said_and_the_status_is_1(made):
    damage(b"abc")
    out = StringIO()
    with pytest.raises(CommandError, match="1 artifact is damaged: see Artifacts, State: damaged") as ended:
        call_command("verifyartifacts", stdout=out)
    assert ended.value.returncode == 1
    assert out.getvalue().strip() == "1 artifact read: 1 blobs of 3 bytes, 1 damaged."


def test_while_somebody_else_reads_it_says_so(made):
    with artifact_files.verifying():
        assert said("--all") == "Somebody else reads the store just now, so nothing was read: try again."


def test_who_waits_is_told_how_far_it_is(made, monkeypatch):
    monkeypatch.setattr(verifyartifacts, "TELL_S", 0.0)
    beside = StringIO()
    call_command("verifyartifacts", "--all", stdout=StringIO(), stderr=beside)
    assert beside.getvalue().splitlines() == ["0 artifacts read, 0 MB ...", "1 artifact read, 0 MB ..."]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--all", "ID"), "name artifacts, or give --all or --dry-run, not both"),
        (("--dry-run", "ID"), "name artifacts, or give --all or --dry-run, not both"),
        (("--rate", "0"), "argument --rate: must be a number above 0, not '0'"),
        (("--rate", "fast"), "argument --rate: must be a number above 0, not 'fast'"),
        (("--rate", "nan"), "argument --rate: must be a number above 0, not 'nan'"),
        (("me",), "argument ID: invalid UUID value: 'me'"),
    ],
)
def test_what_makes_no_sense_is_refused(made, arguments, told):
    with pytest.raises(CommandError) as refused:
        call_command("verifyartifacts", *(made[0] if each == "ID" else each for each in arguments))
    assert told in str(refused.value)
    assert verified() == set()


def test_one_that_there_is_not_or_that_was_deleted_is_refused_by_its_id(made):
    missing = str(uuid4())
    with pytest.raises(CommandError, match=f"there is no artifact {missing} whose bytes are kept"):
        call_command("verifyartifacts", made[0], missing)
    deletion.delete(made[1], b.people()["alice"], clock.now())
    with pytest.raises(CommandError, match=f"there is no artifact {made[1]} whose bytes are kept"):
        call_command("verifyartifacts", made[1])


def test_without_a_period_nothing_is_due_and_that_is_said(made, settings):
    settings.VERIFY_DAYS = 0
    for arguments in ((), ("--dry-run",)):
        with pytest.raises(CommandError, match="EMEP_VERIFY_DAYS is 0, so nothing is ever due: give --all"):
            call_command("verifyartifacts", *arguments)
    assert said("--all").startswith("2 artifacts read")
    assert said(made[0]).startswith("1 artifact read")


def test_a_directory_that_is_another_databases_is_left_alone(made):
    artifact_files.name_store("theirs")
    with pytest.raises(CommandError, match="belongs to another database"):
        call_command("verifyartifacts", "--all")
    assert verified() == set()


def test_it_reads_no_faster_than_it_was_told(made, monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr(verifyartifacts.Pace.__init__, "__defaults__", (lambda: 0.0, waits.append))
    said("--all", "--rate", "0.000001")
    assert sum(waits) > 2
