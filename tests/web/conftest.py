"""What every page test needs: no throttle kept from the test before."""

from __future__ import annotations

import pytest
from django.core.cache import cache

from tests import builders as b


@pytest.fixture(autouse=True)
def fresh_server() -> None:
    """Nobody has submitted anything yet."""
    cache.clear()


@pytest.fixture
def lab():
    """The lab with a second node, and an artifact of alice's with a program."""
    made = b.lab()
    b.node("n2")
    b.artifact(made.who["alice"], "code", {"train.py": b"1"}, kind="output")
    return made
