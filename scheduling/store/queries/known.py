"""What of other jobs may be told: names to those who may know of them, requests to what asks for the whole pool."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from scheduling.core.resources import ResourceRequest
from scheduling.models import Job
from scheduling.store.clock import to_ms
from scheduling.store.load_jobs import terms
from scheduling.store.queries.access import Actor
from scheduling.store.queries.jobs import visible
from scheduling.store.topology import restored

_REQUEST = ("gpu_count", "node_count", "gpus_per_node", "remainder", "gpu_memory_min_mib", "nvlink_required",
            "nvlink_exclusive", "max_duration_s")  # fmt: skip


def names(actor: Actor, ids: Collection[str]) -> dict[str, str]:
    """The names of those of the jobs that the actor may know of, by id."""
    if not ids:
        return {}
    rows = visible(actor).filter(pk__in=[UUID(each) for each in ids])
    return {str(job): name for job, name in rows.values_list("pk", "name")}


def requests(ids: Collection[str]) -> dict[str, tuple[int, ResourceRequest]]:
    """When the jobs were submitted, in ms, and what they asked for, by id, whatever their state."""
    rows = Job.objects.filter(pk__in=[UUID(each) for each in ids])
    return {
        str(job): (
            to_ms(submitted),
            ResourceRequest(**dict(zip(_REQUEST, asked, strict=True)), affinity=terms(affinity), **restored(topology)),
        )
        for job, submitted, affinity, topology, *asked in rows.values_list(
            "pk", "submitted_at", "affinity", "topology", *_REQUEST
        )
    }
