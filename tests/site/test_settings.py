"""A wrong setting is one clear line that names it, before anything is written."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from emep_site import store_address

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
        ("EMEP_STORE_URL", "gs://models/x",
         "EMEP: EMEP_STORE_URL must be like s3://bucket/prefix, not 'gs://models/x'; leave it out to keep artifacts in "
         "EMEP_ARTIFACT_DIR"),
        ("EMEP_STORE_URL", "s3:///x",
         "EMEP: EMEP_STORE_URL must be like s3://bucket/prefix: 's3:///x' names no bucket"),
        ("EMEP_STORE_URL", "s3://Mine",
         "EMEP: EMEP_STORE_URL must be like s3://bucket/prefix: a bucket's name is 3 to 63 lower-case letters, digits, "
         "dots and dashes, not 'Mine'"),
        ("EMEP_STORE_URL", "s3://mine/a//b",
         "EMEP: EMEP_STORE_URL must be like s3://bucket/prefix: a prefix is at most 512 letters, digits and !_.*'()- "
         "between single slashes, not 'a//b'"),
        ("EMEP_STORE_URL", "s3://key:hunter2@mine/x",
         "EMEP: EMEP_STORE_URL must be like s3://bucket/prefix, without keys: boto3 finds those in AWS_ACCESS_KEY_ID "
         "and _SECRET_ACCESS_KEY"),
        ("EMEP_STORE_REGION", "eu-central-1",
         "EMEP: EMEP_STORE_REGION needs EMEP_STORE_URL, like s3://bucket/prefix; set it, or leave both"),
        ("EMEP_IDLE_PERCENT", "101", "EMEP: EMEP_IDLE_PERCENT must be from 0 to 100, not 101"),
        ("EMEP_IDLE_MINUTES", "0", "EMEP: EMEP_IDLE_MINUTES must be from 1 to 1440, not 0"),
        ("EMEP_TICK_S", "nan", "EMEP: EMEP_TICK_S must be a number, not 'nan'"),
        ("EMEP_EMAIL_URL", "smtp+tls://me:hunter2@:587",
         "EMEP: EMEP_EMAIL_URL must be like smtp+tls://USER:PASSWORD@HOST:587, smtp+ssl://... or smtp://...; "
         "leave it out to send no e-mail"),
        ("EMEP_EMAIL_FROM", "nobody", "EMEP: EMEP_EMAIL_FROM must be an e-mail address, not 'nobody'"),
        ("EMEP_NOTICE_JOIN_S", "-1",
         "EMEP: EMEP_NOTICE_EVERY_MINUTES and EMEP_NOTICE_JOIN_S must be 0 or more, EMEP_NOTICE_RETENTION_DAYS 1 or "
         "more"),
        ("EMEP_WEBHOOK_PORTS", "443,https",
         "EMEP: EMEP_WEBHOOK_PORTS must be ports like 443,8443, each 1 to 65535, not '443,https'"),
        ("EMEP_WEBHOOK_NETWORKS", "10.0.0.1/8",
         "EMEP: EMEP_WEBHOOK_NETWORKS must be networks like 10.1.0.0/16,fd00:1::/64: 10.0.0.1/8 has host bits set"),
    ],
)  # fmt: skip
def test_a_wrong_variable_is_named_in_one_line(name, value, said, tmp_path):
    assert up(**{"EMEP_DATA_DIR": str(tmp_path), name: value}) == (1, said)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("EMEP_STORE_ENDPOINT", "minio:9000",
         "EMEP: EMEP_STORE_ENDPOINT must be an address like https://minio.example:9000, without keys; leave it out for "
         "Amazon's"),
        ("EMEP_STORE_PATH_STYLE", "maybe", "EMEP: EMEP_STORE_PATH_STYLE must be 1 or 0, not 'maybe'"),
        ("EMEP_STORE_REGION", "eu central",
         "EMEP: EMEP_STORE_REGION must be the name of a region like eu-central-1, not 'eu central'"),
    ],
)  # fmt: skip
def test_a_wrong_word_about_the_bucket_is_named_in_one_line(name, value, said, tmp_path):
    assert up(**{"EMEP_DATA_DIR": str(tmp_path), "EMEP_STORE_URL": "s3://mine", name: value}) == (1, said)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (("s3://mine", "", "", ""), ("mine", "", "", "", False)),
        (("s3://mine/a/b/", "http://minio:9000", "eu-1", ""), ("mine", "a/b", "http://minio:9000", "eu-1", True)),
        (("s3://mine", "https://s3.example", "", "0"), ("mine", "", "https://s3.example", "", False)),
        (("s3://mine", "", "", "yes"), ("mine", "", "", "", True)),
        (("", "", "", ""), ("", "", "", "", False)),
    ],
)  # fmt: skip
def test_the_bucket_and_how_it_is_spoken_to_are_read(given, read):
    assert store_address.read(*given) == store_address.StoreAddress(*read)


def test_a_bucket_without_boto3_says_what_to_install(monkeypatch):
    monkeypatch.setattr(store_address, "find_spec", lambda _: None)
    with pytest.raises(ImproperlyConfigured, match=r"needs boto3: .venv/bin/pip install -r requirements/s3.txt -c "):
        store_address.read("s3://mine", "", "", "")
    assert store_address.read("", "", "", "").bucket == ""


@pytest.mark.parametrize("command", [["manage.py", "up"], ["-m", "emep_site.serve", "emep_site.asgi:application"]])
def test_a_bucket_that_is_not_there_is_refused_at_the_start(s3, tmp_path, command):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    env = {**os.environ, "EMEP_DATA_DIR": str(tmp_path), "EMEP_STORE_URL": "s3://nowhere-to-be-found/x",
           "EMEP_STORE_ENDPOINT": s3.endpoint, "EMEP_STORE_REGION": "us-east-1", "EMEP_PORT": str(port)}  # fmt: skip
    done = subprocess.run([sys.executable, *command], cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, timeout=120)  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (
        1,
        "EMEP: EMEP_STORE_URL: there is no bucket 'nowhere-to-be-found': make it, or correct EMEP_STORE_URL or "
        "EMEP_STORE_ENDPOINT",
    )


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


MAIL = "import emep_site.settings as s; print(s.EMAIL_HOST, s.EMAIL_PORT, s.EMAIL_HOST_USER, s.EMAIL_HOST_PASSWORD)"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("smtp+tls://me:p%40ss@mail.example", "mail.example 587 me p@ss"),
        ("smtp+ssl://me:x@mail.example:4650", "mail.example 4650 me x"),
    ],
)
def test_the_mail_server_is_the_one_of_its_url(url, said, tmp_path):
    env = {**os.environ, "EMEP_DATA_DIR": str(tmp_path), "EMEP_EMAIL_URL": url}
    done = subprocess.run([sys.executable, "-c", MAIL], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == said
