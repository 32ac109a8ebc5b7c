"""A control group (version 2) for each job: no process of it is out of sight, and one write ends them all.

Standard library only (the keeper uses it). A job's group lies below one directory that this program may write, named
``emep.<state directory>.<job>``, so that a later keeper of the same state directory knows what an earlier one left.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

AUTO, OFF = "auto", "off"
# What the kernel writes for a process of another pid namespace: it is there, and can't be named.
UNNAMED = 0
_GONE = (errno.ENOENT, errno.ENODEV)
Change = Callable[[Path], None]


class CgroupError(Exception):
    """A control group can't be had, or can't limit memory; the text says which, why and what to do."""


def _write(path: Path, text: str) -> None:
    """As the kernel wants it: one write into a file that is there already."""
    target = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(target, text.encode())
    finally:
        os.close(target)


@dataclass(frozen=True, slots=True)
class JobCgroup:
    """The group of one job; ``remove`` takes an empty directory away."""

    job: str
    path: Path
    remove_directory: Change = field(default=os.rmdir)

    @property
    def procs(self) -> Path:
        """The file into which a process writes its pid to join."""
        return self.path / "cgroup.procs"

    def pids(self) -> set[int]:
        """Every living process in it and in what the job made below it; ``UNNAMED`` for those without a pid here.

        One whose list can't be read is not known to be empty, so it counts as ``UNNAMED``.
        """
        found: set[int] = set()
        for directory, _, _ in os.walk(self.path):
            try:
                found.update(int(line) for line in Path(directory, "cgroup.procs").read_text().split())
            except OSError as problem:
                # EOPNOTSUPP: a group of threads, whose processes are listed above it.
                if problem.errno not in (*_GONE, errno.EOPNOTSUPP):
                    found.add(UNNAMED)
        return found

    def kill(self) -> None:
        """SIGKILL to all that is in it at once, forks under way included; nothing on kernels before 5.14."""
        with contextlib.suppress(OSError):
            _write(self.path / "cgroup.kill", "1")

    def limit_memory(self, size: int) -> None:
        """All of it together gets ``size`` bytes of memory and no swap; above that the kernel ends all of it."""
        try:
            _write(self.path / "memory.max", str(size))
            for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
                with contextlib.suppress(FileNotFoundError):  # no swap, or a kernel before 4.19
                    _write(self.path / name, value)
        except OSError as problem:
            raise CgroupError(f"memory can't be limited in {self.path}: {problem.strerror}") from problem

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel has killed something in it for its limit."""
        try:
            events = (self.path / "memory.events").read_text()
        except OSError:
            return False
        return any(int(count) > 0 for count in re.findall(r"^oom_kill (\d+)$", events, re.MULTILINE))

    def remove(self) -> bool:
        """It is gone, with what the job made below it; False as long as something is in it."""
        for directory, _, _ in os.walk(self.path, topdown=False):
            try:
                self.remove_directory(Path(directory))
            except OSError as problem:
                if problem.errno not in _GONE:
                    return False
        return True


