"""The keeper: parent of every job process of a node. Standard library only, one thread, one per node.

It outlives its agent: the agent may crash, hang or be upgraded, and no job loses its exit status. It watches the
lease by itself, so that a hung agent's jobs are stopped in time too (SIGTERM to the leader at the deadline, SIGKILL
to everything ``kill_s`` later), and so is a job whose agent has asked it to stop and died before it could end it. When
the keeper dies its jobs die with it, and the next keeper sweeps what is left.
It leaves a pulse (``pulse.py``), by which its agent knows one that hangs, and ends it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.agent import proctable
from workers.agent.cgroup import Cgroups, JobCgroup
from workers.agent.confined import Birth, CannotLimit
from workers.agent.leftovers import GUARD_KILL_S, KILL_POLL_S, kill, marker_of, swept
from workers.agent.pulse import beat, why_it_ended
from workers.agent.spawn import CannotRun, ExecSpec, become_subreaper
from workers.agent.statedir import StateDir, boot_id, boottime, open_bell, read_json, ring, write_json

POLL_S = 1.0
IDLE_EXIT_S = 600.0
LOG_BYTES = 4 * 2**20


@dataclass(slots=True)
class Child:
    """One job: ``cause`` is why it ends (exit, kill, fence, guard); ``wait_status`` what its leader left behind.

    ``group`` is its control group, if it has one of its own, in which it may take ``memory_bytes`` (0: no limit).
    ``birth`` while it has not begun its program yet, and ``order`` the command that says to start it.
    """

    name: str
    directory: Path
    pid: int
    marker: bytes
    stop_signal: signal.Signals = signal.SIGTERM
    cause: str = "exit"
    termed: bool = False
    kill_at: float | None = None
    wait_status: int | None = None
    give_up_at: float | None = None
    group: JobCgroup | None = None
    memory_bytes: int = 0
    birth: Birth | None = None
    order: Path | None = None


def _born(pid: int, proc: proctable.Proc | None, at: float, boot: str) -> dict[str, Any]:
    return {"pid": pid, "start": proc.start if proc else 0, "at": at, "boot_id": boot}


class Keeper:
    """The loop's state; ``clock`` is the boot-time clock. ``run`` returns when asked to stop and nothing is left.

    ``cgroups`` is where each job gets a control group of its own; None: nowhere.
    """

    def __init__(
        self, state: StateDir, *, guard: int | None = None, clock: Callable[[], float] = boottime,
        cgroups: Cgroups | None = None,
    ) -> None:  # fmt: skip
        self.state = state
        self.clock = clock
        self.cgroups = cgroups
        self.children: dict[str, Child] = {}
        self.stopping = False
        self.idle_since = clock()
        self.boot = boot_id()
        self.guard = os.pidfd_open(guard) if guard is not None else None
        self.log_path = state.root / "keeper.log"

    def log(self, what: str, **fields: Any) -> None:
        """One JSON line about what was done, with both clocks; the file before is kept when it grows too long.

        A full disk costs the line and not the keeper, whose death would be that of every job.
        """
        line = json.dumps({"at": round(self.clock(), 3), "wall": round(time.time(), 3), "what": what, **fields})
        with contextlib.suppress(OSError):
            if self.log_path.exists() and self.log_path.stat().st_size > LOG_BYTES:
                self.log_path.replace(self.log_path.with_suffix(".log.1"))
            with self.log_path.open("a", encoding="utf-8") as out:
                out.write(line + "\n")

    # ------------------------------------------------------------ the loop

    def run(self) -> None:
        """Keep jobs until SIGTERM (or the guard's end, or long idleness) and until no job is left."""
        become_subreaper()
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._asked_to_stop)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        bell = open_bell(self.state.keeper_bell)
        self.sweep()
        where = str(self.cgroups.parent) if self.cgroups is not None else None
        own = proctable.read_proc(os.getpid())
        write_json(self.state.keeper_file, {**_born(os.getpid(), own, self.clock(), self.boot), "cgroup": where})
        self.log("start", pid=os.getpid(), cgroup=where)
        while not self.finished():
            due_in = self.step()
            births = [child.birth for child in self.children.values() if child.birth is not None]
            waiting: list[int | Birth] = [wake_read, bell, *births]
            waiting += [self.guard] if self.guard is not None else []
            ready, _, _ = select.select(waiting, [], [], due_in)
            for descriptor in ready:
                if descriptor == self.guard:
                    self._guard_gone()
                elif isinstance(descriptor, int):
                    with contextlib.suppress(BlockingIOError):
                        os.read(descriptor, 4096)
        self.log("stop")

    def step(self) -> float:
        """Do all that is due now; the seconds until there may be more to do."""
        beat(self.state, self.clock())
        self.obey()
        self.reap()
        for child in list(self.children.values()):
            self.birth(child)
        overdue, lease = self.overdue(), self.fence()
        for child in list(self.children.values()):
            self.finish(child)
        now = self.clock()
        if self.children:
            self.idle_since = now
        if any(c.wait_status is not None or self._due(c) for c in self.children.values()):
            return KILL_POLL_S
        due = [c.kill_at for c in self.children.values() if c.kill_at is not None]
        if self.children:
            due += [at for at in (lease, overdue) if at is not None]
        return max(0.0, min([POLL_S, *(at - now for at in due)]))

    def finished(self) -> bool:
        """Whether the loop may end: asked to, or idle long after its lease, and no job left."""
        idle = self.clock() - self.idle_since > IDLE_EXIT_S and self.lease()[0] + IDLE_EXIT_S < self.clock()
        return (self.stopping or idle) and not self.children

    def _asked_to_stop(self, *_: Any) -> None:
        self.stopping = True

    def _guard_gone(self) -> None:
        """The process that this keeper was tied to is gone: end all jobs soon and stop."""
        if self.guard is not None:
            os.close(self.guard)
        self.guard, self.stopping = None, True
        self.log("guard_gone")
        for child in self.children.values():
            self._end(child, "guard", self.clock() + GUARD_KILL_S)

    # ------------------------------------------------------------ commands

    def obey(self) -> None:
        """Carry out the spooled commands in order; one to start a job is there until the job runs or can't.

        A command that can't be read is dropped and logged.
        """
        for path in sorted(self.state.spool.glob("[0-9]*.json")):
            command = read_json(path) or {}
            name, op = str(command.get("job")), command.get("op")
            directory, child = self.state.attempts / name, self.children.get(name)
            if op == "start" and "/" not in name and directory.is_dir():
                if (child is not None and child.birth is not None) or not self.start(name, directory, path):
                    continue
            elif op in ("term", "kill"):
                if child is not None and op == "term":
                    self._term(child)
                elif child is not None:
                    self._end(child, "kill", self.clock())
            else:
                self.log("bad_command", file=path.name)
            path.unlink(missing_ok=True)

    def start(self, name: str, directory: Path, order: Path | None = None) -> bool:
        """Start the job once: a second command for it, whenever it comes, does nothing.

        Whether the ``order`` is done with; else it is to be read again.
        """
        if name in self.children or (directory / "pid.json").exists() or (directory / "status.json").exists():
            self.log("start_again_ignored", job=name)
            return True
        if self.stopping or self.clock() >= self.lease()[0]:
            why = "the keeper is stopping" if self.stopping else "the node's lease has run out"
            return self._refuse(directory, {"cause": "fence", "error": why})
        raw = read_json(directory / "exec.json") or {}
        try:
            memory = int(raw.get("memory_bytes") or 0)
            spec = ExecSpec(
                raw["argv"], raw["env"], raw["cwd"], raw.get("uid"), raw.get("gid"), memory_bytes=memory
            )  # fmt: skip
            stop_signal = signal.Signals[raw.get("stop_signal") or spec.stop_signal]
            birth = Birth(spec, directory / "stdout", job=name, cgroups=self.cgroups)
        except (CannotLimit, KeyError, OSError) as problem:
            return self._cannot_start(directory, problem)
        self.children[name] = Child(
            name, directory, birth.pid, marker_of(directory), stop_signal, group=birth.group, memory_bytes=memory,
            birth=birth, order=order,
        )  # fmt: skip
        return False

    def birth(self, child: Child) -> None:
        """A job that was to start runs now and is on record, or never will; or there is no news yet."""
        if child.birth is None:
            return
        try:
            over = child.birth.over()
        except (CannotLimit, CannotRun, OSError) as problem:
            del self.children[child.name]
            if self._cannot_start(child.directory, problem):
                self._ordered(child)
            return
        if child.pid != child.birth.pid:
            child.pid, child.group, child.wait_status = child.birth.pid, child.birth.group, None
        if not over:
            return
        if child.birth.trouble:
            self.log("no_cgroup", job=child.name, error=child.birth.trouble)
        child.birth = None
        proc = proctable.read_proc(child.pid)
        try:
            write_json(child.directory / "pid.json", _born(child.pid, proc, self.clock(), self.boot))
        except OSError as problem:
            self.log("cannot_record", job=child.name, error=str(problem))
            self._end(child, "kill", self.clock())  # what isn't on record couldn't be found again
            return
        self._ordered(child)
        self.log("started", job=child.name, pid=child.pid)
        ring(self.state.agent_bell)

    def _ordered(self, child: Child) -> None:
        if child.order is not None:
            child.order.unlink(missing_ok=True)
        child.order = None

    def _cannot_start(self, directory: Path, problem: Exception) -> bool:
        self.log("cannot_start", job=directory.name, error=str(problem))
        cause = "node" if isinstance(problem, CannotLimit) else "exec"
        return self._refuse(directory, {"cause": cause, "exit_code": 127, "error": str(problem)})

    def _refuse(self, directory: Path, status: dict[str, Any]) -> bool:
        """It did not run, which is on record then; False: the disk is full."""
        try:
            self._write_status(directory, {**status, "clean": True})
        except OSError:
            return False
        return True

    def _term(self, child: Child) -> None:
        """The stop signal to the leader alone, once: its workers must live to let it save its state."""
        if not child.termed and child.wait_status is None:
            child.termed = True
            self.log(child.stop_signal.name.lower(), job=child.name)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, child.stop_signal)

    def _end(self, child: Child, cause: str, kill_at: float) -> None:
        if child.wait_status is None and child.cause == "exit":
            child.cause = cause
        child.kill_at = min(kill_at, child.kill_at) if child.kill_at is not None else kill_at
        if kill_at > self.clock():
            self._term(child)

    # ------------------------------------------------------------ the fence

    def lease(self) -> tuple[float, float]:
        """``(deadline, kill_s)`` on the boot-time clock; a lease that is missing or of another boot has run out."""
        lease = read_json(self.state.lease) or {}
        if lease.get("boot_id") != self.boot:
            return 0.0, 10.0
        return float(lease.get("deadline", 0.0)), float(lease.get("kill_s", 10.0))

    def fence(self) -> float | None:
        """End every job whose lease has run out; the deadline of those that may go on."""
        running = [c for c in self.children.values() if c.wait_status is None and c.cause == "exit"]
        if not running:
            return None
        deadline, kill_s = self.lease()
        if self.clock() < deadline:
            return deadline
        for child in running:
            self.log("fence", job=child.name, deadline=deadline)
            self._end(child, "fence", self.clock() + kill_s)
        return None

    def overdue(self) -> float | None:
        """Kill every job whose time to stop is over, as its agent wrote it down; when the next one's will be.

        Without ``preempt`` the stop was taken back.
        """
        now, next_at = self.clock(), None
        for child in self.children.values():
            if not child.termed or child.wait_status is not None or child.cause != "exit":
                continue
            kill_at = (read_json(child.directory / "stop.json") or {}).get("kill_at")
            if not isinstance(kill_at, int | float) or not (child.directory / "preempt").exists():
                continue
            if now >= kill_at:
                self.log("overdue", job=child.name, kill_at=kill_at)
                self._end(child, "kill", now)
            else:
                next_at = kill_at if next_at is None else min(next_at, kill_at)
        return next_at

    # ------------------------------------------------------------ the end of a job

    def reap(self) -> None:
        """Collect every ended child: leaders keep their status, adopted orphans are only cleared away."""
        leaders = {child.pid: child for child in self.children.values()}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in leaders:
                leaders[pid].wait_status = status

    def _due(self, child: Child) -> bool:
        return child.kill_at is not None and self.clock() >= child.kill_at

    def finish(self, child: Child) -> None:
        """Once the leader is gone (or must be): kill what is left, prove it gone, then write the status."""
        if child.wait_status is None and not self._due(child):
            return
        left = self._members(child)
        kill(left, child.group)
        now = self.clock()
        if child.give_up_at is None:
            child.give_up_at = now + max(self.lease()[1], GUARD_KILL_S)
        if (left or child.wait_status is None) and now < child.give_up_at:
            return
        try:
            self._write_status(child.directory, self._status(child, sorted(left)))
        except OSError:
            return  # a full disk: the status is kept here and written when there is room again
        self.log("ended", job=child.name, cause=child.cause, survivors=sorted(left))
        self._ordered(child)
        if child.birth is not None:
            child.birth.forget()  # it hangs where no signal reaches it
        del self.children[child.name]
        if self.cgroups is not None:
            for job, group in self.cgroups.left().items():
                if job not in self.children:  # its own, and any of before whose last process has gone since
                    group.remove()

    def _members(self, child: Child) -> set[int]:
        """What is left of the job: what its control group holds, and what is known as its own by descent and marks."""
        table = proctable.scan()
        below = proctable.descendants(table, [os.getpid()]) & table.keys()
        inside = child.group.pids() if child.group is not None else set()
        if len(self.children) == 1:
            return below | inside  # nobody else could own a process that has shed every mark
        return proctable.members(table, leader=child.pid, marker=child.marker, within=below) | inside

    def _status(self, child: Child, survivors: list[int]) -> dict[str, Any]:
        code = os.waitstatus_to_exitcode(child.wait_status) if child.wait_status is not None else None
        starved = child.memory_bytes > 0 and child.group is not None and child.group.ran_out_of_memory()
        return {
            "exit_code": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "cause": child.cause,
            "clean": not survivors and child.wait_status is not None,
            "survivors": survivors,
            "ended_at": self.clock(),
            "memory_limit": child.memory_bytes if starved else 0,
        }

    def _write_status(self, directory: Path, status: dict[str, Any]) -> None:
        write_json(directory / "status.json", status)
        ring(self.state.agent_bell)

    def sweep(self) -> None:
        """No process of a keeper before this one is left, and each attempt that ran under it is marked lost."""
        why = why_it_ended(self.state)
        for lost in swept(self.state, boot=self.boot, cgroups=self.cgroups, clock=self.clock):
            alive = sorted(lost.alive)
            self.log("lost", job=lost.directory.name, killed=sorted(lost.killed), survivors=alive)
            status = {"cause": "keeper", "error": why, "clean": not alive}
            self._write_status(lost.directory, {**status, "survivors": alive})
        self.state.keeper_ended.unlink(missing_ok=True)
