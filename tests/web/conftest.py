"""What every page test needs: no throttle kept from the test before, and a place for collected static files."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.cache import cache


@pytest.fixture(autouse=True)
def fresh_server(settings, tmp_path: Path) -> None:
    """Nobody has submitted anything yet, and nothing was collected."""
    cache.clear()
    settings.STATIC_ROOT = tmp_path / "static"
    settings.STATIC_ROOT.mkdir()
