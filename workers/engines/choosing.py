"""Which of several is told, the likeliest or a drawn one: it does not hang on last bits, which other rows change."""

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


def drawn(logits: torch.Tensor, temperature: float, uniforms: torch.Tensor) -> list[int]:
    """Of each row of finite ``logits`` (rows, choices; float64, on the CPU) a place drawn by its own number of
    ``uniforms`` (from 0 on, below 1), as likely as exp(logit / ``temperature``), which is above 0."""
    shares = ((logits - logits.max(1, keepdim=True).values) / temperature).exp()
    sums = shares.cumsum(1)
    found = (sums <= (uniforms * sums[:, -1])[:, None]).sum(1)
    last = logits.shape[1] - 1 - (shares.flip(1) > 0).to(torch.int8).argmax(1)
    return torch.minimum(found, last).tolist()
