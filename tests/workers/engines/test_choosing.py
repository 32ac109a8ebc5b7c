"""The likeliest is told, and of several that are equally likely the lowest, whatever rounding made of them."""

from __future__ import annotations

import math

import pytest
import torch

from workers.engines.choosing import LEVEL, likeliest


@pytest.mark.parametrize(
    ("logits", "place"),
    [
        ([0.0, 2.0, 1.0], 1),
        ([1.0, 1.0, 0.0], 0),
        ([1.0, 1.0 + LEVEL / 2, 0.0], 0),
        ([1.0, 1.0 + LEVEL * 2, 0.0], 1),
        ([1e12, 1e12 + 100, 0.0], 0),
        ([-3.0, -2.0, -2.0 - LEVEL / 2], 1),
        ([0.0, math.inf, math.inf], 1),
        ([-math.inf, -math.inf, -math.inf], 0),
        ([math.nan, 5.0, 1.0], None),
    ],
)
def test_the_highest_and_of_equals_the_lowest_place(logits: list[float], place: int | None) -> None:
    assert likeliest(torch.tensor([logits], dtype=torch.float64)) == [place]


def test_each_row_is_chosen_for_itself() -> None:
    assert likeliest(torch.tensor([[0.0, 1.0], [math.nan, 1.0], [4.0, 1.0]], dtype=torch.float64)) == [1, None, 0]
