"""A lab of one node, and no outlook kept from the test before."""

from __future__ import annotations

import pytest

from tests import builders as b


@pytest.fixture(autouse=True)
def nothing_kept(no_outlook):
    """Of every test here."""


@pytest.fixture
def who():
    found = b.people()
    b.node("n1")
    return found


@pytest.fixture
def models(who):
    return [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
