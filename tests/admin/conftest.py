"""What every admin test needs: a place for collected static files."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def nothing_collected(settings, tmp_path: Path) -> None:
    """Nothing was collected."""
    settings.STATIC_ROOT = tmp_path / "static"
    settings.STATIC_ROOT.mkdir()
