"""The likeliest is told, and of several that are equally likely the lowest, whatever rounding made of them."""

from __future__ import annotations

import math

import pytest
import torch

from workers.engines.choosing import LEVEL, drawn, likeliest


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


@pytest.mark.parametrize(
    ("uniform", "temperature", "place"),
    [(0.0, 1.0, 0), (0.49, 1.0, 0), (0.5, 1.0, 1), (0.74, 1.0, 1), (0.76, 1.0, 3), (1 - 2**-53, 1.0, 3),
     (0.4, 1e-300, 0), (0.999, 1e-300, 0), (0.34, 1e9, 1)],
)  # fmt: skip
def test_a_place_is_drawn_by_the_share_in_which_its_number_falls(uniform, temperature, place) -> None:
    logits = torch.tensor([[math.log(0.5), math.log(0.25), -1e300, math.log(0.25)]], dtype=torch.float64)
    assert drawn(logits, temperature, torch.tensor([uniform], dtype=torch.float64)) == [place]


def test_what_can_not_come_is_never_drawn() -> None:
    logits = torch.tensor([[-1e300, 0.0, -1e300]] * 2, dtype=torch.float64)
    assert drawn(logits, 1.0, torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)) == [1, 1]
