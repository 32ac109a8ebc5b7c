"""What every test may ask for. Everything else is a builder in ``tests/builders.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

HASHER = "django.contrib.auth.hashers.MD5PasswordHasher"


@pytest.fixture(scope="session")
def nothing_collected(tmp_path_factory) -> Path:
    """An empty place for static files: one that is missing is warned of."""
    return tmp_path_factory.mktemp("static")


@pytest.fixture(autouse=True)
def artifact_dir(tmp_path: Path, nothing_collected: Path, settings, monkeypatch) -> Path:
    """Each test has its own artifact store (never flushed to the disk: no test here loses power)."""
    monkeypatch.setattr("scheduling.services.artifact_files.os.fsync", lambda _: None)
    settings.ARTIFACT_DIR = tmp_path / "artifacts"
    settings.STATIC_ROOT = nothing_collected
    # every test client would read all static files anew; the tests of static files bring theirs
    settings.WHITENOISE_USE_FINDERS = False
    settings.PASSWORD_HASHERS = [HASHER]
    return settings.ARTIFACT_DIR


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_blocker, tmp_path_factory) -> None:
    """The test database; the worlds of :mod:`tests.remembered` are learnt in it."""
    from django.test.utils import override_settings

    from tests import builders, remembered

    store = tmp_path_factory.mktemp("remembered")
    assert builders.lab in remembered.BUILDERS
    with django_db_blocker.unblock(), override_settings(ARTIFACT_DIR=store, PASSWORD_HASHERS=[HASHER]):
        remembered.learn_all()
