"""Results with equal bytes are stored once and stay two results: each is found, told and given up by its own name."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model

from scheduling.models import ArtifactParent, Event, JobOutput, Upload
from scheduling.services import artifact_deletion as deletion
from scheduling.services import jobs
from scheduling.services.artifacts import Refusal
from scheduling.store import seed
from scheduling.store.queries import artifacts as queries
from scheduling.store.queries import jobs as job_queries
from scheduling.store.queries.access import actor_of
from scheduling.store.queries.lineage import lineage
from tests import builders as b

pytestmark = pytest.mark.django_db


class Twins:
    """Two merges that came to the same bytes: first alice's m-nuslerp, then m-slerp of ``second``."""

    def __init__(self, second: str = "alice") -> None:
        self.lab = b.lab()
        seed.user("carol", b.PASSWORD, projects=[("alpha", 3)])
        self.alice, self.admin = self.lab.who["alice"], self.lab.who["admin"]
        self.carol = actor_of(get_user_model().objects.get(username="carol"))
        self.jobs: dict[str, str] = {}
        for number, (strategy, who) in enumerate([("nuslerp", self.alice), ("slerp", getattr(self, second))]):
            self.id = self.merged(f"m-{strategy}", strategy, who, 100 * number)

    def merged(self, name: str, strategy: str, who, at: float, models=None) -> str:
        run = b.running(who, models or self.lab.models, name=name, now=b.later(at))
        told = {"recipe": {"strategy": strategy}, "derivation_key": f"sha256:{strategy}", "engine_version": "7"}
        made = b.output(run, meta=told, now=b.later(at + 10))
        assert b.finished(run, artifacts=[made], now=b.later(at + 20))["ok"]
        self.jobs[name] = run.job
        return made

    def row(self, who=None):
        return queries.one(who or self.alice, self.id)

    def also(self) -> list[tuple[str, str | None]]:
        return [(each["name"], each["job"]) for each in queries.as_dict(self.row())["also"]]

    def found(self, q: str) -> list[str]:
        return [str(each.pk) for each in queries.filtered(self.alice, q=q)]

    def told_of_outputs(self) -> dict[str, bool]:
        """Whether what each job made counts as deleted."""
        rows = {name: job_queries.as_dict(job_queries.one(self.alice, job)) for name, job in self.jobs.items()}
        return {name: row["artifacts"][0]["deleted"] for name, row in rows.items()}

    def delete(self, who=None, **how):
        return deletion.delete(self.id, who or self.alice, b.later(500), **how)


def refused(answer) -> tuple[int, str]:
    assert isinstance(answer, Refusal)
    return answer.status, answer.code


def test_every_name_is_found_and_the_others_are_told():
    twins = Twins()
    assert [twins.found(q) for q in ("m-slerp", "m-nuslerp", "-SLE", "m-ties")] == [
        [twins.id],
        [twins.id],
        [twins.id],
        [],
    ]
    assert (twins.row().name, twins.also()) == ("m-nuslerp", [("m-slerp", twins.jobs["m-slerp"])])


def test_each_job_that_made_it_is_told_with_its_recipe_and_derivation_key():
    twins = Twins()
    *_, node = lineage(twins.alice, twins.row())["nodes"]
    told = [(made["output"], made["job"], made["recipe"]["strategy"], made["derivation_key"], made["attempt"])
            for made in (node["made_by"], *node["also_made_by"])]  # fmt: skip
    assert told == [(name, twins.jobs[name], name[2:], f"sha256:{name[2:]}", 1) for name in ("m-nuslerp", "m-slerp")]
    (also,) = node["also_made_by"]
    assert also["code"] == {"agent_version": "test", "engine_version": "7", "device_class": None}


def test_what_the_second_worked_on_is_among_the_parents_but_for_what_came_of_the_artifact_itself():
    twins = Twins()
    third = b.model(twins.alice, "c", 3)
    child = b.artifact(twins.alice, "child", {"a.txt": b"child"})
    ArtifactParent.objects.create(parent_id=twins.id, child_id=child, role="model-0")
    twins.merged("again", "slerp", twins.alice, 300, models=[third, child])
    parents = {str(each.parent_id) for each in ArtifactParent.objects.filter(child=twins.id)}
    assert parents == {*twins.lab.models, third}


def test_two_equal_outputs_of_one_job_have_both_their_names():
    lab = b.lab()
    run = b.running(lab.who["alice"], lab.models)
    made = [b.output(run, name, now=b.later(n)) for n, name in enumerate(("net", "copy"))]
    assert b.finished(run, artifacts=made, now=b.later(20))["ok"]
    assert set(JobOutput.objects.filter(job=run.job).values_list("name", flat=True)) == {
        "slerp-a-b net",
        "slerp-a-b copy",
    }


