"""The programs of the embedded set, as a configuration of ``supervisor``.

Started in the order of their priority and stopped in the reverse: first the scheduler, so that nothing new is granted,
then the agents, which save their jobs' checkpoints while the web process still answers, and the broker last.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from emep_site.embedded import leash


@dataclass(frozen=True, slots=True)
class Program:
    """One child: its name, its command, its place in the order, and how long it may take to stop."""

    name: str
    command: Sequence[str]
    priority: int
    stop_s: int = 15


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """A node of the embedded set: its name, its state directory, its token, and what GPUs it has."""

    name: str
    state: Path
    token: Path
    gpus: str


def of(
    *, base: Path, host: str, port: int, broker: Sequence[str] | None, nodes: Sequence[NodeFiles], grace_s: float
) -> list[Program]:
    """Every program of the set; ``broker`` is None when an outside one is used."""
    python, manage = sys.executable, str(base / "manage.py")
    programs = [Program("broker", broker, 10)] if broker else []
    programs += [
        Program("web", [python, "-m", "emep_site.serve", "-v", "0", "-b", host, "-p", str(port), "--http-timeout", "0",
                        "--application-close-timeout", "3", "emep_site.asgi:application"], 20),
        Program("celery", [python, "-m", "celery", "-A", "emep_site", "worker", "--beat", "--pool", "threads",
                           "--concurrency", "2", "--without-gossip", "--without-mingle", "--loglevel", "WARNING"], 30),
        Program("scheduler", [python, manage, "runscheduler"], 60),
    ]  # fmt: skip
    for node in nodes:
        state = str(node.state)
        programs.append(Program(f"keeper-{node.name}", [python, "-m", "workers", "keeper", "--state", state], 40, 30))
        agent = [python, "-m", "workers", "agent", "--state", state, "--server", f"http://{_address(host)}:{port}",
                 "--node", node.name, "--token-file", str(node.token), "--gpus", node.gpus, "--bell", "broker",
                 "--on-term", "drain", "--keeper", "outside", "--address", _address(host)]  # fmt: skip
        programs.append(Program(f"agent-{node.name}", agent, 50, round(grace_s) + 30))
    return programs


def paths(base: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Where Python finds EMEP, and programs each other: first of all the Python that runs this and what is beside it,
    so that a job's ``python`` is the one that has torch."""
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(base), environ.get("PYTHONPATH", "")))),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), environ.get("PATH", os.defpath))),
    }


def _address(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "") else host  # noqa: S104  compared, not bound


def configuration(
    programs: Sequence[Program], *, run_dir: Path, logs: Path, base: Path, environment: Mapping[str, str]
) -> str:
    """The text of supervisord.conf; every child is on a leash, restarted for ever, and logs to its own file."""
    env = ",".join(f'{k}="{v.replace("%", "%%").replace(chr(34), "")}"' for k, v in environment.items())
    out = [
        "[supervisord]", "nodaemon=true", f"logfile={logs / 'supervisor.log'}", "logfile_maxbytes=2MB",
        "logfile_backups=1", "loglevel=info", f"pidfile={run_dir / 'supervisor.pid'}", f"directory={base}",
        f"childlogdir={logs}", "silent=true", f"environment={env}", "",
    ]  # fmt: skip
    for p in programs:
        command = shlex.join([sys.executable, "-I", "-S", leash.__file__, *p.command]).replace("%", "%%")
        out += [
            f"[program:{p.name}]", f"command={command}", "autostart=true", "autorestart=true", "startsecs=1",
            "startretries=1000000", f"priority={p.priority}", f"stopwaitsecs={p.stop_s}", "stopsignal=TERM",
            "killasgroup=false", "redirect_stderr=true", f"stdout_logfile={logs / p.name}.log",
            "stdout_logfile_maxbytes=5MB", "stdout_logfile_backups=1", "",
        ]  # fmt: skip
    agents = [p.name for p in programs if p.name.startswith("agent-")]
    keepers = [p.name for p in programs if p.name.startswith("keeper-")]
    for group, members, priority in (("agents", agents, 50), ("keepers", keepers, 40)):
        if members:
            out += [f"[group:{group}]", f"programs={','.join(members)}", f"priority={priority}", ""]
    return "\n".join(out)
