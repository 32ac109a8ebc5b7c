"""Prints the pipeline of this example: train, merge in eight ways, evaluate every model on both kinds of text."""

from __future__ import annotations

import json
import sys
from typing import Any

PARENTS = ["@train/text-prose", "@train/text-code"]
BASE = "@train/text-base"
MERGES: dict[str, dict[str, Any]] = {
    "linear-25": {"strategy": "linear", "weights": [0.75, 0.25]},
    "linear-50": {"strategy": "linear", "weights": [0.5, 0.5]},
    "linear-75": {"strategy": "linear", "weights": [0.25, 0.75]},
    "slerp-50": {"strategy": "slerp", "t": 0.5},
    "task-50": {"strategy": "task_arithmetic", "base_model": BASE, "lambda": 0.5},
    "task-70": {"strategy": "task_arithmetic", "base_model": BASE, "lambda": 0.7},
    "task-100": {"strategy": "task_arithmetic", "base_model": BASE, "lambda": 1.0},
    "ties": {"strategy": "ties", "base_model": BASE, "density": 0.5},
}


def pipeline(files: str, project: str, seed: int = 0) -> dict[str, Any]:
    """The body of ``POST /api/v1/jobs/pipeline/``; ``files`` is the artifact that has ``train.py``."""
    common = {"project": project, "gpu_count": 1, "max_duration": "1h"}
    argv = ["python", "train.py", "--seed", str(seed)]
    jobs: list[dict[str, Any]] = [
        {**common, "key": "train", "name": "two-domains", "kind": "command", "params": {"argv": argv, "files": files}}
    ]
    models = {f"text-{name}": ("train", f"@train/text-{name}") for name in ("base", "prose", "code")}
    for name, params in MERGES.items():
        key = f"merge-{name}"
        jobs.append({**common, "key": key, "name": f"text-{name}", "kind": "merge", "after": ["train"],
                     "params": {**params, "models": PARENTS}})  # fmt: skip
        models[f"text-{name}"] = (key, f"@{key}")
    for name, (key, model) in models.items():
        for kind in ("prose", "code"):
            called, params = f"{name}-on-{kind}", {"model": model, "dataset": f"@train/{kind}-test"}
            after = sorted({key, "train"})
            jobs.append({**common, "key": called, "name": called, "kind": "evaluate", "after": after, "params": params})
    return {"jobs": jobs}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(pipeline(sys.argv[1], sys.argv[2])) + "\n")
