"""A job as the agent would start it: its document, its directories, its environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.workers.engines.builders import random_model, sha256
from tests.workers.engines.evaluations import MLP, family_model, json_lines, labelled, texts
from workers.emep_job import StopRequest
from workers.kinds import evaluate, evolve, infer, merge
from workers.kinds.context import JobContext, read_context

ROOT = Path(__file__).parents[3]
PROGRAMS = {"merge": merge, "evaluate": evaluate, "infer": infer, "evolve": evolve}
PARENTS = ["sha256:" + c * 64 for c in "ab"]
BASE = "sha256:" + "c" * 64
SAMPLES = ["sha256:" + c * 64 for c in "de"]


@dataclass(frozen=True)
class Job:
    """The directories of one job and the environment of its next attempt."""

    directory: Path
    environ: dict[str, str]

    @property
    def events(self) -> list[dict[str, Any]]:
        path = self.directory / "events"
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []

    @property
    def kind(self) -> str:
        return json.loads((self.directory / "job.json").read_text())["kind"]

    @property
    def output(self) -> Path:
        return Path(self.environ["EMEP_OUTPUT_DIR"])

    @property
    def merged(self) -> Path:
        return self.output / "merged"

    @property
    def evaluated(self) -> Path:
        return self.output / "evaluation"

    @property
    def inferred(self) -> Path:
        return Path(self.environ["EMEP_OUTPUT_DIR"]) / "inference"

    @property
    def made(self) -> dict[str, str]:
        """The sha256 of every file of the output by its name."""
        return {p.relative_to(self.output).as_posix(): sha256(p) for p in self.output.rglob("*") if p.is_file()}

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"

    def next_attempt(self, **environ: str) -> Job:
        """The same job again: checkpoint kept, everything else fresh."""
        again = self.directory / f"attempt-{len(list(self.directory.glob('attempt-*')))}"
        fresh = {"EMEP_RESUME": "1", "EMEP_OUTPUT_DIR": str(again), "EMEP_PREEMPT_FILE": str(again) + "-preempt"}
        return Job(self.directory, {**self.environ, **fresh, **environ})

    def context(self, stop: StopRequest | None = None) -> JobContext:
        return read_context(self.environ, stop or StopRequest(Path(self.environ["EMEP_PREEMPT_FILE"]), 10.0))

    def run(self, stop: StopRequest | None = None) -> int:
        """Run the attempt inside this process."""
        return PROGRAMS[self.kind].run(self.context(stop))

    def start(self) -> subprocess.Popen[str]:
        """Run the attempt as a process of its own, as the agent does."""
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "workers.kinds"],
            cwd=ROOT,
            env={**{k: v for k, v in os.environ.items() if not k.startswith("EMEP_")}, **self.environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def merge_job(directory: Path, params: dict[str, Any] | None = None, **environ: str) -> Job:
    """A merge of two random models; ``params`` change the defaults (slerp, t = 0.3), another strategy takes their
    place. With a ``base_model`` there is a third, the last input."""
    inputs = directory / "inputs"
    given = params or {}
    how = {} if "strategy" in given else {"strategy": "slerp", "t": 0.3}
    asked = {"seed": 7, "models": PARENTS, **how, **given}
    named = {f"model-{i}": artifact for i, artifact in enumerate(PARENTS)}
    if "base_model" in asked:
        named["base-model"] = BASE
    for i, name in enumerate(named):
        target = random_model(inputs / name, i)
        (target / "config.json").write_text(f'{{"layers": {i}}}\n')
    return written(directory, "merge", asked, named, **environ)


def evaluate_job(
    directory: Path, params: dict[str, Any] | None = None, config: dict[str, Any] = MLP, count: int = 10, **environ: str
) -> Job:
    """An evaluation of a random model of the architecture by so many random samples, four at a time; ``params`` change
    that."""
    inputs = directory / "inputs"
    family_model(inputs / "model", config)
    rows = labelled(count) if config["model_type"] == "mlp" else texts(count)
    json_lines(inputs / "dataset" / "test.jsonl", rows)
    named = dict(zip(("model", "dataset"), PARENTS, strict=True))
    asked = {"model": "net", "dataset": "tests", "batch_size": 4, **(params or {})}
    return written(directory, "evaluate", asked, named, **environ)


def infer_job(
    directory: Path, params: dict[str, Any] | None = None, config: dict[str, Any] = MLP, count: int = 10, **environ: str
) -> Job:
    """A random model of the architecture over so many random rows, four at a time; ``params`` change that. A language
    model draws nine tokens that follow each."""
    inputs = directory / "inputs"
    family_model(inputs / "model", config)
    plain = config["model_type"] == "mlp"
    rows = [{"input": row["input"]} for row in labelled(count)] if plain else texts(count)
    json_lines(inputs / "input" / "rows.jsonl", rows)
    named = dict(zip(("model", "input"), PARENTS, strict=True))
    drawn = {} if plain else {"max_new_tokens": 9, "temperature": 0.8, "seed": 5}
    asked = {"model": "net", "input": "rows", "batch_size": 4, **drawn, **(params or {})}
    return written(directory, "infer", asked, named, **environ)


def evolve_job(directory: Path, params: dict[str, Any] | None = None, *, test: bool = True, **environ: str) -> Job:
    """A search over the t of each layer of two random classifiers: 2 models, 3 points of the grid, 3 generations of 4,
    and 4 evaluations on the test set. ``params`` change that; with a base model there is a third."""
    inputs = directory / "inputs"
    asked = {
        "merge": {"strategy": "slerp", "models": ["a", "b"]},
        "space": [{"name": "t", "low": 0.0, "high": 1.0, "per": "layer"}],
        "objective": {"dataset": "d", "batch_size": 16},
        "population": 4, "budget": 17, "grid": 3, "seed": 5,
        **({"test": {"dataset": "e"}} if test else {}), **(params or {}),
    }  # fmt: skip
    named = {f"model-{i}": artifact for i, artifact in enumerate(PARENTS)}
    if isinstance(asked["merge"], dict) and "base_model" in asked["merge"]:
        named["base-model"] = BASE
    for i, name in enumerate(named):
        family_model(inputs / name, MLP, i)
    named |= dict(zip(("dataset", "test-dataset"), SAMPLES, strict=True)) if test else {"dataset": SAMPLES[0]}
    for i, name in enumerate(name for name in named if "dataset" in name):
        json_lines(inputs / name / "rows.jsonl", labelled(40, seed=i))
    return written(directory, "evolve", asked, named, **environ)


def written(directory: Path, kind: str, params: dict[str, Any], named: dict[str, str], **environ: str) -> Job:
    """The job of this kind as its document says it, and the environment of its first attempt."""
    inputs = directory / "inputs"
    document = {
        "kind": kind,
        "params": params,
        "inputs": [
            {"as": name, "artifact": artifact, "digest": f"digest of {artifact}", "files": []}
            for name, artifact in named.items()
        ],
        "gpus": ["GPU-sim-0", "GPU-sim-1"],
        "remaining_s": 100.0,
        "grace_s": 10.0,
    }
    (directory / "job.json").write_text(json.dumps(document))
    return Job(
        directory,
        {
            "EMEP_JOB_FILE": str(directory / "job.json"),
            "EMEP_JOB_ID": "job-1",
            "EMEP_ATTEMPT": "1",
            "EMEP_EPOCH": "1",
            "EMEP_INPUT_DIR": str(inputs),
            "EMEP_OUTPUT_DIR": str(directory / "output"),
            "EMEP_CHECKPOINT_DIR": str(directory / "checkpoint"),
            "EMEP_SCRATCH_DIR": str(directory / "scratch"),
            "EMEP_EVENTS": str(directory / "events"),
            "EMEP_PREEMPT_FILE": str(directory / "preempt"),
            "EMEP_GRACE_SECONDS": "10",
            "EMEP_CHECKPOINT_EXIT_CODE": "85",
            "EMEP_GPU_COUNT": "2",
            "CUDA_VISIBLE_DEVICES": "GPU-sim-0,GPU-sim-1",
            **environ,
        },
    )
