"""The exact values of the strategies, from a file that another implementation computed."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.workers.engines.builders import bits, candidate, model, refusal
from workers.engines.dtypes import BY_PARAMETER
from workers.engines.strategies import STRATEGIES
from workers.engines.strategies.drawing import Draw
from workers.engines.strategies.dropping import by_rank, row_of

OURS = Path(__file__).parents[2] / "data" / "golden" / "merge_cases.json"
GOLDEN = json.loads(Path(os.environ.get("EMEP_GOLDEN_CASES") or OURS).read_text("utf-8"))
KNOWN = [case for case in GOLDEN["cases"] if case["strategy"] in STRATEGIES]


def tensor(case: dict[str, Any], flat: list[Any]) -> torch.Tensor:
    stored = torch.tensor([float(x) for x in flat], dtype=torch.float64).to(BY_PARAMETER[case["dtype"]].torch)
    return stored.reshape(case.get("shape", [-1]))


def merge(case: dict[str, Any], directory: Path) -> torch.Tensor:
    models = [model(directory / f"model-{i}", {"w": tensor(case, flat)}) for i, flat in enumerate(case["models"])]
    base = model(directory / "base", {"w": tensor(case, case["base"])}) if "base" in case else None
    params = {name: value for name, value in case["params"].items() if name != "masks"}
    return candidate(*models, strategy=case["strategy"], base=base, **params).tensor("w").reshape(-1)


def draws_of(masks: list[list[int]]) -> Any:
    """Draws that keep exactly what the masks keep."""
    return lambda draw, start, stop: 1.0 - torch.tensor(masks[draw.model][start:stop], dtype=torch.float64)


def allowed(case: dict[str, Any], expected: float) -> float:
    if "rtol" in case:
        return case["rtol"] * max(abs(float(x)) for x in case["expected"])
    if "tol" in case:
        return case["tol"] * abs(expected) + case["tol"]
    return 1e-6 * max(1.0, abs(expected))


@pytest.mark.golden
@pytest.mark.parametrize("case", KNOWN, ids=lambda c: c["id"])
def test_a_golden_case_comes_out_as_written(case: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    if "masks" in case["params"]:
        monkeypatch.setattr(Draw, "uniforms", draws_of(case["params"]["masks"]))
    if "error" in case:
        assert refusal(merge, case, tmp_path).code == case["error"]
        return
    got = merge(case, tmp_path)
    if case.get("exact"):
        expected = torch.tensor([float(x) for x in case["expected"]], dtype=torch.float64)
        assert bits(got) == bits(expected.to(got.dtype))
        return
    off = [
        (i, float(g), float(e))
        for i, (g, e) in enumerate(zip(got.double().tolist(), case["expected"], strict=True))
        if not math.isclose(float(g), float(e), rel_tol=0.0, abs_tol=allowed(case, float(e)))
    ]
    assert off == []


@pytest.mark.golden
def test_the_golden_file_has_cases_for_every_strategy_we_know() -> None:
    assert {case["strategy"] for case in KNOWN} == set(STRATEGIES)


@pytest.mark.golden
@pytest.mark.parametrize("case", GOLDEN["dare_mask_cases"], ids=lambda c: c["id"])
def test_the_random_numbers_are_those_written_whatever_part_is_drawn(case: dict[str, Any]) -> None:
    draw = Draw(case["seed"], case["tensor"], case["model_index"])
    whole = draw.uniforms(0, case["n"])
    assert whole.tolist() == case["uniform"]
    assert (whole < case["density"]).int().tolist() == case["mask"]
    parts = [draw.uniforms(start, stop) for start, stop in ((0, 1), (1, 5), (5, case["n"]))]
    assert torch.equal(torch.cat(parts), whole)


@pytest.mark.golden
@pytest.mark.parametrize("case", GOLDEN["della_probability_cases"], ids=lambda c: c["id"])
def test_the_chance_to_be_kept_follows_the_rank_in_the_row(case: dict[str, Any]) -> None:
    vector = torch.tensor(case["delta"], dtype=torch.float32)
    got = by_rank(vector, row_of(case["shape"]), density=case["density"], epsilon=case["epsilon"])
    assert got.tolist() == pytest.approx(case["expected"], rel=1e-12)
