"""A GPU on the feed tells the state of its node: only so can a page know that its numbers are old."""

from __future__ import annotations

import pytest

from scheduling.feed import snapshots
from tests import builders as b

pytestmark = pytest.mark.django_db


def test_a_gpu_tells_whether_its_node_is_lost():
    b.people()
    b.node("n1")
    b.listening(59)
    states = []
    for seconds in (0, 60):
        b.ticked(b.later(seconds))
        states.append({i.data["node_state"] for i in snapshots.board(b.later(seconds)) if i.object == "gpu"})
    assert states == [{"READY"}, {"LOST"}]
