"""Which of several is told: the likeliest one. It does not hang on the last bits, which the rows beside it change."""

from __future__ import annotations

import torch

# Logits that differ by less than this, of the highest where that is above 1, are equally likely: far more than
# rounding makes of them, far less than anybody means.
LEVEL = 1e-9


def likeliest(logits: torch.Tensor) -> list[int | None]:
    """Of each row of ``logits`` (rows, choices; float64) the highest one's place, the lowest place of several that are
    equally likely; None where one of them is NaN."""
    choices = logits.shape[1]
    top = logits.max(1, keepdim=True).values
    least = torch.where(top.isfinite(), top - LEVEL * top.abs().clamp(min=1.0), top)
    places = torch.where(logits >= least, torch.arange(choices, device=logits.device), choices).min(1).values
    return [place if place < choices else None for place in places.tolist()]
