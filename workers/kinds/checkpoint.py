"""The two parts of a preempted merge's checkpoint (D8), and whether the written output is worth shipping."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workers.engines.durable import write_file
from workers.engines.writing import PlannedWriter

EXPERIMENT = "experiment.json"
FRAMEWORK = "framework"
# A 1 Gbit/s network carries this much; the job cannot measure the link its agent will use.
UPLOAD_BYTES_PER_S = 100e6


def worth_shipping(finished_bytes: int, spent_s: float, upload_bytes_per_s: float = UPLOAD_BYTES_PER_S) -> bool:
    """Ship the part-written output only if that takes less time than was spent on it so far."""
    return finished_bytes > 0 and finished_bytes / upload_bytes_per_s < spent_s


def save(
    checkpoint_dir: Path, writer: PlannedWriter | None, *, experiment: Mapping[str, Any], spent_s: float
) -> dict[str, Any]:
    """Write both parts; returns what the ``checkpoint`` event says about them.

    ``experiment`` is completed by the seconds spent (all attempts) and what became of the part-written output.
    """
    finished = writer.finished_bytes() if writer else 0
    keep = worth_shipping(finished, spent_s)
    if writer and keep:
        writer.keep()
    elif writer:
        writer.discard()
    (checkpoint_dir / FRAMEWORK).mkdir(parents=True, exist_ok=True)
    document = {**experiment, "spent_s": round(spent_s, 3), "output_kept": keep, "finished_bytes": finished}
    write_file(checkpoint_dir / EXPERIMENT, json.dumps(document, indent=2, sort_keys=True).encode() + b"\n")
    return {
        "parts": [EXPERIMENT, FRAMEWORK + "/"],
        "output_kept": keep,
        "finished_bytes": finished,
        "spent_s": round(spent_s, 3),
    }


def spent_before(checkpoint_dir: Path, plan_digest: str) -> float:
    """Seconds that earlier attempts spent on this very plan and whose work is still there; else 0."""
    try:
        document = json.loads((checkpoint_dir / EXPERIMENT).read_bytes())
        same = document["plan"] == plan_digest and document["output_kept"] is True
        return float(document["spent_s"]) if same else 0.0
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0
