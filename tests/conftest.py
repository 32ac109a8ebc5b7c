"""What every test may ask for. Everything else is a builder in ``tests/builders.py``."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def artifact_dir(tmp_path: Path, settings, monkeypatch) -> Path:
    """Each test has its own artifact store (never flushed to the disk: no test here loses power)."""
    monkeypatch.setattr("scheduling.services.artifact_files.os.fsync", lambda _: None)
    settings.ARTIFACT_DIR = tmp_path / "artifacts"
    # every test client would read all static files anew; the tests of static files bring theirs
    settings.WHITENOISE_USE_FINDERS = False
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return settings.ARTIFACT_DIR
