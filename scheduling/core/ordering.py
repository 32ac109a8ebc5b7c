"""Who is next: level first, then fair-share deficit, then submission time, then id (D1).

The order is not sorted once: each placed job is charged at once, which may put others before its project's next job.
So the order is asked again after every placement; what it costs grows with the entities, not with the jobs.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable

from scheduling.core.fairshare import FairShare
from scheduling.core.snapshot import WaitingJob

RankKey = tuple[int, float, float, float, int, str]
Head = tuple[float, int, str, str]  # the user's ratio, submitted, id, user


def rank_key(job: WaitingJob, share: FairShare) -> RankKey:
    """The place of the job in the queue as the ledgers stand now; the smallest is first."""
    return (-job.level_value, *share.ratios(job), job.submitted_ms, job.id)


def fit_class(job: WaitingJob) -> Hashable:
    """Equal for jobs that fit in the same places: what fails for one in a cycle fails for all of them."""
    return (job.request.shape, job.avoid_gpus, job.avoid_nodes)


class Line:
    """One user's waiting jobs of one level, queue and project: a first-come list per fit class."""

    def __init__(self) -> None:
        self.lists: dict[Hashable, deque[WaitingJob]] = defaultdict(deque)

    def head(self) -> WaitingJob | None:
        """The job submitted first, or None."""
        heads = [jobs[0] for jobs in self.lists.values() if jobs]
        return min(heads, key=lambda job: (job.submitted_ms, job.id), default=None)


class Order:
    """The jobs that may be placed in this cycle. A cycle peeks, then takes the job or drops its fit class."""

    def __init__(self, jobs: Iterable[WaitingJob], share: FairShare) -> None:
        self._share = share
        self._levels: dict[int, dict[tuple[str, str], dict[str, Line]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(Line))
        )
        for job in sorted(jobs, key=lambda job: (job.submitted_ms, job.id)):
            self._levels[job.level_value][(job.queue, job.project)][job.user].lists[fit_class(job)].append(job)
        self._heads: dict[tuple[str, str], Head | None] = {}

    def peek(self) -> WaitingJob | None:
        """The next job by :func:`rank_key`, or None when nothing is left."""
        while self._levels:
            level = max(self._levels)
            best = self._first_of(level)
            if best is not None:
                return best
            del self._levels[level]
            self._heads.clear()
        return None

    def take(self, job: WaitingJob) -> None:
        """``job`` (the one just peeked) was placed and charged: its user's and project's place is found anew."""
        self._levels[job.level_value][(job.queue, job.project)][job.user].lists[fit_class(job)].popleft()
        for queue, project in list(self._heads):
            if project == job.project:
                del self._heads[(queue, project)]

    def drop(self, job: WaitingJob) -> None:
        """Nothing of the fit class of ``job`` can be placed any more in this cycle: capacity only shrinks in it."""
        gone = fit_class(job)
        for lines in self._levels.values():
            for users in lines.values():
                for line in users.values():
                    line.lists.pop(gone, None)
        self._heads.clear()

    def _first_of(self, level: int) -> WaitingJob | None:
        share, lines = self._share, self._levels[level]
        best: tuple[float, float, Head] | None = None
        where: tuple[str, str] | None = None
        for entity in lines:
            head = self._head_of(level, entity)
            if head is None:
                continue
            key = (share.queues.ratio(entity[0]), share.projects.ratio(entity[1]), head)
            if best is None or key < best:
                best, where = key, entity
        if best is None or where is None:
            return None
        return lines[where][best[2][3]].head()

    def _head_of(self, level: int, entity: tuple[str, str]) -> Head | None:
        if entity not in self._heads:
            found: list[Head] = []
            for user, line in self._levels[level][entity].items():
                job = line.head()
                if job is not None:
                    found.append((self._share.users.ratio((entity[1], user)), job.submitted_ms, job.id, user))
            self._heads[entity] = min(found, default=None)
        return self._heads[entity]
