"""Stories of faults: each lived through, then healed; nothing is lost, nothing runs twice, all comes to its end."""

from __future__ import annotations

import os

import pytest

from tests.chaos.house import story

pytestmark = pytest.mark.django_db(transaction=True)

FIRST = int(os.environ.get("EMEP_CHAOS_FIRST", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("EMEP_CHAOS_SEEDS", "8")))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_story_of_faults_ends_well(seed, tmp_path):
    found = story(seed, tmp_path)
    assert not found.wrong, "\n".join([f"seed {seed}: {found.states}", *found.wrong])
