"""What a job of kind command may say about itself: how it is run, and how its end is to be read."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.protocol import CHECKPOINT_EXIT_CODE, Launch, Meeting
from workers.python_words import interpreter

COMMAND = "command"
FILES = "files"


@dataclass(frozen=True, slots=True)
class Contract:
    """How a job tells its end. ``done_file`` is relative to its output directory; "" for none."""

    checkpoint_exit_code: int = CHECKPOINT_EXIT_CODE
    zero_is_done: bool = False
    done_file: str = ""
    preempt_signal: str = "SIGTERM"


def contract_of(launch: Launch | None) -> Contract:
    """The job's own terms, where its kind lets it have any."""
    if launch is None or launch["kind"] != COMMAND:
        return Contract()
    params = launch["params"]
    return Contract(
        int(params.get("checkpoint_exit_code") or CHECKPOINT_EXIT_CODE),
        params.get("exit_zero_after_signal") == "success",
        str(params.get("done_file") or ""),
        str(params.get("preempt_signal") or "SIGTERM"),
    )


def saves_by_itself(launch: Launch) -> bool:
    """Whether its kind saves at a signal: the built-in ones do, of a program nothing is known."""
    return launch["argv"] is None and launch["kind"] != COMMAND


def limit_notice_of(launch: Launch) -> float | None:
    """How long before the end of ``max_duration`` it wants the signal, in seconds; None: it does not say."""
    asked = launch["params"].get("limit_notice_s") if launch["kind"] == COMMAND else None
    return float(asked) if asked is not None else None


def processes_of(launch: Launch) -> int:
    """How many processes torchrun starts on this node: as asked, else one a GPU; 1 without torchrun."""
    params = launch["params"]
    if launch["kind"] != COMMAND or not params.get("torchrun"):
        return max(1, launch["nproc"])
    return int(params.get("nproc") or max(1, len(launch["gpus"])))


def command_line(launch: Launch, meeting: Meeting) -> list[str]:
    """The words to execute for a launch of no built-in kind; ``meeting`` is where torchrun's ranks meet.

    A shell line is run by an exec in its shell: a shell that stayed in front would keep the signal to itself.
    """
    if launch["argv"] is not None:
        return list(launch["argv"])
    params = launch["params"]
    if params.get("shell") is not None:
        return ["sh", "-c", f"exec {params['shell']}"]
    argv = [str(word) for word in params["argv"]]
    if not params.get("torchrun"):
        return argv
    python = argv.pop(0) if interpreter(argv[0]) else sys.executable
    return [
        python, "-m", "torch.distributed.run", "--nnodes", str(launch["node_count"]),
        "--nproc-per-node", str(processes_of(launch)), "--node-rank", str(launch["node_rank"]),
        "--rdzv-backend", "static", "--master-addr", meeting["address"], "--master-port", str(meeting["port"]),
        "--max-restarts", "0", *argv,
    ]  # fmt: skip


def working_directory(launch: Launch, work: Path) -> Path:
    """Where the program starts: as asked (relative to its private directory), else its files, else that directory."""
    params: Mapping[str, Any] = launch["params"] if launch["kind"] == COMMAND else {}
    if params.get("cwd"):
        return work / str(params["cwd"])
    return work / "input" / FILES if params.get("files") else work
