"""A wrong setting is one clear line that names it, before anything is written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

ROOT = Path(__file__).resolve().parents[2]


def up(**env: str) -> tuple[int, str]:
    """(status, everything it said) of ``manage.py up`` with these variables."""
    done = subprocess.run([sys.executable, "manage.py", "up"], cwd=ROOT, env={**os.environ, **env}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=60)  # fmt: skip
    return done.returncode, done.stdout.strip()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("EMEP_PORT", "eight", "EMEP: EMEP_PORT must be a number, not 'eight'"),
        ("EMEP_PORT", "80.5", "EMEP: EMEP_PORT must be a whole number, not 80.5"),
        ("EMEP_PORT", "70000", "EMEP: EMEP_PORT must be 1 to 65535, not 70000"),
        ("EMEP_TIME_SCALE", "0", "EMEP: EMEP_TIME_SCALE must be above 0 and at most 10"),
        ("EMEP_REQUESTS_AT_WORK", "0", "EMEP: EMEP_REQUESTS_AT_WORK must be 1 or more, not 0"),
        ("EMEP_URL", "head:8000",
         "EMEP: EMEP_URL must be an address like https://emep.example or http://head:8000, not 'head:8000'"),
        ("EMEP_URL", "http://[::1",
         "EMEP: EMEP_URL must be an address like https://emep.example or http://head:8000, not 'http://[::1'"),
        ("EMEP_VERIFY_DAYS", "-1",
         "EMEP: EMEP_VERIFY_DAYS must be 1 or more, or 0 to read nothing by itself, not -1"),
        ("EMEP_VERIFY_MB_S", "0", "EMEP: EMEP_VERIFY_MB_S must be above 0, not 0"),
        ("EMEP_TICK_S", "nan", "EMEP: EMEP_TICK_S must be a number, not 'nan'"),
    ],
)  # fmt: skip
def test_a_wrong_variable_is_named_in_one_line(name, value, said, tmp_path):
    assert up(**{"EMEP_DATA_DIR": str(tmp_path), name: value}) == (1, said)


HOSTS = "import emep_site.settings as s; print(*s.ALLOWED_HOSTS)"


@pytest.mark.parametrize(
    ("url", "more", "also"),
    [("http://head:8000", "", ["head"]), ("https://[fd00::7]/", "old,older", ["[fd00::7]", "old", "older"])],
)
def test_the_server_goes_by_the_name_in_its_url_and_by_those_that_are_added(url, more, also, tmp_path):
    env = {**os.environ, "EMEP_DATA_DIR": str(tmp_path), "EMEP_URL": url, "EMEP_ALLOWED_HOSTS": more}
    done = subprocess.run([sys.executable, "-c", HOSTS], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["localhost", "127.0.0.1", "[::1]", "127.0.0.1", *also]


@pytest.mark.parametrize("url", ["foo", "foo://bar/x", "postgresql://a:hunter2@b:port/x", "postgresql://localhost"])
def test_a_wrong_database_url_is_one_line_that_shows_a_right_one_and_no_password(url, tmp_path):
    said = (
        "EMEP: DATABASE_URL must be like postgresql://USER:PASSWORD@HOST:5432/NAME; "
        "leave it out for the embedded database"
    )
    assert up(EMEP_DATA_DIR=str(tmp_path), DATABASE_URL=url) == (1, said)


def test_a_data_directory_that_cannot_be_made_is_named_in_one_line():
    status, said = up(EMEP_DATA_DIR="/proc/nowhere")
    assert (status, said.count("\n")) == (1, 0)
    assert said.startswith("EMEP: /proc/nowhere can't be used (")
    assert said.endswith("choose another directory with EMEP_DATA_DIR")


def test_a_command_on_a_directory_without_a_database_says_so_and_makes_none(tmp_path):
    command = [sys.executable, "manage.py", "changepassword", "bob"]
    env = {**os.environ, "EMEP_DATA_DIR": str(tmp_path)}
    env.pop("DATABASE_URL", None)
    done = subprocess.run(
        command, cwd=ROOT, env=env, text=True, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip() == (
        f"EMEP: there is no database in {tmp_path}: name its directory with EMEP_DATA_DIR, or run make up first"
    )
    assert not list(tmp_path.glob("*.sqlite3"))


def test_no_chore_runs_so_long_that_the_broker_would_deliver_it_again():
    seen_again_s = settings.CELERY_BROKER_TRANSPORT_OPTIONS["visibility_timeout"]
    assert seen_again_s / 2 >= settings.CELERY_TASK_TIME_LIMIT
