"""Who is next: level first, then fair-share deficit, then submission time, then id (D1).

The order is not sorted once: each placed job is charged at once, which may put others before its project's next job.
So projects are kept in their order, and after a charge only those it touches find their places anew; of the jobs only
the heads of lines are compared.
"""

from __future__ import annotations

from scheduling.core.fairshare import FairShare, Owner
from scheduling.core.snapshot import WaitingJob
from scheduling.core.waiting import ENDLESS, Line, Nest, Queued, Shape

RankKey = tuple[int, float, float, float, int, str]
# Lines that take part in a cycle: those of a shape, as far as its jobs fit, or all of a nest.
Source = tuple[Nest, Shape | None]


def rank_key(job: WaitingJob, share: FairShare) -> RankKey:
    """The place of the job in the queue as the ledgers stand now; the smallest is first."""
    return (-job.level_value, *share.ratios(job.owner), job.submitted_ms, job.id)


class Order:
    """The jobs of some sources that this cycle has not decided yet, the next one by :func:`rank_key` first."""

    __slots__ = ("_cycle", "_next", "_one_queue", "_pairs", "_ranked", "_share", "_sources")

    def __init__(self, sources: list[Source], share: FairShare, cycle: int) -> None:
        self._share, self._sources, self._cycle = share, sources, cycle
        self._next: Queued | None = None
        pairs = [(queue, project) for nest, _ in sources for queue, users in nest.queues.items() for project in users]
        if len(sources) > 1:
            pairs = list(dict.fromkeys(pairs))
        self._pairs: dict[tuple[str, str], _Pair] = {}  # those that were looked into
        self._one_queue = len({queue for queue, _ in pairs}) == 1
        if len(pairs) == 1:  # it has nothing to be compared with
            self._ranked: list[Ranked] = [(0.0, 0.0, *pairs[0])]
            return
        project_ratio = share.project_ratio
        if self._one_queue:
            self._ranked = [(0.0, project_ratio(project), queue, project) for queue, project in pairs]
        else:
            queue_ratio = share.queue_ratio
            self._ranked = [(queue_ratio(queue), project_ratio(project), queue, project) for queue, project in pairs]
        self._ranked.sort()

    def peek(self) -> Queued | None:
        """The next job, or None when nothing is left."""
        job = self._next
        # Only a charge moves the others, so the one found before is next until it is decided or proves too long.
        if job is None or not job.here or job.judged == self._cycle or not self._takes_part(job):
            self._next = job = self._found()
        return job

    def _takes_part(self, job: Queued) -> bool:
        limited = self._sources[0][1] is not None
        return not limited or job.duration_ms <= job.shape.fits_up_to

    def _found(self) -> Queued | None:
        if len(self._ranked) == 1:
            job = self._pair(self._ranked[0][2:]).top(self)
            if job is None:
                self._ranked = []
            return job
        best: tuple[float, float] | None = None
        job = None
        empty: list[Ranked] = []
        for ranked in self._ranked:
            if best is not None and (ranked[0], ranked[1]) > best:
                break
            head = self._pair(ranked[2:]).top(self)
            if head is None:
                empty.append(ranked)
            elif job is None:
                best, job = (ranked[0], ranked[1]), head
            else:  # equal so far: the user's place decides, then the submission
                job = min(job, head, key=self._tie)
        if empty:
            self._ranked = [ranked for ranked in self._ranked if ranked not in empty]
        return job

    def _pair(self, owner: tuple[str, str]) -> _Pair:
        pair = self._pairs.get(owner)
        if pair is None:
            pair = self._pairs[owner] = _Pair(*owner)
        return pair

    def _tie(self, job: Queued) -> tuple[float, int, str]:
        return self._share.user_ratio(job.owner[1], job.owner[2]), job.submitted_ms, job.id

    def charged(self, owner: Owner) -> None:
        """A job of this owner was placed: the places of its queue, its project and its user are found anew."""
        charged_queue, charged_project, user = owner
        self._next = None
        for (_, project), pair in self._pairs.items():
            if project == charged_project:
                pair.charged(user, self)
        ranked = self._ranked
        if len(ranked) <= 1:
            return
        one_queue, queue_ratio, project_ratio = self._one_queue, self._share.queue_ratio, self._share.project_ratio
        for place, (_, _, queue, project) in enumerate(ranked):
            if project == charged_project or (not one_queue and queue == charged_queue):
                ranked[place] = (0.0 if one_queue else queue_ratio(queue), project_ratio(project), queue, project)
        ranked.sort()

    def lines(self, queue: str, project: str) -> dict[str, list[Limited]]:
        """The users' lines among the sources, but for those in which no job is short enough."""
        found: dict[str, list[Limited]] = {}
        for nest, shape in self._sources:
            projects = nest.queues.get(queue)
            users = projects.get(project) if projects else None
            if not users:
                continue
            limit = ENDLESS if shape is None else shape.fits_up_to
            for user, line in users.items():
                if line.shortest_ms <= limit:
                    if user in found:
                        found[user].append((line, shape))
                    else:
                        found[user] = [(line, shape)]
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

    __slots__ = ("_lines", "_project", "_queue", "_ranked")

    def __init__(self, queue: str, project: str) -> None:
        self._queue, self._project = queue, project
        self._lines: dict[str, list[Limited]] | None = None
        self._ranked: list[tuple[float, str]] = []

    def top(self, order: Order) -> Queued | None:
        """The best user's first job, or None when the project has none left."""
        project, lines = self._project, self._lines
        if lines is None:
            lines = self._lines = order.lines(self._queue, project)
            if len(lines) > 1:
                self._ranked = sorted([(order.user_ratio(project, user), user) for user in lines])
        if len(lines) <= 1:
            for line in lines.values():
                return _first(line, order.cycle)
            return None
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

    def charged(self, user: str, order: Order) -> None:
        """The user's ratio has grown."""
        if not self._ranked:
            return
        self._ranked = [
            (order.user_ratio(self._project, name), name) if name == user else (ratio, name)
            for ratio, name in self._ranked
        ]
        self._ranked.sort()


def _first(lines: list[Limited], cycle: int) -> Queued | None:
    """The first job of the lines that this cycle has not decided yet."""
    found: Queued | None = None
    if len(lines) == 1:
        line, shape = lines[0]
        return line.first(ENDLESS if shape is None else shape.fits_up_to, cycle)
    for line, shape in lines:
        job = line.first(ENDLESS if shape is None else shape.fits_up_to, cycle)
        if job is not None and (found is None or job < found):
            found = job
    return found


Limited = tuple[Line, Shape | None]
Ranked = tuple[float, float, str, str]
