"""What operators do to nodes over REST."""

from __future__ import annotations

import pytest

from scheduling.core.words import instant_in_words
from scheduling.models import Node
from scheduling.services import pool
from scheduling.store.clock import to_ms
from tests import builders as b
from tests.api.calls import busy_world, error, problem, world

pytestmark = pytest.mark.django_db


def test_a_node_is_cordoned_drained_and_returned_and_each_twice_is_the_same():
    w = world()
    admin = w.caller("admin")
    for verb, state, why in (
        ("cordon", "CORDONED", "cordon by admin"), ("drain", "DRAINING", "drain by admin"), ("return", "READY", None),
    ):  # fmt: skip
        for _ in range(2):
            answer = admin.post(f"pool/nodes/n1/{verb}/")
            said = {"name": "n1", "state": state, "why": why, "drain_by": None}
            assert (answer.status_code, answer.json()) == (200, said)


def test_the_answer_to_a_drain_has_its_deadline_and_so_has_the_reason_why_the_node_is_closed():
    w = world()
    answer = w.caller("admin").post("pool/nodes/n1/drain/", {"deadline": "4h", "reason": "new fans"}).json()
    until = Node.objects.get().drain_by
    assert answer["drain_by"] == until.isoformat().replace("+00:00", "Z")
    assert answer["why"] == (
        f"drain by admin: new fans; what still runs on {instant_in_words(to_ms(until))} is asked to save and moves to "
        "other nodes"
    )


def test_a_cordon_takes_a_reason_and_the_newest_one_counts():
    w = world()
    admin = w.caller("admin")
    said = [
        admin.post("pool/nodes/n1/cordon/", body).json()["why"]
        for body in ({"reason": " new \n fans "}, {}, {"reason": "a new board"})
    ]
    assert said == ["cordon by admin: new fans", "cordon by admin: new fans", "cordon by admin: a new board"]


@pytest.mark.parametrize("reason", ["x" * 121, 7, ["x"], "a\x00b", "new\u202e fans", "a\x1b[31mb", "\u2066a"])
@pytest.mark.parametrize("verb", ["cordon", "drain"])
def test_a_reason_that_is_no_short_text_is_refused_and_nothing_changes(verb: str, reason):
    w = world()
    answer = problem(w.caller("admin").post(f"pool/nodes/n1/{verb}/", {"reason": reason}), 422)
    assert ("reason" in str(answer), Node.objects.get().state) == (True, "READY")


def test_what_turns_the_text_around_it_is_named_in_the_refusal():
    answer = world().caller("admin").post("pool/nodes/n1/cordon/", {"reason": "new\u202e fans"})
    assert "reason may not hold the control character U+202E; remove it" in answer.content.decode()


def test_a_return_takes_none():
    w = world()
    problem(w.caller("admin").post("pool/nodes/n1/return/", {"reason": "mended"}), 422)


def test_a_lost_node_can_not_be_returned():
    w = world()
    b.listening(60)
    b.ticked(b.later(61))
    assert problem(w.caller("admin").post("pool/nodes/n1/return/"), 409, "wrong_state")["state"] == "LOST"


def test_operating_needs_the_permission_beside_the_scope():
    w = world()
    problem(w.alice.post("pool/nodes/n1/drain/"), 403, "permission_denied")


@pytest.mark.parametrize("path", ["pool/nodes/n9/", "pool/gpus/GPU-none/"])
def test_what_is_not_in_the_pool_is_404(path: str):
    w = world()
    problem(w.alice.get(path), 404, "not_found")


def test_a_verb_on_a_node_that_is_not_there_is_404():
    w = world()
    problem(w.caller("admin").post("pool/nodes/n9/drain/"), 404, "not_found")


def test_the_pool_says_in_one_sentence_how_it_is():
    w = world()
    assert w.alice.get("pool/").json()["headline"].startswith("0 of 4 GPUs busy, 0 jobs waiting")


