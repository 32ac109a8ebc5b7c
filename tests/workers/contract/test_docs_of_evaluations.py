"""What docs/evaluations.md says of an evaluation is what the checks take and the engines make."""

from __future__ import annotations

import json
import re
from pathlib import Path

from workers.catalog import check_params
from workers.engines.data_files import MAX_BYTES
from workers.engines.huggingface import WINDOW
from workers.evaluate_params import KNOWN, METRICS
from workers.huggingface_families import CAUSAL, CLASSIFIER, CONTEXT
from workers.kinds.by_batches import SAVE_EVERY_S, SAVE_SHARE
from workers.model_families import ACTIVATIONS, FAMILIES
from workers.rows_params import BATCH, FORMATS

PAGE = (Path(__file__).parents[3] / "docs" / "evaluations.md").read_text()


def named_in(heading: str) -> list[str]:
    """What stands in the first column of the table under the heading, with its own heading if that is code."""
    part = PAGE.split(f"{heading}\n", 1)[1].split("\n\n#")[0]
    return re.findall(r"^\| `([^`]+)`", part, re.M)


def test_the_job_that_is_shown_has_nothing_wrong():
    shown = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.S).group(1))
    assert check_params(shown["kind"], shown["params"])[1] == []


def test_all_parameters_architectures_and_metrics_are_there_and_no_others():
    assert set(named_in("# Evaluations")) >= set(KNOWN)
    assert named_in("## Models")[1:] == list(FAMILIES)
    assert sorted(named_in("## Metrics")) == sorted(METRICS)
    assert [name for name in FORMATS if f"| `{name}` |" not in PAGE] == []
    fields = [name for family in FAMILIES.values() for name in family.fields if name != "classes"]
    assert [name for name in (*fields, *ACTIVATIONS) if f"`{name}`" not in PAGE] == []


def test_its_numbers_are_those_of_the_code():
    assert f"{BATCH} by default" in PAGE
    assert f"at most {MAX_BYTES // 10**6} MB" in PAGE
    assert (PAGE.count(f"{WINDOW:,}"), WINDOW) == (2, CONTEXT)
    assert [name for name in (*CAUSAL, *CLASSIFIER) if f"`{name}`" not in PAGE] == []
    assert (f"Every {SAVE_EVERY_S:.0f} s" in PAGE, "every twentieth" in PAGE, SAVE_SHARE) == (True, True, 1 / 20)
