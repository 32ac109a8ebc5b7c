"""After each step of a journey the checker reads what the house and its jobs have written, and must be silent."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _lawful(up):
    yield
    assert not (found := up.findings()), "\n".join(found)
