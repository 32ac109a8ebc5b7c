"""Who is next: level first, then fair-share deficit, then submission time, then id (D1).

The order is not sorted once: each placed job is charged at once, which may put others before its project's next job.
So projects are kept in their order, and after a charge only those it touches find their places anew; of the jobs only
the heads of lines are compared.
"""

from __future__ import annotations

from scheduling.core.fairshare import FairShare, Owner
from scheduling.core.snapshot import WaitingJob
from scheduling.core.waiting import Line, Nest, Queued, Shape

RankKey = tuple[int, float, float, float, int, str]
ALL = 1 << 62


def rank_key(job: WaitingJob, share: FairShare) -> RankKey:
    """The place of the job in the queue as the ledgers stand now; the smallest is first."""
    owner = (job.queue, job.project, job.user)
    return (-job.level_value, *share.ratios(owner), job.submitted_ms, job.id)


def first_of(nest: Nest, share: FairShare, cycle: int) -> Queued | None:
    """The first of all jobs of a nest by :func:`rank_key`, or None when there is none."""
    best: tuple[float, float] | None = None
    lines: list[tuple[float, Line]] = []
    queue_ratio, project_ratio = share.queue_ratio, share.project_ratio
    for queue, projects in nest.queues.items():
        first = queue_ratio(queue)
        for project, users in projects.items():
            key = (first, project_ratio(project))
            if best is None or key < best:
                best, lines = key, []
            if key == best:
                if len(nest.queues) == len(projects) == len(users) == 1:
                    lines += [(0.0, line) for line in users.values()]
                else:
                    lines += [(share.user_ratio(project, user), line) for user, line in users.items()]
    found: tuple[float, int, str, Queued] | None = None
    for ratio, line in lines:
        job = line.first(ALL, cycle)
        if job is not None and (found is None or (ratio, job.submitted_ms, job.id) < found[:3]):
            found = (ratio, job.submitted_ms, job.id, job)
    return None if found is None else found[3]


class Source:
    """Lines that take part in a cycle: those of a shape, as far as its jobs fit, or all of a nest."""

    __slots__ = ("nest", "shape")

    def __init__(self, nest: Nest, shape: Shape | None) -> None:
        self.nest, self.shape = nest, shape

    @property
    def limit(self) -> int:
        """The longest duration in ms that takes part."""
        return ALL if self.shape is None else self.shape.fits_up_to


class Order:
    """The jobs of one level that may be decided in this cycle, the next one by :func:`rank_key` first."""

    def __init__(self, sources: list[Source], share: FairShare, cycle: int) -> None:
        self._share, self._sources, self._cycle = share, sources, cycle
        pairs: dict[tuple[str, str], _Pair] = {}
        for source in sources:
            for queue, projects in source.nest.queues.items():
                for project in projects:
                    if (queue, project) not in pairs:
                        pairs[(queue, project)] = _Pair(self, queue, project)
        queue_ratio, project_ratio = share.queue_ratio, share.project_ratio
        self._ranked: list[Ranked] = [
            (queue_ratio(queue), project_ratio(project), queue, project, pair)
            for (queue, project), pair in pairs.items()
        ]
        if len(self._ranked) > 1:
            self._ranked.sort()

    def peek(self) -> Queued | None:
        """The next job, or None when nothing is left."""
        best: tuple[float, float] | None = None
        job: Queued | None = None
        empty: list[Ranked] = []
        for ranked in self._ranked:
            if best is not None and (ranked[0], ranked[1]) > best:
                break
            head = ranked[4].top()
            if head is None:
                empty.append(ranked)
            elif job is None:
                best, job = (ranked[0], ranked[1]), head
            else:  # equal so far: the user's place decides, then the submission
                job = min(job, head, key=self._tie)
        if empty:
            self._ranked = [ranked for ranked in self._ranked if ranked not in empty]
        return job

    def _tie(self, job: Queued) -> tuple[float, int, str]:
        return self._share.user_ratio(job.owner[1], job.owner[2]), job.submitted_ms, job.id

    def charged(self, owner: Owner) -> None:
        """A job of this owner was placed: the places of its queue, its project and its user are found anew."""
        charged_queue, charged_project, user = owner
        queue_ratio, project_ratio = self._share.queue_ratio, self._share.project_ratio
        ranked = self._ranked
        for place, (_, _, queue, project, pair) in enumerate(ranked):
            if project == charged_project:
                pair.charged(user)
            elif queue != charged_queue:
                continue
            ranked[place] = (queue_ratio(queue), project_ratio(project), queue, project, pair)
        if len(ranked) > 1:
            ranked.sort()

    def lines(self, queue: str, project: str) -> dict[str, list[tuple[Line, Source]]]:
        """The users' lines among the sources, but for those in which no job is short enough."""
        found: dict[str, list[tuple[Line, Source]]] = {}
        for source in self._sources:
            projects = source.nest.queues.get(queue)
            users = projects.get(project) if projects else None
            if not users:
                continue
            limit = source.limit
            for user, line in users.items():
                if line.shortest_ms <= limit:
                    if user in found:
                        found[user].append((line, source))
                    else:
                        found[user] = [(line, source)]
        return found

    @property
    def cycle(self) -> int:
        """The number of the cycle."""
        return self._cycle

    def user_ratio(self, project: str, user: str) -> float:
        """The user's place in the project as the ledgers stand."""
        return self._share.user_ratio(project, user)


class _Pair:
    """One project in one queue: its users by (ratio, submitted, id)."""

    __slots__ = ("_lines", "_order", "_project", "_queue", "_ranked")

    def __init__(self, order: Order, queue: str, project: str) -> None:
        self._order, self._queue, self._project = order, queue, project
        self._lines: dict[str, list[tuple[Line, Source]]] | None = None
        self._ranked: list[tuple[float, str]] = []

    def __lt__(self, other: _Pair) -> bool:
        raise AssertionError("two entries of one queue and project")

    def top(self) -> Queued | None:
        """The best user's first job, or None when the project has none left."""
        order, project, lines = self._order, self._project, self._lines
        if lines is None:
            lines = self._lines = order.lines(self._queue, project)
            if len(lines) > 1:
                self._ranked = sorted((order.user_ratio(project, user), user) for user in lines)
        if len(lines) <= 1:
            return next((_first(each, order.cycle) for each in lines.values()), None)
        best: float | None = None
        found: Queued | None = None
        empty: list[tuple[float, str]] = []
        for ranked in self._ranked:
            if best is not None and ranked[0] > best:
                break
            job = _first(lines[ranked[1]], order.cycle)
            if job is None:
                empty.append(ranked)
            elif found is None or job < found:
                best, found = ranked[0], job
        if empty:
            self._ranked = [ranked for ranked in self._ranked if ranked not in empty]
        return found

    def charged(self, user: str) -> None:
        """The user's ratio has grown."""
        if not self._ranked:
            return
        self._ranked = [
            (self._order.user_ratio(self._project, name), name) if name == user else (ratio, name)
            for ratio, name in self._ranked
        ]
        self._ranked.sort()


def _first(lines: list[tuple[Line, Source]], cycle: int) -> Queued | None:
    """The first job of the lines that this cycle has not decided yet."""
    found: Queued | None = None
    for line, source in lines:
        job = line.first(source.limit, cycle)
        if job is not None and (found is None or job < found):
            found = job
    return found


Ranked = tuple[float, float, str, str, _Pair]
