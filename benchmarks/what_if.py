"""How long does a replay of the last seven days take, from the rows of a database to its result?

    python -m benchmarks.what_if [--jobs 10000] [--gpus 512]

The days are made up by the simulator: jobs of three queues and twenty projects, each running for a quarter of its
limit, are played once and stored as jobs, attempts and allocations of a new SQLite database. Then a weight is changed,
and both sides are played as a worker does. The mean wait of the replay without the change stands beside the one that
was stored: they differ only by what rows can't tell.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from benchmarks import synthetic
from benchmarks.arguments import Parser, whole

DAYS = 7
NAMESPACE = UUID("6f1c0a5e-0d7b-4a8e-9c57-3f3c1c6b2a10")


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the figures."""
    parser = Parser("what_if", __doc__)
    parser.add_argument("--jobs", type=whole(1, 50_000), default=10_000, help="jobs of the seven days")
    parser.add_argument("--gpus", type=whole(8, 10_000), default=512, help="GPUs of the pool")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="emep-bench-") as data:
        os.environ |= {"DJANGO_SETTINGS_MODULE": "emep_site.settings", "EMEP_DATA_DIR": data}
        os.environ.pop("DATABASE_URL", None)
        import django

        django.setup()
        from django.conf import settings
        from django.core.management import call_command
        from django.utils import timezone

        # The passwords of a hundred and sixty people who never sign in need not be slow to guess.
        settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
        call_command("migrate", verbosity=0)
        until = timezone.now()
        begun = time.perf_counter()
        actor = stored(options.jobs, options.gpus, until)
        print(f"stored {options.jobs} jobs on {options.gpus} GPUs     {time.perf_counter() - begun:8.1f} s")
        told(*replayed(actor, until), played=2 * options.jobs)


def stored(count: int, gpus: int, until: datetime) -> Any:
    """The days are in the database; returns an admin."""
    from django.contrib.auth import get_user_model

    from scheduling.core.policy import DEFAULT_POLICY
    from scheduling.simulation.runtime import SimJob, share_of_limit
    from scheduling.simulation.world import simulate
    from scheduling.store import seed
    from scheduling.store.queries.access import actor_of

    demand, pool = synthetic.Demand(), synthetic.pool(gpus)
    span_ms = DAYS * 86_400_000
    waiting = [demand.job(span_ms * place // count) for place in range(count)]
    jobs = [SimJob(job) for job in waiting]
    outcome = simulate(jobs, pool, DEFAULT_POLICY, until_ms=span_ms, runtime=share_of_limit(0.25))
    seed.policy()
    seed.user("admin", "admin", superuser=True)
    for project in sorted({job.project for job in waiting}):
        seed.project(project, weight=1.0)
    for project, user in sorted({(job.project, job.user) for job in waiting}):
        seed.user(user, "user", projects=[(project, 3)])
    _rows(waiting, outcome.log, pool, until - timedelta(days=DAYS))
    return actor_of(get_user_model().objects.get(username="admin"))


def _rows(waiting: Sequence[Any], log: Sequence[Any], pool: Any, begin: datetime) -> None:
    from scheduling import models
    from scheduling.core.lifecycle import NodeState

    def at(ms: int) -> datetime:
        return begin + timedelta(milliseconds=ms)

    nodes = {
        node.name: models.Node.objects.create(
            name=node.name, rack_id=node.rack_id, network_bandwidth_gbps=node.network_bandwidth_gbps,
            state=NodeState.READY, registered_at=begin,
        )
        for node in pool.nodes
    }  # fmt: skip
    models.Gpu.objects.bulk_create(
        models.Gpu(uuid=g.uuid, node=nodes[g.node], index=g.index, model=g.model, memory_mib=g.memory_mib,
                   nvlink_group_id=g.nvlink_group_id)
        for g in pool.gpus
    )  # fmt: skip
    gpu = {row.uuid: row.pk for row in models.Gpu.objects.all()}
    starts = {job: (ms, held) for ms, what, job, held in log if what == "start"}
    ends = {job: ms for ms, what, job, _ in log if what == "finish"}
    keys: Mapping[str, Mapping[Any, int]] = {
        "project": dict(models.Project.objects.values_list("name", "pk")),
        "queue": dict(models.Queue.objects.values_list("name", "pk")),
        "user": dict(models.Membership.objects.values_list("user__username", "user_id")),
    }
    levels = {(q, name): pk for q, name, pk in models.Level.objects.values_list("queue__name", "name", "pk")}
    jobs, attempts, allocations = [], [], []
    for job in waiting:
        started, ended = starts.get(job.id), ends.get(job.id)
        state = "SUCCEEDED" if ended is not None else "RUNNING" if started else "QUEUED"
        request = job.request
        row = models.Job(
            id=uuid5(NAMESPACE, job.id), state=state, name=job.id, kind="command",
            project_id=keys["project"][job.project], user_id=keys["user"][job.user],
            queue_id=keys["queue"][job.queue], level_id=levels[job.queue, job.level], gpu_count=request.gpu_count,
            node_count=request.node_count, gpus_per_node=request.gpus_per_node,
            gpu_memory_min_mib=request.gpu_memory_min_mib, nvlink_required=request.nvlink_required,
            max_duration_s=request.max_duration_s, submitted_at=at(job.submitted_ms),
            ended_at=None if ended is None else at(ended),
        )  # fmt: skip
        jobs.append(row)
        if started is None:
            continue
        attempt = models.Attempt(
            id=uuid5(NAMESPACE, f"{job.id}#1"), job=row, number=1, epoch=1, granted_at=at(started[0]),
            started_at=at(started[0]), ended_at=row.ended_at, remaining_s=request.max_duration_s,
            outcome="SUCCEEDED" if ended is not None else "",
        )  # fmt: skip
        attempts.append(attempt)
        allocations += [
            models.Allocation(attempt=attempt, gpu_id=gpu[uuid], granted_at=at(started[0]), released_at=row.ended_at)
            for uuid in started[1]
        ]
    for model, rows in ((models.Job, jobs), (models.Attempt, attempts), (models.Allocation, allocations)):
        model.objects.bulk_create(rows, batch_size=500)  # type: ignore[attr-defined]


def replayed(actor: Any, until: datetime) -> tuple[Mapping[str, Any], float, float]:
    """The result of a replay with another weight, and the seconds it took, of the clock and of the processor."""
    from scheduling.models import WhatIfRun
    from scheduling.services import whatif_runs

    body = {"days": DAYS, "policy": {"project_weights": {"project-00": 5}}}
    run = whatif_runs.ask(body, actor, until)
    if not isinstance(run, UUID):
        raise SystemExit(str(run))
    begun, worked = time.perf_counter(), time.process_time()
    how = whatif_runs.play(str(run))
    seconds, worked = time.perf_counter() - begun, time.process_time() - worked
    row = WhatIfRun.objects.get(pk=run)
    if row.result is None:
        raise SystemExit(f"the replay ended otherwise: {how}, {row.error}")
    return row.result, seconds, worked


def told(result: Mapping[str, Any], seconds: float, worked: float, *, played: int) -> None:
    """Prints what it took, and how near the replay is to what was stored."""
    print(f"replay, both sides and all figures    {seconds:8.1f} s")
    print(f"    of the processor                  {worked:8.1f} s   ({played / worked:,.0f} jobs/s)")
    for figure in ("mean_wait_s", "p95_wait_s", "utilization"):
        values = "   ".join(f"{side} {result[side][figure]:,.3f}" for side in ("recorded", "before", "after"))
        print(f"{figure:<14} {values}")


if __name__ == "__main__":
    main()
