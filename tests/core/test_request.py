"""Every refusal of a submission: its field, code and limit, and all of them at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core.fields import KNOWN
from scheduling.core.lifecycle import GpuState, NodeState
from scheduling.core.pool import Pool
from scheduling.core.request import Submission
from scheduling.core.unusable import HugeNumber

from .build import gpus, groups, pool, rule, with_gpu_state, with_node_state
from .submitting import KINDS, RELEASER, RESEARCHER, accepted, checked, refused, the_error


def test_a_plain_request_gets_the_defaults():
    asked = accepted()
    assert (asked.name, asked.queue, asked.level, asked.request.max_duration_s) == ("merge", "merge", "Normal", 14400)


def test_a_full_request_is_read_whole():
    asked = accepted(
        name="slerp-a-b", queue="merge", priority="high", gpu_count=2, gpu_memory_min="40GiB", nvlink_required=True,
        max_duration="4h", node_count=1, gpus_per_node=2, nvlink_exclusive=False, required_level=None,
        affinity={"required": [{"key": "node", "op": "In", "values": ["n0"]}], "preferred": []}, anti_affinity=None,
        group=None, after=[], not_before=None, start_by=None, retries=3, preemptible=True, purpose=None,
        max_wait_for_level=None, allow_span=False, params={"strategy": "slerp"}, **{"with": None},
    )  # fmt: skip
    assert asked == Submission(
        name="slerp-a-b", kind="merge", project="alpha", queue="merge", level="High", params={"strategy": "slerp"},
        retries=3, request=replace(
            asked.request, gpu_count=2, gpu_memory_min_mib=40960, nvlink_required=True, max_duration_s=14400,
            affinity=(rule("node", "In", "n0"),),
        ),
    )  # fmt: skip


def test_d17_the_aliases_of_the_specification_are_read():
    asked = accepted({"gpu_count": None, "gpu_per_node": 2, "nvlink": True, "duration": "90m"}).request
    assert (asked.gpu_count, asked.nvlink_required, asked.max_duration_s) == (2, True, 5400)


def test_d17_a_field_and_its_alias_that_agree_are_one():
    assert accepted(nvlink=True, nvlink_required=True).request.nvlink_required


def test_d17_a_field_and_its_alias_that_disagree_are_refused():
    error = the_error(nvlink=True, nvlink_required=False)
    assert (error.field, error.code) == ("nvlink", "duplicate_field")
    assert error.message.startswith("nvlink and nvlink_required are two names of one field")


@pytest.mark.parametrize(("kind", "queue"), list(KINDS.items()))
def test_the_queue_follows_from_the_kind(kind, queue):
    assert accepted(kind=kind).queue == queue


def test_the_only_project_one_has_needs_no_naming():
    assert accepted(project=None).project == "alpha"


def test_all_reasons_come_at_once():
    everything = {
        "kind": "merg", "project": "alhpa", "queue": "mrege", "gpu_count": 0, "gpu_memory_min": "900GB", "gpu_cuont": 2,
        "max_duration": "4 parsecs", "name": "../x", "retries": 11, "nvlink_required": "yes", "preemptible": False,
        "purpose": "fun", "after": ["x"], "node_count": -1, "affinity": [], "required_level": "room",
        "max_wait_for_level": "soon", "group": "a/b", "with": {"group": "g"}, "anti_affinity": 7, "not_before": "now",
        "start_by": "2020-01-01T00:00:00Z", "allow_span": "no",
    }  # fmt: skip
    assert refused(everything) == [
        ("gpu_cuont", "unknown_field"),
        ("kind", "unknown_kind"),
        ("name", "bad_character"),
        ("project", "unknown_project"),
        ("queue", "unknown_queue"),
        ("purpose", "unknown_purpose"),
        ("gpu_count", "out_of_range"),
        ("node_count", "out_of_range"),
        ("gpu_memory_min", "no_such_memory"),
        ("nvlink_required", "not_a_boolean"),
        ("required_level", "unknown_level"),
        ("max_wait_for_level", "bad_duration"),
        ("max_wait_for_level", "no_effect"),
        ("allow_span", "not_a_boolean"),
        ("max_duration", "bad_duration"),
        ("affinity", "not_an_object"),
        ("anti_affinity", "not_an_object"),
        ("with.level", "required"),
        ("group", "bad_character"),
        ("after.0", "not_a_job_id"),
        ("not_before", "bad_instant"),
        ("start_by", "in_the_past"),
        ("retries", "out_of_range"),
        ("preemptible", "not_permitted"),
    ]


def test_memory_and_count_that_are_both_too_large_are_both_told():
    assert refused(gpu_memory_min="900GB", gpu_count=99) == [
        ("gpu_count", "no_node"),
        ("gpu_memory_min", "no_such_memory"),
    ]


def test_an_error_names_the_field_as_it_was_sent():
    assert refused({"gpu_count": None, "gpu_per_node": 9}) == [("gpu_per_node", "no_node")]


@pytest.mark.parametrize(
    ("field", "nearest"),
    [("gpu_cuont", "gpu_count"), ("Priority", "priority"), ("nv_link", "nvlink"), ("projct", "project")],
)
def test_an_unknown_field_is_refused_with_the_nearest_known_one(field, nearest):
    error = the_error({field: 1})
    assert (error.field, error.code) == (field, "unknown_field")
    assert f"did you mean {nearest!r}?" in error.message


@pytest.mark.parametrize("name", ["\ud800", "x" * 10_000, "a\x00b"])
def test_the_answer_to_an_unknown_field_can_always_be_written_as_utf_8(name):
    error = the_error({name: 1})
    assert len((error.field + error.message).encode()) < 1000


@pytest.mark.parametrize(
    ("field", "value", "code", "nearest"),
    [
        ("kind", "merg", "unknown_kind", "merge"),
        ("queue", "inferense", "unknown_queue", "inference"),
        ("priority", "Hihg", "unknown_level", "High"),
        ("priority", "Realtimes", "unknown_level", None),
        ("project", "alpah", "unknown_project", "alpha"),
        ("purpose", "regression", "unknown_purpose", "regression_gate"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(field, value, code, nearest):
    error = the_error({field: value})
    assert (error.field, error.code) == (field, code)
    assert nearest is None or f"did you mean {nearest!r}?" in error.message


@pytest.mark.parametrize("field", ["kind", "project", "queue", "priority", "purpose"])
@pytest.mark.parametrize("value", [7, [], {}, True, ["merge"]])
def test_a_name_that_is_no_text_is_refused(field, value):
    assert refused({field: value})[0][0] == field


def test_a_missing_kind_is_refused_with_the_kinds():
    error = the_error(kind=None)
    assert (error.code, error.limit) == ("required", ("evaluate", "infer", "merge"))


def test_a_missing_project_is_refused_when_there_is_a_choice():
    error = the_error(project=None, rights=RELEASER)
    assert (error.field, error.code, error.limit) == ("project", "required", ("alpha", "beta"))


def test_somebody_without_a_project_is_told_so():
    error = the_error(rights=replace(RESEARCHER, projects=()))
    assert (error.code, "not a member of any project" in error.message) == ("unknown_project", True)


def test_a_project_one_is_no_member_of_reads_exactly_like_one_that_does_not_exist():
    errors = [the_error(project=name) for name in ("beta", "gama")]
    assert errors[0].message.replace("beta", "gama") == errors[1].message


@pytest.mark.parametrize("name", ["high", "HIGH", "High"])
def test_levels_are_read_whatever_their_case(name):
    assert accepted(priority=name).level == "High"


@pytest.mark.parametrize(
    ("value", "nearest"), [("Foo", None), ("Hihg", "High"), ("Realtimes", "Realtime"), (7, None), ([], None)]
)
def test_a_priority_that_no_queue_has_is_told_with_the_unknown_queue(value, nearest):
    _, errors = checked(queue="zz", priority=value)
    assert [(e.field, e.code) for e in errors] == [("queue", "unknown_queue"), ("priority", "unknown_level")]
    assert errors[1].limit == ("Critical", "High", "Normal", "Low", "Realtime")
    assert nearest is None or f"did you mean {nearest!r}?" in errors[1].message


@pytest.mark.parametrize("priority", ["Realtime", "low", None])
def test_a_priority_that_some_queue_has_is_no_error_beside_an_unknown_queue(priority):
    assert refused(queue="zz", priority=priority) == [("queue", "unknown_queue")]


def test_each_queue_has_its_own_levels():
    error = the_error(queue="inference", priority="Low")
    assert (error.code, error.limit) == ("unknown_level", ("Realtime", "Normal"))


@pytest.mark.parametrize(("queue", "level"), [("merge", "Critical"), ("inference", "Realtime")])
def test_d24_critical_and_realtime_need_a_permission(queue, level):
    error = the_error(queue=queue, priority=level, purpose="regression_gate", rights=replace(RESEARCHER, levels_cap=4))
    assert (error.field, error.code) == ("priority", "priority_not_permitted")


def test_d24_a_level_above_ones_cap_is_refused_with_those_one_may_ask_for():
    error = the_error(priority="High", rights=replace(RESEARCHER, levels_cap=2))
    assert (error.code, error.limit) == ("priority_not_permitted", ("Normal", "Low"))


def test_d24_the_cap_holds_with_the_permission_too():
    assert refused(priority="Critical", purpose="regression_gate", rights=replace(RELEASER, levels_cap=3)) == [
        ("priority", "priority_not_permitted")
    ]


def test_d24_critical_needs_a_purpose():
    error = the_error(priority="Critical", rights=RELEASER)
    assert (error.field, error.code, error.limit) == (
        "purpose",
        "purpose_required",
        ("regression_gate", "deployment_validation"),
    )


@pytest.mark.parametrize("purpose", ["regression_gate", "deployment_validation"])
def test_d24_critical_is_accepted_with_permission_and_purpose(purpose):
    assert accepted(priority="critical", purpose=purpose, rights=RELEASER).level == "Critical"


def test_d24_realtime_is_accepted_with_permission_and_no_purpose():
    assert accepted(queue="inference", priority="Realtime", rights=RELEASER).level == "Realtime"


def test_a_job_that_is_never_preempted_needs_a_permission():
    error = the_error(preemptible=False)
    assert (error.field, error.code) == ("preemptible", "not_permitted")


def test_a_job_that_is_never_preempted_is_accepted_with_the_permission():
    assert accepted(preemptible=False, rights=RELEASER).preemptible is False


def test_memory_above_every_gpu_is_refused_with_the_largest_value_that_passes():
    error = the_error(gpu_memory_min="900GB")
    assert (error.field, error.code, error.limit) == ("gpu_memory_min", "no_such_memory", "76294MiB")
    assert accepted(gpu_memory_min=error.limit)


@pytest.mark.parametrize(("asked", "passes"), [("80GB", True), ("80GiB", False)])
def test_example_26_a_board_of_81559_mib_holds_80gb_and_not_80gib(asked, passes):
    boards = pool(gpus("n0", 2, memory="81559MiB"))
    errors = checked(gpu_memory_min=asked, the_pool=boards)[1]
    assert [(error.code, error.limit) for error in errors] == ([] if passes else [("no_such_memory", "81559MiB")])


@pytest.mark.parametrize("junk", [0, -1, "0GB", "lots", True, float("nan"), [1], ""])
def test_memory_that_cannot_be_read_is_refused_with_the_largest(junk):
    error = the_error(gpu_memory_min=junk)
    assert (error.field, error.code, error.limit) == ("gpu_memory_min", "bad_memory", "76294MiB")


@pytest.mark.parametrize("value", [None])
def test_no_memory_means_any_gpu(value):
    assert accepted(gpu_memory_min=value).request.gpu_memory_min_mib == 0


def test_example_12_an_nvlink_job_larger_than_every_group_is_refused_with_the_largest():
    error = the_error(gpu_count=8, nvlink_required=True, the_pool=groups(2, 4))
    assert (error.field, error.code, error.limit) == ("gpu_count", "no_nvlink_group", 4)


def test_an_nvlink_job_with_memory_that_no_group_has_so_often_is_refused_with_that_groups_size():
    boards = pool(gpus("n0", 4, memory="24GB", group="g0"), gpus("n1", 2, memory="80GB", group="g1"))
    error = the_error(gpu_count=4, nvlink_required=True, gpu_memory_min="40GB", the_pool=boards)
    assert (error.code, error.limit) == ("no_nvlink_group", 2)


def test_an_nvlink_job_where_there_is_no_nvlink_is_refused():
    error = the_error(nvlink_required=True, the_pool=pool(gpus("n0", 4)))
    assert (error.code, error.limit) == ("no_nvlink_group", 0)


def test_an_exclusive_job_without_nvlink_is_refused():
    assert refused(nvlink_exclusive=True) == [("nvlink_exclusive", "needs_nvlink")]


def test_an_exclusive_job_is_refused_where_every_group_spans_nodes():
    spanning = pool(gpus("n0", 2, group="rack"), gpus("n1", 2, group="rack"))
    assert refused(nvlink_required=True, nvlink_exclusive=True, the_pool=spanning) == [
        ("nvlink_exclusive", "no_nvlink_group")
    ]


@pytest.mark.parametrize("state", [GpuState.SUSPECT, GpuState.UNHEALTHY, GpuState.QUARANTINED])
def test_d14_unhealthy_gpus_count_as_installed(state):
    assert accepted(gpu_count=4, nvlink_required=True, the_pool=with_gpu_state(groups(1, 4), "n0/0", state))


@pytest.mark.parametrize("state", list(NodeState))
def test_d14_nodes_that_take_no_work_count_as_installed(state):
    assert accepted(the_pool=with_node_state(groups(1, 4), "n0", state))


def test_d14_retired_gpus_do_not_count():
    error = the_error(gpu_count=4, the_pool=with_gpu_state(groups(1, 4), "n0/0", GpuState.RETIRED))
    assert (error.code, error.limit) == ("no_node", 3)


def test_d14_while_no_node_is_registered_nothing_is_refused_for_want_of_capacity():
    assert accepted(gpu_count=500, nvlink_required=True, gpu_memory_min="900GB", the_pool=Pool())


def test_while_no_node_is_registered_a_count_still_has_a_bound():
    error = the_error(gpu_count=10**9, the_pool=Pool())
    assert (error.field, error.code, error.limit) == ("gpu_count", "out_of_range", 65_536)


@pytest.mark.parametrize("junk", [0, -1, "-4h", "4 parsecs", True, [], "PT", ""])
def test_a_duration_that_cannot_be_read_is_refused_with_the_queues_cap(junk):
    error = the_error(max_duration=junk)
    assert (error.field, error.code, error.limit) == ("max_duration", "bad_duration", 604_800)


def test_a_duration_above_the_queues_cap_is_refused_with_the_cap():
    error = the_error(max_duration="8d")
    assert (error.field, error.code, error.limit) == ("max_duration", "above_cap", 604_800)


@pytest.mark.parametrize(
    ("field", "code", "limit"),
    [("max_duration", "above_cap", 604_800), ("gpu_memory_min", "no_such_memory", "76294MiB")],
)
@pytest.mark.parametrize("value", [10**30, HugeNumber("1" + "0" * 30), "1" + "0" * 30])
def test_an_amount_beyond_all_bounds_is_refused_as_too_much_and_not_as_unreadable(value, field, code, limit):
    error = the_error({field: value})
    assert (error.field, error.code, error.limit) == (field, code, limit)
    assert error.message.startswith(f"{field} m")


@pytest.mark.parametrize("field", [name for name in KNOWN if name not in ("params", "kind")])
def test_an_empty_text_is_refused_in_every_field_and_takes_no_default(field):
    assert field in [name.split(".")[0] for name, _ in refused({field: ""})]


@pytest.mark.parametrize("field", [name for name in KNOWN if name not in ("kind", "gpu_count")])
def test_null_says_the_same_as_leaving_the_field_out(field):
    assert accepted({field: None}) == accepted()


@pytest.mark.parametrize(
    ("field", "junk", "begins"),
    [
        ("max_duration", "5 parsecs", "max_duration must be written like 4h"),
        ("max_duration", 0, "max_duration must be more than 0 seconds"),
        ("duration", "x", "duration must be written like 4h"),
        ("max_wait_for_level", "x", "max_wait_for_level must be written like 4h"),
        ("gpu_memory_min", "xx", "gpu_memory_min must be written like 40GB"),
        ("gpu_memory_min", 0, "gpu_memory_min must be more than 0"),
        ("not_before", "yesterday", "not_before must be written like 2030-01-31T09:00:00Z"),
        ("start_by", "2030-01-31T09:00:00", "start_by must say its zone"),
        ("start_by", "2030-02-30T09:00:00Z", "start_by must be a day that there is"),
        ("not_before", "2030-02-03T25:00:00Z", "not_before must be a time of day that there is"),
        ("not_before", "2030-02-03T05:00:00+15:00", "not_before must have a zone from -14:00 to +14:00"),
    ],
)
def test_a_duration_an_amount_and_an_instant_that_cannot_be_read_begin_with_their_field(field, junk, begins):
    first, *more = checked({field: junk})[1]
    assert first.message.startswith(begins)
    assert [each.code for each in more] == (["no_effect"] if field == "max_wait_for_level" else [])


def test_a_duration_a_part_of_a_second_above_the_cap_is_refused_as_it_was_written():
    assert the_error(max_duration=604_800.25).message == (
        "max_duration may be at most 604800 seconds in queue merge, and 604800.25 counts as 604801 seconds: "
        "ask for less"
    )


def test_a_duration_of_exactly_the_cap_is_accepted():
    assert accepted(max_duration="7d").request.max_duration_s == 604_800


@pytest.mark.parametrize("retries", [0, 10, None])
def test_up_to_ten_retries_are_accepted(retries):
    assert accepted(retries=retries).retries == (retries or 0)


@pytest.mark.parametrize(("retries", "limit"), [(-1, 0), (11, 10)])
def test_other_numbers_of_retries_are_refused_with_the_limit(retries, limit):
    error = the_error(retries=retries)
    assert (error.field, error.code, error.limit) == ("retries", "out_of_range", limit)


@pytest.mark.parametrize("field", ["nvlink_required", "nvlink_exclusive", "preemptible"])
@pytest.mark.parametrize("value", ["yes", 1, 0, []])
def test_a_switch_that_is_neither_true_nor_false_is_refused(field, value):
    assert (field, "not_a_boolean") in refused({field: value})


def test_params_are_handed_on_as_they_came():
    assert accepted(params={"t": 0.5, "models": ["a", "b"]}).params == {"t": 0.5, "models": ["a", "b"]}
