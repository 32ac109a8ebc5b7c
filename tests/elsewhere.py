"""A deed of another process: in a thread of its own, with a database connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from django.db import connection


def elsewhere(do: Callable[[], Any]) -> threading.Thread:
    """The thread that does it; join it to wait for its end."""

    def run() -> None:
        try:
            do()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread
