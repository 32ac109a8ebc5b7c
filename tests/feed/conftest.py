"""What tests of the socket share: nothing of them goes on when they are over."""

from __future__ import annotations

import pytest
from django.db import connections

from scheduling.feed import tail
from tests.feed.socket import do


@pytest.fixture
async def nobody_listens_on(transactional_db):
    """When the test is over nobody listens, and no thread holds a connection to its database."""
    yield
    thread = tail.TAILER._thread
    for mailbox in tail.TAILER.listeners():
        tail.TAILER.leave(mailbox)
    if thread is not None:
        thread.join(timeout=10)
    await do(connections.close_all)()
