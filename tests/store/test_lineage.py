"""Ancestors and descendants of an artifact: who is among them, how far away, and what stays hidden."""

from __future__ import annotations

import pytest

from scheduling.models import Artifact, ArtifactParent
from scheduling.store.queries import artifacts as queries
from scheduling.store.queries import lineage as family
from tests import builders as b

pytestmark = pytest.mark.django_db


class Made:
    """Artifacts by their names, each made from others."""

    def __init__(self, **parents: str) -> None:
        self.who = b.people()
        self.ids: dict[str, str] = {}
        for number, (name, made_from) in enumerate(parents.items()):
            project = "beta" if name.startswith("beta") else "alpha"
            self.ids[name] = b.artifact(
                self.who["admin"], name, {"a.txt": name.encode()}, project=project, now=b.later(number)
            )
            for place, parent in enumerate(made_from.split()):
                ArtifactParent.objects.create(
                    child_id=self.ids[name], parent_id=self.ids[parent], role=f"model-{place}"
                )

    def of(self, name: str, *, who: str = "alice", **asked):
        row = queries.one(self.who[who], self.ids[name])
        return family.lineage(self.who[who], row, **asked)


def names(found) -> dict[str, int]:
    return {node["name"]: node["generation"] for node in found["nodes"]}


def edges(found) -> set[str]:
    called = {node["id"]: node["name"] for node in found["nodes"]}
    return {f"{called[e['parent']]}>{called[e['child']]}" for e in found["edges"]}


def test_ancestors_and_descendants_and_nobody_else():
    made = Made(base="", left="base", right="base", both="left right", child="both", other="base")
    found = made.of("both")
    assert names(found) == {"base": -2, "left": -1, "right": -1, "both": 0, "child": 1}
    assert edges(found) == {"base>left", "base>right", "left>both", "right>both", "both>child"}
    assert names(made.of("left")) == {"base": -1, "left": 0, "both": 1, "child": 2}
    assert (found["hidden"], found["cut"]) == (0, False)


def test_one_way_only():
    made = Made(base="", left="base", child="left")
    assert names(made.of("left", direction="up")) == {"base": -1, "left": 0}
    assert names(made.of("left", direction="down")) == {"left": 0, "child": 1}


def test_the_longest_way_tells_the_generation_so_that_parents_always_come_first():
    made = Made(base="", step="base", merged="step base", again="merged base")
    found = made.of("base")
    assert names(found) == {"base": 0, "step": 1, "merged": 2, "again": 3}
    assert names(made.of("again")) == {"base": -3, "step": -2, "merged": -1, "again": 0}
    assert "base>again" in edges(made.of("merged"))


def test_the_same_parent_in_two_places_is_two_edges():
    made = Made(base="", merged="base base")
    assert [edge["role"] for edge in made.of("merged")["edges"]] == ["model-0", "model-1"]


def test_what_belongs_to_other_projects_is_left_out_with_all_behind_it_and_counted():
    made = Made(root="", beta_mid="root", merged="beta_mid root", beta_child="merged", last="beta_child")
    found = made.of("merged")
    assert (names(found), found["hidden"]) == ({"root": -1, "merged": 0}, 2)
    everything = made.of("merged", who="admin")
    assert (len(everything["nodes"]), everything["hidden"]) == (5, 0)


def test_deeper_than_asked_is_said():
    made = Made(a="", b="a", c="b", d="c")
    found = made.of("c", depth=1)
    assert (names(found), found["cut"]) == ({"b": -1, "c": 0, "d": 1}, True)
    assert made.of("c", depth=2)["cut"] is False


def test_more_than_there_is_room_for_is_said(monkeypatch):
    monkeypatch.setattr(family, "MAX_NODES", 4)
    made = Made(a="", b="a", c="a", d="a", e="a", f="b")
    found = made.of("a")
    assert (list(names(found)), found["cut"]) == (["a", "b", "c", "d"], True)


def test_a_way_round_that_should_not_be_ends():
    made = Made(a="", b="a")
    ArtifactParent.objects.create(child_id=made.ids["a"], parent_id=made.ids["b"], role="model-0")
    assert set(names(made.of("a"))) == {"a", "b"}


def test_how_it_was_made_is_told_by_its_job_its_recipe_and_its_code():
    lab = b.lab()
    run = b.running(lab.who["alice"], lab.models, name="tonight")
    made = b.output(run)
    b.finished(run, artifacts=[made], now=b.later(60))
    row = queries.one(lab.who["alice"], made)
    *above, node = family.lineage(lab.who["alice"], row)["nodes"]
    by = node["made_by"]
    assert (by["job"], by["name"], by["kind"], by["attempt"]) == (run.job, "tonight", "merge", 1)
    assert by["recipe"]["strategy"] == "slerp"
    assert by["code"] == {"agent_version": "test", "engine_version": None, "device_class": None}
    assert [each["made_by"] for each in above] == [None, None]
    told = {"recipe": {"strategy": "ties"}, "engine_version": "7", "device_class": "cpu"}
    Artifact.objects.filter(pk=made).update(meta=told)
    by = family.lineage(lab.who["alice"], queries.one(lab.who["alice"], made))["nodes"][-1]["made_by"]
    assert (by["recipe"], by["code"]["engine_version"], by["code"]["device_class"]) == (
        {"strategy": "ties"},
        "7",
        "cpu",
    )


@pytest.mark.parametrize("meta", [{"engine_version": 7, "device_class": ["x"], "recipe": "text"}, {"recipe": None}])
def test_whatever_a_program_says_of_itself_breaks_nothing(meta):
    lab = b.lab()
    run = b.running(lab.who["alice"], lab.models)
    made = b.output(run)
    b.finished(run, artifacts=[made], now=b.later(60))
    Artifact.objects.filter(pk=made).update(meta=meta)
    by = family.lineage(lab.who["alice"], queries.one(lab.who["alice"], made))["nodes"][-1]["made_by"]
    assert (by["recipe"], by["code"]["engine_version"]) == (meta["recipe"], None)
