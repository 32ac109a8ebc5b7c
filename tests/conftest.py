"""What every test may ask for. Everything else is a builder in ``tests/builders.py``."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest

if TYPE_CHECKING:
    from tests.s3_server import S3

HASHER = "django.contrib.auth.hashers.MD5PasswordHasher"


@pytest.fixture(scope="session")
def nothing_collected(tmp_path_factory) -> Path:
    """An empty place for static files: one that is missing is warned of."""
    return tmp_path_factory.mktemp("static")


@pytest.fixture(autouse=True)
def artifact_dir(tmp_path: Path, nothing_collected: Path, settings, monkeypatch) -> Path:
    """Each test has its own artifact store (never flushed to the disk: no test here loses power)."""
    monkeypatch.setattr("scheduling.services.blobs_in_directory.os.fsync", lambda _: None)
    settings.ARTIFACT_DIR = tmp_path / "artifacts"
    settings.STATIC_ROOT = nothing_collected
    # every test client would read all static files anew; the tests of static files bring theirs
    settings.WHITENOISE_USE_FINDERS = False
    settings.PASSWORD_HASHERS = [HASHER]
    return settings.ARTIFACT_DIR


@pytest.fixture(params=["directory", "bucket"])
def each_store(request, artifact_dir: Path) -> str:
    """The test is made with blobs in the artifact directory, and once more with blobs in a bucket."""
    if request.param == "bucket":
        request.getfixturevalue("bucket")
    return str(request.param)


@pytest.fixture
def bucket(artifact_dir: Path, s3, settings) -> str:
    """The name of the empty bucket in which blobs are kept."""
    settings.STORE_BUCKET, settings.STORE_PREFIX = s3.fresh_bucket(), "lab/one"
    settings.STORE_ENDPOINT, settings.STORE_REGION, settings.STORE_PATH_STYLE = s3.endpoint, "us-east-1", True
    return str(settings.STORE_BUCKET)


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """A server that speaks S3, as long as the process runs."""
    from tests.s3_server import served

    with served() as server:
        yield server


@pytest.fixture
def no_outlook(monkeypatch) -> None:
    """The test begins without an outlook, as a new process does."""
    from scheduling.services import outlook

    monkeypatch.setattr(outlook, "present", outlook.Present())


def pytest_collection_finish() -> None:
    """What is imported stays, so it is not looked through again and again: a tenth of the time of these tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings, request, tmp_path_factory) -> Iterator[None]:
    """Of the processes of one run only the first migrates its database; the others copy what it made."""
    from tests import migrated

    beside = getattr(request.config, "workerinput", None) is not None
    with migrated.once(tmp_path_factory.getbasetemp().parent if beside else None):
        yield


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_blocker, tmp_path_factory) -> Iterator[None]:
    """The test database; the worlds of :mod:`tests.remembered` are learnt in it, and tests that commit empty it."""
    from django.test import TransactionTestCase
    from django.test.utils import override_settings

    from tests import builders, remembered

    store = tmp_path_factory.mktemp("remembered")
    assert builders.lab in remembered.BUILDERS
    with django_db_blocker.unblock(), override_settings(ARTIFACT_DIR=store, PASSWORD_HASHERS=[HASHER]):
        remembered.learn_all()

    def teardown(_case: TransactionTestCase) -> None:
        remembered.empty_all()

    with mock.patch.object(TransactionTestCase, "_fixture_teardown", teardown):
        yield
