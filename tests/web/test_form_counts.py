"""GPUs that were asked for by the node are in the forms as they are there: in all, and on how many nodes."""

from __future__ import annotations

import re

import pytest

from scheduling.models import Job
from scheduling.web import command_form, merge_form
from tests import builders as b
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("asked", "gpus", "nodes"),
    [
        ({"node_count": 2, "gpus_per_node": 2}, "4", "2"),
        ({"node_count": "3", "gpu_per_node": "2"}, "6", "3"),
        ({"gpu_count": 6, "gpus_per_node": 2}, "6", "3"),
        ({"gpu_count": 4, "gpus_per_node": 4}, "4", "1"),
        ({"gpus_per_node": 2}, "2", "1"),
        ({"gpu_count": 6, "node_count": 2, "gpus_per_node": 2}, "6", "2"),
        ({"gpu_count": 6, "node_count": 3}, "6", "3"),
        ({"gpu_count": 6}, "6", ""),
    ],
)
def test_the_form_shows_all_gpus_and_the_nodes_and_carries_no_third_number(asked, gpus, nodes):
    values = command_form.again(asked)
    assert (values.texts["gpu_count"], values.texts["node_count"], dict(values.rest)) == (gpus, nodes, {})


@pytest.mark.parametrize(
    "asked",
    [
        {"gpus_per_node": "x"},
        {"gpus_per_node": 0, "gpu_count": "2"},
        {"gpus_per_node": 2, "gpu_count": "many"},
        {"gpus_per_node": 2, "node_count": "9" * 30},
    ],
)
def test_numbers_that_can_not_be_read_stay_for_the_check_to_name(asked):
    body = command_form.body_of(command_form.again(asked))
    assert {name: body[name] for name in asked} == asked


@pytest.mark.parametrize(
    ("typed", "made"),
    [
        ({}, (4, 2, 2)),
        ({"gpu_count": "2"}, (2, 2, 1)),
        ({"gpu_count": "6", "node_count": ""}, (6, 2, 3)),
        ({"node_count": ""}, (4, 1, 4)),
        ({"node_count": "1"}, (4, 1, 4)),
    ],
)
def test_a_gang_is_changed_by_its_gpus_and_nodes(lab, typed, made):
    gang = b.command_body(node_count=2, gpus_per_node=2)
    del gang["gpu_count"]
    job = b.submitted(lab.who["alice"], gang)
    page = text(browser().get(f"/jobs/new/command/?from={job}&replaces={job}"))
    shown = dict(re.findall(r'name="(gpu_count|node_count)" value="(\d*)"', page))
    assert ("GPUs per node" in page, shown) == (False, {"gpu_count": "4", "node_count": "2"})
    texts = command_form.again(gang).texts
    answer = browser().post("/jobs/new/command/", {**texts, **shown, "replaces": job, "in_place": "on", **typed})
    new = Job.objects.get(replaces=job)
    assert answer["Location"] == f"/jobs/{new.pk}/"
    assert (new.gpu_count, new.node_count, new.gpus_per_node) == made


def test_a_merge_of_one_node_is_changed_by_its_gpus_alone():
    values = merge_form.again({"node_count": 1, "gpus_per_node": 2, "params": {}})
    assert (values.texts["gpu_count"], dict(values.rest)) == ("2", {})
