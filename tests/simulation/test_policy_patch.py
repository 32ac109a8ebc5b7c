"""A policy patched by a JSON object: what changes, what stays, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core.policy import DEFAULT_POLICY, PreemptRule
from scheduling.simulation.policy_patch import PatchError, patch_of, patched


def test_an_empty_patch_changes_nothing():
    assert patched(DEFAULT_POLICY, {}) == DEFAULT_POLICY


@pytest.mark.parametrize(
    ("patch", "changes"),
    [
        ({"half_life_s": 3600}, {"half_life_s": 3600.0}),
        ({"ledgers": ["project"]}, {"ledgers": ("project",)}),
        ({"in_flight": "off", "prefer": "best_fit"}, {"in_flight": "off", "prefer": "best_fit"}),
        ({"project_weights": {"a": 3}}, {"project_weights": {"a": 3.0}}),
        ({"user_weights": {"a/u": 2}}, {"user_weights": {("a", "u"): 2.0}}),
        ({"preemption": []}, {"preemption": ()}),
        (
            {"backfill": {"reservations_per_level": 4}},
            {"backfill": replace(DEFAULT_POLICY.backfill, reservations_per_level=4)},
        ),
        ({"evict": {"protect_times": 5}}, {"evict": replace(DEFAULT_POLICY.evict, protect_times=5)}),
    ],
)
def test_a_patch_changes_what_it_names_and_nothing_else(patch, changes):
    assert patched(DEFAULT_POLICY, patch) == replace(DEFAULT_POLICY, **changes)


def test_weights_by_name_keep_those_that_the_patch_does_not_name():
    old = replace(DEFAULT_POLICY, project_weights={"a": 1.0, "b": 2.0}, billing={"A100": 4.0})
    found = patched(old, {"project_weights": {"a": 3}})
    assert (found.project_weights, found.billing) == ({"a": 3.0, "b": 2.0}, {"A100": 4.0})


def test_a_queue_keeps_what_the_patch_does_not_name():
    found = patched(DEFAULT_POLICY, {"queues": {"eval": {"weight": 5, "levels": {"Normal": 3, "Low": 1}}}}).queue(
        "eval"
    )
    old = DEFAULT_POLICY.queue("eval")
    assert (found.weight, found.level("Normal").value, found.grace_s) == (5.0, 3, old.grace_s)


def test_a_rule_of_preemption_is_read_by_its_four_names():
    rule = {"queue": "merge", "level": "Critical", "victim_queue": "eval", "victim_level": "Low"}
    assert patched(DEFAULT_POLICY, {"preemption": [rule]}).preemption == (PreemptRule(*rule.values()),)


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"half_live_s": 1}, "no 'half_live_s' in the policy .did you mean .half_life_s.."),
        ({"half_life_s": -1}, "half_life_s must be a number from 0 to"),
        ({"half_life_s": "7d"}, "half_life_s must be a number from 0 to 1e.09, not '7d'"),
        ({"half_life_s": True}, "half_life_s must be a number"),
        ({"half_life_s": float("nan")}, "half_life_s must be a number"),
        ({"in_flight": "some"}, "in_flight must be one of full, cycle, off, not 'some'"),
        ({"ledgers": []}, "ledgers must be a list of some of queue, project, user"),
        ({"ledgers": ["user", "user"]}, "ledgers must be a list of some of"),
        ({"ledgers": ["team"]}, "ledgers must be one of queue, project, user"),
        ({"project_weights": {"a": -1}}, "project_weights.a must be a number from 0 to 1e.06"),
        ({"project_weights": [1]}, "project_weights must be an object"),
        ({"user_weights": {"a": 1}}, 'user_weights: write each user as "project/user"'),
        ({"queues": {"merg": {}}}, "no 'merg' in queues .did you mean .merge.."),
        ({"queues": {"merge": {"wait": 1}}}, "no 'wait' in queues.merge"),
        ({"queues": {"merge": {"levels": {}}}}, "queues.merge.levels must have at least one level"),
        ({"queues": {"merge": {"levels": {"Normal": 0}}}}, "queues.merge.levels.Normal must be a whole number from 1"),
        ({"queues": {"eval": {"default_level": "Top"}}}, "queues.eval.default_level is 'Top'; name one of High"),
        ({"queues": {"eval": {"default_level": 3}}}, "queues.eval.default_level must be text"),
        (
            {"queues": {"inference": {"levels": {"Normal": 2}}}},
            "queues.inference.levels leaves out Realtime, still named",
        ),
        ({"backfill": {"reservations_per_level": 1.5}}, "backfill.reservations_per_level must be a whole number"),
        ({"evict": {"protect_times": 0}}, "evict.protect_times must be a whole number from 1"),
        ({"preemption": {}}, "preemption must be a list of rules"),
        ({"preemption": [{"queue": "merge"}]}, "preemption.0.level must name a queue or a level"),
        ({"preemption": [{"quue": "merge"}]}, "no 'quue' in preemption.0 .did you mean .queue.."),
    ],
)
def test_a_wrong_patch_is_refused_by_key_with_what_to_write(patch, words):
    with pytest.raises(PatchError, match=words):
        patched(DEFAULT_POLICY, patch)


@pytest.mark.parametrize(
    ("patch", "paths"),
    [
        ({"half_life_s": -1, "prefer": "worst", "quux": 1}, ["quux", "half_life_s", "prefer"]),
        ({"backfill": {"aged_after_s": -1, "aged": 1}}, ["backfill.aged", "backfill.aged_after_s"]),
        ({"queues": {"merge": {"weight": -1}, "eval": 3}}, ["queues.merge.weight", "queues.eval"]),
        ({"project_weights": {"a": -1, "b": 1, "c": "1"}}, ["project_weights.a", "project_weights.c"]),
        ({"user_weights": {"a": 1}}, ["user_weights.a"]),
        ({"queues": {"merge": {"levels": {"Low": 0, "Top": 0}}}},
         ["queues.merge.levels.Low", "queues.merge.levels.Top"]),
        ({"preemption": [1, {"queue": "merge", "level": "Low", "victim_queue": "eval"}]},
         ["preemption.0", "preemption.1.victim_level"]),
    ],
)  # fmt: skip
def test_everything_that_is_wrong_is_told_at_once_by_its_whole_path(patch, paths):
    with pytest.raises(PatchError) as refused:
        patched(DEFAULT_POLICY, patch)
    assert [each.path for each in refused.value.wrong] == paths


@pytest.mark.parametrize(
    ("patch", "path", "said"),
    [
        ({"levels": {}}, "levels", "; it stands in a queue of queues: move it there, or remove it"),
        ({"protect_s": 1}, "protect_s", "; it stands in evict: move it there, or remove it"),
        ({"evict": {"half_life_s": 1}}, "evict.half_life_s", "; it stands in the policy itself: move it there, or"),
        ({"lease_s": 1}, "lease_s", "; remove it; known are half_life_s"),
        ({"weights": {}}, "weights", "; remove it; known are half_life_s"),
        ({"queues": {"deadline": {}}}, "queues.deadline", "; remove it; known are merge, eval"),
        ({"backfill": {"reservations": 1}}, "backfill.reservations", " (did you mean 'aged_reservations'?); remove it"),
        ({"half_live": 1}, "half_live", " (did you mean 'half_life_s'?); remove it"),
    ],
)
def test_a_name_that_is_not_known_is_told_where_it_stands_or_one_that_is_like_it_but_no_guess(patch, path, said):
    wrong = the_wrong(patch)
    assert wrong.path == path
    assert (
        wrong.message.split(" in ", 1)[1].removeprefix("the policy").removeprefix(path.split(".")[0]).startswith(said)
    )


def test_which_names_are_known_is_told_once_for_all_unknown_ones_of_a_place():
    patch = {"foo": 1, "retry": {"a": 1, "b": 2}, "bar": 2, "half_life_s": -1}
    with pytest.raises(PatchError) as refused:
        patched(DEFAULT_POLICY, patch)
    said = str(refused.value)
    assert (said.count("known are"), said.count("known are half_life_s"), said.count("known are infra")) == (2, 1, 1)
    assert all(f"there is no '{name}' in " in said for name in ("foo", "bar", "a", "b"))
    # To programs each is told by itself.
    assert sum("known are" in each.message for each in refused.value.wrong) == 4


def test_a_file_is_read(tmp_path):
    path = tmp_path / "patch.json"
    path.write_text('{"half_life_s": 60}')
    assert patch_of(path) == {"half_life_s": 60}


@pytest.mark.parametrize(
    ("text", "words"), [("{", "is not JSON"), ("[]", "patch.json must hold an object"), (None, "can't be read")]
)
def test_a_file_that_holds_no_patch_is_refused_by_name(tmp_path, text, words):
    path = tmp_path / "patch.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(PatchError, match=words):
        patch_of(path)


@pytest.mark.parametrize(("level", "victim"), [("Normal", "Normal"), ("Low", "Critical"), ("High", "Critical")])
def test_a_rule_by_which_jobs_would_evict_each_other_is_refused(level, victim):
    rule = {"queue": "merge", "level": level, "victim_queue": "merge", "victim_level": victim}
    with pytest.raises(PatchError) as refused:
        patched(DEFAULT_POLICY, {"preemption": [rule]})
    (wrong,) = refused.value.wrong
    assert wrong.path == "preemption.0.victim_level"
    assert f"{victim} is not below {level}" in wrong.message


def the_wrong(patch, policy=DEFAULT_POLICY):
    """The one thing that is wrong."""
    with pytest.raises(PatchError) as refused:
        patched(policy, patch)
    (wrong,) = refused.value.wrong
    return wrong


def test_levels_that_are_replaced_leave_one_error_that_names_all_that_needs_the_old_ones():
    wrong = the_wrong({"queues": {"merge": {"levels": {"Critical": 4, "Top": 3}}}})
    assert (wrong.path, wrong.message) == (
        "queues.merge.levels",
        "queues.merge.levels leaves out Normal, Low, still named by default_level, preemption.0 (merge/Critical may "
        "evict merge/Normal), preemption.1 (merge/Critical may evict merge/Low); keep the level, or give the patch "
        'queues.merge.default_level and the whole list "preemption" without it',
    )


def test_levels_are_replaced_when_all_that_needs_them_is_given_too():
    merge = {"levels": {"Top": 3, "Rest": 1}, "default_level": "Rest"}
    rules = [{"queue": "merge", "level": "Top", "victim_queue": "merge", "victim_level": "Rest"}]
    found = patched(DEFAULT_POLICY, {"queues": {"merge": merge}, "preemption": rules})
    assert [level.name for level in found.queue("merge").levels] == ["Top", "Rest"]


def test_a_patch_that_gives_the_rules_itself_is_told_each_wrong_one_by_its_place():
    merge = {"levels": {"Top": 3}, "default_level": "Top"}
    rules = [{"queue": "merge", "level": "Critical", "victim_queue": "merge", "victim_level": "Top"}]
    assert the_wrong({"queues": {"merge": merge}, "preemption": rules}).path == "preemption.0.level"


def test_levels_whose_numbers_turn_a_rule_around_are_one_error_that_names_the_rules():
    wrong = the_wrong({"queues": {"inference": {"levels": {"Realtime": 2, "Normal": 2}}}})
    assert wrong.path == "queues.inference.levels"
    assert "no lower than who evicts them by preemption.5 (inference/Realtime may evict" in wrong.message


def test_levels_that_differ_in_case_alone_are_refused():
    wrong = the_wrong({"queues": {"eval": {"levels": {"High": 3, "Normal": 2, "Low": 1, "low": 1}}}})
    assert "names Low again as low" in wrong.message


@pytest.mark.parametrize(
    ("patch", "path", "words"),
    [
        ({"queues": {"merge": {"default_max_duration_s": 1000, "max_duration_cap_s": 10}}},
         "queues.merge.default_max_duration_s", "(1000) must not be above queues.merge.max_duration_cap_s (10)"),
        ({"queues": {"merge": {"max_duration_cap_s": 60}}},
         "queues.merge.max_duration_cap_s", "default_max_duration_s (14400) must not be above"),
        ({"retry": {"backoff_s": 700}}, "retry.backoff_s", "retry.backoff_s (700) must not be above"),
        ({"retry": {"backoff_cap_s": 5}}, "retry.backoff_cap_s", "must not be above retry.backoff_cap_s (5)"),
    ],
)  # fmt: skip
def test_limits_in_the_wrong_order_are_refused_at_the_one_that_was_given_with_both_values(patch, path, words):
    wrong = the_wrong(patch)
    assert wrong.path == path
    assert words in wrong.message


def test_limits_that_were_in_the_wrong_order_before_are_not_the_fault_of_another_change():
    queue = replace(DEFAULT_POLICY.queue("merge"), default_max_duration_s=700_000)
    old = replace(DEFAULT_POLICY, queues=(queue, *DEFAULT_POLICY.queues[1:]))
    assert patched(old, {"queues": {"merge": {"weight": 3}}}).queue("merge").weight == 3.0


def test_a_key_that_is_there_twice_is_refused(tmp_path):
    file = tmp_path / "policy.json"
    file.write_text('{"half_life_s": 60, "half_life_s": 70}')
    with pytest.raises(PatchError, match=r"json: the key 'half_life_s' is there twice; give each key once$"):
        patch_of(file)
