"""What the agent tells the server of GPUs that it sees and does not offer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.workers.agent.server import TOKEN
from workers.agent import messages as m
from workers.agent.command import open_devices
from workers.agent.loop import Loop
from workers.agent.settings import Settings


def test_a_registration_names_the_gpus_that_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpus.yaml").write_text("gpus: [{uuid: S0, memory: 80GiB}]")
    settings = Settings(tmp_path / "state", "http://127.0.0.1:9", "n1", tmp_path, f"simulated:{tmp_path}/gpus.yaml")
    devices = open_devices(settings)[0]
    monkeypatch.setattr(devices, "left_out", lambda: ["gpu 1 sliced is left out: MIG mode is on"])
    loop = Loop(settings, devices, node={}, token=TOKEN)
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(loop.api, "register", lambda body, **_: told.append(body))
    monkeypatch.setattr(loop, "_call", lambda call, _failed: call())
    loop._send_register(m.SendRegister(seq=1, attempts=()))
    assert told[0]["left_out"] == ["gpu 1 sliced is left out: MIG mode is on"]
