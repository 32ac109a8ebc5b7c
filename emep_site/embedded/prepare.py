"""From an empty directory to a set that can be started: database, static files, demo, configuration."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command

from emep_site.embedded import broker, demo_files, leash, programs
from emep_site.embedded.preflight import Obstacle
from scheduling.services import demo, now, pool

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is ready to run: supervisor's configuration, the sign-ins made now, the content of demo.json."""

    configuration: Path
    fresh_users: dict[str, dict[str, str]]
    demo: dict[str, Any]


def everything(say: Say) -> Prepared:
    """The embedded set is ready to be started from ``settings.DATA_DIR``; what is there already is kept."""
    home = settings.DATA_DIR
    training = _train_demo_models(home, say)
    try:
        say("database and static files ...")
        call_command("migrate", verbosity=0, interactive=False)
        call_command("collectstatic", verbosity=0, interactive=False)
        fresh = demo.people()
        nodes = _nodes(home)
        made = demo.known() if training is None else _store_demo_models(training, say)
    finally:
        if training is not None:
            _give_up(training)
    content = demo_files.write(home / "demo.json", settings.PUBLIC_URL, fresh, made.models, made.datasets)
    return Prepared(_configuration(home, nodes), fresh, content)


@dataclass(frozen=True, slots=True)
class Training:
    """The demo models being trained by a process of their own (the web program never loads torch)."""

    process: subprocess.Popen[bytes]
    folder: Path


def _train_demo_models(home: Path, say: Say) -> Training | None:
    """A process that trains the demo models, unless they were made before."""
    if (home / "demo.json").exists():
        return None
    say("training two demo models on scikit-learn's digits ...")
    folder = Path(tempfile.mkdtemp(prefix="demo-", dir=home))
    leashed = [sys.executable, "-I", "-S", leash.__file__]
    command = [*leashed, sys.executable, "-m", "workers.kinds.digits", "--out", str(folder)]
    log = (home / "demo-models.log").open("wb")
    with log:
        process = subprocess.Popen(command, cwd=settings.BASE_DIR, stdout=log, stderr=subprocess.STDOUT)
    return Training(process, folder)


def _store_demo_models(training: Training, say: Say) -> demo.Made:
    if training.process.wait(timeout=600) != 0:
        raise Obstacle(f"the demo models could not be trained: see {settings.DATA_DIR / 'demo-models.log'}")
    say("storing the demo models and their test as artifacts ...")
    return demo.store(training.folder, now())


def _give_up(training: Training) -> None:
    if training.process.poll() is None:
        training.process.kill()
        training.process.wait()
    shutil.rmtree(training.folder, ignore_errors=True)


def _nodes(home: Path) -> list[programs.NodeFiles]:
    """One node with the machine's own GPUs when NVML finds any, else the two simulated ones of the demo."""
    found = []
    for name in ["local"] if has_nvidia_gpus() else list(demo_files.NODES):
        folder = home / "nodes" / name
        demo.node_token(name, folder / "token")
        gpus = "nvml"
        if name in demo_files.NODES:
            demo_files.simulated_gpus(name, folder / "gpus.yaml")
            gpus = f"simulated:{folder / 'gpus.yaml'}"
        found.append(programs.NodeFiles(name, folder / "state", folder / "token", gpus))
    return found


def has_nvidia_gpus() -> bool:
    """True when NVML answers and counts at least one GPU."""
    import pynvml  # noqa: PLC0415  a machine without the driver must not fail at start

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    try:
        return bool(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError:
        return False
    finally:
        pynvml.nvmlShutdown()


def _configuration(home: Path, nodes: list[programs.NodeFiles]) -> Path:
    run_dir, logs = home / "run", home / "logs"
    logs.mkdir(exist_ok=True)
    url, command = settings.BROKER_URL, None
    if not url:
        server = broker.binary()
        if server is None:
            raise Obstacle("no Valkey or Redis server is here: install one, or name a running one with EMEP_BROKER_URL")
        socket = broker.socket_path(run_dir)
        socket.unlink(missing_ok=True)
        url, command = f"redis+socket://{socket}", broker.command(server, socket)
    chosen = programs.of(base=settings.BASE_DIR, host=settings.HOST, port=settings.PORT, broker=command, nodes=nodes,
                         grace_s=pool.timings().grace_s)  # fmt: skip
    environment = {
        "EMEP_BROKER_URL": url,
        "EMEP_DATA_DIR": str(home),
        "EMEP_PORT": str(settings.PORT),
        "DJANGO_SETTINGS_MODULE": "emep_site.settings",
        "PYTHONUNBUFFERED": "1",
        **programs.paths(settings.BASE_DIR, os.environ),
    }
    path = run_dir / "supervisord.conf"
    path.write_text(
        programs.configuration(chosen, run_dir=run_dir, logs=logs, base=settings.BASE_DIR, environment=environment)
    )
    return path
