"""Queues by hand: limits in order, and levels that nothing needs any more."""

from __future__ import annotations

import pytest

from scheduling.models import Level, Queue
from tests import builders as b

from .test_admin import boss

pytestmark = pytest.mark.django_db


def form(levels=None, **changed):
    """What the page of the inference queue posts; ``levels``: other numbers, None for one that is deleted."""
    queue = Queue.objects.get(name="inference")
    rows = list(queue.levels.all())
    posted = {
        "name": queue.name, "weight": queue.weight, "order": queue.order, "default_level": queue.default_level,
        "default_max_duration_s": queue.default_max_duration_s, "max_duration_cap_s": queue.max_duration_cap_s,
        "grace_s": queue.grace_s, "levels-TOTAL_FORMS": len(rows), "levels-INITIAL_FORMS": len(rows),
    }  # fmt: skip
    for place, row in enumerate(rows):
        number = (levels or {}).get(row.name, row.value)
        at = f"levels-{place}"
        posted |= {f"{at}-id": row.pk, f"{at}-queue": queue.pk, f"{at}-name": row.name}
        posted |= {f"{at}-value": row.value, f"{at}-DELETE": "on"} if number is None else {f"{at}-value": number}
    return {**posted, **changed}


def answer(levels=None, **changed):
    b.people()
    page = f"/admin/scheduling/queue/{Queue.objects.get(name='inference').pk}/change/"
    return boss().post(page, form(levels, **changed))


def test_a_queue_is_kept_as_it_was_posted():
    assert answer({"Realtime": 9}, default_max_duration_s=600, max_duration_cap_s=600).status_code == 302
    queue = Queue.objects.get(name="inference")
    assert (queue.default_max_duration_s, queue.max_duration_cap_s) == (600, 600)
    assert queue.levels.get(name="Realtime").value == 9


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"default_max_duration_s": 1000, "max_duration_cap_s": 10},
         "the default (1000 s) must not be above the cap (10 s): lower it, or raise the cap"),
        ({"default_max_duration_s": 0}, "greater than or equal to 1"),
        ({"max_duration_cap_s": 2**31}, "less than or equal to 2147483647"),
        ({"grace_s": -1}, "greater than or equal to 0"),
        ({"grace_s": "nan"}, "Enter a number"),
        ({"default_level": "Top"}, "the default level Top must be one of the levels (Realtime, Normal)"),
    ],
)  # fmt: skip
def test_limits_that_can_not_be_are_refused_with_both_values(changed, says):
    response = answer(**changed)
    assert response.status_code == 200
    assert says in response.content.decode()
    assert Queue.objects.get(name="inference").max_duration_cap_s == 604_800


@pytest.mark.parametrize(
    ("levels", "says"),
    [
        ({"Normal": None}, "the default level Normal must be one of the levels (Realtime)"),
        ({"Realtime": 2},
         "the rule inference/Realtime &gt; inference/Normal needs a victim whose number is below 2, and it would be 2"),
        ({"Normal": 4}, "the rule merge/Critical &gt; inference/Normal needs a victim whose number is below 4"),
    ],
)  # fmt: skip
def test_levels_that_something_still_needs_as_they_were_are_refused_by_what_needs_them(levels, says):
    response = answer(levels)
    assert response.status_code == 200
    assert says in response.content.decode()
    assert dict(Level.objects.filter(queue__name="inference").values_list("name", "value")) == {
        "Realtime": 4, "Normal": 2,
    }  # fmt: skip


def test_a_level_that_is_not_the_default_goes_with_its_rules():
    assert answer({"Realtime": None}).status_code == 302
    assert not Level.objects.filter(queue__name="inference", name="Realtime").exists()
