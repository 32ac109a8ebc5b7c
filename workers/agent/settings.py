"""How an agent is told what to do: flags, else ``EMEP_*`` variables, else a TOML file, else the defaults."""

from __future__ import annotations

import argparse
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workers.agent.cgroup import AUTO, OFF
from workers.said_back import shown

BELLS = ("broker", "poll", "none")
ON_TERM = ("leave", "drain")
KEEPERS = ("start", "outside")
# With less than this no Python starts.
LEAST_JOB_MEMORY = 64 * 2**20
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


class BadSettings(ValueError):
    """A setting is missing or wrong; the text names it and what it should be."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything an agent needs to know before it asks the server. Sizes in bytes, bandwidth in Gbit/s."""

    state: Path
    server: str
    node: str
    token_file: Path
    gpus: str
    bell: str = "poll"
    broker: str = ""
    rack: str = ""
    bandwidth: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    nvlink_groups: Mapping[str, str] = field(default_factory=dict)
    fabric: bool = False
    on_term: str = "leave"
    run_as: str | None = None
    guard: int | None = None
    keeper: str = "start"
    address: str = ""
    cache_bytes: int = 100 * 2**30
    disk_low_bytes: int = 2 * 2**30
    job_disk_bytes: int = 500 * 2**30
    cgroup: str = AUTO
    job_memory_bytes: int = 0
    outage_grace_s: float = math.inf  # as long as the server says

    def token(self) -> str:
        """The node's token from its file; raises :class:`BadSettings` when there is none."""
        try:
            token = self.token_file.read_text(encoding="utf-8").strip()
        except OSError as problem:
            said = f"token_file {self.token_file}: {problem.strerror}; `manage.py addnode` makes one"
            raise BadSettings(said) from problem
        if not token or not token.isascii() or not token.isprintable():
            raise BadSettings(f"token_file {self.token_file}: it must hold one token on one line")
        return token


def parser() -> argparse.ArgumentParser:
    """The agent's command line; every flag may also stand in the TOML file or in ``EMEP_<NAME>``."""
    made = argparse.ArgumentParser(prog="python -m workers agent", description="The agent of one GPU node.")
    made.add_argument("--config", type=Path, help="a TOML file with any of these settings (dashes as underscores)")
    made.add_argument("--state", help="directory for everything the node must remember")
    made.add_argument("--server", help="the address of the web server, like http://head:8000")
    made.add_argument("--node", help="this node's name, as given to `manage.py addnode`")
    made.add_argument("--token-file", help="a file that holds the node's token")
    made.add_argument("--gpus", action="append", help="nvml, or simulated:FILE.yaml")
    made.add_argument("--bell", help="how the server wakes this node: broker, poll or none")
    made.add_argument("--broker", help="the broker's URL, for --bell broker")
    made.add_argument("--rack", help="the rack this node stands in")
    made.add_argument("--bandwidth", help="network bandwidth in Gbit/s")
    made.add_argument("--label", action="append", help="a label KEY=VALUE; may be repeated")
    made.add_argument("--on-term", help="at SIGTERM: leave (jobs go on) or drain (checkpoints first)")
    made.add_argument("--run-as", help="run jobs as this user (the agent must be root)")
    made.add_argument("--guard", help="stop with all jobs when the process with this pid is gone")
    made.add_argument("--keeper", help="start: the agent starts a keeper where none runs; outside: somebody else does")
    made.add_argument(
        "--cgroup", help="where each job gets its own cgroup: auto (the agent's own), off, or a directory"
    )
    made.add_argument("--address", help="where other nodes reach this one (default: its host name)")
    made.add_argument("--check", action="store_true", help="say what the agent sees and what is wrong, and end")
    return made


# What each setting is called in the environment, where that is not simply EMEP_<NAME>.
_ENVIRONMENT = {"token_file": "EMEP_NODE_TOKEN_FILE", "broker": "EMEP_BROKER_URL", "state": "EMEP_AGENT_STATE"}
_NAMES = ("state", "server", "node", "token_file", "gpus", "bell", "broker", "rack", "bandwidth", "on_term", "run_as",
          "guard", "keeper", "address", "cache_bytes", "disk_low_bytes", "job_disk_bytes", "fabric",
          "cgroup", "job_memory_bytes", "outage_grace_s")  # fmt: skip


