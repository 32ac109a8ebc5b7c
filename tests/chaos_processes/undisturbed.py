"""What merges leave when nothing happens to them: the jobs' own program, run outside of any house."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.chaos_processes.load import MERGED
from tests.journeys.house import ROOT


class Undisturbed:
    """Each merge named begins at once, one process each; ``prepared`` is the home that every house is copied from."""

    def __init__(self, prepared: Path, names: Iterable[str]) -> None:
        models = json.loads((prepared / "demo.json").read_text())["models"]
        inputs = [
            {"as": f"model-{place}", "name": name, "artifact": artifact, "from": prepared / "models" / name}
            for place, (name, artifact) in enumerate(models.items())
        ]
        self._running = {name: _started(prepared / name.replace(" ", "-"), name, inputs) for name in names}

    @cached_property
    def digests(self) -> dict[str, str]:
        """The sha256 of what each has left, by its name."""
        found = {}
        for name, (process, home) in self._running.items():
            said, _ = process.communicate(timeout=180)
            if process.returncode != 0:
                raise RuntimeError(f"the undisturbed {name} ended with {process.returncode}: {said.decode()}")
            found[name] = hashlib.sha256((home / "output" / "merged" / MERGED).read_bytes()).hexdigest()
        return found

    def close(self) -> None:
        """None of them runs any more."""
        for process, _ in self._running.values():
            if process.poll() is None:
                process.kill()
            process.communicate()


def _started(home: Path, name: str, inputs: list[dict[str, Any]]) -> tuple[subprocess.Popen[bytes], Path]:
    (home / "input").mkdir(parents=True)
    for one in inputs:
        (home / "input" / one["as"]).symlink_to(one["from"])
    document = {
        "kind": "merge", "gpus": [],
        "params": {"strategy": "slerp", "t": float(name.split()[1]), "models": [one["artifact"] for one in inputs]},
        "inputs": [{key: one[key] for key in ("as", "name", "artifact")} for one in inputs],
    }  # fmt: skip
    (home / "job.json").write_text(json.dumps(document))
    env = {variable: value for variable, value in os.environ.items() if not variable.startswith("EMEP_")}
    env |= {f"EMEP_{name}_DIR": str(home / name.lower()) for name in ("INPUT", "OUTPUT", "CHECKPOINT", "SCRATCH")}
    env |= {"EMEP_JOB_FILE": str(home / "job.json"), "EMEP_GPU_COUNT": "2", "CUDA_VISIBLE_DEVICES": "GPU-SIM"}
    command = [sys.executable, "-m", "workers.kinds"]
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT), home
