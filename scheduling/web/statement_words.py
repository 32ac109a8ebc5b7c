"""A fair-share statement as sentences: how the account moved, whether the sums agree, and where it stands."""

from __future__ import annotations

from datetime import date
from typing import Any

from scheduling.core.gpu_time import gpu_time_in_words
from scheduling.services.share_statement import Account, Asked, Standing, Told
from scheduling.web.report_words import hours, when
from scheduling.web.wording import amount


def whose(asked: Asked) -> str:
    """``alpha``, ``alice in alpha``."""
    return f"{asked.user} in {asked.project}" if asked.user else asked.project


def headline(told: Told, today: date) -> str:
    """How the account moved, in one sentence."""
    at, account = when(told.asked.period, today), told.account
    moved = f"{at}, the account of {whose(told.asked)} went"
    opening, closing = hours(account.opening), hours(account.closing)
    if not account.lines:
        if opening == closing:
            return f"{at}, nothing moved the account of {whose(told.asked)}: it has {closing} GPU-hours."
        return f"{moved} from {opening} to {closing} GPU-hours: nothing was charged, and the rest faded."
    return f"{moved} from {opening} to {closing} GPU-hours."


def steps(told: Told) -> list[dict[str, str]]:
    """The rows that add up: what the balance was, what moved it, and what it came to."""
    account, whole = told.account, told.account.total
    period = told.asked.period
    first, last = _day(period.first), _day(period.last)
    jobs = amount(len(account.lines), "job")
    faded = (
        f"{hours(account.faded_of_opening)} of what there was at first, and {hours(whole.faded)} of what came since"
        if account.lines and account.faded_of_opening
        else ""
    )
    return [
        {"name": "Opening balance", "sign": "", "hours": hours(account.opening), "about": f"as {first} began"},
        {"name": "Charged", "sign": "+", "hours": hours(whole.charged), "about": f"to {jobs}"},
        {"name": "Given back", "sign": "−", "hours": hours(whole.credited), "about": "for lost work"},
        {"name": "Faded", "sign": "−", "hours": hours(account.faded), "about": faded},
        {"name": "Closing balance", "sign": "=", "hours": hours(account.closing),
         "about": "now" if told.end == told.now else f"as {last} ended"},
    ]  # fmt: skip


def checked(check: Account) -> str:
    """Whether the allocations and the scheduler's account agree."""
    stored, off = hours(check.stored), abs(check.stored - check.counted) / 1000
    if off < 1:
        return (
            f"Checked: the account that orders the queue has {stored} GPU-hours now, and the allocations alone come "
            "to the same, to the second."
        )
    return (
        f"The account that orders the queue has {stored} GPU-hours now, and the allocations come to "
        f"{hours(check.counted)}: they differ by {gpu_time_in_words(off)}. Accounts are counted anew every five "
        "minutes while Celery runs; then they agree."
    )


def stands(told: Told) -> str:
    """Where it stands now, and what whoever is just ahead has."""
    found, name = told.standing, told.asked.user or told.asked.project
    if found is None:
        return f"{name} has no place in the order now: it has no work that waits or runs, or weight 0."
    said = f"{name} is number {found.place} of {found.of}: it has used {_part(found)}"
    if found.ahead is None:
        return f"{said}. Nobody is ahead of it." if found.of > 1 else f"{said}. Nobody else has work."
    peer = found.ahead
    part = 100 * peer.used_gpu_h / peer.target_gpu_h
    return (
        f"{said}. Just ahead is {peer.name}, which has used {peer.used_gpu_h:,.2f} of its "
        f"{peer.target_gpu_h:,.2f} GPU-hours ({part:.1f} %)."
    )


def _part(found: Standing) -> str:
    used, target = found.used_gpu_h, found.target_gpu_h
    flight = (
        f" ({found.consumed_gpu_h:,.2f} on its account, {found.in_flight_gpu_h:,.2f} that running jobs may still use)"
        if found.in_flight_gpu_h
        else ""
    )
    return f"{used:,.2f}{flight} of its {target:,.2f} GPU-hours ({100 * used / target:.1f} %)"


def fades(half_life_s: float) -> str:
    """How an account fades."""
    if not half_life_s:
        return "Nothing fades: this pool never forgets what was used."
    days = half_life_s / 86_400
    return (
        f"What is on an account halves every {days:g} days, all the time: what faded is that, over this time, to the "
        "second. All of it is counted with the half-life of now, as the accounts are."
    )


def others(count: int, *, known: bool) -> dict[str, Any]:
    """What the row says of jobs that are not told one by one."""
    return {"name": f"{amount(count, 'more job')}" if known else f"{amount(count, 'job')} of others", "count": count}


def _day(day: date) -> str:
    return f"{day.day} {day:%b %Y}"
