"""What every test may ask for. Everything else is a builder in ``tests/builders.py``."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def artifact_dir(tmp_path: Path, settings) -> Path:
    """Each test has its own artifact store, and nobody hears its bells."""
    settings.ARTIFACT_DIR = tmp_path / "artifacts"
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return settings.ARTIFACT_DIR
