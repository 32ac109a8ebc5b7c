"""Carries merges out with mergekit, in its own environment: ``python theirs.py JOBS.json`` prints what became of each.

The file is a list of ``{id, config, out, raw, masks}``: ``config`` is a document of ``mergekit-yaml`` (``raw``: of
``mergekit-pytorch``), ``out`` the directory for the result, ``masks`` what is kept of each model in the place of what
would be drawn. Printed is one object of ``id: error``, null for a merge that came to its end. Nothing of EMEP is
imported.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from mergekit.config import MergeConfiguration
from mergekit.graph import Executor
from mergekit.merge import run_merge
from mergekit.options import MergeOptions
from mergekit.scripts.merge_raw_pytorch import RawPyTorchMergeConfig, plan_flat_merge

OPTIONS = {"copy_tokenizer": False, "quiet": True, "write_model_card": False}


def main(path: str) -> None:
    """Carry out the jobs of this file, each whether or not another fails."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    told: dict[str, str | None] = {}
    for job in json.loads(Path(path).read_text("utf-8")):
        try:
            with drawing(job.get("masks")):
                merge(job)
            told[job["id"]] = None
        except Exception as error:  # whatever it is, it is what became of this merge
            told[job["id"]] = f"{type(error).__name__}: {error}"[:300]
    sys.stdout.write(f"{json.dumps(told)}\n")


def merge(job: dict[str, Any]) -> None:
    """One merge, by whole models with an architecture or by files of whatever tensors."""
    options = MergeOptions(**OPTIONS)
    if job["raw"]:
        config = RawPyTorchMergeConfig.model_validate(job["config"])
        tasks = plan_flat_merge(config, job["out"], False, False, options)
        Executor(tasks, math_device="cpu", storage_device="cpu").execute()
    else:
        run_merge(MergeConfiguration.model_validate(job["config"]), job["out"], options)


@contextmanager
def drawing(masks: list[list[int]] | None) -> Iterator[None]:
    """What would be drawn at random is what these masks keep, one after the other."""
    real, left = torch.bernoulli, list(masks or [])

    def drawn(chance: torch.Tensor, *rest: Any, **more: Any) -> torch.Tensor:
        if not left:
            return real(chance, *rest, **more)
        return torch.tensor(left.pop(0), dtype=chance.dtype).reshape(chance.shape)

    torch.bernoulli = drawn
    try:
        yield
    finally:
        torch.bernoulli = real


if __name__ == "__main__":
    main(sys.argv[1])
