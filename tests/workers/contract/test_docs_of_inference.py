"""What docs/inference.md says of a batch inference is what the checks take and the engines make."""

from __future__ import annotations

import json
import re
from pathlib import Path

from workers.catalog import check_params
from workers.engines.choosing import LEVEL
from workers.engines.data_files import MAX_BYTES
from workers.engines.inferring import PLACES
from workers.infer_params import KNOWN, MAX_TEMPERATURE, NEW_TOKENS
from workers.kinds.infer import PART_ROWS
from workers.rows_params import BATCH, FORMATS

PAGE = (Path(__file__).parents[3] / "docs" / "inference.md").read_text()


def test_the_job_that_is_shown_has_nothing_wrong():
    shown = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.S).group(1))
    assert check_params(shown["kind"], shown["params"])[1] == []


def test_all_parameters_and_formats_are_there_and_no_others():
    table = PAGE.split("\n## ")[0]
    assert re.findall(r"^\| `([^`]+)`", table, re.M) == KNOWN
    assert [name for name in FORMATS if f"`{name}`" not in PAGE] == []


def test_its_numbers_are_those_of_the_code():
    assert f"rows at a time, {BATCH} by default" in PAGE
    assert f"how many tokens follow each text, {NEW_TOKENS} by default" in PAGE
    assert f"up to {MAX_TEMPERATURE:g}" in PAGE
    assert f"at most {MAX_BYTES // 10**6} MB" in PAGE
    assert f"a line a row, {PART_ROWS:,} in each" in PAGE
    assert f"within {LEVEL:.0e}".replace("e-09", "e-9") in PAGE
    assert (PLACES, "kept to six decimals" in PAGE) == (6, True)
