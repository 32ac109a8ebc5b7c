"""What ``make oracle`` compares is what EMEP can do; and it tells a difference where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.oracle.__main__ import outcome
from tests.oracle.cases import RECIPES, Case, golden, whole
from tests.workers.engines.builders import by_recipe


def models_of(directory: Path) -> dict[str, Case]:
    return {case.id: case for case in whole(directory)}


@pytest.mark.parametrize("name", list(RECIPES))
def test_a_recipe_agrees_with_itself_and_not_with_another_number(name: str, tmp_path: Path) -> None:
    case = models_of(tmp_path / "models")[name]
    places = {each.name: each for each in (tmp_path / "models").iterdir()}
    made = by_recipe(case.recipe, places)
    theirs = {spec.name: made.tensor(spec.name) for spec in made.outputs}
    (tmp_path / "out").mkdir()
    save_file(theirs, tmp_path / "out" / "model.safetensors")
    result, told = outcome(case, tmp_path / "out", None, tmp_path / "models")
    assert (result, told) == (
        "agrees", f"{len(theirs)} of {len(theirs)} tensors bit for bit, the largest difference 0.0e+00"
    )  # fmt: skip
    norm = "model.norm.weight"
    save_file({**theirs, norm: theirs[norm] * 1.01}, tmp_path / "out" / "model.safetensors")
    assert outcome(case, tmp_path / "out", None, tmp_path / "models")[0] == "differs"


def test_every_golden_case_with_words_in_mergekit_is_written_for_it(tmp_path: Path) -> None:
    cases = list(golden(tmp_path))
    assert len(cases) == 100
    assert {case.known for case in cases} == {"agrees", "differs", "raises"}
    for case in cases:
        assert all(Path(each["model"]).is_file() for each in case.config["models"]), case.id


def test_a_known_difference_that_became_another_is_told(tmp_path: Path) -> None:
    case = next(case for case in golden(tmp_path) if case.id == "nuslerp-antiparallel")
    out = tmp_path / "out"
    out.mkdir()
    for values, result in ((case.before, "differs"), (case.expected, "differs otherwise")):
        save_file({"w": torch.tensor(values)}, out / "model.safetensors")
        assert outcome(case, out, None, tmp_path)[0] == result
    assert outcome(case, out, "ValueError: no", tmp_path) == ("raises", "ValueError: no")
