"""What does a reservation hold against? As the page and docs/jobs.md tell it: jobs behind, not those that go before."""

from __future__ import annotations

import pytest

from scheduling.models import Job
from scheduling.services import whatif
from tests import builders as b

pytestmark = pytest.mark.django_db

WHOLE = {"gpu_count": 4, "max_duration": "2h"}
DAY = 86_400


@pytest.fixture
def promised(who, models) -> str:
    """Alice runs on 2 of the 4 GPUs, and her job for all 4 holds the reservation."""
    b.running(who["alice"], models, gpu_count=2)
    return b.submitted(who["alice"], b.command_body(**WHOLE), now=b.later(1))


@pytest.mark.parametrize(
    ("owner", "project", "rank", "holds"),
    [("alice", "alpha", 1, True), ("admin", "alpha", 2, False), ("bob", "beta", 2, False)],
)
def test_a_later_job_of_the_same_priority_goes_before_it_only_if_its_owner_has_used_less(
    who, promised, owner, project, rank, holds
):
    b.submitted(who[owner], b.command_body(project=project, **WHOLE), now=b.later(5))
    found = whatif.foretell(promised, b.later(10))
    assert (found.rank, found.promised) == (rank, holds)


@pytest.mark.parametrize(("waited", "starts"), [(DAY - 60, "DISPATCHING"), (DAY + 60, "QUEUED")])
def test_after_a_day_gpus_are_kept_from_those_behind_also_for_who_is_not_the_first(who, models, waited, starts):
    b.node("n2")
    for node, limit in (("n1", "145h"), ("n2", "144h")):
        there = {"required": [{"key": "node", "op": "In", "values": [node]}]}
        b.running(who["alice"], models, gpu_count=2, node=node, max_duration=limit, affinity=there)
    first = b.submitted(who["bob"], b.command_body(project="beta", **WHOLE))
    b.submitted(who["alice"], b.command_body(**WHOLE), now=b.later(-waited))
    small = b.submitted(who["alice"], b.command_body(gpu_count=2, max_duration="7d"), now=b.later(1))
    b.ticked(b.later(2))
    assert [Job.objects.get(pk=each).state for each in (first, small)] == ["QUEUED", starts]
