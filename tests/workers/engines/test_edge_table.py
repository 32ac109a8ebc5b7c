"""Edge cases that no golden case covers, at every strategy, base and granularity that has the edge."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.workers.engines.builders import bits, candidate, merged, model, random_model, refusal
from tests.workers.engines.recipes import ON_A_BASE, RECIPES, on_base
from workers.engines.strategies.drawing import Draw
from workers.engines.strategies.selecting import share
from workers.merge_strategies import STRATEGIES

BY_SUM = [name for name, rule in STRATEGIES.items() if "normalize" in rule.own and rule.by_sum]


def two(place: Path, a: Any, b: Any, **params: Any) -> torch.Tensor:
    """The tensor of merging two models of one tensor each."""
    return candidate(model(place / "a", {"w": a}), model(place / "b", {"w": b}), **params).tensor("w")


def spherical(a: list[float], b: list[float], t: float) -> list[float]:
    """The formula in plain Python."""
    dot, one, other = (sum(x * y for x, y in zip(p, q, strict=True)) for p, q in ((a, b), (a, a), (b, b)))
    angle = math.acos(dot / math.sqrt(one * other))
    p, q = math.sin((1 - t) * angle) / math.sin(angle), math.sin(t * angle) / math.sin(angle)
    return [p * x + q * y for x, y in zip(a, b, strict=True)]


def linear(a: list[float], b: list[float], t: float) -> list[float]:
    return [(1 - t) * x + t * y for x, y in zip(a, b, strict=True)]


def at(cosine: float) -> list[float]:
    """Of length 1 and at this cosine to (1, 0)."""
    return [cosine, math.sqrt(1 - cosine * cosine)]


ANGLES = [
    (0.9994, spherical), (0.9996, linear), (-0.9994, spherical), (-0.9996, linear), (-1.0, linear), (1.0, linear),
]  # fmt: skip


@pytest.mark.parametrize(("cosine", "rule"), ANGLES)
def test_slerp_is_linear_beyond_the_limit_of_the_cosine_on_both_sides(cosine, rule, tmp_path: Path) -> None:
    a, b = [2.0, 0.0], [3 * x for x in at(cosine)]
    assert two(tmp_path, a, b, t=0.25).tolist() == pytest.approx(rule(a, b, 0.25), rel=1e-5)


@pytest.mark.parametrize(("cosine", "rule"), ANGLES)
@pytest.mark.parametrize("base", [None, [5.0, -7.0]])
def test_nuslerp_is_linear_there_too_with_a_base_and_row_by_row(base, cosine, rule, tmp_path: Path) -> None:
    rows = [[2.0, 0.0], [0.0, 1.0]], [[3 * x for x in at(cosine)], [1.0, 0.0]]
    expected = [rule(rows[0][0], rows[1][0], 0.25), spherical(rows[0][1], rows[1][1], 0.25)]
    how = {"weights": [3, 1], "granularity": "row"}
    if base is None:
        got = two(tmp_path, *rows, strategy="nuslerp", **how)
    else:
        moved = [{"w": [[x + y for x, y in zip(row, base, strict=True)] for row in each]} for each in rows]
        got = on_base(tmp_path, "nuslerp", {"w": [base, base]}, *moved, **how)["w"] - torch.tensor(base)
    assert got.tolist() == [pytest.approx(row, rel=1e-4, abs=1e-5) for row in expected]


@pytest.mark.parametrize(("norm", "rule"), [(0.9e-8, linear), (1.2e-8, spherical), (0.0, linear)])
@pytest.mark.parametrize("strategy", ["slerp", "nuslerp"])
def test_a_vector_of_almost_no_length_has_no_angle(strategy: str, norm: float, rule: Any, tmp_path: Path) -> None:
    a, b = [norm, 0.0], [0.0, 4.0]
    how = {"t": 0.5} if strategy == "slerp" else {"weights": [1, 1]}
    expected = [0.0, 2.0] if rule is linear else spherical(a, b, 0.5)
    assert two(tmp_path, a, b, strategy=strategy, **how).tolist() == pytest.approx(expected, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("place", ["a", "b"])
@pytest.mark.parametrize("params", [{"t": 0}, {"t": 1}, {"strategy": "nuslerp", "weights": [1, 0]},
                                    {"strategy": "nuslerp", "weights": [0, 1]}], ids=str)  # fmt: skip
def test_at_an_end_nan_in_the_other_model_is_refused_too(params: dict[str, Any], place: str, tmp_path: Path) -> None:
    values = {name: [1.0, float("nan")] if name == place else [2.0, 3.0] for name in "ab"}
    refused = refusal(two, tmp_path, values["a"], values["b"], **params)
    assert (refused.code, refused.details["model"]) == ("nonfinite_input", place)


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_a_copy_with_nan_is_refused(scale: float, tmp_path: Path) -> None:
    made = candidate(model(tmp_path / "a", {"w": [float("inf"), 1.0]}), strategy="passthrough", scale=scale)
    assert refusal(made.tensor, "w").code == "nonfinite_input"


@pytest.mark.parametrize("strategy", BY_SUM)
def test_weights_that_sum_to_zero_can_not_be_normalised(strategy: str, tmp_path: Path) -> None:
    how = {"weights": [1, -1], "normalize": True}
    places = [{"w": [1.0]}, {"w": [2.0]}]
    if strategy in ON_A_BASE:
        refused = refusal(on_base, tmp_path, strategy, {"w": [0.0]}, *places, **how)
    else:
        refused = refusal(two, tmp_path, [1.0], [2.0], strategy=strategy, **how)
    assert (refused.code, refused.details["field"]) == ("config", "params.weights")


def test_equal_models_whose_weights_are_not_normalised_are_summed(tmp_path: Path) -> None:
    got = two(tmp_path, [0.1, 3.0], [0.1, 3.0], strategy="linear", weights=[1, 1], normalize=False)
    assert bits(got) == bits(torch.tensor([0.1, 3.0]) * 2)


def test_equal_models_come_back_bit_for_bit_where_the_mean_would_round(tmp_path: Path) -> None:
    x = [0.1, 1 / 3, 1e-40, -0.0, 16777217.0]
    for weights in ([0.1, 0.2], [3, 7], [1e-30, 1e30]):
        assert bits(two(tmp_path, x, x, strategy="linear", weights=weights)) == bits(torch.tensor(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("strategy", RECIPES)
def test_inputs_of_half_precision_are_merged_in_float32(strategy: str, dtype: torch.dtype, tmp_path: Path) -> None:
    names = ("a", "b", "base")
    for seed, name in enumerate(names):
        half = load_file(random_model(tmp_path / "half" / name, seed, dtype) / "model.safetensors")
        model(tmp_path / "full" / name, {n: t.float() if t.is_floating_point() else t for n, t in half.items()})
    results = []
    for width in ("half", "full"):
        places = [tmp_path / width / name for name in names]
        models = places[: min(2, STRATEGIES[strategy].max_models)]
        base = places[2] if strategy in ON_A_BASE else None
        made = candidate(*models, strategy=strategy, base=base, out_dtype="float32", **RECIPES[strategy])
        results.append({name: bits(tensor) for name, tensor in merged(made).items()})
    assert results[0] == results[1]


@pytest.mark.parametrize("strategy", RECIPES)
def test_a_result_that_does_not_fit_its_type_is_refused_with_the_count(strategy: str, tmp_path: Path) -> None:
    values = [[1e5, 1e5, 1e5, 0.25], [1e5, 1e5, 1e5, 0.5]]
    sure = {"density": 0.9 if "della" in strategy else 1.0, "epsilon": 0.05, "gamma": 0.0, "seed": 3}
    own = {name: value for name, value in sure.items() if name in STRATEGIES[strategy].own}
    places = [model(tmp_path / f"{i}", {"w": x}) for i, x in enumerate(values)][: STRATEGIES[strategy].max_models]
    base = model(tmp_path / "base", {"w": [0.0] * 4}) if strategy in ON_A_BASE else None
    refused = refusal(candidate(*places, strategy=strategy, base=base, out_dtype="float16", **own).tensor, "w")
    assert (refused.code, refused.details["tensor"], refused.details["dtype"]) == ("nonfinite_output", "w", "F16")
    assert refused.details["count"] == 3


@pytest.mark.parametrize(
    ("part", "count", "kept"),
    [(0.29, 100, 29), (0.57, 100, 57), (0.1, 30, 3), (0.7, 10, 7), (1.0, 7, 7), (0.999, 1000, 999), (1e-9, 5, 0),
     (0.5, 3, 1), (0.29, 10**11, 29 * 10**9)],
)  # fmt: skip
def test_a_share_of_elements_is_that_of_the_decimal_number(part: float, count: int, kept: int) -> None:
    assert share(part, count) == kept


@pytest.mark.parametrize("strategy", ["breadcrumbs", "breadcrumbs_ties"])
def test_breadcrumbs_count_in_decimal_numbers_on_both_sides(strategy: str, tmp_path: Path) -> None:
    changes = [float(i) for i in range(1, 101)]
    got = on_base(tmp_path, strategy, {"w": [0.0] * 100}, {"w": changes}, density=0.57, gamma=0.29)["w"]
    assert got.nonzero().flatten().tolist() == list(range(14, 71))  # the 29 largest and the 14 smallest are dropped


@pytest.mark.parametrize("strategy", ["breadcrumbs", "breadcrumbs_ties"])
def test_a_gamma_of_less_than_one_element_drops_none_of_the_large_ones(strategy: str, tmp_path: Path) -> None:
    got = on_base(tmp_path, strategy, {"w": [0.0] * 4}, {"w": [1.0, 2.0, 3.0, 9.0]}, density=0.5, gamma=0.24)["w"]
    assert got.tolist() == [0.0, 0.0, 3.0, 9.0]


@pytest.mark.parametrize("strategy", ["ties", "dare_ties", "breadcrumbs_ties"])
def test_where_weighted_changes_cancel_out_the_positive_one_is_kept(strategy: str, tmp_path: Path) -> None:
    own = {"gamma": 0.0} if "gamma" in STRATEGIES[strategy].own else {}
    first, second = {"w": [3.0, -4.0]}, {"w": [-6.0, 8.0]}
    got = on_base(
        tmp_path, strategy, {"w": [0.0, 0.0]}, first, second, weights=[2, 1], density=1.0, normalize=False, **own
    )["w"]
    assert got.tolist() == [6.0, 8.0]


@pytest.mark.parametrize("shape", [(5, 1), (), (1,)], ids=str)
@pytest.mark.parametrize("strategy", ["della", "della_linear"])
def test_a_row_of_one_element_has_the_plain_density(strategy: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    base, tuned = {"w": torch.zeros(shape)}, {"w": torch.ones(shape)}
    got = on_base(tmp_path, strategy, base, tuned, density=0.8, epsilon=0.19, seed=1, normalize=False)["w"]
    kept = Draw(1, "w", 0).uniforms(0, got.numel()) < 0.8
    assert got.flatten().tolist() == pytest.approx((kept * 1.25).tolist())


def test_a_row_whose_models_point_apart_is_the_bases_bit_for_bit(tmp_path: Path) -> None:
    base = [[-0.0, 1.0], [2.0, -0.0], [0.3, 0.1]]
    models = [{"w": [[1.0, 1.0], [3.0, 0.0], [1.3, 1.1]]}, {"w": [[-1.0, 1.0], [1.0, 0.0], [1.3, 1.1]]}]
    got = on_base(tmp_path, "model_stock", {"w": base}, *models, granularity="row")["w"]
    assert bits(got[:2]) == bits(torch.tensor(base[:2]))
    assert got[2].tolist() == pytest.approx([1.3, 1.1])


@pytest.mark.parametrize("granularity", ["tensor", "row"])
def test_small_changes_have_their_true_angle_in_model_stock(granularity: str, tmp_path: Path) -> None:
    tiny = 1e-5
    base = {"w": torch.zeros(2, 2, dtype=torch.float64)}
    models = [{"w": torch.tensor([x, x], dtype=torch.float64)} for x in ([tiny, 0.0], [0.96 * tiny, 0.28 * tiny])]
    got = on_base(tmp_path, "model_stock", base, *models, granularity=granularity)["w"]
    t = 2 * 0.96 / 1.96
    assert got[1].tolist() == pytest.approx([t * 0.98 * tiny, t * 0.14 * tiny], rel=1e-9)
