"""A store that is away is told as such: by REST, by pages and by commands; nothing is taken for lost."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from scheduling.models import Artifact
from scheduling.services import artifact_deletion as deletion
from scheduling.services import artifact_files, artifacts, blob_store
from scheduling.services.artifact_files import StoreAway
from tests import builders as b
from tests.api.calls import problem, world

pytestmark = pytest.mark.django_db
WORDS = "the artifact store s3://models/x does not answer (EndpointConnectionError)"


class Away:
    """A store that does not answer."""

    def __getattr__(self, _name: str):
        def call(*_args, **_about):
            raise StoreAway(WORDS)

        return call


@pytest.fixture
def go_away(monkeypatch):
    return lambda: monkeypatch.setattr(artifact_files, "store", Away)


def test_by_rest_it_is_503_so_that_agents_ask_again(go_away):
    w = world(node=False)
    made = b.artifact(w.who["alice"], "files", {"a.txt": b"abc"}, kind="output")
    go_away()
    answer = w.alice.get(f"artifacts/{made}/files/a.txt")
    told = problem(answer, 503, "store_away")
    assert (told["detail"], answer["Retry-After"]) == (f"{WORDS}; nothing is lost", "2")


def test_a_commit_can_be_asked_for_again_and_then_is_done(go_away, monkeypatch):
    alice = artifacts.Owner(actor=b.people()["alice"])
    entry = {"path": "a.txt", "size": 3, "sha256": ""}
    begun = artifacts.begin(alice, {"project": "alpha", "name": "a", "files": [entry]}, b.NOON)
    artifacts.put(alice, begun["upload"], "a.txt", 0, iter([b"abc"]))
    digests = {"sha256": {"a.txt": artifact_files.digest(artifact_files.part(begun["upload"], 0))}}
    with monkeypatch.context() as away:
        away.setattr(artifact_files, "store", Away)
        with pytest.raises(StoreAway):
            artifacts.commit(alice, begun["upload"], digests, b.NOON)
    assert not Artifact.objects.exists()
    assert "artifact" in artifacts.commit(alice, begun["upload"], digests, b.NOON)


def test_a_page_that_needs_it_says_so(go_away):
    who = b.people()
    made = b.artifact(who["alice"], "a", {"a.txt": b"abc"})
    deletion.delete(made, who["alice"], timezone.now())
    page = Client()
    page.force_login(User.objects.get(username="alice"), "django.contrib.auth.backends.ModelBackend")
    go_away()
    answer = page.get(f"/artifacts/{made}/")
    assert (answer.status_code, answer["Retry-After"]) == (503, "10")
    assert f"This page needs what is stored, and {WORDS}." in answer.content.decode()


@pytest.mark.parametrize("command", [["collectartifacts"], ["verifyartifacts"], ["verifyartifacts", "--all"]])
def test_commands_say_it_in_one_line(go_away, command):
    b.people()
    go_away()
    with pytest.raises(CommandError, match="does not answer"):
        call_command(*command)


def test_an_import_says_that_it_goes_on(go_away, tmp_path):
    b.people()
    (tmp_path / "a.txt").write_bytes(b"abc")
    go_away()
    with pytest.raises(CommandError, match=r"does not answer .*; started again, it goes on where it was"):
        call_command("importartifact", str(tmp_path / "a.txt"), "--project", "alpha")
    assert not Artifact.objects.exists()


def test_the_one_store_is_chosen_by_the_settings(settings, bucket):
    assert type(blob_store.store()).__name__ == "Bucket"
    settings.STORE_BUCKET = ""
    assert type(blob_store.store()).__name__ == "Directory"
