"""Stories of faults: each lived through, then healed; nothing is lost, nothing runs twice, all comes to its end."""

from __future__ import annotations

import os

import pytest

from tests.chaos.house import Story, story
from tests.remembered import empty_all

pytestmark = pytest.mark.django_db(transaction=True)

FIRST = int(os.environ.get("EMEP_CHAOS_FIRST", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("EMEP_CHAOS_SEEDS", "50")))


told: dict[int, Story] = {}


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.xdist_group("first story")] * (seed == FIRST)) for seed in SEEDS]
)
def test_a_story_of_faults_ends_well(seed, tmp_path):
    found = told[seed] = story(seed, tmp_path)
    assert not found.wrong, "\n".join([f"seed {seed}: {found.states}", *found.wrong])


@pytest.mark.xdist_group("first story")
def test_the_same_seed_tells_the_same_story(tmp_path):
    once = told.get(FIRST) or story(FIRST, tmp_path / "once")
    empty_all()
    assert story(FIRST, tmp_path / "again") == once
