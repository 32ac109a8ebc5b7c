"""What a library that is not ours makes of somebody's files: whatever it raises of them is a refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch

from workers.engines.refusals import EngineRefusal

T = TypeVar("T")


def by_library(work: Callable[[], T], code: str, what: str, details: Mapping[str, Any]) -> T:
    """What the library makes; whatever it raises of files that it can't use is a refusal: ``what``, and its reason.
    Memory that does not suffice is no fault of the files, and is raised as it is."""
    try:
        return work()
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise EngineRefusal(code, f"{what}: {reason}", details) from error