def load(options: argparse.Namespace, environment: Mapping[str, str]) -> Settings:
    """The settings; raises :class:`BadSettings` naming everything that is wrong, one line each."""
    stored = _read_toml(options.config)
    given: dict[str, Any] = {}
    for name in _NAMES:
        flag = getattr(options, name, None)
        said = environment.get(_ENVIRONMENT.get(name, f"EMEP_{name.upper()}")) or None
        value = flag if flag is not None else said if said is not None else stored.get(name)
        if value is not None:
            given[name] = value
    known = {*_NAMES, "labels", "nvlink_groups"}
    problems = [f"{name}: unknown setting in {options.config}" for name in stored if name not in known]
    problems += [f"{name}: required" for name in ("state", "server", "node", "token_file", "gpus") if name not in given]
    given["labels"] = as_labels(stored.get("labels") or {}) | _labels(options, problems)
    given["nvlink_groups"] = {str(k): str(v) for k, v in (stored.get("nvlink_groups") or {}).items()}
    _check(given, problems)
    if problems:
        raise BadSettings("\n".join(problems))
    return Settings(**given)


def _read_toml(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise BadSettings(f"config {path}: {problem}") from problem


def as_labels(written: Mapping[Any, Any]) -> dict[str, str]:
    """The labels of a file as texts: a truth value as it is written there, ``true`` or ``false``."""
    return {str(k): str(v).lower() if isinstance(v, bool) else str(v) for k, v in written.items()}


def _labels(options: argparse.Namespace, problems: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in options.label or []:
        key, sign, value = text.partition("=")
        if not sign or not key:
            problems.append(f"label {shown(text)}: write KEY=VALUE")
        found[key] = value
    return found


def _check_gpus(given: dict[str, Any], problems: list[str]) -> None:
    """One source of GPUs: a node of real and simulated ones is refused."""
    gpus = given.get("gpus", [])
    sources = [str(source) for source in gpus] if isinstance(gpus, list) else str(gpus).split(",")
    if len(sources) > 1:
        problems.append("gpus: a node has either real or simulated GPUs, from one source: give one")
    elif sources:
        given["gpus"] = sources[0]
        if sources[0] != "nvml" and not re.fullmatch(r"simulated:.+", sources[0]):
            problems.append(f"gpus: nvml or simulated:FILE.yaml, not {shown(sources[0])}")


def _check(given: dict[str, Any], problems: list[str]) -> None:
    """Turn what was given into its types; append to ``problems`` what can't be."""
    _check_gpus(given, problems)
    for name in ("state", "token_file"):
        if name in given:
            given[name] = Path(str(given[name]))
    if "server" in given and not str(given["server"]).startswith(("http://", "https://")):
        problems.append(f"server: an address like http://head:8000, not {shown(given['server'])}")
    if "node" in given and not _NODE.fullmatch(str(given["node"])):
        problems.append("node: letters, digits, dot, dash and underscore, at most 63")
    for name, choices in (("bell", BELLS), ("on_term", ON_TERM), ("keeper", KEEPERS)):
        if name in given and given[name] not in choices:
            problems.append(f"{name}: one of {', '.join(choices)}, not {shown(given[name])}")
    if given.get("bell") == "broker" and not given.get("broker"):
        problems.append("broker: bell = broker needs the broker's URL (EMEP_BROKER_URL)")
    for name, kind in (
        ("bandwidth", float),
        ("guard", int),
        ("cache_bytes", int),
        ("disk_low_bytes", int),
        ("job_disk_bytes", int),
        ("job_memory_bytes", int),
        ("outage_grace_s", float),
    ):
        if name in given:
            try:
                given[name] = kind(given[name])
            except (OverflowError, TypeError, ValueError):
                problems.append(f"{name}: a number, not {shown(given.pop(name))}")
    _check_memory(given, problems)
    if not given.get("outage_grace_s", 0.0) >= 0.0:  # NaN is refused too
        problems.append(
            f"outage_grace_s: seconds, 0 (a refusal counts as silence) or more, not {given['outage_grace_s']}"
        )
    if "fabric" in given:
        given["fabric"] = str(given["fabric"]).lower() in ("1", "true", "yes")


def _check_memory(given: dict[str, Any], problems: list[str]) -> None:
    """A limit with which a job could start, and a place where it can be enforced."""
    where, limit = given.get("cgroup", AUTO), given.get("job_memory_bytes", 0)
    if where not in (AUTO, OFF) and not (isinstance(where, str) and where.startswith("/")):
        problems.append(f"cgroup: {AUTO}, {OFF}, or the full path of a delegated cgroup directory, not {shown(where)}")
    if limit != 0 and limit < LEAST_JOB_MEMORY:
        problems.append(f"job_memory_bytes: 0 (no limit) or at least {LEAST_JOB_MEMORY} (64 MiB), not {limit}")
    if limit and where == OFF:
        problems.append(f"job_memory_bytes: it needs cgroup = {AUTO} or a directory, not {OFF}")