def test_a_drain_with_a_deadline_is_told_with_its_reason():
    w, _ = busy_world()
    answer = w.caller("admin").post("pool/nodes/n1/drain/", {"deadline": "30m"})
    assert (answer.status_code, answer.json()["state"]) == (200, "DRAINING")
    told = w.alice.get("pool/nodes/n1/").json()
    assert told["why"] == answer.json()["why"]
    assert told["drain_by"] is not None


@pytest.mark.parametrize("deadline", ["soon", 0, -5, "31d", True, [1], {"s": 1}, 10**30])
def test_a_bad_deadline_is_refused_with_its_field_and_limit_and_nothing_changes(deadline):
    w = world()
    found = error(
        w.caller("admin").post("pool/nodes/n1/drain/", {"deadline": deadline}), 422, "deadline", "bad_deadline"
    )
    assert found["limit"] == [1, 2_592_000]
    assert w.alice.get("pool/nodes/n1/").json()["state"] == "READY"


@pytest.mark.parametrize("verb", ["cordon", "drain", "return"])
def test_a_verb_takes_no_field_that_it_does_not_know(verb):
    w = world()
    error(w.caller("admin").post(f"pool/nodes/n1/{verb}/", {"dedline": "30m"}), 422, "dedline", "unknown_field")


def test_cordon_has_no_deadline():
    w = world()
    error(w.caller("admin").post("pool/nodes/n1/cordon/", {"deadline": "30m"}), 422, "deadline", "unknown_field")


def test_a_lost_node_says_that_it_is_not_heard_of_and_since_when():
    w = world()
    b.listening(60)
    b.ticked(b.later(61))
    told = w.alice.get("pool/nodes/n1/").json()
    assert told["why"] == "it has not been heard of for its whole lease, and its work was taken back"
    assert told["lost_since"] == told["last_heartbeat_at"] == "2026-03-02T12:00:00Z"


def test_a_lost_node_that_was_closed_before_says_both():
    w = world()
    w.caller("admin").post("pool/nodes/n1/cordon/")
    b.listening(60)
    b.ticked(b.later(61))
    assert w.alice.get("pool/nodes/n1/").json()["why"].endswith("its work was taken back; cordoned: cordon by admin")


def test_a_node_that_is_heard_of_is_lost_since_never():
    w = world()
    assert w.alice.get("pool/nodes/n1/").json()["lost_since"] is None


def test_the_gpus_that_a_node_does_not_offer_are_told_with_the_reason():
    w = world()
    words = "gpu 4 GPU-n1-4 is left out: MIG mode is on"
    pool.register("n1", {**b.description("n1"), "left_out": [words]}, b.NOON)
    assert w.alice.get("pool/nodes/n1/").json()["left_out"] == [words]


def test_an_agent_that_says_nothing_of_left_out_gpus_has_none():
    w = world()
    assert w.alice.get("pool/nodes/n1/").json()["left_out"] == []


def test_words_on_left_out_gpus_that_are_too_long_are_cut_and_do_not_keep_the_node_out():
    w = world()
    pool.register("n1", {**b.description("n1"), "left_out": ["x" * 500] * 70}, b.NOON)
    told = w.alice.get("pool/nodes/n1/").json()["left_out"]
    assert (len(told), set(told)) == (64, {"x" * 400})


@pytest.mark.parametrize("told", ["gpu 4", [4], {"gpu": 4}])
def test_left_out_gpus_that_are_no_list_of_texts_are_refused(told):
    world()
    answer = pool.register("n1", {**b.description("n1"), "left_out": told}, b.NOON)
    assert isinstance(answer, pool.NodeRefused)
    assert "left_out must be a list of texts" in answer.message


def test_an_open_node_has_no_reason_and_no_deadline():
    w = world()
    told = w.alice.get("pool/nodes/n1/").json()
    assert (told["why"], told["drain_by"]) == (None, None)
