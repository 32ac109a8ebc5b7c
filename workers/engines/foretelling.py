"""How unlikely a language model finds each token of a text, read in windows of its context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch import nn

from workers.engines.in_batches import Abandoned

# Logits in memory at once, so that a large batch of long texts does not fill it.
LOGITS = 1 << 24
Window = tuple[int, torch.Tensor]


def losses(
    texts: Mapping[int, torch.Tensor], context: int, module: nn.Module, must_stop: Callable[[], bool]
) -> dict[int, list[float]]:
    """Of each text (its tokens, by its number) the negative log-likelihood of every token but the first, in order.

    A text longer than ``context`` is read in windows of that many tokens, each begun by the last token of the one
    before. Raises :class:`Abandoned` once ``must_stop`` says so.
    """
    windows = [(text, window) for text, tokens in texts.items() for window in _windows(tokens, context)]
    found: dict[int, list[float]] = {text: [] for text in texts}
    for several in _passes(windows, module):
        if must_stop():
            raise Abandoned
        for (text, _), each in zip(several, _nll(several, module), strict=True):
            found[text] += each
    return found


def device_of(module: nn.Module) -> torch.device:
    """The device on which the module's weights lie."""
    return next(module.parameters()).device


def _windows(tokens: torch.Tensor, context: int) -> Iterator[torch.Tensor]:
    """Stretches of at most ``context`` + 1 tokens, each begun by the last token of the one before."""
    for start in range(0, len(tokens) - 1, context):
        yield tokens[start : start + context + 1]


def _passes(windows: Sequence[Window], module: nn.Module) -> Iterator[Sequence[Window]]:
    longest = max((len(window) for _, window in windows), default=2) - 1
    each = max(1, LOGITS // (longest * cast("Any", module).words))
    for start in range(0, len(windows), each):
        yield windows[start : start + each]


def _nll(windows: Sequence[Window], module: nn.Module) -> Iterator[list[float]]:
    """Of each window the loss of every token but the first."""
    lengths = [len(window) - 1 for _, window in windows]
    padded = torch.zeros(len(windows), max(lengths) + 1, dtype=torch.int64)
    for place, (_, window) in enumerate(windows):
        padded[place, : len(window)] = window
    padded = padded.to(device_of(module))
    logits = module(padded[:, :-1])
    nll = -logits.log_softmax(-1).gather(2, padded[:, 1:, None])[:, :, 0]
    for each, length in zip(nll.cpu(), lengths, strict=True):
        yield each[:length].tolist()