class Cgroups:
    """The jobs' groups below ``parent``, for the keeper of the state directory ``state``.

    ``make`` and ``remove`` are the two calls that a plain directory can't stand in for.
    """

    def __init__(self, parent: Path, state: Path, *, make: Change = os.mkdir, remove: Change = os.rmdir) -> None:
        self.parent = parent
        known = state.stat()
        self.prefix = f"emep.{known.st_dev:x}-{known.st_ino:x}."  # the same path may mean another one elsewhere
        self.make, self.remove = make, remove

    def of(self, job: str) -> JobCgroup:
        """The group of ``job``, whether it is there or not."""
        return JobCgroup(job, self.parent / (self.prefix + job), self.remove)

    def create(self, job: str, *, memory_bytes: int = 0) -> JobCgroup:
        """A new, empty group for ``job``, with that much memory (0: no limit). Raises :class:`CgroupError`."""
        if memory_bytes:
            self.give_memory()
        group = self.of(job)
        group.remove()  # counts of another run must not be taken for this one's
        self._make(group)
        if memory_bytes:
            try:
                group.limit_memory(memory_bytes)
            except CgroupError:
                group.remove()
                raise
        return group

    def _make(self, group: JobCgroup) -> None:
        try:
            self.make(group.path)
        except OSError as problem:
            raise CgroupError(f"no cgroup can be made in {self.parent}: {problem.strerror}") from problem

    def left(self) -> dict[str, JobCgroup]:
        """Every group of this state directory that is there, by job."""
        try:
            names = sorted(entry.name for entry in self.parent.iterdir() if entry.name.startswith(self.prefix))
        except OSError:
            return {}
        return {job: self.of(job) for job in (name.removeprefix(self.prefix) for name in names)}

    def give_memory(self) -> None:
        """The groups below ``parent`` can limit memory from now on. Raises :class:`CgroupError`."""
        if "memory" in self._words("cgroup.subtree_control"):
            return
        if "memory" not in self._words("cgroup.controllers"):
            raise CgroupError(
                f"the memory controller is not to be had in {self.parent}: delegate it (systemd: Delegate=memory), "
                "or boot with cgroup version 2 alone where version 1 holds it"
            )
        try:
            _write(self.parent / "cgroup.subtree_control", "+memory")
        except OSError as problem:
            if problem.errno == errno.EBUSY:
                raise CgroupError(
                    f"processes are in {self.parent} itself, and then no group below it can limit memory: set cgroup "
                    "to a delegated directory without any (systemd: Delegate=memory and DelegateSubgroup=agent)"
                ) from problem
            said = f"memory can't be limited below {self.parent}: {problem.strerror}; delegate it to this user"
            raise CgroupError(said) from problem

    def _words(self, name: str) -> list[str]:
        try:
            return (self.parent / name).read_text().split()
        except OSError as problem:
            raise CgroupError(f"{self.parent} is no cgroup version 2 directory: no {name} in it") from problem

    def try_out(self) -> None:
        """A group can be made, entered by a process and removed. Raises :class:`CgroupError`."""
        self._words("cgroup.controllers")
        # Not named like a job's, which the keeper would remove when it is empty.
        group = JobCgroup("", self.parent / f"emep-try.{os.getpid()}", self.remove)
        self._make(group)
        try:
            # A shell that writes "0", which is the writer itself; no fork of this process, which may have threads.
            actions = [
                (os.POSIX_SPAWN_OPEN, 1, str(group.procs), os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ]
            pid = os.posix_spawn("/bin/sh", ["sh", "-c", "echo 0"], {}, file_actions=actions)
            moved = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        except OSError:
            moved = False
        finally:
            group.remove()
        if not moved:
            raise CgroupError(
                f"no process can be moved into a cgroup below {self.parent}: it and this program's own cgroup must lie "
                "in one delegated directory"
            )


def open_cgroups(setting: str, state: Path) -> Cgroups | None:
    """Where ``setting`` (``auto``, ``off`` or a directory) has the jobs' groups, tried out; None for ``off``.

    Raises :class:`CgroupError` when there can be none, for ``auto`` too: it is the caller who goes on without.
    """
    if setting == OFF:
        return None
    groups = Cgroups(own_directory() if setting == AUTO else Path(setting), state)
    groups.try_out()
    return groups


def own_directory(
    membership: Path = Path("/proc/self/cgroup"), mounts: Path = Path("/proc/self/mountinfo")
) -> Path:  # fmt: skip
    """The directory of the version 2 group that this process is in. Raises :class:`CgroupError`."""
    try:
        own = next(
            (line[3:] for line in membership.read_text().splitlines() if line.startswith("0::")), None
        )  # fmt: skip
        rows = mounts.read_text().splitlines()
    except OSError as problem:
        raise CgroupError(f"this system has no control groups: {problem}") from problem
    if own is None:
        raise CgroupError("this system has no control groups of version 2")
    for root, mount in _mounted(rows):
        # With ".." it lies outside of this program's cgroup namespace.
        if os.pardir not in own.split("/") and Path(own).is_relative_to(root):
            return mount / Path(own).relative_to(root)
    raise CgroupError(f"no cgroup2 file system that shows {own} is mounted here")


def _mounted(rows: list[str]) -> Iterator[tuple[str, Path]]:
    """``(root within the hierarchy, where it is mounted)`` of each mounted cgroup2."""
    for row in rows:
        before, _, after = row.partition(" - ")
        if after.split(" ")[0] == "cgroup2":
            root, mount = before.split(" ")[3:5]
            yield _plain(root), Path(_plain(mount))


def _plain(escaped: str) -> str:
    """A path of mountinfo, in which spaces are written as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), escaped)
