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

OURS = Path(__file__).parents[2] / "data" / "golden" / "merge_cases.json"
CASES = json.loads(Path(os.environ.get("EMEP_GOLDEN_CASES") or OURS).read_text("utf-8"))["cases"]
KNOWN = [case for case in CASES if case["strategy"] in STRATEGIES]


def merge(case: dict[str, Any], directory: Path) -> torch.Tensor:
    dtype = BY_PARAMETER[case["dtype"]].torch
    models = []
    for i, flat in enumerate(case["models"]):
        tensor = torch.tensor([float(x) for x in flat], dtype=torch.float64).to(dtype)
        models.append(model(directory / f"model-{i}", {"w": tensor.reshape(case.get("shape", [-1]))}))
    return candidate(*models, strategy=case["strategy"], **case["params"]).tensor("w").reshape(-1)


def allowed(case: dict[str, Any], expected: float) -> float:
    if "rtol" in case:
        return case["rtol"] * max(abs(float(x)) for x in case["expected"])
    if "tol" in case:
        return case["tol"] * abs(expected) + case["tol"]
    return 1e-6 * max(1.0, abs(expected))


@pytest.mark.golden
@pytest.mark.parametrize("case", KNOWN, ids=lambda c: c["id"])
def test_a_golden_case_comes_out_as_written(case: dict[str, Any], tmp_path: Path) -> None:
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
