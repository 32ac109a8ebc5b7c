"""Versions of the policy: a replay's change applied, whatever the admin changed, and the way back from either."""

from __future__ import annotations

import pytest
from django.test import Client

from scheduling.models import Level, PlanningSettings, PolicyVersion, PreemptionRule, Project, Queue
from scheduling.services import policy_versions, whatif_runs
from scheduling.services.policy_versions import Refused
from scheduling.store import load, policy_rows
from tests import builders as b

pytestmark = pytest.mark.django_db


@pytest.fixture
def who():
    found = b.people()
    b.node("n1")
    return found


def applied(who, policy, now=b.NOON):
    """What comes of applying a replay of this change."""
    run = whatif_runs.ask({"policy": policy}, who["admin"], now)
    return policy_versions.apply(run, who["admin"], now)


def lines(version):
    return {line.path: (line.before, line.after) for line in version.lines}


def test_a_weight_is_applied_with_who_and_why_and_reverted(who):
    number = applied(who, {"project_weights": {"alpha": 5.0}})
    assert load.policy_of().project_weights == {"alpha": 5.0, "beta": 1.0}
    row = Project.objects.get(name="alpha").history.first()
    assert (row.weight, row.history_user.username, row.history_change_reason) == (
        5.0, "admin", "applied after a replay",
    )  # fmt: skip
    made, first = policy_versions.versions()
    assert (made.number, made.by, made.may_revert, lines(made)) == (
        number, "admin", True, {"project_weights.alpha": (2.0, 5.0)},
    )  # fmt: skip
    assert (first.lines, first.may_revert, first.why) == ((), False, policy_versions.FIRST)

    back = policy_versions.revert(number, who["admin"], b.later(60))
    assert load.policy_of().project_weights["alpha"] == 2.0
    newest = policy_versions.versions()[0]
    assert (newest.number, newest.reverts, newest.why) == (back, number, f"reverts version {number}")
    # And back again.
    policy_versions.revert(back, who["admin"], b.later(120))
    assert load.policy_of().project_weights["alpha"] == 5.0


@pytest.mark.parametrize(
    "policy",
    [
        {"half_life_s": 86_400},
        {"ledgers": ["project"]},
        {"prefer": "best_fit", "nvlink_mode": "exclusive", "in_flight": "off"},
        {"queues": {"merge": {"weight": 4.5, "grace_s": 60.0}, "eval": {"default_level": "High"}}},
        {"queues": {"merge": {"levels": {"Critical": 9, "High": 5, "Normal": 2, "Low": 1}}}},
        {"queues": {"eval": {"levels": {"High": 3, "Normal": 2, "Low": 1, "Idle": 1}}}},
        {"user_weights": {"alpha/alice": 3.5}},
        {"billing": {"Test 80GB": 2.0}},
        {"preemption": []},
        {"preemption": [{"queue": "eval", "level": "High", "victim_queue": "merge", "victim_level": "Low"}]},
        {"backfill": {"reservations_per_level": 3, "aged_after_s": 3600}, "evict": {"protect_times": 7}},
    ],
)
def test_everything_that_can_be_tried_is_applied_and_reverted(who, policy):
    before = policy_rows.whole()
    wanted = policy_versions.foreseen(policy)
    number = applied(who, policy)
    assert isinstance(number, int)
    made = policy_versions.versions()[0]
    assert made.lines == wanted
    assert made.lines
    assert policy_rows.whole() != before
    assert isinstance(policy_versions.revert(number, who["admin"], b.later(60)), int)
    assert without_new_names(policy_rows.whole(), before) == before


def without_new_names(now, before):
    """The policy without billing weights that were not there before: such a name keeps what it has."""
    return {**now, "billing": {name: now["billing"][name] for name in before["billing"]}}


def test_levels_keep_their_jobs(who):
    models = [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
    b.submitted(who["alice"], b.merge_body(models, priority="Low"))
    key = Level.objects.get(queue__name="merge", name="Normal").pk
    found = applied(who, {"queues": {"merge": {"levels": {"Critical": 4, "High": 3, "Normal": 2}}}, "preemption": []})
    assert found == Refused(("queues.merge.levels leaves out Low, and there are jobs of it: keep the level",))
    assert PreemptionRule.objects.count() == 6  # nothing of it was done
    applied(who, {"queues": {"merge": {"levels": {"Critical": 6, "High": 4, "Normal": 3, "Low": 1}}}})
    assert Level.objects.get(pk=key).value == 3


def test_what_was_changed_again_since_is_not_reverted_over(who):
    first = applied(who, {"project_weights": {"alpha": 5.0}})
    other = applied(who, {"project_weights": {"beta": 5.0}})
    applied(who, {"project_weights": {"alpha": 6.0}})
    found = policy_versions.revert(first, who["admin"], b.NOON)
    assert found == Refused(("project_weights.alpha was changed again since: revert the later versions first",))
    assert isinstance(policy_versions.revert(other, who["admin"], b.NOON), int)
    assert load.policy_of().project_weights == {"alpha": 6.0, "beta": 1.0}
    assert [each.may_revert for each in policy_versions.versions() if each.number == first] == [False]


def test_what_is_so_already_makes_no_version(who):
    assert applied(who, {"project_weights": {"alpha": 2.0}}) == Refused(("the policy is so already",))
    assert applied(who, {"retry": {"infrastructure_budget": 5}}) == Refused(("the policy is so already",))
    assert PolicyVersion.objects.count() == 1  # the first


def test_a_part_that_rows_can_not_hold_is_refused(who):
    found = applied(who, {"half_life_s": 0.5})
    assert found == Refused(
        ("half_life_s can only be a whole number here, not 0.5: change it to one, and play it again",)
    )


def test_the_first_version_and_one_that_is_not_there_are_not_reverted(who):
    applied(who, {"project_weights": {"alpha": 5.0}})
    first = policy_versions.versions()[-1].number
    for number in (first, 999_999):
        assert policy_versions.revert(number, who["admin"], b.NOON) == Refused(
            (f"there is no version {number} with one before it",)
        )


def test_what_the_admin_changes_is_a_version_with_who_did_it_and_is_reverted(who):
    client = Client()
    client.login(username="admin", password=b.PASSWORD)
    queue = Queue.objects.get(name="eval")
    rows = {"form-TOTAL_FORMS": 3, "form-INITIAL_FORMS": 3, "_save": "Save"}
    for place, each in enumerate(Queue.objects.order_by("order", "name")):
        rows |= {f"form-{place}-id": each.pk, f"form-{place}-weight": 7.5 if each == queue else each.weight}
    assert client.post("/admin/scheduling/queue/", rows).status_code == 302
    made = policy_versions.versions()[0]
    assert (made.by, made.why, lines(made)) == ("admin", "changed in the admin", {"queues.eval.weight": (1.0, 7.5)})
    policy_versions.revert(made.number, who["admin"], b.NOON)
    assert load.policy_of().queue("eval").weight == 1.0


def test_a_post_that_changes_nothing_makes_no_version(who):
    client = Client()
    client.login(username="admin", password=b.PASSWORD)
    key = PlanningSettings.objects.get().pk
    assert client.post(f"/admin/scheduling/planningsettings/{key}/change/", {"prefer": "nowhere"}).status_code == 200
    assert [each.why for each in policy_versions.versions()] == [policy_versions.FIRST]
