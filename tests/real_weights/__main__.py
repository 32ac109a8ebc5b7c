"""Real models, merged with every strategy, killed with SIGKILL at a random tensor: always the same bytes.

``make real-weights`` runs it. Each kill is a process of its own that ends itself behind a tensor that the seed chose;
another goes on from what lies on the disk. The last line is ``real weights: N merges, N kills, N otherwise``.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.real_weights.models import ROOT, Pair, fetched, pairs
from tests.real_weights.norms import lengths
from tests.workers.engines.recipes import ON_A_BASE, RECIPES
from tests.workers.kinds.builders import BASE, PARENTS, Job, written
from workers.kinds.merge import _Progress

WITHIN = 2e-6
NAMES = ("model-0", "model-1", "base-model")


def main() -> int:
    """Do what the arguments say; 1 where a merge came to other bytes."""
    asked = _arguments()
    chance = random.Random(asked.seed)
    merges = kills = wrong = 0
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        for pair in pairs(fetched(asked.wheels), directory / "models"):
            for strategy in asked.strategies:
                begun, made = time.monotonic(), _Merge(pair, strategy, directory / "jobs")
                expected, count = made.undisturbed()
                otherwise = sum(made.killed_at(chance.randint(1, count)) != expected for _ in range(asked.kills))
                merges, kills, wrong = merges + 1, kills + asked.kills, wrong + otherwise
                sys.stdout.write(
                    f"{pair.name}, {strategy}: {count} tensors, {asked.kills} kills, {otherwise} otherwise, "
                    f"{time.monotonic() - begun:.0f} s, {expected[:12]}\n"
                )
                sys.stdout.flush()
            for name, length, known in lengths(pair):
                otherwise = abs(length - known) > WITHIN
                wrong += otherwise
                sys.stdout.write(f"{name}: length {length:.6f}, known {known}{', otherwise' * otherwise}\n")
    sys.stdout.write(f"real weights: {merges} merges, {kills} kills, {wrong} otherwise\n")
    return 1 if wrong else 0


class _Merge:
    """One strategy for one pair, as jobs in directories of their own."""

    def __init__(self, pair: Pair, strategy: str, place: Path) -> None:
        self._pair, self._strategy, self._place = pair, strategy, place
        self._number = 0

    def undisturbed(self) -> tuple[str, int]:
        """The sha256 of the result's weights, and of how many tensors it is."""
        job = self._job()
        assert not _forked(job.run)
        total = max(event["total"] for event in job.events if event["type"] == "progress")
        return self._digest(job), total

    def killed_at(self, tensor: int) -> str:
        """The sha256 of the result of a merge that was killed behind this tensor and went on."""
        job = self._job()
        assert _forked(lambda: _dying(job, tensor))
        again = job.next_attempt()
        assert not _forked(again.run)
        return self._digest(again)

    def _job(self) -> Job:
        self._number += 1
        place = self._place / f"{self._pair.name}-{self._strategy}-{self._number}"
        (place / "inputs").mkdir(parents=True)
        based = self._strategy in ON_A_BASE
        sources = [*self._pair.models[: 1 if self._strategy == "passthrough" else 2], *([self._pair.base] * based)]
        names = [*NAMES[: len(sources) - based], *(NAMES[2:] * based)]
        for name, source in zip(names, sources, strict=True):
            (place / "inputs" / name).symlink_to(source, target_is_directory=True)
        artifacts = dict(zip(names, [*PARENTS[: len(sources) - based], *([BASE] * based)], strict=True))
        asked: dict[str, Any] = {"strategy": self._strategy, "seed": 5, **RECIPES[self._strategy]}
        asked["models"] = [artifacts[name] for name in names if name != NAMES[2]]
        return written(place, "merge", asked | ({"base_model": BASE} if based else {}), artifacts)

    def _digest(self, job: Job) -> str:
        found = next(digest for name, digest in job.made.items() if name.endswith(".safetensors"))
        _emptied(job.directory)
        return found


def _dying(job: Job, at: int) -> int:
    """Run it, and be killed behind the tensor number ``at``."""
    real, done = _Progress.on_tensor, iter(range(1, sys.maxsize))

    def on_tensor(self: Any, tensor: Any) -> None:
        real(self, tensor)
        if next(done) == at:
            os.kill(os.getpid(), signal.SIGKILL)

    _Progress.on_tensor = on_tensor  # type: ignore[method-assign]
    return job.run()


def _forked(work: Callable[[], int]) -> bool:
    """Run it in a process of its own; whether that was killed. Anything else than 0 is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        code = 70
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            code = work()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, f"it ended with {os.WEXITSTATUS(status)}"
    return False


def _emptied(place: Path) -> None:
    """Results take room: only what is to be compared is kept."""
    for path in place.rglob("*.safetensors"):
        if path.is_file() and "inputs" not in path.parts:
            path.unlink()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="of each merge (20)")
    parser.add_argument("--seed", type=int, default=1, help="chooses the tensors (1)")
    parser.add_argument("--strategies", nargs="+", choices=list(RECIPES), default=list(RECIPES), help="(all)")
    parser.add_argument("--wheels", type=Path, default=ROOT / "var" / "weights", help="where the wheels are kept")
    asked = parser.parse_args()
    asked.wheels.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    return asked


if __name__ == "__main__":
    sys.exit(main())
