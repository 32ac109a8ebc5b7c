"""How fast a merge is, against a plain copy that reads as many models, with sha256 and fsync, in one run on one disk.

    python -m benchmarks.merge [--mb 500] [--models 2] [--rounds 3] [--threads 1] [--directory DIR] [--mergekit PYTHON]

Models are random bfloat16 tensors, half of the bytes in one tensor (as an embedding is). The copy reads all models,
writes one with its sha256 and syncs it; a merge is computed, written, synced and has its sha256 taken too. Speeds are
MB (10^6 bytes) of output a second, the best of the rounds; inputs are in the page cache. Memory is the growth of
RssAnon. With the Python of an environment that has mergekit (``make oracle`` makes ``.venv-oracle``) its merges take
turns with ours; it writes the output without sha256 and without syncing it.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import save_file

from benchmarks.arguments import Parser, directory, program, whole
from benchmarks.verdicts import at_least, at_most
from workers.engines.merging import Candidate, MergeEngine
from workers.engines.planning import plan_output
from workers.engines.producing import produce
from workers.engines.sources import SINGLE
from workers.engines.tensors import load_tensors
from workers.engines.writing import PlannedWriter

GOAL = 0.3
TIMES_THEIRS = 2.0
SHARE_OF_THEIRS = 1 / 3
BLOCK = 1 << 20


def generate(directory: Path, seed: int, megabytes: int) -> Path:
    """A model of about ``megabytes`` MB: one tensor of half of it, the rest in 32 equal ones."""
    g = torch.Generator().manual_seed(seed)
    elements = megabytes * 1_000_000 // 2
    sizes = {"embed.weight": elements // 2, **{f"layers.{i}.weight": elements // 64 for i in range(32)}}
    directory.mkdir(parents=True)
    tensors = {n: torch.randn(s, generator=g, dtype=torch.float32).mul_(0.02).bfloat16() for n, s in sizes.items()}
    save_file(tensors, directory / SINGLE)
    return directory


def copy(models: Sequence[Path], target: Path) -> None:
    """The plain copy: read all models side by side, write the first with its sha256, fsync."""
    digest = hashlib.sha256()
    with ExitStack() as files, target.open("wb") as out:
        first, *others = [files.enter_context((model / SINGLE).open("rb")) for model in models]
        while chunk := first.read(BLOCK):
            digest.update(chunk)
            out.write(chunk)
            for other in others:
                other.read(BLOCK)
        out.flush()
        os.fsync(out.fileno())


def candidate(models: Sequence[Path], strategy: str) -> Candidate:
    """The merge of these models."""
    params = {"t": 0.5} if strategy == "slerp" else {"weights": [1.0] * len(models)}
    return MergeEngine().merge(strategy, load_tensors(*models), params)


def merge(models: Sequence[Path], strategy: str, place: Path) -> None:
    """A whole merge into ``place``: open, plan, compute, sync, rename, sha256."""
    made = candidate(models, strategy)
    writer = PlannedWriter(plan_output(made.outputs, metadata=made.metadata, identity={}), place / "work")
    writer.open()
    produce(made, writer)
    for path in writer.publish(place / "out"):
        with path.open("rb") as file:
            hashlib.file_digest(file, "sha256")


def theirs(python: str, models: Sequence[Path], strategy: str, threads: int, place: Path) -> tuple[float, int]:
    """The same merge by mergekit in a process of its own: seconds without imports, and growth of anonymous memory."""
    places = [str(model / SINGLE) for model in models]
    config: dict[str, object] = {"merge_method": strategy, "threads": threads}
    if strategy == "slerp":
        config |= {"models": [{"model": path} for path in places], "base_model": places[0], "parameters": {"t": 0.5}}
    else:
        config["models"] = [{"model": path, "parameters": {"weight": 1.0}} for path in places]
    (place / "config.json").write_text(json.dumps(config))
    theirs_py = Path(__file__).with_name("merge_theirs.py")
    ran = subprocess.run(
        [python, str(theirs_py), str(place / "config.json"), str(place / "out")], capture_output=True, text=True
    )
    if ran.returncode:
        sys.exit(f"mergekit could not be run by {python}:\n{ran.stderr[-3000:]}")
    told = json.loads(ran.stdout.splitlines()[-1])
    return told["seconds"], told["peak"]


def anonymous_bytes() -> int:
    """RssAnon of this process now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not tell RssAnon")


