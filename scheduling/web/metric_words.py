"""What has the job measured? The newest value of each of its series, as its page tells them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from scheduling.web.wording import amount
from workers.evaluate_params import METRICS

METRIC_WORDS: Mapping[str, str] = {
    "accuracy": "accuracy",
    "loss": "loss",
    "perplexity": "perplexity",
    "bits_per_byte": "bits per byte",
}
OTHERS: Mapping[str, str] = {"not_finite": "losses that are no numbers"}
FIRST = 24


def rows(newest: Iterable[Mapping[str, Any]], kind: str) -> list[dict[str, str]]:
    """A row each: ``word``, ``value`` and ``when``, the step that it is of. Those of an evaluation come in their own
    order, any other by name; ``newest`` are ``{name, step, value}``."""
    known = {**METRIC_WORDS, **OTHERS} if kind == "evaluate" else {}
    order = {name: place for place, name in enumerate((*METRICS, *OTHERS))} if known else {}
    ordered = sorted(newest, key=lambda point: (order.get(point["name"], len(order)), point["name"]))
    return [
        {
            "word": known.get(point["name"], "").capitalize() or point["name"],
            "value": f"{point['value']:.6g}",
            "when": f"of {amount(point['step'], 'sample')}" if known else f"at step {point['step']}",
        }
        for point in ordered
    ]
