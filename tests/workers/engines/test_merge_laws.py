"""What must hold for every input of a merge, not just for the golden ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workers.engines.builders import bits, candidate, merged, model, random_model, refusal

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
DYADIC = [0.125, 0.25, 0.5, 0.75, 0.875]
floats = st.floats(-1e4, 1e4, width=16)
laws = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("strategy", "params"), [("slerp", {"t": 0.3}), ("linear", {"weights": [0.3, 0.9]})])
def test_a_model_merged_with_itself_comes_back_bit_for_bit(strategy, params, dtype, tmp_path: Path) -> None:
    a = random_model(tmp_path / "a", 1, dtype)
    made = candidate(a, a, strategy=strategy, **params)
    assert {n: bits(t) for n, t in merged(made).items()} == {
        n: bits(t) for n, t in merged(candidate(a, a, t=0)).items()
    }


def test_equal_negative_zeros_keep_their_sign(tmp_path: Path) -> None:
    a = model(tmp_path / "a", {"w": [-0.0, 0.0]})
    assert bits(candidate(a, a, strategy="linear").tensor("w")) == bits(torch.tensor([-0.0, 0.0]))


@laws
@given(
    x=st.lists(floats, min_size=2, max_size=9), y=st.lists(floats, min_size=2, max_size=9), t=st.sampled_from(DYADIC)
)
def test_swapping_the_models_and_t_for_one_minus_t_changes_nothing(x, y, t, tmp_path: Path) -> None:
    n = min(len(x), len(y))
    a, b = model(tmp_path / "a", {"w": x[:n]}), model(tmp_path / "b", {"w": y[:n]})
    assert bits(candidate(a, b, t=t).tensor("w") + 0.0) == bits(candidate(b, a, t=1 - t).tensor("w") + 0.0)


@laws
@given(
    x=st.lists(floats, min_size=3, max_size=3), y=st.lists(floats, min_size=3, max_size=3), t=st.sampled_from(DYADIC)
)
def test_slerp_of_four_times_the_models_is_four_times_the_slerp(x, y, t, tmp_path: Path) -> None:
    one = candidate(model(tmp_path / "a", {"w": x}), model(tmp_path / "b", {"w": y}), t=t).tensor("w")
    four = candidate(
        model(tmp_path / "c", {"w": [4 * v for v in x]}), model(tmp_path / "d", {"w": [4 * v for v in y]}), t=t
    ).tensor("w")
    assert bits(4 * one) == bits(four)


@pytest.mark.parametrize("t", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_slerp_at_an_end_is_that_model_bit_for_bit(t: int, dtype: torch.dtype, tmp_path: Path) -> None:
    ends = random_model(tmp_path / "a", 1, dtype), random_model(tmp_path / "b", 2, dtype)
    kept = merged(candidate(ends[t], ends[t], t=0))
    assert {n: bits(x) for n, x in merged(candidate(*ends, t=t)).items()} == {n: bits(x) for n, x in kept.items()}


@pytest.mark.parametrize(("strategy", "params"), [("slerp", {"t": 0.37}), ("linear", {"weights": [0.3, 0.9]})])
def test_the_bits_do_not_depend_on_the_chunk(strategy, params, tmp_path: Path) -> None:
    a, b = random_model(tmp_path / "a", 1), random_model(tmp_path / "b", 2)
    results = [
        {n: bits(t) for n, t in merged(candidate(a, b, strategy=strategy, chunk=chunk, **params)).items()}
        for chunk in (1, 7, 100, 1 << 20)
    ]
    assert all(r == results[0] for r in results)


def test_the_bits_do_not_depend_on_the_threads_of_torch(tmp_path: Path) -> None:
    a, b = random_model(tmp_path / "a", 1, scale=900), random_model(tmp_path / "b", 2, scale=900)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(bits(candidate(a, b, t=0.37).tensor("a.weight")))
    finally:
        torch.set_num_threads(before)
    assert results[0] == results[1] == results[2]


def test_the_order_of_the_weights_follows_the_order_of_the_models(tmp_path: Path) -> None:
    a, b = model(tmp_path / "a", {"w": [8.0]}), model(tmp_path / "b", {"w": [0.0]})
    assert candidate(a, b, strategy="linear", weights=[3, 1]).tensor("w").tolist() == [6.0]


def test_squares_beyond_float64_still_give_the_angle(tmp_path: Path) -> None:
    a = model(tmp_path / "a", {"w": torch.tensor([3e200, 0.0], dtype=torch.float64)})
    b = model(tmp_path / "b", {"w": torch.tensor([0.0, 4e-3], dtype=torch.float64)})
    got = candidate(a, b, t=0.5).tensor("w")
    assert got.tolist() == pytest.approx([3e200 * 0.5**0.5, 4e-3 * 0.5**0.5], rel=1e-12)


def test_float64_inputs_are_merged_in_float64(tmp_path: Path) -> None:
    a = model(tmp_path / "a", {"w": torch.tensor([1.0 + 2**-40], dtype=torch.float64)})
    b = model(tmp_path / "b", {"w": torch.tensor([1.0 + 2**-39], dtype=torch.float64)})
    assert candidate(a, b, strategy="linear", weights=[1, 1]).tensor("w").item() == 1.0 + 2**-41 + 2**-40


def test_out_dtype_is_what_is_stored(tmp_path: Path) -> None:
    a, b = random_model(tmp_path / "a", 1, torch.float16), random_model(tmp_path / "b", 2, torch.bfloat16)
    made = candidate(a, b, out_dtype="float32")
    assert {t.dtype for n, t in merged(made).items() if n != "position_ids"} == {torch.float32}


def test_without_out_dtype_the_first_model_decides_what_is_stored(tmp_path: Path) -> None:
    a, b = random_model(tmp_path / "a", 1, torch.bfloat16), random_model(tmp_path / "b", 2, torch.float32)
    assert candidate(a, b).tensor("a.weight").dtype == torch.bfloat16


def test_dtype_float64_widens_the_arithmetic_and_out_dtype_the_file(tmp_path: Path) -> None:
    a, b = model(tmp_path / "a", {"w": [1.0]}), model(tmp_path / "b", {"w": [2.0]})
    made = candidate(a, b, strategy="linear", weights=[1, 2], dtype="float64", out_dtype="float64")
    assert made.tensor("w").item() == 1.0 * (1 / 3) + 2.0 * (2 / 3)


@pytest.mark.parametrize(("strategy", "params"), [("slerp", {"t": 0.5}), ("slerp", {"t": 0}), ("linear", {})])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_nonfinite_input_is_refused_with_tensor_model_and_count(strategy, params, value, tmp_path: Path) -> None:
    a = model(tmp_path / "good", {"w": [1.0, 2.0, 3.0]})
    b = model(tmp_path / "bad", {"w": [1.0, value, value]})
    refused = refusal(candidate(a, b, strategy=strategy, **params).tensor, "w")
    assert (refused.code, dict(refused.details)) == ("nonfinite_input", {"tensor": "w", "model": "bad", "count": 2})


def test_the_refusal_of_a_nonfinite_input_counts_all_chunks(tmp_path: Path) -> None:
    a, b = model(tmp_path / "a", {"w": [1.0] * 9}), model(tmp_path / "b", {"w": [float("nan")] * 9})
    assert refusal(candidate(a, b, strategy="linear", chunk=2).tensor, "w").details["count"] == 9


def test_an_overflow_in_the_cast_is_refused_with_tensor_and_count(tmp_path: Path) -> None:
    a, b = model(tmp_path / "a", {"w": [1e6, 1.0, 1e6]}), model(tmp_path / "b", {"w": [1e6, 2.0, 2e6]})
    refused = refusal(candidate(a, b, out_dtype="float16", chunk=1).tensor, "w")
    assert (refused.code, refused.details["tensor"], refused.details["count"]) == ("nonfinite_output", "w", 2)


def test_equal_integers_are_copied(tmp_path: Path) -> None:
    a, b = random_model(tmp_path / "a", 1), random_model(tmp_path / "b", 2)
    assert candidate(a, b).tensor("position_ids").tolist() == list(range(9))


def test_different_integers_are_refused_and_never_averaged(tmp_path: Path) -> None:
    a, b = (model(tmp_path / n, {"ids": torch.tensor([1, v])}) for n, v in (("a", 2), ("b", 4)))
    refused = refusal(candidate(a, b).tensor, "ids")
    assert (refused.code, refused.details["tensor"], refused.details["models"]) == (
        "integer_mismatch",
        "ids",
        ["a", "b"],
    )


def test_booleans_and_empty_tensors_pass_through(tmp_path: Path) -> None:
    tensors = {"mask": torch.tensor([True, False]), "none": torch.empty(0, 4)}
    a, b = model(tmp_path / "a", tensors), model(tmp_path / "b", tensors)
    made = candidate(a, b)
    assert (made.tensor("mask").tolist(), tuple(made.tensor("none").shape)) == ([True, False], (0, 4))


@pytest.mark.parametrize(
    ("strategy", "params", "field"),
    [
        ("slerp", {"t": -0.1}, "params.t"),
        ("slerp", {"t": True}, "params.t"),
        ("slerp", {"t": float("nan")}, "params.t"),
        ("linear", {"weights": [1, -1]}, "params.weights"),
        ("linear", {"weights": [1]}, "params.weights"),
        ("linear", {"weights": [1, float("inf")]}, "params.weights"),
        ("linear", {"normalize": "yes"}, "params.normalize"),
        ("linear", {"out_dtype": "int4"}, "params.out_dtype"),
        ("sleep", {}, "params.strategy"),
    ],
)
def test_a_bad_parameter_is_refused_by_its_field(strategy, params, field, tmp_path: Path) -> None:
    a, b = model(tmp_path / "a", {"w": [1.0]}), model(tmp_path / "b", {"w": [2.0]})
    refused = refusal(candidate, a, b, strategy=strategy, **params)
    assert (refused.code, refused.details["field"]) == ("config", field)


def test_slerp_of_three_models_is_refused(tmp_path: Path) -> None:
    three = [model(tmp_path / n, {"w": [1.0]}) for n in "abc"]
    assert refusal(candidate, *three).details["field"] == "params.models"
