"""How did a call to the server fail, and may it be made again?"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class FailureKind(StrEnum):
    """``REFUSED``: the server is down and something said so; ``SILENT``: no answer; ``STATUS``: it answered no."""

    REFUSED = "refused"
    SILENT = "silent"
    STATUS = "status"


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that brought nothing; ``status`` and ``code`` (the problem's) only for ``STATUS``."""

    kind: FailureKind
    message: str
    status: int = 0
    code: str = ""
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def stale(self) -> bool:
        """Whether the server says that the attempt is no longer this node's."""
        return self.kind is FailureKind.STATUS and (
            self.code in ("stale_epoch", "unknown_attempt") or self.status in (404, 410)
        )

    @property
    def final(self) -> bool:
        """Whether asking again can't help: the request itself was refused (not overload, not an outage)."""
        return self.kind is FailureKind.STATUS and 400 <= self.status < 500 and self.status not in (408, 425, 429)
