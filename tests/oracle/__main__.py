"""Does mergekit come to the same numbers? ``make oracle`` prints each merge; an unlisted difference is a failure.

Usage: ``python -m tests.oracle PYTHON``, the Python of an environment that has mergekit 0.1.5. Golden cases are held to
what is written for that version in their file; recipes for whole models must come to equal numbers.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from tests.oracle.cases import Case, golden, whole
from workers.engines.merging import MergeEngine
from workers.engines.tensors import load_tensors
from workers.merge_params import check_merge, merge_references
from workers.merge_recipe import recipe_of

THEIRS = Path(__file__).with_name("theirs.py")


def main(python: str) -> int:
    """Merge everything twice and print what agrees; 1 where a merge came out otherwise than is written."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        cases = [*golden(directory / "golden"), *whole(directory / "models")]
        out = {case.id: directory / "out" / str(i) for i, case in enumerate(cases)}
        jobs = [{"id": c.id, "config": c.config, "out": str(out[c.id]), "raw": c.raw, "masks": c.masks} for c in cases]
        (directory / "jobs.json").write_text(json.dumps(jobs))
        ran = subprocess.run([python, str(THEIRS), str(directory / "jobs.json")], capture_output=True, text=True)
        if ran.returncode:
            sys.exit(f"mergekit could not be run by {python}:\n{ran.stderr[-3000:]}")
        errors = json.loads(ran.stdout.splitlines()[-1])
        found = {case.id: outcome(case, out[case.id], errors[case.id], directory / "models") for case in cases}
    wrong = 0
    for case in cases:
        result, told = found[case.id]
        held = result == case.known
        wrong += not held
        how, otherwise = f" ({told})" if told else "", "" if held else f", was to be: {case.known}"
        sys.stdout.write(f"{case.id}: {result}{how}{otherwise}\n")
    counts = Counter(result for result, _ in found.values())
    told = ", ".join(f"{n} {result}" for result, n in sorted(counts.items()))
    sys.stdout.write(f"oracle: {len(cases)} merges, {told}, {wrong} otherwise than written\n")
    return 1 if wrong else 0


def outcome(case: Case, out: Path, error: str | None, models: Path) -> tuple[str, str]:
    """``agrees``, ``differs`` or ``raises``, and how."""
    if error is not None:
        return "raises", error
    theirs = {name: value for path in sorted(out.glob("*.safetensors")) for name, value in load_file(path).items()}
    if case.recipe is not None:
        return _against(case.recipe, theirs, models)
    got = theirs["w"].double().reshape(-1).tolist()
    if case.known == "differs" and not _close(got, [float(x) for x in case.before], 1e-6):
        return "differs otherwise", f"{got} and before {case.before}"
    if case.expected is not None and _close(got, case.expected, case.tolerance):
        return "agrees", ""
    return "differs", f"{got}, here {'refused' if case.expected is None else list(case.expected)}"


def _against(recipe: Mapping[str, Any], theirs: Mapping[str, Any], models: Path) -> tuple[str, str]:
    clean, errors = check_merge({"recipe": recipe})
    assert errors == [], errors
    named = merge_references(clean)
    made = recipe_of(clean)
    based = made.slices[0].base is not None
    tensors = load_tensors(*(models / name for _, name, _ in named), based=based, sliced=made.is_sliced)
    whole_params = {name: recipe[name] for name in ("dtype", "out_dtype") if name in recipe}
    ours = MergeEngine().follow(made, tensors, whole_params, [name for _, _, name in named])
    names = {spec.name for spec in ours.outputs}
    if names != theirs.keys():
        return "differs", f"only one has {sorted(names ^ theirs.keys())[:5]}"
    worst, equal = 0.0, 0
    for name in names:
        one, other = ours.tensor(name), theirs[name]
        if one.dtype != other.dtype:
            return "differs", f"{name} is {one.dtype} here and {other.dtype} there"
        off = (one.double() - other.double()).abs() / one.double().abs().clamp(min=1.0)
        worst, equal = max(worst, float(off.max())), equal + bool((one == other).all())
    told = f"{equal} of {len(names)} tensors bit for bit, the largest difference {worst:.1e}"
    return ("agrees" if worst <= 1e-6 else "differs"), told


def _close(got: Sequence[float], expected: Sequence[float], tolerance: float) -> bool:
    return len(got) == len(expected) and all(
        g == e or (math.isnan(g) and math.isnan(e)) or abs(g - e) <= tolerance * max(1.0, abs(e))
        for g, e in zip(got, expected, strict=True)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
