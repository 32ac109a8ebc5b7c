"""The agent's side of its job processes: commands to the keeper, and what lies on disk about each attempt."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

from workers.agent import tmp_link
from workers.agent.attempt import Held
from workers.agent.cgroup import AUTO
from workers.agent.launch import PACKAGE_ROOT
from workers.agent.messages import StopAsked
from workers.agent.outcome import Exit
from workers.agent.phase import Phase
from workers.agent.proctable import read_proc
from workers.agent.pulse import Pulse, end
from workers.agent.statedir import Ref, StateDir, boot_id, boottime, lock, read_json, ring, write_json
from workers.agent.tail import read_facts
from workers.protocol import Launch

KEEPER_START_S = 5.0


class Processes:
    """Starts, signals and watches jobs through the keeper of ``state``; ``guard`` is the pid the keeper is tied to.

    ``cgroup`` is where a keeper that this starts has the jobs' control groups.
    """

    def __init__(
        self, state: StateDir, *, guard: int | None = None, starts_keeper: bool = True, cgroup: str = AUTO
    ) -> None:
        self.state = state
        self.cgroup = cgroup
        self.starts_keeper = starts_keeper
        self.guard = guard
        self.sent = 0
        self.started_keeper_at = -KEEPER_START_S
        self.boot = boot_id()
        self.pulse = Pulse(state)

    # ------------------------------------------------------------ the keeper

    def keeper_alive(self) -> bool:
        """Whether a keeper has this state directory."""
        with lock(self.state.keeper_lock) as held:
            return held is None

    def end_hung_keeper(self, *, after_s: float) -> str:
        """A keeper that hangs for ``after_s`` is dead, in words; empty: it works.

        It could neither end a job nor keep the fence. Its jobs die with it, and the next one sweeps what is left.
        """
        hung = self.pulse.hung(boottime(), after_s=after_s)
        if hung is None:
            return ""
        pid, silence = hung
        gone = end(self.state, pid, silence)
        ended = "ended it, and its jobs with it" if gone else "this user may not end it: whoever started it must"
        return f"the keeper (pid {pid}) has hung for {silence:.1f} s: {ended}"

    def ensure_keeper(self) -> bool:
        """A keeper runs, or was started just now (then the answer is True); it outlives this process.

        A keeper that somebody else starts is only waited for: what it is to do waits in the spool.
        """
        if not self.starts_keeper:
            return False
        if boottime() - self.started_keeper_at < KEEPER_START_S or self.keeper_alive():
            return False
        self.started_keeper_at = boottime()
        command = [sys.executable, "-m", "workers", "keeper", "--state", str(self.state.root), "--detach"]
        command += ["--cgroup", self.cgroup]
        if self.guard is not None:
            command += ["--guard", str(self.guard)]
        # Waits only for the first fork's parent; the keeper itself is nobody's child.
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT)}
        subprocess.run(command, check=True, env=environment, stdin=subprocess.DEVNULL, timeout=30)
        return True

    def stop_keeper(self) -> None:
        """Ask the keeper to end, if it is ours; it does once its last job is gone."""
        if not self.starts_keeper:
            return
        who = read_json(self.state.keeper_file)
        if who is not None and who.get("boot_id") == self.boot and self.keeper_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(who["pid"]), signal.SIGTERM)

    def _command(self, op: str, ref: Ref) -> None:
        self.sent += 1
        order = f"{int(boottime() * 1e6):018d}{self.sent % 10000:04d}"
        write_json(self.state.spool / f"{order}.json", {"op": op, "job": ref.name})
        ring(self.state.keeper_bell)

    def start(self, ref: Ref) -> None:
        """The keeper will run what ``exec.json`` says, once, however often it is told."""
        self._command("start", ref)

    def term(self, ref: Ref) -> None:
        """SIGTERM to the job's leader alone; only the first one is sent."""
        self._command("term", ref)

    def kill(self, ref: Ref) -> None:
        """SIGKILL to every process of the job."""
        self._command("kill", ref)

    # ------------------------------------------------------------ what is known of an attempt

    def born(self, ref: Ref) -> tuple[int, float] | None:
        """``(pid, boot-clock time)`` of the leader, once it was started in this boot."""
        known = self._born(ref)
        return None if known is None else (int(known["pid"]), float(known["at"]))

    def _born(self, ref: Ref) -> dict[str, Any] | None:
        """What the keeper wrote down of a leader that was started in this boot."""
        known = read_json(self.state.of(ref) / "pid.json")
        return known if known is not None and known.get("boot_id") == self.boot else None

    def runs(self, ref: Ref) -> bool:
        """Whether the leader was started in this boot and lives, whatever the keeper has written down."""
        known = self._born(ref)
        leader = None if known is None else read_proc(int(known["pid"]))
        return known is not None and leader is not None and leader.start == known["start"]

    def ended(self, ref: Ref) -> Exit | None:
        """How the job ended, once every process of it is gone (or could not be made to go)."""
        status = read_json(self.state.of(ref) / "status.json")
        if status is None:
            return None
        return Exit(
            status.get("exit_code"), status.get("signal"), str(status.get("cause", "exit")),
            str(status.get("error", "")), bool(status.get("clean", True)), tuple(status.get("survivors", ())),
            float(status.get("ended_at", 0.0)), int(status.get("memory_limit", 0)),
        )  # fmt: skip

    def stop_asked(self, ref: Ref) -> StopAsked | None:
        """The stop on record."""
        stop = read_json(self.state.of(ref) / "stop.json")
        if stop is None:
            return None
        return StopAsked(str(stop["why"]), float(stop["at"]), stop.get("kill_at"), int(stop.get("events_offset", 0)))

    def found(self) -> list[Held]:
        """The attempts an agent before this one left, as they stand now. Half-made directories are removed."""
        held: list[Held] = []
        told = self._told_to_start()  # looked at first: the keeper takes an order away once its deed is on record
        for ref in self.state.refs():
            directory = self.state.of(ref)
            launch = read_json(directory / "launch.json")
            report = read_json(directory / "report.json")
            if launch is None and report is None:
                tmp_link.remove(directory / "work" / "scratch")
                shutil.rmtree(directory, ignore_errors=True)
                continue
            one = Held(ref, Phase.PREPARING, launch=cast(Launch, launch), stop=self.stop_asked(ref))
            self._place(one, directory, report, told=ref.name in told)
            held.append(one)
        return held

    def _told_to_start(self) -> set[str]:
        orders = [read_json(path) or {} for path in self.state.spool.glob("[0-9]*.json")]
        return {str(order.get("job")) for order in orders if order.get("op") == "start"}

    def _place(self, one: Held, directory: Path, report: dict[str, Any] | None, *, told: bool) -> None:
        born = self.born(one.ref)
        if report is not None:
            one.phase, one.report = Phase.FINISHED, report
        elif born is not None:
            one.phase, one.started_at = Phase.RUNNING, born[1]
            one.declared = read_facts(directory / "events.jsonl", stop_offset=None).last_path is not None
            one.add({"type": "started", "pid": born[0]})  # told again: the first telling may have been lost
        elif (directory / "pid.json").exists() or (directory / "status.json").exists():
            one.phase = Phase.STARTING  # it has run, or could not: the keeper's status says how it ended
            one.gone = not (directory / "status.json").exists()
        elif told:
            one.phase = Phase.STARTING
        limit = read_json(directory / "upload.json")
        if limit is not None and limit.get("boot_id") == self.boot:
            one.upload.until = float(limit["until"])
        kept = read_json(directory / "tail.json")
        one.events_offset = one.events_kept = int(kept["events_offset"]) if kept is not None else 0

    # ------------------------------------------------------------ the end

    def discard(self, ref: Ref) -> Path | None:
        """The attempt's directory is out of the way, at the returned path, to be removed at leisure."""
        trash = self.state.root / "trash"
        trash.mkdir(exist_ok=True)
        target = trash / f"{ref.name}.{int(boottime() * 1e6)}"
        tmp_link.remove(self.state.of(ref) / "work" / "scratch")
        try:
            self.state.of(ref).replace(target)
        except FileNotFoundError:
            return None
        return target


def prune_cache(cache: Path, *, keep_bytes: int) -> int:
    """Remove the least recently used files until at most ``keep_bytes`` are left; the bytes removed."""
    files = [(stat.st_atime_ns, stat.st_size, path) for path in cache.glob("*/*") for stat in [path.stat()]]
    over = sum(size for _, size, _ in files) - keep_bytes
    removed = 0
    for _, size, path in sorted(files):
        if removed >= over:
            break
        path.unlink(missing_ok=True)
        removed += size
    return removed
