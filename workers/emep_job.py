"""What a training script says to EMEP and hears from it: one file, standard library only. Copy it, or import it::

    import emep_job as job

    start = load(job.resume_dir()) if job.resuming() else 0
    for step in range(start, total):
        loss = train_step()
        job.progress(step + 1, total, loss=loss)
        if job.should_stop() or step % 500 == 499:
            with job.checkpoint(step + 1) as directory:  # fresh; renamed and announced at the end
                save(directory)
            if job.should_stop():
                job.exit_checkpointed()
    job.done()

Outside EMEP every call does nothing, so the script runs the same by hand. With several ranks (torchrun) only rank 0
is heard, and ``should_stop`` is agreed on by all of them: every rank must call it equally often. Call ``attach()``
before an import that takes seconds, and a stop that comes during it is noticed too. On several nodes the first rank
of each is heard too when it speaks of its end (``done``, ``error``, ``exit_checkpointed``).
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

CHECKPOINT_EXIT_CODE = 85
MAX_EVENT_LINE = 4096
_LOOK_S = 0.1
_STEP = re.compile(r"step-(\d+)")


class EventLog:
    """Appends events to ``path``, each by a single write; without a path (run by hand) they are dropped."""

    def __init__(self, path: Path | None) -> None:
        self._fd = None if path is None else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def emit(self, event_type: str, /, **fields: Any) -> None:
        """One event. Fields that are None are left out; a line above the limit is a bug of the caller."""
        line = encode({"type": event_type, **{k: v for k, v in fields.items() if v is not None}})
        if len(line) > MAX_EVENT_LINE:
            raise ValueError(f"a {event_type} event has {len(line)} bytes, the limit is {MAX_EVENT_LINE}")
        if self._fd is not None:
            os.write(self._fd, line)

    def error(self, code: str, message: str, details: Mapping[str, Any]) -> None:
        """An ``error`` event; a long list of problems or message is cut to the limit, and says so."""
        event: dict[str, Any] = {"type": "error", "code": code, "message": message, "details": dict(details)}
        problems = list(details.get("problems", []))
        while len(encode(event)) > MAX_EVENT_LINE and problems:
            problems.pop()
            event["details"] = {"problems": problems, "omitted": len(details["problems"]) - len(problems)}
            event["message"] = message[:1000]
        if len(encode(event)) > MAX_EVENT_LINE:
            event.update(message=message[:500], details={"omitted": 1})
        event.pop("type")
        self.emit("error", **event)


def encode(event: Mapping[str, Any]) -> bytes:
    """One line of UTF-8 JSON with its newline; NaN is refused, it is no JSON."""
    return json.dumps(event, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode() + b"\n"


class StopRequest:
    """Whether, and for how long, this job has been asked to stop: by SIGTERM, or by a file that appears."""

    def __init__(self, preempt_file: Path | None, grace_s: float) -> None:
        self._preempt_file = preempt_file
        self._grace_s = grace_s
        self._signalled = False
        self._since: float | None = None
        self._number = 0
        self._wake, self._bell = os.pipe()
        os.set_blocking(self._bell, False)

    def __del__(self) -> None:
        os.close(self._wake)
        os.close(self._bell)

    def install(self, number: int = signal.SIGTERM) -> None:
        """Take the signal from now on, in this process and not in its forks; call it in the main thread.

        Processes that this one forks (DataLoader workers) must die of a SIGTERM as others expect them to.
        """
        self._number = number
        signal.signal(number, self._on_signal)
        os.register_at_fork(after_in_child=lambda: self._hand_over(signal.SIG_DFL))

    def leave(self) -> None:
        """The process is about to end: a signal that comes only now must not kill it while Python shuts down."""
        self._hand_over(signal.SIG_IGN)

    def requested(self) -> bool:
        """Has somebody asked? Stays true."""
        asked = self._signalled or (self._preempt_file is not None and self._preempt_file.exists())
        if (asked or self._since is not None) and self._since is None:
            self._since = time.monotonic()
        return self._since is not None

    def overdue(self) -> bool:
        """Asked, and half of the grace is used up: drop what is in hand."""
        return self.requested() and time.monotonic() - (self._since or 0.0) > self._grace_s / 2

    def wait(self, seconds: float) -> bool:
        """Wait until asked or until ``seconds`` are over; returns :meth:`requested`."""
        end = time.monotonic() + seconds
        while not self.requested() and (left := end - time.monotonic()) > 0:
            # A pipe and not threading.Event: a handler that sets an event can lock up with the thread waiting on it.
            awaken = select.poll()  # select can't wait for the files of a program that has opened a thousand
            awaken.register(self._wake, select.POLLIN)
            awaken.poll(1000 * min(left, _LOOK_S))
        return self.requested()

    def _on_signal(self, number: int, frame: object) -> None:
        self._signalled = True
        try:
            os.write(self._bell, b"!")
        except BlockingIOError:
            return  # the bell is full of earlier signals: whoever waits is awake

    def _hand_over(self, handler: signal.Handlers) -> None:
        if self._number and signal.getsignal(self._number) == self._on_signal:
            signal.signal(self._number, handler)


def read_stop(environ: Mapping[str, str]) -> StopRequest:
    """The stop request that the environment describes, not yet installed."""
    preempt_file = environ.get("EMEP_PREEMPT_FILE")
    return StopRequest(Path(preempt_file) if preempt_file else None, float(environ.get("EMEP_GRACE_SECONDS") or 120.0))


def checkpoint_exit_code(environ: Mapping[str, str]) -> int:
    """The exit code that says "checkpointed, run me again"."""
    return int(environ.get("EMEP_CHECKPOINT_EXIT_CODE") or CHECKPOINT_EXIT_CODE)


# ---------------------------------------------------------------- the calls of a script


class _Session:
    """The one conversation of this process."""

    def __init__(self) -> None:
        path = Path(os.environ["EMEP_EVENTS"]) if inside() else None
        self.events = EventLog(path if _speaks() else None)
        self.endings = EventLog(path if _speaks() or _first_of_another_node() else None)
        self.stop = read_stop(os.environ)
        self.agreed = False
        number = getattr(signal, os.environ.get("EMEP_PREEMPT_SIGNAL") or "SIGTERM")
        free = signal.getsignal(number) == signal.SIG_DFL  # a framework that has taken it keeps it; the file tells too
        if inside() and free and threading.current_thread() is threading.main_thread():
            self.stop.install(number)


_session: _Session | None = None


def _speaks() -> bool:
    return inside() and os.environ.get("RANK", "0") == "0"


def _first_of_another_node() -> bool:
    return os.environ.get("EMEP_NODE_RANK", "0") != "0" and os.environ.get("LOCAL_RANK", "0") == "0"


def attach() -> _Session:
    """From now on a stop is noticed; every other call does this by itself."""
    global _session
    if _session is None:
        _session = _Session()
    return _session


def inside() -> bool:
    """Whether EMEP started this process."""
    return bool(os.environ.get("EMEP_EVENTS"))


def resuming() -> bool:
    """Whether a checkpoint of an earlier attempt lies in :func:`checkpoint_dir`."""
    attach()
    return os.environ.get("EMEP_RESUME") == "1"


def _directory(name: str) -> Path:
    return Path(os.environ.get(f"EMEP_{name}_DIR") or ".")


def checkpoint_dir() -> Path:
    """Where this job's state is kept; like the others it is the current directory outside EMEP."""
    return _directory("CHECKPOINT")


