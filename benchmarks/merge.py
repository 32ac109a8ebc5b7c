"""How fast a merge is, against a plain copy of as many bytes with sha256 and fsync, in one run on one disk.

    python -m benchmarks.merge [--mb 200] [--models 2] [--rounds 3] [--threads 1] [--directory DIR]

Models are random bfloat16 tensors, half of the bytes in one tensor (as an embedding is). Speeds are MB (10^6 bytes)
of output a second, the best of the rounds; inputs are in the page cache. Memory is the growth of RssAnon.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from benchmarks.arguments import Parser, directory, whole
from workers.engines.merging import MergeEngine
from workers.engines.planning import plan_output
from workers.engines.producing import produce
from workers.engines.tensors import load_tensors
from workers.engines.writing import PlannedWriter


def generate(directory: Path, seed: int, megabytes: int) -> Path:
    """A model of about ``megabytes`` MB: one tensor of half of it, the rest in 32 equal ones."""
    g = torch.Generator().manual_seed(seed)
    elements = megabytes * 1_000_000 // 2
    sizes = {"embed.weight": elements // 2, **{f"layers.{i}.weight": elements // 64 for i in range(32)}}
    directory.mkdir(parents=True)
    tensors = {n: torch.randn(s, generator=g, dtype=torch.float32).mul_(0.02).bfloat16() for n, s in sizes.items()}
    save_file(tensors, directory / "model.safetensors")
    return directory


def copy(source: Path, target: Path) -> None:
    """The plain copy: read, sha256, write, fsync."""
    digest = hashlib.sha256()
    with source.open("rb") as file, target.open("wb") as out:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            out.write(chunk)
        out.flush()
        os.fsync(out.fileno())


def merge(models: list[Path], strategy: str, place: Path) -> None:
    """A whole merge into ``place``: open, plan, compute, sync, rename."""
    params = {"t": 0.5} if strategy == "slerp" else {"weights": [1.0] * len(models)}
    made = MergeEngine().merge(strategy, load_tensors(*models), params)
    writer = PlannedWriter(plan_output(made.outputs, metadata=made.metadata, identity={}), place / "work")
    writer.open()
    produce(made, writer)
    writer.publish(place / "out")


def anonymous_bytes() -> int:
    """RssAnon of this process now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not tell RssAnon")


def measured(work: Callable[[Path], None], place: Path, rounds: int) -> tuple[float, int]:
    """Seconds of the best round, and the largest growth of anonymous memory seen (looked at every 2 ms)."""
    best, peak, over = float("inf"), 0, threading.Event()
    before = anonymous_bytes()

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.002):
            peak = max(peak, anonymous_bytes() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for i in range(rounds):
            target = place / f"round-{i}"
            target.mkdir(parents=True)
            begun = time.perf_counter()
            work(target)
            best = min(best, time.perf_counter() - begun)
            for path in sorted(target.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
    finally:
        over.set()
        watcher.join()
    return best, peak


def main(argv: Sequence[str] | None = None) -> int:
    """Generate, measure, print one line for each."""
    parser = Parser("merge", __doc__)
    parser.add_argument("--mb", type=whole(1, 1_000_000), default=200, help="size of each model in MB")
    parser.add_argument("--models", type=whole(2, 64), default=2, help="how many linear merges (slerp takes two)")
    parser.add_argument("--rounds", type=whole(1, 1000), default=3, help="of which the best counts")
    parser.add_argument("--threads", type=whole(1, 1024), default=1, help="of torch")
    parser.add_argument("--directory", type=directory, help="where to work (default: the temporary directory)")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
        place = Path(name)
        models = [place / f"model-{i}" for i in range(arguments.models)]
        # In processes of their own: memory they leave in the allocator would hide what the merges take.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            pool.starmap(generate, [(path, i, arguments.mb) for i, path in enumerate(models)])
        source = models[0] / "model.safetensors"
        size = source.stat().st_size / 1e6
        print(f"{arguments.models} models of {size:.1f} MB, {arguments.threads} threads, torch {torch.__version__}")
        plain, _ = measured(lambda p: copy(source, p / "copy"), place / "copy", arguments.rounds)
        print(f"copy    {size / plain:8.1f} MB/s")
        for strategy, chosen in (("linear", models), ("slerp", models[:2])):
            seconds, peak = measured(lambda p, s=strategy, c=chosen: merge(c, s, p), place / strategy, arguments.rounds)
            print(
                f"{strategy:7s} {size / seconds:8.1f} MB/s = {plain / seconds:.2f} of the copy, "
                f"peak anonymous memory +{peak / 1e6:.1f} MB"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
