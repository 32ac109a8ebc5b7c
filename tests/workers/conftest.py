"""Agents and jobs are other programs: these tests need no Django, so the fixture for every test does nothing here."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def artifact_dir() -> None:
    """Stands in for the fixture of the same name that needs Django's settings."""