def resume_dir() -> Path:
    """The newest directory that :func:`checkpoint` completed, else the whole :func:`checkpoint_dir`."""
    return max(_completed(), default=(0, checkpoint_dir()))[1]


def input_dir() -> Path:
    """Where the inputs lie, read-only, each under its name."""
    return _directory("INPUT")


def output_dir() -> Path:
    """Where results go; they are published when the job succeeds, and only then."""
    return _directory("OUTPUT")


def scratch_dir() -> Path:
    """A place that is thrown away at the end."""
    return _directory("SCRATCH")


def progress(step: int, total: int, unit: str = "step", **metrics: Any) -> None:
    """So many of so many units are done, and the metrics at this step. A full disk costs the line, not the job."""
    with contextlib.suppress(OSError):
        attach().events.emit("progress", step=step, total=total, unit=unit)
    for name, value in metrics.items():
        metric(name, value, step)


def metric(name: str, value: Any, step: int) -> None:
    """One number at one step, from anything that ``float`` takes; NaN and infinity are left out."""
    number = float(value)
    if math.isfinite(number):
        with contextlib.suppress(OSError):
            attach().events.emit("metric", name=name, step=step, value=number)


@contextlib.contextmanager
def checkpoint(step: int, keep: int = 1) -> Iterator[Path]:
    """A fresh directory to save into. When the block ends in order it is a checkpoint at ``step`` and is announced.

    The newest ``keep`` stay. On other ranks than 0, and outside EMEP, what is saved is thrown away.
    """
    attach()
    if not _speaks():
        with tempfile.TemporaryDirectory() as nowhere:
            yield Path(nowhere)
        return
    final = checkpoint_dir() / f"step-{step}"
    beside = final.with_name(f".{final.name}.tmp")  # by its name everybody knows it for half-written
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    yield beside
    shutil.rmtree(final, ignore_errors=True)
    beside.replace(final)
    saved(step, final.name)
    for _, old in sorted(_completed())[: -max(1, keep)]:
        shutil.rmtree(old, ignore_errors=True)


