"""``python -m workers.kinds.digits_search``: how much better is what a search finds than the best fixed value?

For each seed two models are tuned from one base on halves of the digits. Two jobs of kind evolve search: the t of each
layer (SLERP), and a weight for each layer of both models (task arithmetic). Fails (1) where the figures are not those
that are expected.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from workers.emep_job import StopRequest
from workers.kinds import evolve
from workers.kinds.context import DONE, read_context
from workers.kinds.digits import split, train_models, write_models, write_samples
from workers.search_rows import BEST, FIXED, SEARCH, TESTED

MODELS = {"model-0": "digits-0-4", "model-1": "digits-5-9", "base-model": "digits-base"}
COMMON: Mapping[str, Any] = {
    "objective": {"dataset": "digits-search", "metrics": ["accuracy", "loss"], "batch_size": 1024},
    "test": {"dataset": "digits-test"}, "population": 12, "grid": 21,
}  # fmt: skip
T_OF_LAYERS, WEIGHTS_OF_LAYERS = "SLERP, t of each layer", "task arithmetic, weights of each layer"
HALVES = ["digits-0-4", "digits-5-9"]
SEARCHES: Mapping[str, Mapping[str, Any]] = {
    T_OF_LAYERS: {
        "merge": {"strategy": "slerp", "models": HALVES},
        "space": [{"name": "t", "low": 0, "high": 1, "per": "layer"}],
    },
    WEIGHTS_OF_LAYERS: {
        "merge": {"strategy": "task_arithmetic", "models": HALVES, "base_model": "digits-base"},
        "space": [{"name": "weights", "low": 0, "high": 1.5, "per": "layer"}],
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scores:
    """The accuracy of each on the search set and on the test set (None: not judged on it), by what it is."""

    seed: int
    search: Mapping[str, float]
    test: Mapping[str, float]


def searched(seed: int, name: str, budget: int) -> Scores:
    """The job of that name has run for the models of this seed."""
    with tempfile.TemporaryDirectory(prefix="digits-search-") as made:
        root = Path(made)
        params = {**COMMON, **SEARCHES[name], "budget": budget, "seed": seed}
        _inputs(root, seed, [place for place in MODELS if place != "base-model" or "base_model" in params["merge"]])
        output = _run(root, params)
        summary = json.loads((output / evolve.REPORT / evolve.SUMMARY).read_text())
        rows = [json.loads(line) for line in (output / evolve.REPORT / evolve.LEDGER).read_text().splitlines()]
    start = next(row for row in rows if row["what"] == "start")
    search = {each["what"]: each[SEARCH]["accuracy"] for each in summary["scores"]}
    return Scores(
        seed,
        {**search, "start": start["score"]},
        {each["what"]: each[TESTED]["accuracy"] for each in summary["scores"]},
    )


def _inputs(root: Path, seed: int, places: Sequence[str]) -> None:
    images = split(seed)
    write_models(root / "made", train_models(seed))
    (root / "inputs").mkdir()
    for place in places:
        (root / "made" / MODELS[place]).rename(root / "inputs" / place)
    write_samples(root / "inputs" / "dataset", images["search"])
    write_samples(root / "inputs" / "test-dataset", images["test"])


def _run(root: Path, params: Mapping[str, Any]) -> Path:
    """The output of the job, which runs in this process as an agent would start it."""
    named = sorted(p.name for p in (root / "inputs").iterdir())
    order = [*(place for place in MODELS if place in named), "dataset", "test-dataset"]
    inputs = [{"as": name, "artifact": name, "name": MODELS.get(name, name)} for name in order]
    (root / "job.json").write_text(json.dumps({"kind": "evolve", "params": params, "inputs": inputs}))
    environ = {
        "EMEP_JOB_FILE": str(root / "job.json"), "EMEP_INPUT_DIR": str(root / "inputs"),
        **{f"EMEP_{name.upper()}_DIR": str(root / name) for name in ("output", "checkpoint", "scratch")},
    }  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        code = evolve.run(read_context(environ, StopRequest(None, 60.0)))
    if code != DONE:
        raise RuntimeError(f"the search ended with {code}")
    return root / "output"


def told(name: str, found: Sequence[Scores]) -> list[str]:
    """The figures of one search over all seeds, a line each."""
    lines = [f"{name} ({len(found)} seed{'s' * (len(found) > 1)})", f"  {'':24}{'search set':>12}{'test set':>20}"]
    called = {"model-0": HALVES[0], "model-1": HALVES[1], "base-model": "digits-base", "start": "where it begins",
              FIXED: "best fixed value", BEST: "the search"}  # fmt: skip
    for what, words in called.items():
        if what in found[0].search:
            test = [each.test[what] for each in found if what in each.test]
            on_test = f"{statistics.fmean(test):.4f} ± {statistics.pstdev(test):.4f}" if test else ""
            lines.append(f"  {words:24}{statistics.fmean(each.search[what] for each in found):>12.4f}{on_test:>20}")
    for word, part in (("search", "search"), ("test", "test")):
        gains = _gains(found, part)
        better, equal = sum(gain > 0 for gain in gains), sum(gain == 0 for gain in gains)
        lines.append(
            f"  against the best fixed value on the {word} set: {100 * statistics.fmean(gains):+.2f} points,"
            f" {better} better, {equal} equal, {len(gains) - better - equal} worse"
        )
    return lines


def _gains(found: Sequence[Scores], part: str) -> list[float]:
    return [getattr(each, part)[BEST] - getattr(each, part)[FIXED] for each in found]


def unexpected(found: Mapping[str, Sequence[Scores]]) -> list[str]:
    """What of the figures is not as the design expects it; of all ten seeds, of fewer as far as it can hold."""
    wrong: list[str] = []
    by_t = found[T_OF_LAYERS]
    seeds, most = len(by_t), 0.8
    for name, scores in found.items():
        above, gain = sum(each > 0 for each in _gains(scores, "search")), statistics.fmean(_gains(scores, "search"))
        if min(_gains(scores, "search")) < 0:
            wrong.append(f"{name}: below its best fixed value on the search set")
        if above < most * seeds:
            wrong.append(f"{name}: above the best fixed value in {above} of {seeds} seeds only")
        if gain < 0.005:
            wrong.append(f"{name}: {100 * gain:.2f} points on the search set, at least 0.5 are expected")
        if statistics.fmean(_gains(scores, "test")) <= 0:
            wrong.append(f"{name}: no gain on the test set")
    if max(each.test[parent] for each in by_t for parent in ("model-0", "model-1")) >= 0.60:
        wrong.append("a model of one half reads 60 % of all digits")
    middle = [each.search["start"] for each in by_t]
    bases = {each.seed: each.search["base-model"] for each in found[WEIGHTS_OF_LAYERS]}
    if statistics.fmean(middle) < 0.85:
        wrong.append(f"the merge at t = 0.5 reads {statistics.fmean(middle):.4f}, at least 0.85 is expected")
    if sum(each.search["start"] > bases[each.seed] for each in by_t) < 0.9 * seeds:
        wrong.append("the merge at t = 0.5 is not above the base in 9 of 10 seeds")
    return wrong


def main() -> int:
    """Search, print the figures of each search, and say what is not as expected."""
    parser = argparse.ArgumentParser(prog="python -m workers.kinds.digits_search", description="Search on the digits.")
    parser.add_argument("--seeds", type=int, default=10, help="how many pairs of models (default 10)")
    parser.add_argument("--budget", type=int, default=600, help="evaluations of a search (default 600)")
    arguments = parser.parse_args()
    asked = [(seed, name, arguments.budget) for name in SEARCHES for seed in range(arguments.seeds)]
    # Each in a process of its own kind: torch does not survive a fork of its threads.
    with ProcessPoolExecutor(min(os.cpu_count() or 1, len(asked)), mp_context=get_context("spawn")) as pool:
        results = list(pool.map(searched, *zip(*asked, strict=True)))
    found = {name: [r for r, (_, of, _) in zip(results, asked, strict=True) if of == name] for name in SEARCHES}
    for name, scores in found.items():
        sys.stdout.write("\n".join(told(name, scores)) + "\n\n")
    wrong = unexpected(found)
    sys.stdout.write("".join(f"not as expected: {each}\n" for each in wrong) or "all as expected\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
