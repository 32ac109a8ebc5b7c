"""What a model makes of each sample: a row each, in the order of the samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from workers.engines.choosing import likeliest
from workers.engines.foretelling import device_of, losses
from workers.engines.in_batches import Row
from workers.engines.models import Loaded
from workers.engines.samples import Labelled, Rows, Texts

ENGINE_VERSION = "2"
DIGITS = 8


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A model and the samples it is judged by, ``batch_size`` of them at a time."""

    model: Loaded
    samples: Rows | Texts | Labelled
    batch_size: int

    @property
    def count(self) -> int:
        """How many samples there are."""
        return len(self.samples)

    @property
    def modules(self) -> Sequence[nn.Module]:
        """The model, once on each device."""
        return self.model.modules

    def rows(self, first: int, last: int, module: nn.Module, must_stop: Callable[[], bool]) -> list[Row]:
        """The rows of these samples as ``module``, one of the model's, gives them; raises ``Abandoned``."""
        with torch.no_grad():
            if isinstance(self.samples, Rows):
                logits = module(self.samples.inputs[first:last].to(device_of(module))).cpu()
                return _classified(self.samples.labels[first:last], first, logits)
            if isinstance(self.samples, Labelled):
                logits = module(self.samples.tokens[first:last]).cpu()
                rows = _classified(self.samples.labels[first:last], first, logits)
                return [row | {"cut": True} if row["index"] in self.samples.cut else row for row in rows]
            return _foretold(self.samples, first, last, module, self.model.window, must_stop)


def kept(value: float) -> float | None:
    """The value in the ``DIGITS`` significant digits that a row keeps; None for NaN and infinity."""
    return float(f"{value:.{DIGITS}g}") + 0.0 if math.isfinite(value) else None


def _classified(labels: torch.Tensor, first: int, logits: torch.Tensor) -> list[Row]:
    """The class of each sample from ``first`` on, the lowest where several are equally likely; none where the logits
    are no numbers."""
    predicted = likeliest(logits)
    nll = -logits.log_softmax(1).gather(1, labels[:, None])[:, 0]
    rows = []
    for index, (label, guess, loss) in enumerate(zip(labels.tolist(), predicted, nll.tolist(), strict=True), first):
        rows.append({"index": index, "label": label, "predicted": guess, "correct": guess == label, "nll": kept(loss)})
    return rows


def _foretold(
    samples: Texts, first: int, last: int, module: nn.Module, context: int, must_stop: Callable[[], bool]
) -> list[Row]:  # fmt: skip
    """How unlikely the model found each text: the sum over all its tokens but the first."""
    found = losses({text: samples.tokens[text] for text in range(first, last)}, context, module, must_stop)
    rows = []
    for text, each in found.items():
        nll = math.fsum(each) if all(map(math.isfinite, each)) else math.nan
        rows.append({"index": text, "tokens": len(each), "bytes": samples.sizes[text], "nll": kept(nll)})
    return rows
