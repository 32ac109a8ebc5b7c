"""What does a node say of itself when it registers? Every field checked before anything is done with it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from scheduling.core.fields import shown
from scheduling.core.units import parse_memory

MAX_LEFT_OUT = 64
TEXT = re.compile(r"[\x00-\x1f\x7f]")


def description(message: Mapping[str, Any]) -> dict[str, Any]:
    """The registration with every field checked; ValueError names the field."""
    gpus = []
    for row in message["gpus"]:
        memory = row["memory_mib"]
        if isinstance(memory, str):
            memory = parse_memory(memory)
        uuid = _text("gpus.uuid", row["uuid"], 80)
        if isinstance(memory, bool) or not isinstance(memory, int) or not 1 <= memory < 2**31:
            raise ValueError(f"memory_mib of {uuid} must be a whole number of MiB above 0")
        group, index = row.get("nvlink_group_id"), int(row["index"])
        if not 0 <= index < 2**15:
            raise ValueError(f"index of {uuid} must be a whole number from 0 to {2**15 - 1}")
        gpus.append(
            {"uuid": uuid, "index": index, "model": _text("gpus.model", row["model"], 120),
             "memory_mib": memory, "nvlink_group_id": None if group is None else _text("nvlink_group_id", group, 120)}
        )  # fmt: skip
    if len({g["uuid"] for g in gpus}) != len(gpus):
        raise ValueError("two GPUs have one uuid")
    bandwidth = float(message["network_bandwidth_gbps"])
    if not math.isfinite(bandwidth) or bandwidth < 0:
        raise ValueError("network_bandwidth_gbps must be a number of at least 0")
    return {
        "boot_id": _text("boot_id", message["boot_id"], 64),
        "seq": whole(message.get("seq", 0)),
        "protocol": int(message["protocol"]),
        "agent_version": _text("agent_version", message.get("agent_version", ""), 40),
        "address": _text("address", message.get("address", ""), 200),
        "rack_id": _text("rack_id", message.get("rack_id", ""), 63),
        "network_bandwidth_gbps": bandwidth,
        "labels": {_text("labels", k, 63): _text("labels", v, 63) for k, v in dict(message.get("labels", {})).items()},
        "simulated": bool(message.get("simulated", False)),
        "left_out": _left_out(message.get("left_out", [])),
        "gpus": gpus,
        "attempts": [
            {
                "attempt": str(a["attempt"]),
                "epoch": int(a["epoch"]),
                "pid_alive": bool(a.get("pid_alive", True)),
                "runs": bool(a.get("runs", False)),
            }
            for a in message.get("attempts", [])
        ],
    }


def _left_out(told: Any) -> list[str]:
    """The words on GPUs that are not offered, cut where they are too long or too many: they only inform."""
    if not isinstance(told, list) or not all(isinstance(words, str) for words in told):
        raise ValueError("left_out must be a list of texts, one for each GPU that is not offered")
    return [TEXT.sub(" ", words)[:400] for words in told[:MAX_LEFT_OUT]]


def _text(field: str, value: Any, limit: int) -> str:
    if not isinstance(value, str) or len(value) > limit or TEXT.search(value):
        raise ValueError(f"{field} must be text of at most {limit} printable characters")
    return value


def whole(value: Any) -> int:
    """The value as a whole number from 0; ValueError for any other."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value) or not 0 <= value < 2**62:
        raise ValueError(f"{shown(value)} is not a whole number from 0")
    return int(value)


def seconds(value: Any) -> float:
    """The value as a span of time in seconds; ValueError for what is none, or longer than thirty years."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 10**9:
        raise ValueError(f"{shown(value)} is not a number of seconds from 0 to {10**9}")
    return float(value)
