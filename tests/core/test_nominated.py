"""What becomes of a job whose victims are leaving: the early start, and the victims that must not go unsaved (D8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core.decide import decide
from scheduling.core.lifecycle import JobState
from scheduling.core.plan import Plan
from scheduling.core.policy import DEFAULT_POLICY, Policy
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import LiveAttempt, Nomination
from scheduling.core.spared import Spared

from .build import NOW, gang, groups, job, live, loose, nominated, places_of, victims, world

MINUTE_MS = 60_000
ASKED = NOW - 2 * MINUTE_MS


def careful(*queues: str) -> Policy:
    """The default policy with queues whose jobs never leave without a checkpoint."""
    return replace(
        DEFAULT_POLICY,
        queues=tuple(replace(q, never_without_checkpoint=q.name in queues) for q in DEFAULT_POLICY.queues),
    )


def low(name: str, *held: str, **more) -> LiveAttempt:
    """A Low job that has run for an hour."""
    return live(name, *held, level="Low", granted_ms=NOW - 60 * MINUTE_MS, **more)


def leaving(name: str, *held: str, left_s: int = 60, **more) -> LiveAttempt:
    """One that was asked to leave and has so many seconds left to save, none when late."""
    return low(name, *held, state=JobState.PREEMPTING, **{"stop_by_ms": NOW + left_s * 1000, "asked_ms": ASKED, **more})


def kept(*uuids: str, again: bool = False) -> Nomination:
    return Nomination("critical", uuids, NOW + 90_000, again)


def planned(the_pool, *running: LiveAttempt, count: int = 1, policy: Policy = DEFAULT_POLICY, **more) -> Plan:
    critical = more.pop("critical", job("critical", count, level="Critical"))
    return decide(world(the_pool, critical, running=running, policy=policy, **more))


def let_go(plan: Plan) -> list[str]:
    return [each.job for each in plan.unnominations]


def test_who_gets_back_what_he_left_in_vain_is_not_evicted_in_the_same_cycle():
    back = Nomination("low", ("n0/0",), NOW + 90_000, False)
    waiting = [job("low", level="Low"), job("critical", level="Critical", at=1)]
    plan = decide(world(loose(1), *waiting, nominations=(back,)))
    assert (places_of(plan), victims(plan)) == ({"low": ["n0/0"]}, [])


# What has come free meanwhile


def test_a_nominee_starts_on_what_was_left_for_it_together_with_what_came_free_by_itself():
    """Of three GPUs that are kept one is free, and two others have come free: its other victims may stay."""
    the_pool, asked = loose(5), [leaving("b", "n0/1"), leaving("c", "n0/2")]
    plan = planned(the_pool, *asked, count=3, nominations=(kept("n0/0", "n0/1", "n0/2"),))
    assert (places_of(plan), let_go(plan)) == ({"critical": ["n0/0", "n0/3", "n0/4"]}, ["critical"])


def test_a_nominee_keeps_waiting_while_what_is_free_and_left_for_it_is_one_too_few():
    asked = [leaving("b", "n0/1"), leaving("c", "n0/2")]
    plan = planned(loose(4), *asked, count=3, nominations=(kept("n0/0", "n0/1", "n0/2"),))
    assert (places_of(plan), let_go(plan)) == ({}, [])


def test_a_gang_starts_with_a_node_that_was_left_for_it_and_one_that_came_free_by_itself():
    asked = leaving("b", "n1/0", "n1/1")
    plan = planned(
        groups(3, 2), asked, critical=gang("critical", 2, 2, level="Critical"),
        nominations=(kept("n0/0", "n0/1", "n1/0", "n1/1"),),
    )  # fmt: skip
    assert places_of(plan) == {"critical": ["n0/0", "n0/1", "n2/0", "n2/1"]}


# A queue whose jobs never leave without a checkpoint


def test_d8_a_victim_that_must_save_first_and_did_not_runs_on_and_the_preemptor_waits():
    plan = planned(loose(1), leaving("a", "n0/0", left_s=0), nominations=(kept("n0/0"),), policy=careful("merge"))
    assert (victims(plan), let_go(plan), plan.nominations, places_of(plan)) == ([], ["critical"], (), {})


def test_d8_until_its_grace_is_over_it_is_waited_for():
    plan = planned(loose(1), leaving("a", "n0/0", left_s=1), nominations=(kept("n0/0"),), policy=careful("merge"))
    assert let_go(plan) == []


def test_d8_a_victim_that_must_save_first_is_replaced_by_another_legal_set_like_any_other():
    late, other = leaving("a", "n0/0", left_s=0), low("b", "n0/1")
    plan = planned(loose(2), late, other, nominations=(kept("n0/0"),), policy=careful("merge"))
    assert (victims(plan), [(each.gpus, each.again) for each in plan.nominations]) == (["b"], [(("n0/1",), True)])


def test_d8_after_the_one_new_plan_a_victim_that_must_save_first_still_runs_on():
    nominations = (kept("n0/0", again=True),)
    plan = planned(loose(1), leaving("a", "n0/0", left_s=0), nominations=nominations, policy=careful("merge"))
    assert let_go(plan) == ["critical"]


def test_d8_of_any_other_queue_the_preemptor_goes_on_waiting_for_it():
    plan = planned(loose(1), leaving("a", "n0/0", left_s=0), nominations=(kept("n0/0"),), policy=careful("eval"))
    assert let_go(plan) == []


def test_d8_a_victim_that_saved_when_it_was_asked_is_waited_for_though_it_is_late():
    late = leaving("a", "n0/0", left_s=0, saved_ms=ASKED + 1)
    assert let_go(planned(loose(1), late, nominations=(kept("n0/0"),), policy=careful("merge"))) == []


def test_d8_a_victim_that_a_node_has_left_already_can_not_run_on():
    late = leaving("a", "n0/0", "n1/0", left_s=0, left=("n1",))
    assert let_go(planned(groups(2, 1), late, nominations=(kept("n0/0"),), policy=careful("merge"))) == []


@pytest.mark.parametrize(("saved_ms", "asked_again"), [(None, []), (ASKED, []), (ASKED + 1, ["a"])])
def test_d8_who_was_asked_in_vain_is_asked_again_only_after_a_newer_checkpoint(saved_ms, asked_again):
    spared = low("a", "n0/0", asked_ms=ASKED, saved_ms=saved_ms)
    assert victims(planned(loose(1), spared, policy=careful("merge"))) == asked_again


def test_d8_where_jobs_may_be_stopped_unsaved_who_was_asked_in_vain_is_asked_again():
    assert victims(planned(loose(1), low("a", "n0/0", asked_ms=ASKED))) == ["a"]


def test_d8_who_was_asked_in_vain_leaves_the_others_to_be_evicted():
    plan = planned(loose(2), low("a", "n0/0", asked_ms=ASKED), low("b", "n0/1"), policy=careful("merge"))
    assert (victims(plan), nominated(plan)) == (["b"], {"critical": ["n0/1"]})


def test_d31_no_new_plan_is_made_while_checkpoints_cant_be_stored():
    late, other = leaving("a", "n0/0", left_s=0), low("b", "n0/1")
    plan = planned(loose(2), late, other, nominations=(kept("n0/0"),), can_preempt=False)
    assert (victims(plan), let_go(plan)) == ([], [])


def test_the_preemptor_can_be_told_how_many_of_its_victims_have_yet_to_save():
    spared = [low("a", "n0/0", asked_ms=ASKED), low("b", "n0/1", asked_ms=ASKED), low("c", "n0/2", queue="eval")]
    critical = job("critical", 3, level="Critical")
    scheduler = Scheduler(world(loose(3), critical, running=spared, policy=careful("merge")))
    reason = Spared(scheduler).reason(scheduler.described(critical), None)
    assert (reason.code, reason.numbers) == ("NOT_SAVED", (("unsaved", 2), ("victim", "a")))
    assert "2 jobs that it may evict did not save in the time given" in reason.message


def test_a_preemptor_whose_victims_all_may_be_asked_is_told_nothing_of_saving():
    critical = job("critical", level="Critical")
    scheduler = Scheduler(world(loose(1), critical, running=[low("a", "n0/0", asked_ms=ASKED)]))
    assert Spared(scheduler).reason(scheduler.described(critical), None).code == "NO_VICTIMS"
