"""What must hold of every strategy on a base, and of every strategy whatever it is, beyond the golden cases."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.workers.engines.builders import bits, candidate, merged, model, random_model, refusal
from tests.workers.engines.recipes import ON_A_BASE, RECIPES, on_base, recipe_of
from workers.engines.merging import MergeEngine
from workers.engines.strategies import STRATEGIES
from workers.engines.strategies.drawing import Draw
from workers.engines.tensors import load_tensors
from workers.merge_strategies import STRATEGIES as RULES

NEEDS_A_BASE = [name for name in ON_A_BASE if RULES[name].base == "required"]
ELECTING = [name for name in ON_A_BASE if not RULES[name].by_sum]


def all_bits(made) -> dict[str, bytes]:
    return {name: bits(tensor) for name, tensor in merged(made).items()}


def test_every_strategy_of_the_table_has_its_kernel_and_a_recipe_here() -> None:
    assert set(STRATEGIES) == set(RULES) == set(RECIPES)


@pytest.mark.parametrize("strategy", ON_A_BASE)
def test_the_bits_do_not_depend_on_the_chunk(strategy: str, tmp_path: Path) -> None:
    results = [all_bits(recipe_of(tmp_path, strategy, chunk)) for chunk in (50, 1 << 20)]
    assert results[0] == results[1]


@pytest.mark.parametrize("strategy", ON_A_BASE)
def test_the_bits_do_not_depend_on_the_threads_of_torch(strategy: str, tmp_path: Path) -> None:
    for seed, name in enumerate(("a", "b", "base")):
        random_model(tmp_path / name, seed, scale=60)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            results.append(bits(recipe_of(tmp_path, strategy).tensor("a.weight")))
    finally:
        torch.set_num_threads(before)
    assert results[0] == results[1]


@pytest.mark.parametrize("strategy", ON_A_BASE)
def test_the_bits_do_not_depend_on_what_was_computed_before(strategy: str, tmp_path: Path) -> None:
    made = recipe_of(tmp_path, strategy)
    names = [spec.name for spec in made.outputs]
    there = {name: bits(made.tensor(name)) for name in names}
    assert {name: bits(made.tensor(name)) for name in reversed(names)} == there


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("strategy", ON_A_BASE)
def test_a_model_merged_with_itself_on_itself_comes_back_bit_for_bit(strategy, dtype, tmp_path: Path) -> None:
    a = random_model(tmp_path / "a", 1, dtype)
    made = candidate(a, a, strategy=strategy, base=a, **RECIPES[strategy])
    assert all_bits(made) == all_bits(candidate(a, a, t=0))


@pytest.mark.parametrize("strategy", ON_A_BASE)
@pytest.mark.parametrize("place", ["m1", "base"])
def test_a_nonfinite_input_is_refused_even_where_it_would_be_dropped(strategy, place, tmp_path: Path) -> None:
    shapes = {"w": [[1.0] * 40, [3.0] * 40]}
    wrong = {"w": [[float("inf"), *[1.0] * 39], [float("nan"), *[2.0] * 39]]}
    base, first, other = {"w": torch.zeros(2, 40)}, shapes, {"w": [[2.0] * 40, [1.0] * 40]}
    base, other = (wrong, other) if place == "base" else (base, wrong)
    refused = refusal(on_base, tmp_path, strategy, base, first, other)
    assert (refused.code, dict(refused.details)) == ("nonfinite_input", {"tensor": "w", "model": place, "count": 2})


@pytest.mark.parametrize("strategy", ON_A_BASE)
def test_scalars_and_empty_tensors_go_through_and_equal_integers_are_copied(strategy: str, tmp_path: Path) -> None:
    def tensors(x: float, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        empty = {"none": torch.empty(0, 4, dtype=dtype), "thin": torch.empty(4, 0, dtype=dtype)}
        return {**empty, "z": torch.tensor(float(x)), "ids": torch.arange(3), "flag": torch.tensor([True])}

    full, half = torch.float32, torch.float16
    got = on_base(tmp_path, strategy, tensors(0, full), tensors(1, half), tensors(2, full))
    assert {name: tuple(t.shape) for name, t in got.items()} == {
        "z": (), "none": (0, 4), "thin": (4, 0), "ids": (3,), "flag": (1,),
    }  # fmt: skip
    assert (got["ids"].tolist(), got["flag"].tolist(), bool(torch.isfinite(got["z"]))) == ([0, 1, 2], [True], True)


@pytest.mark.parametrize("strategy", ON_A_BASE)
def test_integers_that_differ_in_the_base_alone_are_refused(strategy: str, tmp_path: Path) -> None:
    ids = [{"ids": torch.tensor([n])} for n in (1, 2, 2)]
    refused = refusal(on_base, tmp_path, strategy, *ids)
    assert (refused.code, refused.details["models"]) == ("integer_mismatch", ["m0", "m1", "base"])


@pytest.mark.parametrize("strategy", NEEDS_A_BASE)
def test_without_a_base_it_is_refused(strategy: str, tmp_path: Path) -> None:
    a, b = model(tmp_path / "a", {"w": [1.0]}), model(tmp_path / "b", {"w": [2.0]})
    refused = refusal(candidate, a, b, strategy=strategy, **RECIPES[strategy])
    assert (refused.code, refused.details["field"]) == ("config", "params.base_model")


def test_slerp_with_a_base_is_refused(tmp_path: Path) -> None:
    a = model(tmp_path / "a", {"w": [1.0]})
    assert refusal(candidate, a, a, base=a).details["field"] == "params.base_model"


def test_another_shape_of_the_base_is_refused_naming_both(tmp_path: Path) -> None:
    refused = refusal(on_base, tmp_path, "ties", {"w": [1.0, 2.0]}, {"w": [1.0]}, {"w": [1.0]})
    assert (refused.code, refused.details["models"]) == ("shape_mismatch", ["m0", "base"])


@pytest.mark.parametrize("strategy", ["ties", "dare_linear", "dare_ties", "task_arithmetic"])
def test_with_density_1_one_model_is_just_added(strategy: str, tmp_path: Path) -> None:
    density = {} if strategy == "task_arithmetic" else {"density": 1}
    got = on_base(tmp_path, strategy, {"w": [1.0, 2.0]}, {"w": [3.0, 1.5]}, **density)
    assert got["w"].tolist() == [3.0, 1.5]


def test_dare_drops_about_what_it_is_told_and_the_same_again(tmp_path: Path) -> None:
    base, tuned = {"w": torch.zeros(100, 100)}, {"w": torch.ones(100, 100)}
    got = on_base(tmp_path, "dare_linear", base, tuned, density=0.25, rescale="none")["w"]
    assert 0.23 < float(got.mean()) < 0.27
    drawn = Draw(0, "w", 0).uniforms(0, 10_000).reshape(100, 100) < 0.25
    assert torch.equal(got.bool(), drawn)


@pytest.mark.parametrize("changes", [{"seed": 6}, {"density": [0.6, 0.31]}])
def test_another_seed_or_density_is_another_result(changes, tmp_path: Path) -> None:
    one, other = (recipe_of(tmp_path, "dare_linear", **c).tensor("a.weight") for c in ({}, changes))
    assert not torch.equal(one, other)


def test_l1_keeps_the_summed_size_of_each_models_changes(tmp_path: Path) -> None:
    x = torch.randn(400, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    got = on_base(tmp_path, "dare_linear", {"w": torch.zeros_like(x)}, {"w": x}, rescale="l1")["w"]
    assert float(got.abs().sum()) == pytest.approx(float(x.abs().sum()), rel=1e-12)


def test_of_equal_magnitudes_the_lower_index_is_kept_over_all_chunks(tmp_path: Path) -> None:
    ones = model(tmp_path / "ones", {"w": [1.0, -1.0] * 50})
    zero = model(tmp_path / "zero", {"w": [0.0] * 100})
    made = candidate(ones, strategy="ties", base=zero, density=0.29, chunk=3)
    assert made.tensor("w").nonzero().flatten().tolist() == list(range(29))


def test_the_largest_are_found_among_float64_numbers_that_float32_can_not_tell_apart(tmp_path: Path) -> None:
    x = 1.0 + torch.tensor([3.0, 1.0, 4.0, 2.0], dtype=torch.float64) * 2**-50
    got = on_base(tmp_path, "ties", {"w": torch.zeros(4, dtype=torch.float64)}, {"w": x})["w"]
    assert got.nonzero().flatten().tolist() == [0, 2]


def test_a_tensor_of_several_blocks_is_trimmed_as_one(tmp_path: Path, monkeypatch) -> None:
    x = torch.randn(1000, generator=torch.Generator().manual_seed(2)).mul(8).round()
    monkeypatch.setattr("workers.engines.strategies.selecting.REDUCTION_CHUNK", 64)
    got = on_base(tmp_path, "ties", {"w": torch.zeros(1000)}, {"w": x}, density=0.333)["w"]
    wanted = sorted(range(1000), key=lambda i: (-abs(float(x[i])), i))[:333]
    assert got.nonzero().flatten().tolist() == sorted(wanted)


def test_a_row_of_several_blocks_has_one_angle(tmp_path: Path, monkeypatch) -> None:
    parts = [random_model(tmp_path / name, seed) for seed, name in enumerate(("a", "b"))]
    whole = candidate(*parts, strategy="nuslerp", weights=[1, 2]).tensor("a.weight")
    monkeypatch.setattr("workers.engines.strategies.angles.BLOCK", 7)
    assert torch.allclose(candidate(*parts, strategy="nuslerp", weights=[1, 2]).tensor("a.weight"), whole, rtol=1e-6)


def test_nuslerp_is_slerp_with_the_share_of_the_second_weight(tmp_path: Path) -> None:
    parts = [random_model(tmp_path / name, seed) for seed, name in enumerate(("a", "b"))]
    one, other = candidate(*parts, strategy="nuslerp", weights=[3, 1]), candidate(*parts, t=0.25)
    assert all(torch.allclose(x, merged(other)[n], rtol=1e-6, atol=1e-7) for n, x in merged(one).items())


@pytest.mark.parametrize(("weights", "index"), [([1, 0], 0), ([0, 3], 1)])
def test_nuslerp_at_an_end_is_that_model_bit_for_bit_with_a_base_too(weights, index, tmp_path: Path) -> None:
    ends = [{"w": [0.1, 0.7]}, {"w": [0.3, -0.2]}]
    got = on_base(tmp_path, "nuslerp", {"w": [1e4, 1e-9]}, *ends, weights=weights)["w"]
    assert bits(got) == bits(torch.tensor(ends[index]["w"]))


@pytest.mark.parametrize("strategy", ["nuslerp", "model_stock"])
def test_squares_beyond_float64_still_give_the_angle(strategy: str, tmp_path: Path) -> None:
    ends = [{"w": torch.tensor(x, dtype=torch.float64)} for x in ([[3e200, 0], [1.0, 1.0]], [[0, 4e-3], [1.0, 1.0]])]
    zero = {"w": torch.zeros(2, 2, dtype=torch.float64)}
    got = on_base(tmp_path, strategy, zero, *ends, granularity="row")["w"]
    half = {"nuslerp": [3e200 * 0.5**0.5, 4e-3 * 0.5**0.5], "model_stock": [0.0, 0.0]}[strategy]
    assert got.tolist() == [pytest.approx(half, rel=1e-12), pytest.approx([1.0, 1.0], rel=1e-12)]


def test_a_zero_vector_beside_others_counts_as_a_right_angle_in_model_stock(tmp_path: Path) -> None:
    got = on_base(tmp_path, "model_stock", {"w": [0.0, 0.0]}, {"w": [0.0, 0.0]}, {"w": [1.0, 0.0]}, {"w": [1.0, 0.0]})
    assert got["w"].tolist() == pytest.approx([(3 / 3 / (1 + 2 / 3)) * 2 / 3, 0.0])


def test_one_row_of_a_vector_is_the_whole_of_it(tmp_path: Path) -> None:
    one, other = (
        on_base(tmp_path / g, "nuslerp", {"w": [0.0, 0.0]}, {"w": [1.0, 0.0]}, {"w": [0.0, 1.0]}, granularity=g)["w"]
        for g in ("row", "tensor")
    )
    assert bits(one) == bits(other)


@pytest.mark.parametrize("strategy", ELECTING)
def test_weights_of_zero_sum_are_fine_where_signs_are_elected(strategy: str, tmp_path: Path) -> None:
    got = on_base(tmp_path, strategy, {"w": [1.0]}, {"w": [3.0]}, {"w": [5.0]}, weights=[1, -1], normalize=True)
    assert bool(torch.isfinite(got["w"]).all())


def test_the_memory_of_whole_rows_is_in_the_estimate(tmp_path: Path) -> None:
    places = [model(tmp_path / name, {"w": torch.zeros(4, 100)}) for name in ("a", "base")]
    made = MergeEngine(chunk=10).merge("della", load_tensors(*places, based=True), {"density": 0.5, "epsilon": 0.1})
    assert made.memory_estimate() >= 2 * 100 * 8
