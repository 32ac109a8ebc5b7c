"""What every REST test needs: no throttle kept from the test before."""

from __future__ import annotations

import pytest
from django.core.cache import cache


@pytest.fixture(autouse=True)
def fresh_server() -> None:
    """Nobody has submitted anything yet."""
    cache.clear()
