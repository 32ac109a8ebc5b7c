"""``python -m workers agent``: settings in, a running agent out."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from workers.agent import messages as m
from workers.agent.bell import poll_bell
from workers.agent.cgroup_check import cgroup_check
from workers.agent.check import check
from workers.agent.client import Api
from workers.agent.devices import Devices, DevicesError
from workers.agent.loop import Loop
from workers.agent.settings import BadSettings, Settings, load, parser
from workers.agent.statedir import StateDir, boottime, lock

USAGE = 2
BUSY = 75


def open_devices(settings: Settings) -> tuple[Devices, dict[str, Any]]:
    """The node's devices and the facts their file states about the node. Raises :class:`DevicesError`."""
    # By name: a node needs only the libraries of the devices it has.
    if settings.gpus == "nvml":
        module = importlib.import_module("workers.agent.devices_nvml")
        devices: Devices = module.NvmlDevices(
            groups=dict(settings.nvlink_groups), fabric=settings.fabric, node=settings.node
        )
        return devices, {}
    module = importlib.import_module("workers.agent.devices_simulated")
    scene = module.read_scene(Path(settings.gpus.removeprefix("simulated:")))
    simulated: Devices = module.SimulatedDevices(scene, clock=boottime)
    return simulated, dict(scene.node)


def start_bell(settings: Settings, loop: Loop, token: str) -> threading.Event:
    """The node's doorbell is answered in a thread until the returned event is set."""
    stop = threading.Event()

    def ring() -> None:
        loop.post(m.BellRang())

    if settings.bell == "poll":
        arguments: tuple[Any, ...] = (Api(settings.server, token), ring, stop)
        threading.Thread(target=poll_bell, args=arguments, daemon=True, name="bell").start()
    elif settings.bell == "broker":
        target = importlib.import_module("workers.agent.bell_broker").broker_bell
        arguments = (settings.broker, settings.node, ring, stop)
        threading.Thread(target=target, args=arguments, daemon=True, name="bell").start()
    return stop


def main(argv: list[str]) -> int:
    """Run an agent until SIGTERM. 0: left in order; 2: settings or devices are wrong; 75: another one runs."""
    options = parser().parse_args(argv)
    try:
        settings = load(options, os.environ)
        if options.check:
            return check(settings, open_devices, sys.stdout)
        token = settings.token()
        wrong, _ = cgroup_check(settings)
        if wrong:
            raise BadSettings(wrong)
        devices, node = open_devices(settings)
    except (BadSettings, DevicesError) as problem:
        sys.stderr.write(f"{problem}\n")
        return USAGE
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    state = StateDir(settings.state)
    with lock(state.root / "agent.lock", wait_s=1.0) as held:
        if held is None:
            sys.stderr.write(f"another agent runs on {state.root}; stop it first, or choose another --state\n")
            return BUSY
        loop = Loop(settings, devices, node=node, token=token)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: loop.post(m.Terminate(drain=settings.on_term == "drain")))
        stop = start_bell(settings, loop, token)
        loop.run()
        stop.set()
    return 0
