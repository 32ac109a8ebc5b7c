"""What docs/evolutions.md says of a search is what the checks take and the job makes."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.workers.kinds.builders import evolve_job
from workers import evolve_params as limits
from workers.catalog import check_params
from workers.evolve_space import MAX_ANCHORS, MAX_COORDINATES, PER
from workers.kinds.by_batches import SAVE_EVERY_S
from workers.kinds.evolve import LEDGER, MODEL, REPORT, SUMMARY, TELL_EVERY_S
from workers.merge_values import RULES
from workers.space_check import KNOWN as OF_ENTRY
from workers.space_check import MAX_ENTRIES

PAGE = (Path(__file__).parents[3] / "docs" / "evolutions.md").read_text()


def named_in(heading: str) -> list[str]:
    """What stands in code in the first column of the table under the heading."""
    part = PAGE.split(f"{heading}\n", 1)[1].split("\n\n#")[0]
    first = re.findall(r"^\| (`[^|]+) \|", part, re.M)
    return [name for cell in first for name in re.findall(r"`([^`]+)`", cell)]


def test_the_job_that_is_shown_has_nothing_wrong():
    shown = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.S).group(1))
    assert check_params(shown["kind"], shown["params"])[1] == []


def test_all_parameters_and_fields_are_there_and_no_others():
    assert sorted(named_in("# Searches for the best merge")) == sorted(limits.KNOWN)
    assert sorted(named_in("## The space")) == sorted(OF_ENTRY)
    numbers = ", ".join(f"`{rule.name}`" for rule in RULES.values() if rule.numbers)
    assert f"({numbers})" in " ".join(PAGE.split())
    assert all(f"`{word}`" in PAGE for word in PER)


def test_its_numbers_and_names_are_those_of_the_code():
    text = " ".join(PAGE.split())
    for said in (
        f"{limits.MIN_BUDGET} to {limits.MAX_BUDGET:,}", f"{limits.MIN_POPULATION} to {limits.MAX_POPULATION:,}",
        f"{limits.GRID} by default", f"{limits.SIGMA} by default", f"up to {MAX_ENTRIES} parameters",
        f"{MAX_COORDINATES} numbers in all", f"2 to {MAX_ANCHORS}", f"every {SAVE_EVERY_S:.0f} s",
        f"less than {TELL_EVERY_S} s", f"`{LEDGER}`", f"`{SUMMARY}`", f"`JOB {MODEL}`", f"`JOB {REPORT}`",
    ):  # fmt: skip
        assert said in text, said


def test_the_fields_of_the_ledger_are_told(tmp_path):
    job = evolve_job(tmp_path)
    assert job.run() == 0
    row = json.loads((job.output / REPORT / LEDGER).read_text().splitlines()[0])
    summary = json.loads((job.output / REPORT / SUMMARY).read_text())
    told = set(re.findall(r"`(\w+)`", PAGE))
    assert [name for name in row if name not in told] == []
    assert {"coordinates", "best", "scores", "evaluations", "failed", "ended_by", "exact"} <= set(summary) & told