def saved(step: int, path: str = ".") -> None:
    """Announce a checkpoint that was written by other means: complete, at ``path`` in :func:`checkpoint_dir`."""
    attach().events.emit("checkpoint", step=step, path=path)


def _completed() -> list[tuple[int, Path]]:
    found = ((_STEP.fullmatch(p.name), p) for p in checkpoint_dir().glob("step-*") if p.is_dir())
    return [(int(match[1]), path) for match, path in found if match]


def artifact(name: str, path: str, kind: str = "output", **meta: Any) -> None:
    """A result: a file or directory in :func:`output_dir`. Kinds: model, dataset, eval, output."""
    attach().events.emit("artifact", name=name, path=path, kind=kind, meta=meta or None)


def error(code: str, message: str) -> None:
    """Why the job is about to fail, for people; ``out_of_memory`` is a code that is understood."""
    attach().endings.error(code, message, {})


def done() -> None:
    """The job's work is complete. Without it an end after a stop was asked counts as preempted."""
    attach().endings.emit("done")


def should_stop() -> bool:
    """Has the job been asked to stop? Stays true. Under ``torch.distributed`` all ranks get the same answer."""
    session = attach()
    if session.agreed:
        return True
    session.agreed = session.stop.requested()
    distributed = _distributed()
    if distributed is not None:
        torch = sys.modules["torch"]
        device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
        flag = torch.tensor([int(session.agreed)], device=device)
        distributed.all_reduce(flag, op=distributed.ReduceOp.MAX)
        session.agreed = bool(flag.item())
    return session.agreed


def exit_checkpointed() -> NoReturn:
    """Leave with the code that means "checkpointed, run me again"; ranks leave together, after rank 0 has saved."""
    distributed = _distributed()
    if distributed is not None:
        distributed.barrier()
    with contextlib.suppress(OSError):
        attach().endings.emit("yield")  # torchrun makes 1 of every exit code
    attach().stop.leave()
    sys.exit(checkpoint_exit_code(os.environ))


def _distributed() -> Any:
    """``torch.distributed`` where the script has set it up; torch is never imported from here."""
    module = sys.modules.get("torch.distributed")
    return module if module is not None and module.is_available() and module.is_initialized() else None
