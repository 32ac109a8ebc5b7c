"""How a job's process is born: fork, new session, death signal, exec. Standard library only (the keeper uses it)."""

from __future__ import annotations

import ctypes
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from workers.said_back import shown

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
MOST_SAID = 4096  # what a pipe takes whole


@dataclass(frozen=True, slots=True)
class ExecSpec:
    """What to run: ``argv[0]`` is looked up in ``env['PATH']``; ``uid``/``gid`` None means as the keeper.

    ``stop_signal`` is the name of the one by which its leader is asked to stop; ``memory_bytes`` is what it may have of
    the host's memory (0: no limit).
    """

    argv: list[str]
    env: dict[str, str]
    cwd: str
    uid: int | None = None
    gid: int | None = None
    stop_signal: str = "SIGTERM"
    memory_bytes: int = 0


class CannotRun(Exception):
    """The program could not be executed; the text says which and why."""


class CannotJoin(CannotRun):
    """It was not executed because it could not enter its control group."""


def become_subreaper() -> None:
    """From now on every orphan below this process becomes its child, so no descendant can escape it."""
    if _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def spawn(spec: ExecSpec, output: Path, *, join: Path | None = None) -> tuple[int, int]:
    """Have ``spec`` run as the leader of a new session, both outputs appended to ``output``: ``(pid, word)``.

    ``word`` is a descriptor for :func:`executed`, which the caller closes. Nothing is waited for: a program on a disk
    that does not answer must not hold up who keeps other jobs. ``join`` is the ``cgroup.procs`` of the control group
    that it enters first. The process gets SIGKILL when this one dies. Must be called from a process with a single
    thread.
    """
    word, tell = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(spec, output, parent=parent, tell=tell, join=join)
    os.close(tell)
    os.set_blocking(word, False)
    return pid, word


def executed(word: int) -> bool:
    """Whether the process turned into its program; False: not yet.

    Raises :class:`CannotRun` when it could not (it ends then, and is to be reaped).
    """
    try:
        said = os.read(word, MOST_SAID)
    except BlockingIOError:
        return False
    if said:
        words = json.loads(said)
        raise CannotJoin(words["join"]) if isinstance(words, dict) else CannotRun(words)
    return True


def _die_with(parent: int) -> None:
    """In the child: SIGKILL when ``parent`` dies, or an end at once when it has died already."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(127)


def _enter(join: Path, tell: int) -> None:
    """In the child: this process, and so all that it will ever start, is in the control group of ``join``."""
    try:
        procs = os.open(join, os.O_WRONLY | os.O_CLOEXEC)
        os.write(procs, str(os.getpid()).encode())
        os.close(procs)
    except OSError as problem:
        os.write(tell, json.dumps({"join": f"{join.parent} can't be entered: {problem.strerror}"}).encode())
        os._exit(127)


def _become(spec: ExecSpec, output: Path, *, parent: int, tell: int, join: Path | None) -> None:
    """In the child: turn into the job, or write what went wrong into ``tell`` and end. Never returns."""
    try:
        signal.set_wakeup_fd(-1)
        _die_with(parent)
        # It may be long until exec closes them: the keeper's lock must be free when the keeper is gone.
        os.closerange(3, tell)
        os.closerange(tell + 1, os.sysconf("SC_OPEN_MAX"))
        if join is not None:
            _enter(join, tell)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.setsid()
        os.umask(0o022)
        nothing = os.open(os.devnull, os.O_RDONLY)
        log = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        if spec.gid is not None and spec.uid is not None:
            os.setgroups([])
            os.setgid(spec.gid)
            os.setuid(spec.uid)
        os.chdir(spec.cwd)
        _die_with(parent)  # setuid has cleared it
        os.execvpe(spec.argv[0], spec.argv, spec.env)  # noqa: S606 - the command itself, with no shell between
    except BaseException as problem:
        # execvp's own words name the last directory it tried.
        unknown = isinstance(problem, FileNotFoundError) and "/" not in spec.argv[0] and problem.filename != spec.cwd
        why = "there is no such program in PATH; give its full path" if unknown else str(problem)
        os.write(tell, json.dumps(f"cannot run {shown(spec.argv[0], 200)}: {why}"[:500]).encode())
        os._exit(127)
