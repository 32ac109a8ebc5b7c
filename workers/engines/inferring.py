"""What a model makes of each row: a line each, in the order of the rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn

from workers.engines.choosing import likeliest
from workers.engines.foretelling import device_of, losses
from workers.engines.generating import Continued, go_on
from workers.engines.given import Numbers, Prompts
from workers.engines.in_batches import Row
from workers.engines.models import Decoder, Loaded
from workers.infer_params import Generation

ENGINE_VERSION = "1"
PLACES = 6


@dataclass(frozen=True, slots=True)
class Inference:
    """A model and the rows it is given, ``batch_size`` of them at a time; ``ask`` counts for language models."""

    model: Loaded
    given: Numbers | Prompts
    ask: Generation
    batch_size: int

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.given)

    @property
    def modules(self) -> Sequence[nn.Module]:
        """The model, once on each device."""
        return self.model.modules

    def rows(self, first: int, last: int, module: nn.Module, must_stop: Callable[[], bool]) -> list[Row]:
        """The lines of these rows as ``module``, one of the model's, gives them; raises ``Abandoned``. A row that
        couldn't be read has the ``error`` that says why."""
        with torch.no_grad():
            if isinstance(self.given, Numbers):
                made = _classified(self.given, first, last, module)
            else:
                made = _continued(self.given, first, last, self.ask, cast("Decoder", module), must_stop)
        return [_line(self.given, index, made) for index in range(first, last)]


def rounded(value: float) -> float | None:
    """The value to ``PLACES`` decimals, as a line keeps it; None for NaN and infinity."""
    return round(value, PLACES) + 0.0 if math.isfinite(value) else None


def _line(given: Numbers | Prompts, index: int, made: dict[int, dict[str, Any]]) -> Row:
    wrong = given.bad.get(index)
    if wrong is not None:
        return {"index": index, "error": {"code": wrong.code, "message": wrong.message}}
    return {"index": index, "digest": given.digest(index), **made[index]}


def _classified(given: Numbers, first: int, last: int, module: nn.Module) -> dict[int, dict[str, Any]]:
    """Each row's class, the lowest where several are equally likely, and how likely each is; nothing where the logits
    are no finite numbers."""
    logits = module(given.inputs[first:last].to(device_of(module))).cpu()
    found = zip(likeliest(logits), logits.softmax(1).tolist(), logits.isfinite().all(1).tolist(), strict=True)
    return {
        index: {"label": label, "probabilities": [rounded(each) for each in likely]}
        if sound else {"label": None, "probabilities": None}
        for index, (label, likely, sound) in enumerate(found, first)
    }  # fmt: skip


def _continued(
    given: Prompts, first: int, last: int, ask: Generation, module: Decoder, must_stop: Callable[[], bool]
) -> dict[int, dict[str, Any]]:  # fmt: skip
    texts = {index: given.tokens[index] for index in range(first, last) if index not in given.bad}
    made: dict[int, dict[str, Any]] = {index: {} for index in texts}
    if ask.tokens:
        for index, each in go_on(texts, ask, module, must_stop).items():
            made[index] |= _said(given, each, ask)
    if ask.logprobs:
        for index, nll in losses(texts, module.config["context"], module, must_stop).items():
            made[index]["input_logprobs"] = [rounded(-loss) for loss in nll]
    return made


def _said(given: Prompts, made: Continued, ask: Generation) -> dict[str, Any]:
    if made.broken:
        return {"text": None, "tokens": None, **({"logprobs": None} if ask.logprobs else {})}
    told: dict[str, Any] = {"text": given.text(made.tokens), "tokens": made.tokens}
    return told | ({"logprobs": [rounded(each) for each in made.logprobs]} if ask.logprobs else {})
