"""What the demo leaves in the data directory: the simulated nodes' GPUs, and ``demo.json`` for scripts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

# 80 GB and 40 GB of 10^9 bytes, in whole MiB rounded up as requests are.
NODES: dict[str, dict[str, Any]] = {
    "node-1": {"rack_id": "r1", "network_bandwidth_gbps": 400, "model": "SIM H100 80GB", "memory": "76294MiB"},
    "node-2": {"rack_id": "r2", "network_bandwidth_gbps": 200, "model": "SIM A100 40GB", "memory": "38147MiB"},
}
GPUS_PER_NODE = 4


def simulated_gpus(name: str, path: Path) -> None:
    """The file says what the node pretends to have; an existing file is kept, so that it may be edited."""
    if path.exists():
        return
    row = NODES[name]
    content = {
        "node": {
            "rack_id": row["rack_id"],
            "network_bandwidth_gbps": row["network_bandwidth_gbps"],
            "labels": {"demo": "true"},
        },
        "gpus": [
            {
                "uuid": f"GPU-SIM-{name}-{i}",
                "model": row["model"],
                "memory": row["memory"],
                "nvlink_group_id": f"{name}-nvlink",
            }
            for i in range(GPUS_PER_NODE)
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False))


def write(
    path: Path, url: str, users: Mapping[str, Mapping[str, str]], models: Mapping[str, str],
    datasets: Mapping[str, str],
) -> dict[str, Any]:  # fmt: skip
    """``demo.json`` (mode 0600) has the address, the sign-ins known so far and the ids of models and data sets; returns
    its content."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    content = {
        "url": url,
        "project": "alpha",
        "users": {**kept.get("users", {}), **users},
        "models": dict(models) or kept.get("models", {}),
        "datasets": dict(datasets) or kept.get("datasets", {}),
    }
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.touch(mode=0o600)
    fresh.write_text(json.dumps(content, indent=2) + "\n")
    fresh.replace(path)
    return content
