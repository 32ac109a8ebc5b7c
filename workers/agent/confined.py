"""A job's process is born in a control group of its own, where there is one. Standard library only (the keeper's)."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from workers.agent.cgroup import CgroupError, Cgroups, JobCgroup
from workers.agent.spawn import CannotJoin, CannotRun, ExecSpec, executed, spawn


class CannotLimit(Exception):
    """The job must not run here: its memory is to be limited, and can't be. The text says why."""


class Birth:
    """``spec`` is about to run, in a group of its own if that can be made; see :func:`spawn`.

    ``pid`` is its leader; ``group`` None: it is in its keeper's group, because of ``trouble`` if that has words. Raises
    :class:`CannotLimit` when its memory is to be limited and there is no such group, OSError when it can't be forked.
    """

    def __init__(self, spec: ExecSpec, output: Path, *, job: str, cgroups: Cgroups | None) -> None:
        self.spec = spec
        self.output = output
        self.group: JobCgroup | None = None
        self.trouble = ""
        if cgroups is None:
            self._alone("its keeper runs without cgroups; restart it (jobs end with it), or set cgroup")
            return
        try:
            self.group = cgroups.create(job, memory_bytes=spec.memory_bytes)
        except CgroupError as problem:
            self.trouble = str(problem)
            self._alone(self.trouble)
            return
        try:
            self.pid, self.word = spawn(spec, output, join=self.group.procs)
        except OSError:
            self._leave_group()
            raise

    def fileno(self) -> int:
        """What becomes readable when there is news."""
        return self.word

    def over(self) -> bool:
        """Whether it runs its program now; False: not yet, and ``pid`` may have become another.

        Raises :class:`CannotRun` or :class:`CannotLimit` when it never will; nothing of it is left then.
        """
        try:
            if not executed(self.word):
                return False
        except CannotJoin as problem:
            self._bury()
            self.trouble = str(problem)
            self._alone(self.trouble)
            return False
        except CannotRun:
            self._bury()
            raise
        self.forget()
        return True

    def forget(self) -> None:
        """Nobody asks for news any more."""
        os.close(self.word)

    def _alone(self, why: str) -> None:
        if self.spec.memory_bytes:
            raise CannotLimit(f"the node's limit on a job's memory (job_memory_bytes) can't be enforced: {why}")
        self.pid, self.word = spawn(self.spec, self.output)

    def _bury(self) -> None:
        self.forget()
        with contextlib.suppress(ChildProcessError):  # whoever reaps all children may have been faster
            os.waitpid(self.pid, 0)
        self._leave_group()

    def _leave_group(self) -> None:
        if self.group is not None:
            self.group.remove()
        self.group = None
