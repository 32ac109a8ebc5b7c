"""Each scenario file happens as it says. To add one, put a JSON file into ``scenarios``; see ``scenario.py``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.scenario import FOLDER, play, read, timeline

FILES = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_scenario_happens_as_it_says(path):
    scenario = read(path)
    assert timeline(play(scenario), scenario.expect) == list(scenario.expect)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_scenario_does_not_depend_on_the_order_of_its_parts(path):
    scenario = read(path)
    pool = scenario.begin.pool
    mixed = replace(
        scenario,
        jobs=scenario.jobs[::-1],
        faults=scenario.faults[::-1],
        begin=replace(scenario.begin, pool=replace(pool, nodes=pool.nodes[::-1], gpus=pool.gpus[::-1])),
    )
    assert play(mixed).digest() == play(scenario).digest()
