"""The agent is another program: its tests need no Django, so the house's fixture for every test is a no-op here."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def artifact_dir() -> None:
    """Stands in for the fixture of the same name that needs Django's settings."""
