"""What waits, by level, shape and owner, so that a cycle looks at shapes and not at jobs.

Jobs of one *shape* fit in the same places: what fails for one in a cycle fails for all of them. Inside a shape, the
jobs of one user are a first-come line; only the heads of lines are ever compared.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING

from scheduling.core.fairshare import Owner
from scheduling.core.resources import ResourceRequest
from scheduling.core.room import Room, Wanted
from scheduling.core.snapshot import WaitingJob

if TYPE_CHECKING:
    from scheduling.core.preemption import Patience
    from scheduling.core.promises import Promise

ENDLESS = 1 << 62


class Shape:
    """Requests that fit alike. ``fits_up_to``: the longest duration in ms that may start now, ``ENDLESS``, or -1.

    It is true as of ``cycle`` and the scheduler's count of ``changes``. Where nothing fits whatever is promised,
    ``shut`` is the room's count of what was ``opened``: as long as it stays, nothing does. ``changes_itself``: what it
    may have depends on what else runs, or on the time. ``is_careful``: its jobs avoid where they were lost before.
    ``possible_in``: the room, with nothing running, that is known to have a place for it. ``project``: whose windows
    count, "" when no window is a project's. ``lax_from_ms``: when it stops holding out for the best rung.
    """

    __slots__ = (
        "changes", "changes_itself", "cycle", "fits_up_to", "group", "groups_version", "is_careful", "is_grouped",
        "key", "lax_from_ms", "multi", "possible_in", "project", "shut", "wanted",
    )  # fmt: skip

    def __init__(self, key: object, wanted: Wanted) -> None:
        self.key, self.wanted = key, wanted
        self.multi = wanted.request.gpu_count > 1
        self.cycle = self.changes = self.groups_version = self.shut = -1
        self.fits_up_to = -1
        self.possible_in: Room | None = None
        self.project = ""
        self.group: str | None = None
        self.is_grouped = self.changes_itself = self.is_careful = False
        self.lax_from_ms = 0

    @property
    def request(self) -> ResourceRequest:
        """The request of any of its jobs, but for the duration."""
        return self.wanted.request


class Queued:
    """One waiting job in the queue. A job that comes back is a new one: a stale entry never comes to life again."""

    __slots__ = (
        "duration_ms", "here", "id", "job", "judged", "level", "may_evict", "owner", "patience", "promise", "shape",
        "submitted_ms",
    )  # fmt: skip

    def __init__(self, job: WaitingJob, shape: Shape, *, may_evict: bool = False) -> None:
        self.job, self.shape, self.id = job, shape, job.id
        self.may_evict = may_evict  # has the right to
        self.submitted_ms = job.submitted_ms
        self.duration_ms = job.remaining_s * 1000
        self.owner: Owner = job.owner
        self.level = job.level_value
        self.here = True  # still waits
        self.judged = -1  # the cycle that has decided that it waits on
        self.patience: Patience | None = None  # why it did not evict then, if victims would have made room
        self.promise: Promise | None = None  # its last reservation

    def __lt__(self, other: Queued) -> bool:
        mine, its = self.submitted_ms, other.submitted_ms
        return mine < its or (mine == its and self.id < other.id)


def _stand(jobs: list[Queued], job: Queued) -> None:
    """The job is among those by its submission: mostly it is the last to have come."""
    if not jobs or jobs[-1].submitted_ms < job.submitted_ms:
        jobs.append(job)
    else:
        insort(jobs, job)


class Line:
    """Jobs of one owner, those submitted first in front. Jobs that left are passed over and swept out in time.

    No job in it is shorter than ``shortest_ms``.
    """

    __slots__ = ("_cursor", "_cycle", "_gone", "_limit", "jobs", "shortest_ms")

    def __init__(self) -> None:
        self.shortest_ms = ENDLESS
        self.jobs: list[Queued] = []
        self._gone = 0
        self._cycle, self._cursor, self._limit = -1, 0, -1

    def __bool__(self) -> bool:
        return len(self.jobs) > self._gone

    def add(self, job: Queued) -> None:
        """The job stands in the line by its submission."""
        self._cycle = -1
        if job.duration_ms < self.shortest_ms:
            self.shortest_ms = job.duration_ms
        _stand(self.jobs, job)

    def note_gone(self) -> None:
        """One of the jobs has left. Never called in the midst of a cycle's traversal of this line but for its head."""
        self._gone += 1
        if self._gone > 16 and self._gone * 2 > len(self.jobs):
            self.jobs = [job for job in self.jobs if job.here]
            self._gone = 0
            self.shortest_ms = min((job.duration_ms for job in self.jobs), default=ENDLESS)
            self._cycle = -1

    def ask_again(self) -> None:
        """What this cycle decided about its jobs is forgotten."""
        self._cycle = -1
        for job in self.jobs:
            job.judged = -1

    def first(self, limit: int, cycle: int) -> Queued | None:
        """The first job of at most ``limit`` ms that this cycle has not decided yet.

        Within a cycle the limit of a line only falls and decided jobs stay decided, so the search goes on where it
        ended.
        """
        jobs = self.jobs
        begin = self._cursor if self._cycle == cycle and limit <= self._limit else 0
        self._cycle, self._limit = cycle, limit
        for place in range(begin, len(jobs)):
            job = jobs[place]
            if job.here and job.judged != cycle and job.duration_ms <= limit:
                self._cursor = place
                return job
        self._cursor = len(jobs)
        return None


