"""The metrics of an evaluation, from the rows of all its samples and from nothing else.

Counts are exact, and sums of losses are exact before they are rounded once, so that the metric is the same however the
samples were shared out or the run was interrupted.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from workers.model_families import TELL_CLASSES


@dataclass(frozen=True, slots=True)
class Measured:
    """The metrics by name, None for one that is no finite number, and the counts that they were made of."""

    metrics: Mapping[str, float | None]
    counts: Mapping[str, int]


def measure(rows: Iterable[Mapping[str, Any]], task: str, wanted: Iterable[str]) -> Measured:
    """The ``wanted`` metrics of all ``rows``.

    ``accuracy`` = correct / samples. ``loss`` = sum of nll / samples of a classifier, / tokens of a language model.
    ``perplexity`` = exp(loss). ``bits_per_byte`` = sum of nll / (ln 2 * bytes). A loss that is no finite number counts
    in ``not_finite``, and makes every metric but accuracy None.
    """
    losses = array("d")
    counts = {"samples": 0, "not_finite": 0}
    summed = ("correct",) if task in TELL_CLASSES else ("tokens", "bytes")
    counts |= dict.fromkeys(summed, 0)
    for row in rows:
        counts["samples"] += 1
        for name in summed:
            counts[name] += int(row[name])
        if row["nll"] is None:
            counts["not_finite"] += 1
        else:
            losses.append(row["nll"])
    total = math.nan if counts["not_finite"] else math.fsum(losses)
    found = _classifier(counts, total) if task in TELL_CLASSES else _language(counts, total)
    return Measured({n: found[n] if math.isfinite(found[n]) else None for n in wanted}, counts)


def _classifier(counts: Mapping[str, int], total: float) -> dict[str, float]:
    return {"accuracy": counts["correct"] / counts["samples"], "loss": total / counts["samples"]}


def _language(counts: Mapping[str, int], total: float) -> dict[str, float]:
    loss = total / counts["tokens"]
    return {
        "loss": loss,
        "perplexity": math.exp(loss) if loss < _MOST else loss * math.inf,
        "bits_per_byte": total / (math.log(2) * counts["bytes"]),
    }


# exp of more than this is no finite float64; of NaN it is NaN.
_MOST = 709.0
