"""The canonical text of a plan."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scheduling.core.decide import decide
from scheduling.core.plan import Plan, Start
from scheduling.core.resources import ResourceRequest

from .build import groups, job, world

SCRIPT = """
from tests.core.build import groups, job, live, world
from scheduling.core.decide import decide
jobs = [job(f"j{n}", 1 + n % 3, at=n % 4, project="AB"[n % 2], nvlink=n % 2 == 0, avoid_nodes=("n0", "n1")[: n % 3])
        for n in range(12)]
print(decide(world(groups(3, 4), *jobs, running=[live("r", "n0/0"), live("s", "n1/1")])).digest())
"""


def test_equal_plans_have_one_text_whatever_the_order_of_their_mappings():
    plan = decide(world(groups(1, 2), job("a"), job("b", 2)))
    turned = Plan(**{**vars(plan), "scores": dict(reversed(list(plan.scores.items())))})
    assert turned.to_json() == plan.to_json()


def test_different_plans_have_different_digests():
    assert Plan(0, starts=(Start("a", ("x",), "n"),)).digest() != Plan(0, starts=(Start("b", ("x",), "n"),)).digest()


def test_the_text_is_json_that_says_what_starts():
    plan = decide(world(groups(1, 2), job("a")))
    assert json.loads(plan.to_json())["starts"] == [{"job": "a", "gpus": ["n0/0"], "node": "n0"}]


def test_the_digest_does_not_depend_on_the_seed_of_the_hashes():
    digests = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={"PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(digests) == 1


def test_the_shape_of_a_request_is_everything_but_its_duration():
    short, long = ResourceRequest(2, max_duration_s=60), ResourceRequest(2, max_duration_s=600)
    assert short.shape == long.shape != ResourceRequest(2, nvlink_required=True).shape


@pytest.mark.parametrize(("count", "nodes", "per_node"), [(0, 1, 0), (3, 2, 0), (4, 2, 1), (-1, 1, -1)])
def test_a_request_whose_counts_disagree_cannot_be_made(count, nodes, per_node):
    with pytest.raises(ValueError, match="gpu_count"):
        ResourceRequest(count, nodes, per_node)


def test_a_plan_of_an_empty_world_does_nothing():
    assert decide(world(groups(1, 2))) == Plan(10_000)