class Nest:
    """Lines by queue, project and user. ``shortest_ms``: the shortest duration of any of its jobs."""

    __slots__ = ("_durations", "_of_duration", "count", "queues", "shortest_ms")

    def __init__(self) -> None:
        self.queues: dict[str, dict[str, dict[str, Line]]] = {}
        self.count = 0
        self.shortest_ms = ENDLESS
        self._durations: list[int] = []  # those that occur, the shortest first
        self._of_duration: dict[int, int] = {}

    def jobs(self) -> Iterator[Queued]:
        """All jobs, in no particular order."""
        for projects in self.queues.values():
            for users in projects.values():
                for line in users.values():
                    for job in line.jobs:
                        if job.here:
                            yield job

    def add(self, job: Queued) -> None:
        """The job is in its owner's line."""
        queue, project, user = job.owner
        projects = self.queues.get(queue)
        if projects is None:
            projects = self.queues[queue] = {}
        users = projects.get(project)
        if users is None:
            users = projects[project] = {}
        line = users.get(user)
        if line is None:
            line = users[user] = Line()
        line.add(job)
        self.count += 1
        duration = job.duration_ms
        known = self._of_duration.get(duration, 0)
        self._of_duration[duration] = known + 1
        if not known:
            insort(self._durations, duration)
            self.shortest_ms = self._durations[0]

    def remove(self, job: Queued) -> None:
        """The job, which no longer waits, counts no more; empty lines are gone."""
        queue, project, user = job.owner
        projects = self.queues[queue]
        users = projects[project]
        users[user].note_gone()
        self.count -= 1
        duration = job.duration_ms
        left = self._of_duration[duration] - 1
        if left:
            self._of_duration[duration] = left
        else:
            del self._of_duration[duration]
            del self._durations[bisect_left(self._durations, duration)]
            self.shortest_ms = self._durations[0] if self._durations else ENDLESS
        if not users[user]:
            del users[user]
            if not users:
                del projects[project]
                if not projects:
                    del self.queues[queue]

    def ask_again(self) -> None:
        """What this cycle decided about its jobs is forgotten."""
        for projects in self.queues.values():
            for users in projects.values():
                for line in users.values():
                    line.ask_again()


class LevelQueue:
    """The waiting jobs of one priority: by shape, and again those that need more than one GPU."""

    __slots__ = ("_newest", "count", "may_evict", "multi", "shapes")

    def __init__(self) -> None:
        self.count = 0
        self._newest: Queued | None = None
        self.shapes: dict[Shape, Nest] = {}
        self.multi = Nest()
        self.may_evict = 0  # jobs with the right to evict

    @property
    def only(self) -> Queued | None:
        """The only job, if there is just one."""
        if self.count != 1:
            return None
        if self._newest is None or not self._newest.here:
            self._newest = next(job for nest in self.shapes.values() for job in nest.jobs())
        return self._newest

    def add(self, job: Queued) -> None:
        """The job waits in this level."""
        nest = self.shapes.get(job.shape)
        if nest is None:
            nest = self.shapes[job.shape] = Nest()
        nest.add(job)
        if job.shape.multi:
            self.multi.add(job)
        self.count += 1
        self.may_evict += job.may_evict
        self._newest = job

    def remove(self, job: Queued) -> None:
        """The job, which no longer waits, counts no more."""
        nest = self.shapes[job.shape]
        nest.remove(job)
        if not nest.count:
            del self.shapes[job.shape]
        if job.shape.multi:
            self.multi.remove(job)
        self.count -= 1
        self.may_evict -= job.may_evict


class Waiting:
    """Everything that waits and may be started now.

    The job that came last has its place in the lines only when somebody looks at them: most start before.
    """

    __slots__ = ("_by_age", "_last", "_levels", "by_id")

    def __init__(self) -> None:
        self._levels: dict[int, LevelQueue] = {}
        self.by_id: dict[str, Queued] = {}
        self._by_age: list[Queued] = []
        self._last: Queued | None = None

    def __len__(self) -> int:
        return len(self.by_id)

    @property
    def levels(self) -> dict[int, LevelQueue]:
        """The jobs by their priority."""
        if self._last is not None:
            self._line_up(self._last)
        return self._levels

    @property
    def alone(self) -> Queued | None:
        """The job that came last, if it is the only one."""
        return self._last if len(self.by_id) == 1 else None

    def add(self, job: Queued) -> None:
        """The job waits."""
        if self._last is not None:
            self._line_up(self._last)
        self._last = self.by_id[job.id] = job

    def _line_up(self, job: Queued) -> None:
        self._last = None
        level = self._levels.get(job.level)
        if level is None:
            level = self._levels[job.level] = LevelQueue()
        level.add(job)
        _stand(self._by_age, job)

    def remove(self, job: Queued) -> None:
        """The job waits no more."""
        job.here, job.promise = False, None
        del self.by_id[job.id]
        if job is self._last:
            self._last = None
            return
        level = self._levels[job.level]
        level.remove(job)
        if not level.count:
            del self._levels[job.level]
        if len(self._by_age) > 64 + 2 * len(self.by_id):
            self._by_age = [each for each in self._by_age if each.here]

    def _aged(self) -> list[Queued]:
        if self._last is not None:
            self._line_up(self._last)
        return self._by_age

    def first_since(self, submitted_ms: int) -> Queued | None:
        """The waiting job submitted first, of those submitted at that instant or later."""
        ages = self._aged()
        place = bisect_left(ages, submitted_ms, key=lambda job: job.submitted_ms)
        return next((ages[each] for each in range(place, len(ages)) if ages[each].here), None)

    def older_than(self, submitted_ms: int, count: int) -> list[Queued]:
        """Up to ``count`` waiting jobs submitted before that instant, the oldest first."""
        found: list[Queued] = []
        ages = self._aged()
        gone = 0
        for job in ages:
            if job.submitted_ms >= submitted_ms or len(found) == count:
                break
            if job.here:
                found.append(job)
            elif not found:
                gone += 1
        if gone > 16:
            del ages[:gone]
        return found
