"""How many attempts lost work, by project and cause, and how many of them in vain?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db.models import Count, Q

from scheduling.models import LostWork
from scheduling.store.queries.gpu_spans import of_jobs


def ended(wanted: Mapping[str, str], start: datetime, end: datetime) -> dict[tuple[str, str], tuple[int, int]]:
    """``{(project, cause): (attempts, of them in vain)}`` of those that ended from ``start`` up to ``end``."""
    rows = (
        LostWork.objects.filter(at__gte=start, at__lt=end)
        .filter(**of_jobs("attempt__job__", wanted))
        .order_by()
        .values_list("attempt__job__project__name", "cause")
        .annotate(attempts=Count("pk"), in_vain=Count("pk", filter=Q(in_vain=True)))
    )
    return {(project, cause): (attempts, in_vain) for project, cause, attempts, in_vain in rows}
