"""Is a GPU fit again? Its test runs as a process of its own, with a deadline, and without the agent ever waiting."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from workers.agent.devices import Devices, DevicesError
from workers.protocol import CanaryResult

DEADLINE_S = 60.0
REAP_S = 5.0
LONGEST = 300
# What a test may see of the agent's environment: it needs no secret of it.
PASSED_ON = ("PATH", "HOME", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "LANG", "NVIDIA_VISIBLE_DEVICES")


@dataclass(slots=True)
class _Run:
    began: float
    done: threading.Event = field(default_factory=threading.Event)
    result: CanaryResult | None = None


class Canaries:
    """The tests under way and their results until they were told. ``clock`` gives seconds.

    A test is asked for again and again until its result has arrived; it runs once.
    """

    def __init__(
        self, devices: Devices, *, deadline_s: float = DEADLINE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.devices = devices
        self.deadline_s = deadline_s
        self.clock = clock
        self.runs: dict[str, _Run] = {}

    def want(self, uuids: Iterable[str], busy: frozenset[str]) -> None:
        """Each of these GPUs is being tested, unless a job is on it."""
        for uuid in uuids:
            if uuid in self.runs or uuid in busy:
                continue
            run = self.runs[uuid] = _Run(self.clock())
            threading.Thread(target=self._try, args=(uuid, run), daemon=True, name=f"test-{uuid}").start()

    def result(self, uuid: str) -> CanaryResult | None:
        """What the test came to; None while it runs or when there was none. A driver that hangs has failed it."""
        run = self.runs.get(uuid)
        if run is None:
            return None
        if run.done.is_set():
            return run.result
        if self.clock() - run.began > self.deadline_s + 2 * REAP_S:
            return _failed(f"the driver gave no answer within {self.deadline_s:g} s")
        return None

    def told(self, uuid: str) -> None:
        """The server has the result: the next wish is for a new test."""
        self.runs.pop(uuid, None)

    def _try(self, uuid: str, run: _Run) -> None:
        try:
            left = self.devices.occupied(uuid)
            run.result = _failed(f"before the test {left}") if left else self._run(uuid)
            if run.result["passed"]:
                left = self._left(uuid)
                run.result = _failed(f"after the test {left}") if left else run.result
        except (DevicesError, OSError) as problem:
            run.result = _failed(f"it could not be tried: {problem}")
        finally:
            run.result = run.result or _failed("the test crashed in the agent")
            run.done.set()

    def _left(self, uuid: str) -> str:
        """What still uses the GPU after the test; the driver may take a moment to free it."""
        until = self.clock() + REAP_S
        left = self.devices.occupied(uuid)
        while left and self.clock() < until:
            time.sleep(0.2)
            left = self.devices.occupied(uuid)
        return left

    def _run(self, uuid: str) -> CanaryResult:
        trial = self.devices.trial(uuid)
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        # A session of its own, so that whatever it starts can be killed with it.
        with subprocess.Popen(
            [*trial.command, "--limit", str(max(1, round(self.deadline_s + REAP_S)))],
            env={**environment, **trial.environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                said, _ = process.communicate(timeout=self.deadline_s)
            except subprocess.TimeoutExpired:
                return self._kill(process)
        lines = said.decode("utf-8", "replace").strip().splitlines()
        detail = (lines[-1] if lines else f"it ended with {process.returncode} and said nothing")[:LONGEST]
        return {"passed": process.returncode == 0, "detail": detail}

    def _kill(self, process: subprocess.Popen[bytes]) -> CanaryResult:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        try:
            process.communicate(timeout=REAP_S)
        except subprocess.TimeoutExpired:
            return _failed(f"no answer within {self.deadline_s:g} s, and process {process.pid} can't be killed")
        return _failed(f"no answer within {self.deadline_s:g} s")


def _failed(detail: str) -> CanaryResult:
    return {"passed": False, "detail": detail[:LONGEST]}
