"""The lineage of an artifact as a page: every artifact a row, with lines that meet, and with how it was made."""

from __future__ import annotations

import random
import re

import pytest

from scheduling.models import Artifact
from scheduling.web.lineage import LANES, TALL, drawn, recipe_in_words
from tests import builders as b
from tests.web.pages import browser, text


def shape(count: int, edges: str):
    order = [chr(ord("a") + number) for number in range(count)]
    return order, [{"parent": each[0], "child": each[1]} for each in edges.split()]


def followed(order, lines) -> set[tuple[str, str]]:
    """(parent, child) of every way that one can go from dot to dot down the lines, as the eye does."""
    ways, going = set(), {}  # going: where a line crosses into the row below -> the dots that it comes from
    for key, line in zip(order, lines, strict=True):
        leaving: dict[int, set[str]] = {}
        for path in line.paths:
            if found := re.fullmatch(rf"M(\d+) 0L(\d+) {TALL // 2}", path):
                assert int(found[2]) == line.dot
                ways |= {(parent, key) for parent in going.get(int(found[1]), set())}
            elif found := re.fullmatch(rf"M(\d+) 0V{TALL}", path):
                leaving.setdefault(int(found[1]), set()).update(going[int(found[1])])
            else:
                found = re.fullmatch(rf"M(\d+) {TALL // 2}L(\d+) {TALL}", path)
                assert int(found[1]) == line.dot
                leaving.setdefault(int(found[2]), set()).add(key)
        going = leaving
    assert going == {}
    return ways


@pytest.mark.parametrize(
    ("count", "edges"),
    [(1, ""), (2, "ab"), (3, "ac bc"), (4, "ab ac bd cd"), (5, "ae be ce de ab"), (4, "ab bc cd ad ac")],
)
def test_the_lines_lead_from_every_parent_to_its_children_and_nowhere_else(count, edges):
    order, given = shape(count, edges)
    assert followed(order, drawn(order, given)) == {(e["parent"], e["child"]) for e in given}


@pytest.mark.parametrize("seed", range(30))
def test_so_they_do_in_any_graph_that_has_room(seed):
    dice = random.Random(seed)
    order, _ = shape(dice.randint(2, 14), "")
    pairs = [(p, c) for n, p in enumerate(order) for c in order[n + 1 :] if dice.random() < 0.25]
    lines = drawn(order, [{"parent": p, "child": c} for p, c in pairs])
    if max(line.lanes for line in lines) < LANES:
        assert followed(order, lines) == set(pairs)
    assert all(line.lanes <= LANES for line in lines)


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ({"t": 0.5, "strategy": "slerp", "models": ["x", "y"], "seed": None}, "strategy slerp, t 0.5"),
        ({"argv": ["python", "train.py"], "env": {"A": "b"}}, "python train.py"),
        ({"shell": "make all", "env": {}}, "make all"),
        ({"metrics": ["accuracy"], "batch_size": 8, "model": "x"}, 'batch_size 8, metrics ["accuracy"]'),
        ("text", ""),
        (None, ""),
        ({"a": "x" * 999}, "a " + "x" * 198),
    ],
)
def test_a_recipe_is_said_in_a_line(recipe, said):
    assert recipe_in_words(recipe) == said


@pytest.mark.django_db
def test_the_page_tells_parents_job_code_and_origin_and_links_all_of_them():
    lab = b.lab()
    alice = browser()
    run = b.running(lab.who["alice"], lab.models, name="tonight")
    made = b.output(run)
    b.finished(run, artifacts=[made], now=b.later(60))
    Artifact.objects.filter(pk=lab.models[0]).update(meta={"repository": "org/tiny", "revision": "0123456789abcdef"})
    Artifact.objects.filter(pk=lab.models[1]).update(corrupt=True)
    page = text(alice.get(f"/artifacts/{made}/lineage/"))
    assert "Made from 2 artifacts, 0 artifacts made of it so far." in page
    for parent, role in zip(lab.models, ("model-0", "model-1"), strict=True):
        assert re.search(rf'<a href="/artifacts/{parent}/"><bdi>.</bdi></a> as {role}', page)
    assert f'By merge <a href="/jobs/{run.job}/"><bdi>tonight</bdi></a> (attempt 1, agent test): <code>strategy' in page
    assert "Uploaded or imported by alice from org/tiny at <code>0123456789ab</code>." in page
    assert page.count('tag warn">corrupt') == 1
    assert f'href="/artifacts/{made}/lineage/"' in text(alice.get(f"/artifacts/{made}/"))


@pytest.mark.django_db
def test_it_says_how_many_are_in_other_projects_and_that_there_is_more(monkeypatch):
    lab = b.lab()
    run = b.running(lab.who["alice"], lab.models)
    made = b.output(run)
    b.finished(run, artifacts=[made], now=b.later(60))
    Artifact.objects.filter(pk=lab.models[0]).update(project=Artifact.objects.get(pk=made).project)
    beta = b.model(lab.who["bob"], "theirs", 5, project="beta")
    Artifact.objects.get(pk=made).parents.update_or_create(role="model-0", defaults={"parent_id": beta})
    page = text(browser().get(f"/artifacts/{made}/lineage/"))
    assert "1 more in projects that you are not in." in page
    assert "theirs" not in page
    assert "There is more" not in page
    monkeypatch.setattr("scheduling.store.queries.lineage.MAX_NODES", 1)
    assert "There is more: open one of these to go on from there." in text(browser().get(f"/artifacts/{made}/lineage/"))


@pytest.mark.django_db
def test_it_is_for_those_who_may_know_of_the_artifact():
    lab = b.lab()
    assert browser("bob").get(f"/artifacts/{lab.models[0]}/lineage/").status_code == 404
