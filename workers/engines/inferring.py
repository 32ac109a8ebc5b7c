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
from workers.engines.given import Numbers, Passages, Prompts
from workers.engines.huggingface import CausalLM, TextEncoder
from workers.engines.in_batches import Row
from workers.engines.models import Decoder, Loaded
from workers.infer_params import Generation

ENGINE_VERSION = "1"
PLACES = 6


@dataclass(frozen=True, slots=True)
class Inference:
    """A model and the rows it is given, ``batch_size`` of them at a time; ``ask`` counts for language models."""

    model: Loaded
    given: Numbers | Prompts | Passages
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
                logits = module(self.given.inputs[first:last].to(device_of(module))).cpu()
                made = _classified(range(first, last), logits)
            elif isinstance(self.given, Passages):
                made = _told_apart(self.given, first, last, module)
            else:
                made = self._continued(self.given, first, last, cast("Decoder | CausalLM", module), must_stop)
        return [_line(self.given, index, made) for index in range(first, last)]

    def _continued(
        self, given: Prompts, first: int, last: int, module: Decoder | CausalLM, must_stop: Callable[[], bool]
    ) -> dict[int, dict[str, Any]]:  # fmt: skip
        texts = {index: given.tokens[index] for index in range(first, last) if index not in given.bad}
        made: dict[int, dict[str, Any]] = {index: {} for index in texts}
        if self.ask.tokens:
            for index, each in go_on(texts, self.ask, module, must_stop).items():
                made[index] |= _said(given, index, each, self.ask)
        if self.ask.logprobs:
            for index, nll in losses(texts, self.model.window, module, must_stop).items():
                made[index]["input_logprobs"] = [rounded(-loss) for loss in nll]
        return made


def rounded(value: float) -> float | None:
    """The value to ``PLACES`` decimals, as a line keeps it; None for NaN and infinity."""
    return round(value, PLACES) + 0.0 if math.isfinite(value) else None


def _line(given: Numbers | Prompts | Passages, index: int, made: dict[int, dict[str, Any]]) -> Row:
    wrong = given.bad.get(index)
    if wrong is not None:
        return {"index": index, "error": {"code": wrong.code, "message": wrong.message}}
    return {"index": index, "digest": given.digest(index), **made[index]}


def _classified(rows: Sequence[int], logits: torch.Tensor) -> dict[int, dict[str, Any]]:
    """Each row's class, the lowest where several are equally likely, and how likely each is; nothing where the logits
    are no finite numbers."""
    found = zip(rows, likeliest(logits), logits.softmax(1).tolist(), logits.isfinite().all(1).tolist(), strict=True)
    return {
        index: {"label": label, "probabilities": [rounded(each) for each in likely]}
        if sound else {"label": None, "probabilities": None}
        for index, label, likely, sound in found
    }  # fmt: skip


def _embedded(rows: Sequence[int], vectors: torch.Tensor) -> dict[int, dict[str, Any]]:
    """Each row's vector; nothing where it holds what is no finite number."""
    sound = vectors.isfinite().all(1).tolist()
    return {
        row: {"embedding": [rounded(each) for each in vector] if right else None}
        for row, vector, right in zip(rows, vectors.tolist(), sound, strict=True)
    }


def _told_apart(given: Passages, first: int, last: int, module: nn.Module) -> dict[int, dict[str, Any]]:
    rows = [index for index in range(first, last) if index not in given.bad]
    if not rows:
        return {}
    found = module([given.tokens[index] for index in rows]).cpu()
    made = _embedded(rows, found) if isinstance(module, TextEncoder) else _classified(rows, found)
    return {index: each | ({"cut": True} if index in given.cut else {}) for index, each in made.items()}


def _said(given: Prompts, row: int, made: Continued, ask: Generation) -> dict[str, Any]:
    if made.broken:
        return {"text": None, "tokens": None, **({"logprobs": None} if ask.logprobs else {})}
    told: dict[str, Any] = {"text": given.text(row, made.tokens), "tokens": made.tokens}
    return told | ({"logprobs": [rounded(each) for each in made.logprobs]} if ask.logprobs else {})