Work = Callable[[Path], tuple[float, int]]


def measured(works: Mapping[str, Work], place: Path, rounds: int) -> dict[str, tuple[float, int]]:
    """Of each work the seconds of its best round, and the largest growth of anonymous memory seen (looked at every
    2 ms). The works take turns, so that what else the machine does comes to all of them."""
    best = {name: (float("inf"), 0) for name in works}
    for i in range(rounds):
        for name, work in works.items():
            target = place / f"{name}-{i}"
            target.mkdir()
            seconds, peak = work(target)
            best[name] = min(best[name][0], seconds), max(best[name][1], peak)
            shutil.rmtree(target)
    return best


def once(work: Callable[[Path], None], target: Path) -> tuple[float, int]:
    """Seconds that the work took, and how much anonymous memory grew meanwhile."""
    peak, over, before = 0, threading.Event(), anonymous_bytes()

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.002):
            peak = max(peak, anonymous_bytes() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        begun = time.perf_counter()
        work(target)
        return time.perf_counter() - begun, peak
    finally:
        over.set()
        watcher.join()


def main(argv: Sequence[str] | None = None) -> int:
    """Generate, measure, print one line for each."""
    parser = Parser("merge", __doc__)
    parser.add_argument("--mb", type=whole(1, 1_000_000), default=500, help="size of each model in MB")
    parser.add_argument("--models", type=whole(2, 64), default=2, help="how many linear merges (slerp takes two)")
    parser.add_argument("--rounds", type=whole(1, 1000), default=3, help="of which the best counts")
    parser.add_argument("--threads", type=whole(1, 1024), default=1, help="of torch")
    parser.add_argument(
        "--mergekit", type=program, metavar="PYTHON", help="of an environment that has mergekit: merge with it too"
    )
    parser.add_argument("--directory", type=directory, help="where to work (default: the temporary directory)")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
        place = Path(name)
        models = [place / f"model-{i}" for i in range(arguments.models)]
        # In processes of their own: memory they leave in the allocator would hide what the merges take.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            pool.starmap(generate, [(path, i, arguments.mb) for i, path in enumerate(models)])
        size = (models[0] / SINGLE).stat().st_size / 1e6
        print(f"{arguments.models} models of {size:.1f} MB, {arguments.threads} threads, torch {torch.__version__}")
        chosen = {"linear": models, "slerp": models[:2]}
        works: dict[str, Work] = {"copy": partial(once, lambda p: copy(models, p / "copy"))}
        works |= {name: partial(once, partial(merge, taken, name)) for name, taken in chosen.items()}
        if arguments.mergekit:
            works |= {_by(name): partial(theirs, arguments.mergekit, taken, name, arguments.threads)
                      for name, taken in chosen.items()}  # fmt: skip
        told = measured(works, place, arguments.rounds)
        plain = told["copy"][0]
        print(f"copy    {size / plain:8.1f} MB/s, reads {len(models)} models")
        for name, taken in chosen.items():
            seconds, peak = told[name]
            bound = candidate(taken, name).memory_estimate()
            print(
                f"{name:7s} {size / seconds:8.1f} MB/s = {plain / seconds:.2f} of the copy "
                f"{at_least(plain / seconds, GOAL)}, peak anonymous memory +{peak / 1e6:.1f} MB "
                f"{at_most(round(peak / 1e6, 1), round(bound / 1e6, 1))}"
            )
            if arguments.mergekit:
                other, most = told[_by(name)]
                print(
                    f"        mergekit {size / other:8.1f} MB/s: we are {other / seconds:.2f} times as fast "
                    f"{at_least(other / seconds, TIMES_THEIRS)}, its memory +{most / 1e6:.1f} MB: ours is "
                    f"{peak / most:.3f} of it {at_most(round(peak / most, 3), round(SHARE_OF_THEIRS, 3))}"
                )
    return 0


def _by(name: str) -> str:
    return f"{name} by mergekit"


if __name__ == "__main__":
    sys.exit(main())
