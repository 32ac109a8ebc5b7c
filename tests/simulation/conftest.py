"""A simulation stores nothing: its tests need no artifact store, so the house's fixture for every test does nothing."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def artifact_dir() -> None:
    """Stands in for the fixture of the same name that needs Django's settings."""
