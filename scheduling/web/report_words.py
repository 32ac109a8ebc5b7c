"""Reports as sentences: what was used, how long was waited, what was lost, how busy the pool was, what was idle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from scheduling.services.reports.capacity import CapacityReport
from scheduling.services.reports.idle import IdleReport
from scheduling.services.reports.lost import Loss
from scheduling.services.reports.period import Period, Piece
from scheduling.services.reports.usage import HOUR_MS, Amount, Usage
from scheduling.services.reports.waits import WaitReport
from scheduling.web.share_words import CAUSES
from scheduling.web.wording import amount, duration, limit

DAY = timedelta(days=1)


def hours(gpu_ms: float) -> str:
    """``1,204.50``: GPU-ms as GPU-hours to 0.01."""
    return f"{gpu_ms / HOUR_MS:,.2f}"


def percent(part: float, whole: float) -> str:
    """``41 %``; ``under 1 %`` of what is not nothing; "–" of nothing."""
    if not whole:
        return "–"
    share = 100 * part / whole
    return "under 1 %" if 0 < share < 1 else f"{share:.0f} %"


def when(period: Period, today: date) -> str:
    """``In November 2026``, ``In November 2026 so far``, ``On 2 Mar 2026``, ``From 3 to 9 Mar 2026``."""
    first, last = period.first, period.last
    whole_month = first.day == 1 and (last + DAY).day == 1 and (first.year, first.month) == (last.year, last.month)
    if whole_month and last < today:
        return f"In {first:%B %Y}"
    if first.day == 1 and (first.year, first.month) == (today.year, today.month) and last >= today:
        return f"In {first:%B %Y} so far"
    if first == last:
        return f"On {_day(first)}"
    if (first.year, first.month) == (last.year, last.month):
        return f"From {first.day} to {_day(last)}"
    begin = f"{first.day} {first:%b}" if first.year == last.year else _day(first)
    return f"From {begin} to {_day(last)}"


def piece(found: Piece, each: str) -> str:
    """``2 Mar``, ``2 to 8 Mar``, ``March 2026``: a day, a week or a month; of a cut one its days."""
    first, last = found.first, found.last
    if each == "month" and first.day == 1 and (last + DAY).day == 1:
        return f"{first:%B %Y}"
    if first == last:
        return f"{first.day} {first:%b}"
    begin = f"{first.day}" if first.month == last.month else f"{first.day} {first:%b}"
    return f"{begin} to {last.day} {last:%b}"


def headline(found: Usage, pool: CapacityReport, jobs: Mapping[str, str], today: date) -> str:
    """Who used what, in one sentence."""
    period, total = found.period, found.total()
    at = when(period, today)
    whose = _whose(jobs)
    if not total.held:
        return f"{at}, no GPU was held{whose}."
    said = f"{at}, {hours(total.held)} GPU-hours were held{whose}{'' if jobs else _of_pool(pool, period)}"
    lost = f"; {hours(total.lost)} of them were lost and given back" if total.lost else ""
    return f"{said}{lost}{_most(found, jobs)}."


def _whose(jobs: Mapping[str, str]) -> str:
    """Whose jobs a filter leaves."""
    told = [f"of kind {jobs['kind']}"] if "kind" in jobs else []
    told += [f"in queue {jobs['queue']}"] if "queue" in jobs else []
    told += [f"in {jobs['project']}"] if "project" in jobs else []
    told += [f"by {jobs['user']}"] if "user" in jobs else []
    return f" by jobs {' '.join(told)}" if told else ""


def _of_pool(pool: CapacityReport, period: Period) -> str:
    if pool.total.held_part is None or pool.since is None:
        return ""
    part = percent(pool.total.held, pool.total.installed)
    if pool.since <= period.start:
        return f", {part} of what was there"
    return f" ({part} of what was there since {_moment(pool.since, period.zone)})"


def _most(found: Usage, jobs: Mapping[str, str]) -> str:
    """Who took the most of it, where that is not asked for already."""
    by = "user" if "project" in jobs else "project"
    if by in jobs:
        return ""
    sums = sorted(found.by((by,)).items(), key=lambda each: -each[1].held)
    name, most = str(sums[0][0][0]), sums[0][1].held
    if not name:
        return ""
    if len(sums) == 1:
        return f"; all by {name}"
    return f"; {name} took {percent(most, found.total().held)}"


def waited(found: WaitReport) -> str:
    """How long jobs waited, in one sentence."""
    if found.all is None:
        return "No job began to run."
    if found.all.jobs == 1:
        return f"One job began to run; it had waited {duration(found.all.longest)}."
    return (
        f"Half of {amount(found.all.jobs, 'job')} began to run within {duration(found.all.median)}, "
        f"95 of 100 within {duration(found.all.p95)}; the longest wait was {duration(found.all.longest)}."
    )


def lost(losses: Sequence[Loss], total: Amount) -> str:
    """What was lost, in one sentence; ``losses`` by cause, the largest first."""
    if not total.lost and not losses:
        return "Nothing was lost."
    said = f"{hours(total.lost)} GPU-hours, {percent(total.lost, total.held)} of what was held, were lost"
    worst = losses[0]
    if len(losses) == 1:
        return f"{said}: {CAUSES[worst.cause]}."
    return f"{said}; {percent(worst.gpu_ms, total.lost)} of it {CAUSES[worst.cause]}."


def busy(pool: CapacityReport, zone: str) -> str:
    """How busy the pool was, in one sentence."""
    if pool.since is None:
        return "Nobody has looked at the GPUs yet: a chore does so once a minute while Celery runs."
    if not pool.total.installed:
        return f"Nothing is known of this time: it is looked at since {_moment(pool.since, zone)}."
    total = pool.total
    said = f"{percent(total.held, total.installed)} of {hours(total.installed)} GPU-hours that were there were held"
    out = f"; {percent(total.out, total.installed)} were out of service" if total.out else ""
    if total.utilization is None:
        return f"{said}{out}; how busy they were is not known."
    return f"{said}{out}. The GPUs were busy for {total.utilization:.0f} % on average."


def idle(found: IdleReport) -> str:
    """What was held and idle, in one sentence."""
    what = f"below {found.percent:g} % for {limit(found.minutes * 60)} or more"
    if not found.jobs:
        return f"No held GPU was {what}."
    said = f"{found.total_s / 3600:,.2f} GPU-hours were held and idle ({what})"
    project, most = next(iter(found.projects.items()))
    return f"{said}, {percent(most, found.total_s)} of it by {project}." if len(found.projects) > 1 else (
        f"{said}, all of it by {project}."
    )  # fmt: skip


def _day(day: date) -> str:
    return f"{day.day} {day:%b %Y}"


def _moment(moment: datetime, zone: str) -> str:
    return _day(moment.astimezone(ZoneInfo(zone)).date())
