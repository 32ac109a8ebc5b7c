"""A required rule that needs a label which nothing has: the nearest there is and what there is are named."""

from __future__ import annotations

import pytest

from scheduling.core.decide import decide
from scheduling.core.pool import Pool

from .build import gpus, job, node, pool, rule, world
from .submitting import accepted, refused, the_error

LABELLED = pool(gpus("n0", 4, group="g0"), nodes=[node("n0", labels=(("zone", "a"),))])
KNOWN = "there are gpu_model, network_bandwidth_gbps, node, nvlink_group_id, rack_id, zone"


def rules(key: str, op: str = "In", *, part: str = "required") -> dict[str, object]:
    """The rule about this label as a submission has it."""
    values = {"In": ["a"], "NotIn": ["a"], "Gt": [1]}.get(op, [])
    return {"affinity": {part: [{"key": key, "op": op, "values": values}]}}


@pytest.mark.parametrize("op", ["In", "Exists", "Gt"])
@pytest.mark.parametrize(
    ("key", "meant"), [("zon", "zone"), ("model", "gpu_model"), ("name", "node"), ("Zone", "zone")]
)
def test_a_rule_about_a_label_that_nothing_has_is_refused_with_the_nearest_there_is(key, meant, op):
    error = the_error(rules(key, op), the_pool=LABELLED)
    assert (error.field, error.code, error.message) == (
        "affinity.required",
        "unsatisfiable_rule",
        f"the required rules hold nowhere: no node or GPU has a label {key!r} (did you mean {meant!r}?), {KNOWN}; "
        "mend the key, or leave the rule out",
    )


def test_a_label_like_no_other_is_refused_without_a_guess():
    assert f"has a label 'qqqqq', {KNOWN};" in the_error(rules("qqqqq"), the_pool=LABELLED).message


def test_of_many_labels_the_first_ten_are_named():
    labels = tuple((f"x{number}", "a") for number in range(20))
    message = the_error(rules("qqqqq"), the_pool=pool(gpus("n0", 4), nodes=[node("n0", labels=labels)])).message
    assert ", rack_id, x0, x1, x10, x11, x12, x13 and 14 more;" in message


@pytest.mark.parametrize("asked", [rules("zon", "NotIn"), rules("zon", "DoesNotExist"), rules("zon", part="preferred")])
def test_a_rule_that_needs_no_such_label_is_accepted(asked):
    assert accepted(asked, the_pool=LABELLED)


def test_while_no_node_is_registered_no_label_is_strange():
    assert accepted(rules("zon"), the_pool=Pool())


def test_a_strange_label_is_told_beside_a_count_that_is_too_large():
    assert refused(rules("zon"), the_pool=LABELLED, gpu_count=9) == [
        ("gpu_count", "no_node"), ("affinity.required", "unsatisfiable_rule"),
    ]  # fmt: skip


def test_a_rule_about_a_label_that_is_there_names_no_labels():
    message = the_error(rules("rack_id"), the_pool=LABELLED).message
    assert "where its required rules hold (rack_id=a); loosen them" in message


def test_a_job_that_waits_for_a_label_which_nothing_has_any_more_is_told_so():
    plan = decide(world(LABELLED, job("1", rules=[rule("zon", "In", "a")])))
    assert plan.holds[0].reasons[0].message == (
        "The pool has 1 GPU in one node, but none where the required rules hold: zon=a. "
        f"No node or GPU has a label 'zon' (did you mean 'zone'?), {KNOWN}."
    )