def test_an_upload_of_the_same_bytes_keeps_its_name_too():
    lab = b.lab()
    assert b.model(lab.who["alice"], "again", 1) == lab.models[0]
    row = queries.one(lab.who["alice"], lab.models[0])
    assert queries.as_dict(row)["also"] == [{"name": "again", "job": None, "user": "alice"}]
    assert str(queries.resolve(lab.who["alice"], "alpha", "again").pk) == lab.models[0]


def test_a_job_says_the_name_that_was_used():
    twins = Twins()
    for name in ("m-slerp", "m-nuslerp"):
        done = jobs.submit(b.merge_body([name, "a"], name=f"of-{name}"), twins.alice, b.later(400))
        inputs = job_queries.one(twins.alice, done.job_id).spec["inputs"]
        assert [(each["name"], each["artifact"]) for each in inputs] == [(name, twins.id), ("a", twins.lab.models[0])]


def test_a_deletion_of_several_names_is_refused_and_tells_them_unless_all_are_meant():
    twins = Twins()
    answer = twins.delete()
    assert (refused(answer), answer.facts) == (
        (409, "also_output_of"),
        {"outputs": [{"name": "m-slerp", "job": twins.jobs["m-slerp"], "user": "alice"}]},
    )
    assert (
        "'m-nuslerp' has the same bytes as 'm-slerp' of alice, and is stored once: all=true deletes" in answer.message
    )
    assert twins.row().deleted_at is None
    assert twins.delete(everywhere=True)["deleted"]["by"] == "user alice"
    assert twins.told_of_outputs() == {"m-nuslerp": True, "m-slerp": True}
    assert twins.delete()["deleted"]["by"] == "user alice"


@pytest.mark.parametrize(("gone", "stays"), [("m-slerp", "m-nuslerp"), ("m-nuslerp", "m-slerp")])
def test_one_name_is_given_up_and_the_artifact_stays_under_the_other(gone, stays):
    twins = Twins()
    found = twins.delete(name=gone)
    assert (found["name"], found["also"], found["deleted"]) == (stays, [], None)
    assert (found["job"], found["meta"]["recipe"]["strategy"]) == (twins.jobs[stays], stays[2:])
    assert (twins.found(stays), twins.found(gone)) == ([twins.id], [])
    assert queries.resolve(twins.alice, "alpha", gone) is None
    assert twins.told_of_outputs() == {gone: True, stays: False}
    assert Event.objects.filter(type="artifact_name_given_up", object_id=twins.id).count() == 1
    assert twins.delete(name=stays)["deleted"]["why"] == "alice asked for it"


def test_whose_name_it_is_may_give_it_up_and_nobody_deletes_what_another_made_too():
    twins = Twins("carol")
    assert refused(twins.delete(everywhere=True)) == (403, "not_yours")
    assert "'m-slerp' of carol" in twins.delete(everywhere=True).message
    answer = twins.delete(twins.carol)
    assert (refused(answer), "name=m-slerp removes only that name" in answer.message) == ((403, "not_yours"), True)
    assert refused(twins.delete(twins.carol, name="m-nuslerp")) == (403, "not_yours")
    answer = twins.delete(name="m-ties")
    assert (refused(answer), answer.message) == (
        (404, "no_such_name"), "the artifact is not called 'm-ties': it is called 'm-nuslerp' and 'm-slerp'",
    )  # fmt: skip
    assert twins.delete(name="m-nuslerp")["user"] == "carol"
    assert twins.told_of_outputs() == {"m-nuslerp": True, "m-slerp": False}
    assert twins.delete(twins.carol)["deleted"]["by"] == "user carol"


def test_a_name_that_came_while_somebody_was_asked_stops_the_deletion(monkeypatch):
    twins, real, asked = Twins(), deletion.called.others, []

    def others(row):
        asked.append(row)
        return real(row) if len(asked) > 1 else []

    monkeypatch.setattr(deletion.called, "others", others)
    assert refused(twins.delete()) == (409, "also_output_of")


def test_outputs_from_before_have_what_their_uploads_told():
    twins = Twins()
    JobOutput.objects.update(meta={}, made_with={})
    import_module("scheduling.migrations.0023_names_of_equal_bytes").told_by_each(apps, None)
    told = {row.name: (row.meta["recipe"]["strategy"], row.made_with) for row in JobOutput.objects.all()}
    assert told == {
        "m-nuslerp": ("nuslerp", {"attempt": 1, "agent_version": "test"}),
        "m-slerp": ("slerp", {"attempt": 1, "agent_version": ""}),
    }
    assert Upload.objects.filter(artifact=twins.id).count() == 2
