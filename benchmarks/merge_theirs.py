"""A merge by mergekit, in its own environment: ``python merge_theirs.py CONFIG.json OUT`` prints seconds and memory.

The file is a document of ``mergekit-pytorch`` with ``threads`` beside it. Counted is from the opening of the models to
the end of writing, without imports; memory is the growth of RssAnon, looked at every 2 ms. Nothing of EMEP is imported.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch
from mergekit.graph import Executor
from mergekit.options import MergeOptions
from mergekit.scripts.merge_raw_pytorch import RawPyTorchMergeConfig, plan_flat_merge


def main(config: dict[str, Any], out: str) -> None:
    """Carry it out once."""
    torch.set_num_threads(config.pop("threads"))
    peak, over, before = 0, threading.Event(), anonymous_bytes()

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.002):
            peak = max(peak, anonymous_bytes() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    begun = time.perf_counter()
    tasks = plan_flat_merge(RawPyTorchMergeConfig.model_validate(config), out, False, False, MergeOptions(quiet=True))
    Executor(tasks, math_device="cpu", storage_device="cpu").execute()
    seconds = time.perf_counter() - begun
    over.set()
    watcher.join()
    sys.stdout.write(f"{json.dumps({'seconds': seconds, 'peak': peak})}\n")


def anonymous_bytes() -> int:
    """RssAnon of this process now."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text("utf-8")), sys.argv[2])
