"""A launch document as a command line, an environment and a work directory."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from workers import emep_job
from workers.agent import tmp_link
from workers.agent.contract import COMMAND, command_line, contract_of, processes_of, working_directory
from workers.agent.spawn import ExecSpec
from workers.agent.statedir import write_json
from workers.protocol import Launch, Meeting
from workers.reserved_names import reserved

PACKAGE_ROOT = Path(__file__).resolve().parents[2]
ALLOWED = (
    "PATH",
    "LANG",
    "LANGUAGE",
    "TZ",
    "HOME",
    "USER",
    "LOGNAME",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "CUDA_HOME",
    "EMEP_MERGE_THROTTLE_S",
    "EMEP_EVALUATE_THROTTLE_S",
    "EMEP_INFER_THROTTLE_S",
    "EMEP_EVOLVE_THROTTLE_S",
)  # the last four slow these kinds down, for demonstrations and tests
ALLOWED_PREFIXES = ("LC_", "NVIDIA_", "NCCL_", "GLOO_")
WORK = ("input", "output", "checkpoint", "scratch")
CLIENT = "client"


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """What a job may see of the agent's environment: an allow-list, so that no secret of the agent's leaks."""
    return {
        name: value
        for name, value in environment.items()
        if name in ALLOWED or name.startswith(ALLOWED_PREFIXES)
    }  # fmt: skip


def asked_for(launch: Launch) -> dict[str, str]:
    """What the job's owner set, without what only the scheduler may say."""
    own = launch["params"].get("env") if launch["kind"] == COMMAND else None
    asked = {**(launch.get("env") or {}), **(own if isinstance(own, dict) else {})}
    return {str(name): str(value) for name, value in asked.items() if not reserved(str(name))}


def build(
    launch: Launch, directory: Path, *, environment: Mapping[str, str], wall_now: float, meeting: Meeting,
    threads: int, run_as: str | None = None, memory_bytes: int = 0, disk_bytes: int = 0, interface: str | None = None,
) -> ExecSpec:  # fmt: skip
    """What the keeper must execute for ``launch`` in its ``directory``.

    ``wall_now`` is only for ``EMEP_DEADLINE``, which the contract gives in seconds of the epoch; ``meeting`` is where
    the job's ranks meet; ``threads`` is the job's share of the node's cores, ``memory_bytes`` what it may have of the
    host's memory (0: no limit), ``disk_bytes`` of its disk, inputs included (0: nobody says). Without torchrun a node
    has one rank. ``interface`` is the one that other nodes reach this one by: Gloo would take the one that the host
    name leads to, which is often the loopback.
    Raises KeyError when ``run_as`` names no user of this machine.
    """
    work = directory / "work"
    env = {**inherited(environment), **asked_for(launch)}
    contract = contract_of(launch)
    if launch["argv"] is None and launch["kind"] != COMMAND:
        argv = [sys.executable, "-m", "workers.kinds"]
        env |= {"PYTHONPATH": str(PACKAGE_ROOT), "HF_HUB_OFFLINE": "1"}
    else:
        argv = command_line(launch, meeting)
        # Behind the job's own places: a script that brings its own copy of the client uses that one.
        env["PYTHONPATH"] = os.pathsep.join(p for p in (env.get("PYTHONPATH", ""), str(directory / CLIENT)) if p)
    env |= {
        "CUDA_VISIBLE_DEVICES": ",".join(launch["gpus"]),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        **ranks(launch, meeting),
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(max(1, int(launch["grace_s"]) - 5)),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(tmp_link.short(work / "scratch")),
        "EMEP_JOB_ID": launch["job"],
        "EMEP_ATTEMPT": str(launch["number"]),
        "EMEP_EPOCH": str(launch["epoch"]),
        "EMEP_JOB_FILE": str(directory / "job.json"),
        "EMEP_INPUT_DIR": str(work / "input"),
        "EMEP_OUTPUT_DIR": str(work / "output"),
        "EMEP_CHECKPOINT_DIR": str(work / "checkpoint"),
        "EMEP_SCRATCH_DIR": str(work / "scratch"),
        "EMEP_RESUME": "1" if launch["resume"] else "0",
        "EMEP_EVENTS": str(directory / "events.jsonl"),
        "EMEP_PREEMPT_FILE": str(directory / "preempt"),
        "EMEP_GRACE_SECONDS": f"{launch['grace_s']:g}",
        "EMEP_PREEMPT_SIGNAL": contract.preempt_signal,
        "EMEP_CHECKPOINT_EXIT_CODE": str(contract.checkpoint_exit_code),
        "EMEP_DEADLINE": f"{wall_now + launch['remaining_s']:.3f}",
        "EMEP_GPU_COUNT": str(len(launch["gpus"])),
        "EMEP_NODE_COUNT": str(launch["node_count"]),
        "EMEP_NODE_RANK": str(launch["node_rank"]),
    }
    if disk_bytes:
        env["EMEP_DISK_BYTES"] = str(disk_bytes)
    if interface is not None and launch["node_count"] > 1:
        env.setdefault("GLOO_SOCKET_IFNAME", interface)
    env.setdefault("PATH", os.defpath)
    env.setdefault("OMP_NUM_THREADS", str(max(1, threads // processes_of(launch))))
    user = pwd.getpwnam(run_as) if run_as else None
    uid, gid = (user.pw_uid, user.pw_gid) if user else (None, None)
    cwd = str(working_directory(launch, work))
    return ExecSpec(argv, env, cwd, uid, gid, contract.preempt_signal, memory_bytes)


def ranks(launch: Launch, meeting: Meeting) -> dict[str, str]:
    """What a rank of ``torch.distributed`` reads: where all meet, how many they are, and which it is; one a node."""
    return {
        "MASTER_ADDR": meeting["address"],
        "MASTER_PORT": str(meeting["port"]),
        "WORLD_SIZE": str(launch["node_count"]),
        "RANK": str(launch["node_rank"]),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "NODE_RANK": str(launch["node_rank"]),
    }


def job_document(launch: Launch) -> dict[str, Any]:
    """What the job itself reads (``EMEP_JOB_FILE``)."""
    return {
        "kind": launch["kind"],
        "params": launch["params"],
        "inputs": launch["inputs"],
        "gpus": launch["gpus"],
        "remaining_s": launch["remaining_s"],
        "grace_s": launch["grace_s"],
    }


def lay_out(directory: Path) -> None:
    """The attempt's directories exist, with the client to import and an events file, empty if it was not there."""
    for name in WORK:
        (directory / "work" / name).mkdir(parents=True, exist_ok=True)
    (directory / "events.jsonl").touch()
    (directory / CLIENT).mkdir(exist_ok=True)
    shutil.copyfile(emep_job.__file__, directory / CLIENT / "emep_job.py")


def write(directory: Path, launch: Launch, spec: ExecSpec) -> None:
    """The keeper and the job find all they need in ``directory``, which belongs to the job's user where it writes."""
    write_json(directory / "job.json", job_document(launch))
    (directory / "job.json").chmod(0o644)
    if spec.uid is not None and spec.gid is not None:
        for top in (directory / "work", directory / "events.jsonl"):
            for path in (top, *(top.rglob("*") if top.is_dir() else ())):
                if not path.is_relative_to(directory / "work" / "input"):
                    shutil.chown(path, spec.uid, spec.gid)
    write_json(directory / "exec.json", asdict(spec))
