"""Celery's names for chores: each is one call of a service."""

from __future__ import annotations

from celery import shared_task
from celery.worker import state

from scheduling.services import notices, now, upkeep, whatif_runs


@shared_task(ignore_result=True)
def roll_up_usage() -> int:
    """Usage by day from the allocation intervals."""
    return upkeep.roll_up_usage(now())


@shared_task(ignore_result=True)
def look_at_gpus() -> int:
    """How busy the GPUs are."""
    return upkeep.look_at_gpus(now())


@shared_task(ignore_result=True)
def retain_events() -> int:
    """Old events go."""
    return upkeep.retain_events(now())


@shared_task(ignore_result=True)
def verify_artifacts() -> dict[str, object]:
    """Stored bytes against their digests."""
    return upkeep.verify_artifacts(now(), stopping=lambda: state.should_stop is not None)


@shared_task(ignore_result=True)
def collect_uploads() -> int:
    """Abandoned uploads go."""
    return upkeep.collect_uploads(now())


@shared_task(ignore_result=True)
def collect_artifacts() -> dict[str, object]:
    """What need not be kept any longer goes."""
    return upkeep.collect_artifacts(now())


@shared_task(ignore_result=True)
def send_notices() -> dict[str, int]:
    """What happened is told to whom it concerns."""
    return notices.run(now(), stopping=lambda: state.should_stop is not None)


@shared_task(ignore_result=True)
def retain_notices() -> int:
    """The log of old messages goes."""
    return notices.retain(now())


@shared_task(ignore_result=True)
def play_what_if(run: str) -> str:
    """A replay of recent history, from its begin to its end."""
    return whatif_runs.play(run)


@shared_task(ignore_result=True)
def look_after_what_ifs() -> list[str]:
    """Replays whose worker is gone are broken, old ones go, and those whose message was lost are played."""
    return whatif_runs.look_after(now())
