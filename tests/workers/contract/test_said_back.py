"""What somebody sent is shown back to him short and whole enough to be found again, whatever it was."""

from __future__ import annotations

from typing import Any

import pytest

from workers.agent.devices_simulated import memory_mib
from workers.agent.settings import BadSettings, load, parser
from workers.merge_params import check_merge
from workers.merge_strategies import STRATEGIES
from workers.said_back import shown
from workers.strategy_params import check_strategy

DEEP: Any = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("a", "'a'"),
        ("x" * 60, f"'{'x' * 60}'"),
        ("x" * 61, f"'{'x' * 60}'..."),
        (None, "null"),
        (True, "true"),
        (0.5, "0.5"),
        ([1, "a", {"k": None}], '[1, "a", {"k": null}]'),
        (list(range(10**5)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 1..."),
        (10**5000, "a number of more than 256 bits"),
        (DEEP, "[[[[[[[[...]]]]]]]]"),
    ],
    ids=["text", "just short enough", "long", "null", "bool", "number", "mixed", "many", "huge", "deep"],
)
def test_a_value_is_shown_short(value: Any, words: str) -> None:
    assert shown(value) == words


@pytest.mark.parametrize("t", ["x" * 10**6, 10**5000, DEEP, {"t": "y" * 10**6}], ids=["long", "huge", "deep", "wide"])
def test_a_wrong_t_is_shown_short(t: Any) -> None:
    _, (problem,) = check_strategy(STRATEGIES["slerp"], {"t": t}, 2)
    assert "t must be a number from 0 (the first model) to 1 (the second), not " in problem.message
    assert len(problem.message) < 140


def test_a_wrong_memory_of_a_simulated_gpu_is_shown_short_and_in_whole_quotes() -> None:
    with pytest.raises(ValueError, match=r"memory must be like 80GiB or 80GB, not 'x{60}'[.]{3}$"):
        memory_mib("x" * 10_000)


def test_a_wrong_setting_is_shown_short() -> None:
    options = parser().parse_args(["--server", "y" * 10_000, "--node", "n1"])
    with pytest.raises(BadSettings) as problem:
        load(options, {})
    assert f"not '{'y' * 60}'..." in str(problem.value)
    assert "y" * 61 not in str(problem.value)


def test_a_whole_number_beyond_any_float_is_no_number_for_a_merge() -> None:
    _, errors = check_merge({"strategy": "slerp", "models": ["a", "b"], "t": 10**5000})
    assert [(error.field, error.code) for error in errors] == [("params.t", "out_of_range")]
