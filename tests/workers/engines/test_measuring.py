"""Metrics are reduced from all rows: counts and exact sums, weighted by tokens."""

from __future__ import annotations

import math
import random

import pytest

from workers.engines.measuring import measure
from workers.evaluate_params import OF_TASK
from workers.model_families import CLASSIFY, LANGUAGE


def text(tokens: int, size: int, nll: float | None) -> dict:
    return {"tokens": tokens, "bytes": size, "nll": nll}


def sample(nll: float | None, *, correct: bool = True) -> dict:
    return {"correct": correct, "nll": nll}


def test_perplexity_is_of_all_tokens_and_not_the_mean_of_the_texts() -> None:
    rows = [text(1, 1, math.log(2)), text(9, 18, 9 * math.log(8))]
    found = measure(rows, LANGUAGE, OF_TASK[LANGUAGE])
    assert found.metrics["perplexity"] == pytest.approx(2 ** (28 / 10), rel=1e-15)
    assert found.metrics["bits_per_byte"] == pytest.approx(28 / 19, rel=1e-15)
    assert found.metrics["loss"] == pytest.approx(2.8 * math.log(2), rel=1e-15)
    assert found.counts == {"samples": 2, "not_finite": 0, "tokens": 10, "bytes": 19}


def test_accuracy_and_loss_of_a_classifier() -> None:
    rows = [sample(0.5), sample(1.5, correct=False), sample(1.0)]
    found = measure(rows, CLASSIFY, OF_TASK[CLASSIFY])
    assert found.metrics == {"accuracy": 2 / 3, "loss": 1.0}
    assert found.counts == {"samples": 3, "not_finite": 0, "correct": 2}


def test_a_loss_that_is_no_number_is_counted_and_averaged_into_nothing() -> None:
    found = measure([sample(0.5), sample(None, correct=False)], CLASSIFY, OF_TASK[CLASSIFY])
    assert (found.metrics, found.counts["not_finite"]) == ({"accuracy": 0.5, "loss": None}, 1)
    found = measure([text(2, 2, 1.0), text(2, 2, None)], LANGUAGE, OF_TASK[LANGUAGE])
    assert (set(found.metrics.values()), found.counts["not_finite"]) == ({None}, 1)


def test_a_perplexity_beyond_all_numbers_is_none_and_the_loss_still_told() -> None:
    found = measure([text(1, 1, 800.0)], LANGUAGE, OF_TASK[LANGUAGE])
    assert (found.metrics["perplexity"], found.metrics["loss"]) == (None, 800.0)


def test_only_what_was_asked_for_is_told_in_its_order() -> None:
    assert list(measure([text(1, 1, 1.0)], LANGUAGE, ["bits_per_byte", "loss"]).metrics) == ["bits_per_byte", "loss"]


def test_the_sum_is_exact_in_whatever_order_the_losses_come() -> None:
    rows = [sample(random.Random(i).choice([1e16, 1.0, 1e-8])) for i in range(1000)]
    found = {measure(random.Random(seed).sample(rows, 1000), CLASSIFY, ["loss"]).metrics["loss"] for seed in range(20)}
    assert found == {math.fsum(row["nll"] for row in rows) / 1000}
