"""What has the job measured? The newest value of each of its series, as its page tells them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from scheduling.web.wording import amount

METRIC_WORDS: Mapping[str, str] = {
    "accuracy": "accuracy",
    "loss": "loss",
    "perplexity": "perplexity",
    "bits_per_byte": "bits per byte",
}
OF_EVALUATE: Mapping[str, str] = {**METRIC_WORDS, "not_finite": "losses that are no numbers"}
OF_INFER: Mapping[str, str] = {
    "new_tokens": "new tokens",
    "bad_rows": "rows that could not be read",
    "not_finite": "rows without a finite result",
}
# The words of a kind in the order in which they are told, and what the steps are.
OF_KINDS: Mapping[str, tuple[Mapping[str, str], str]] = {
    "evaluate": (OF_EVALUATE, "sample"),
    "infer": (OF_INFER, "row"),
}
FIRST = 24


def word_of(name: str) -> str:
    """What a metric of an evaluation is called; one of a task of lm-eval by its own name."""
    return METRIC_WORDS.get(name, name)


def heading_of(name: str) -> str:
    """The same at the beginning of a line; names of tasks stay as they are."""
    return METRIC_WORDS[name].capitalize() if name in METRIC_WORDS else name


def rows(newest: Iterable[Mapping[str, Any]], kind: str) -> list[dict[str, str]]:
    """A row each: ``word``, ``value`` and ``when``, the step that it is of. Those of a kind that has words for
    them come in its own order, any other by name; ``newest`` are ``{name, step, value}``."""
    known, unit = OF_KINDS.get(kind, ({}, ""))
    order = {name: place for place, name in enumerate(known)}
    ordered = sorted(newest, key=lambda point: (order.get(point["name"], len(order)), point["name"]))
    return [
        {
            "word": known.get(point["name"], "").capitalize() or point["name"],
            "value": f"{point['value']:.6g}" if kind != "infer" else f"{point['value']:,.0f}",
            "when": f"of {amount(point['step'], unit)}" if unit else f"at step {point['step']}",
        }
        for point in ordered
    ]
