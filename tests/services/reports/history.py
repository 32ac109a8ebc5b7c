"""A pool's past, written as rows: jobs, their attempts and what they held, at random but the same for a seed."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from django.contrib.auth import get_user_model

from scheduling.models import Allocation, Attempt, Gpu, Job, Level, LostWork, Node, Project, Queue

KINDS = ("merge", "evaluate", "command")
OWNERS = (("alpha", "alice"), ("beta", "bob"))


def gpus(count: int) -> list[Gpu]:
    """So many GPUs on a node of their own, of two models."""
    node = Node.objects.create(name="past")
    rows = [Gpu(uuid=f"GPU-past-{i}", node=node, index=i, model=f"M{i % 2}", memory_mib=80_000) for i in range(count)]
    return Gpu.objects.bulk_create(rows)


def write(since: datetime, days: float, jobs: int, *, seed: int = 1, on: int = 64) -> None:
    """``jobs`` ended jobs that began within ``days`` after ``since``, on ``on`` GPUs that nothing else holds.

    Each ran up to four times; all but the last run were lost, with a stretch to be done again and, if they resumed, one
    of resuming. GPUs of odd number count double.
    """
    dice = random.Random(seed)
    here = gpus(on)
    projects = {p.name: p for p in Project.objects.all()}
    people = {u.get_username(): u for u in get_user_model().objects.all()}
    levels = list(Level.objects.select_related("queue").exclude(queue=None).order_by("pk"))
    made: list[Job] = []
    attempts: list[Attempt] = []
    held: list[Allocation] = []
    losses: list[LostWork] = []
    for number in range(jobs):
        project, user = dice.choice(OWNERS)
        level: Level = dice.choice(levels)
        queue: Queue = level.queue
        submitted = since + timedelta(seconds=round(dice.uniform(0, days * 86_400), 3))
        at = submitted + timedelta(seconds=round(dice.expovariate(1 / 600), 3))
        count = dice.choice((1, 1, 2, 4))
        job = Job(
            state="SUCCEEDED", name=f"past-{number}", kind=dice.choice(KINDS), project=projects[project],
            user=people[user], queue=queue, level=level, gpu_count=count, gpus_per_node=count, max_duration_s=86_400,
            submitted_at=submitted, started_at=at, ended_at=at,
        )  # fmt: skip
        runs = dice.choice((1, 1, 1, 1, 2, 3, 4))
        for run in range(runs):
            until = at + timedelta(seconds=round(dice.expovariate(1 / 7200), 3))
            attempt = Attempt(
                job=job, number=run + 1, epoch=run + 1, granted_at=at, started_at=at, ended_at=until, remaining_s=9,
                outcome="SUCCEEDED" if run == runs - 1 else "PREEMPTED",
            )  # fmt: skip
            attempts.append(attempt)
            chosen = dice.sample(here, count)
            held += [
                Allocation(attempt=attempt, gpu=gpu, granted_at=at, released_at=until, billing=1.0 + gpu.index % 2)
                for gpu in chosen
            ]
            if run < runs - 1:
                part = timedelta(milliseconds=(until - at) // timedelta(milliseconds=4))
                resumed = at + part if run else None
                stretches = part * (2 if run else 1)
                losses.append(
                    LostWork(
                        attempt=attempt, cause=dice.choice(LostWork.CAUSES), in_vain=dice.random() < 0.2, at=until,
                        redo_since=until - part, resume_until=resumed,
                        gpu_ms=round(count * stretches / timedelta(milliseconds=1)),
                    )
                )  # fmt: skip
            at = job.ended_at = until
        made.append(job)
    Job.objects.bulk_create(made, batch_size=2000)
    Attempt.objects.bulk_create(attempts, batch_size=2000)
    Allocation.objects.bulk_create(held, batch_size=5000)
    LostWork.objects.bulk_create(losses, batch_size=5000)
