"""``manage.py importartifact`` as an operator runs it, and killed for real in the middle."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from scheduling.management.commands import importartifact
from scheduling.models import Artifact
from tests import builders as b

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    (folder / ".git").mkdir(parents=True)
    (folder / "pytorch_model.bin").write_bytes(b"weights")
    (folder / "config.json").write_bytes(b"{}")
    return folder


@pytest.mark.django_db
def test_it_says_what_came_whose_it_is_and_what_is_unsafe(mine):
    b.people()
    said, again = StringIO(), StringIO()
    call_command("importartifact", str(mine), "--project", "alpha", "--user", "alice", "--name", "llama", stdout=said)
    made = Artifact.objects.get()
    assert said.getvalue().splitlines() == [
        "Imported 2 files (9 bytes) as model 'llama' of project alpha.",
        "Left out: .git.",
        "In a format that can run code when it is loaded: pytorch_model.bin (PyTorch pickle). EMEP loads none of them "
        "but PyTorch's weights, and these through its weights-only loader.",
        f"id      {made.pk}",
        f"sha256  {made.digest.removeprefix('sha256:')}",
    ]
    assert made.user.get_username() == "alice"
    call_command("importartifact", str(mine), "--project", "alpha", "--kind", "output", stdout=again)
    assert again.getvalue().startswith("2 files (9 bytes) that are there already, as model 'llama' of project alpha.\n")


@pytest.mark.django_db
def test_in_json_it_is_the_artifact_as_rest_has_it(mine):
    b.people()
    said = StringIO()
    call_command("importartifact", str(mine), "--project", "alpha", "--json", stdout=said)
    told = json.loads(said.getvalue())
    assert (told["name"], told["fresh"], told["left_out"], told["user"]) == ("mine", True, [".git"], "admin")
    assert [(f["path"], f["unsafe"]) for f in told["files"]] == [
        ("config.json", None), ("pytorch_model.bin", "PyTorch pickle"),
    ]  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--user", "eve"), "there is no active user 'eve': name one with --user"),
        (("--project", "gamma"), "there is no project 'gamma': name one that is there"),
        (("--kind", "thing"), "argument --kind: invalid choice: 'thing'"),
        (("--name", "a/b"), "an artifact's name is 1 to 100 printable characters without '/'"),
    ],
)
def test_what_is_refused_is_one_line_and_leaves_nothing(mine, more, said):
    b.people()
    with pytest.raises(CommandError) as refused:
        call_command("importartifact", str(mine), "--project", "alpha", *more)
    assert said in str(refused.value)
    assert not Artifact.objects.exists()


@pytest.mark.django_db
def test_a_directory_with_what_can_not_be_taken_is_refused(mine):
    b.people()
    (mine / "l").symlink_to("/etc/hostname")
    with pytest.raises(CommandError, match="'l' is a link to /etc/hostname, outside the directory"):
        call_command("importartifact", str(mine), "--project", "alpha")


@pytest.mark.django_db
def test_who_waits_is_told_how_far_it_is_and_who_stops_it_that_it_goes_on(mine, monkeypatch):
    b.people()
    monkeypatch.setattr(importartifact, "TELL_S", 0.0)
    beside = StringIO()
    call_command("importartifact", str(mine), "--project", "alpha", stdout=StringIO(), stderr=beside)
    assert beside.getvalue().splitlines()[-1] == "importing: 2 of 2 files, 0.0 of 0.0 kB"

    def stopped(*_, **__) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(importartifact.importing, "run", stopped)
    with pytest.raises(CommandError, match="stopped; started again, it goes on where it was") as ended:
        call_command("importartifact", str(mine), "--project", "alpha")
    assert ended.value.returncode == 130


SEED = """
import django
django.setup()
from scheduling.store import seed
seed.policy()
seed.project("alpha", weight=1.0)
seed.user("admin", "correct horse battery", superuser=True)
"""


def test_killed_in_the_middle_nothing_is_there_and_the_next_one_goes_on(tmp_path):
    home, big = tmp_path / "home", tmp_path / "big.bin"
    with big.open("wb") as file:
        file.truncate(256 * 1024 * 1024)
    env = {**os.environ, "EMEP_DATA_DIR": str(home), "DJANGO_SETTINGS_MODULE": "emep_site.settings"}
    env.pop("DATABASE_URL", None)
    subprocess.run([sys.executable, "manage.py", "migrate", "-v", "0"], cwd=ROOT, env=env, check=True)
    subprocess.run([sys.executable, "-c", SEED], cwd=ROOT, env=env, check=True)
    command = [sys.executable, "manage.py", "importartifact", str(big), "--project", "alpha", "--json"]
    first = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL)
    parts = home / "artifacts" / "uploads"
    while first.poll() is None and not any(p.stat().st_size for p in parts.glob("*/0")):
        time.sleep(0.001)
    first.kill()
    assert first.wait() == -9
    (part,) = parts.glob("*/0")
    before = part.stat().st_size
    assert 0 < before <= big.stat().st_size
    with closing(sqlite3.connect(home / "emep.sqlite3")) as database:
        assert database.execute("SELECT count(*) FROM scheduling_artifact").fetchone() == (0,)
    assert not list((home / "artifacts").glob("objects/*/*"))
    done = subprocess.run(command[:-1], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert f"{before} bytes of it had come before it was cut off." in done.stdout
    with big.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    assert (home / "artifacts" / "objects" / digest[:2] / digest[2:]).stat().st_size == big.stat().st_size
    assert not list(parts.glob("*"))
