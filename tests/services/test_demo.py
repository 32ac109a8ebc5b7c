"""The demo: made once, kept by every later start."""

from __future__ import annotations

import pytest
from django.contrib.auth import authenticate, get_user_model

from scheduling.models import Artifact, Level, Membership, Node, PreemptionRule, Project, Queue
from scheduling.services import demo, pool
from tests import builders as b

pytestmark = pytest.mark.django_db


def test_the_demo_has_the_specifications_queues_levels_and_preemption():
    demo.people()
    assert dict(Queue.objects.values_list("name", "weight")) == {"merge": 2.0, "eval": 1.0, "inference": 3.0}
    assert Level.objects.count() == 9
    assert PreemptionRule.objects.count() == 6


def test_each_researcher_belongs_to_one_project_and_may_ask_for_high():
    demo.people()
    assert set(Membership.objects.values_list("project__name", "user__username", "level_cap")) == {
        ("alpha", "alice", 3),
        ("beta", "bob", 3),
    }
    assert len(set(Project.objects.values_list("weight", flat=True))) == 2


def test_passwords_are_random_work_and_are_told_once():
    first = demo.people()
    assert set(first) == {"admin", "alice", "bob"}
    assert authenticate(None, username="alice", password=first["alice"]["password"]) is not None
    assert demo.people() == {}
    assert authenticate(None, username="alice", password=first["alice"]["password"]) is not None


def test_a_changed_weight_survives_the_next_start():
    demo.people()
    Project.objects.filter(name="alpha").update(weight=7)
    Queue.objects.filter(name="merge").update(weight=5)
    demo.people()
    assert (Project.objects.get(name="alpha").weight, Queue.objects.get(name="merge").weight) == (7, 5)


def test_a_nodes_token_is_kept_by_the_next_start(tmp_path):
    file = tmp_path / "node-1" / "token"
    demo.node_token("node-1", file)
    first = (file.read_text(), Node.objects.get().token_sha256)
    demo.node_token("node-1", file)
    assert (file.read_text(), Node.objects.get().token_sha256) == first
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_nodes_token_that_was_replaced_elsewhere_is_mended_by_the_next_start(tmp_path):
    file = tmp_path / "node-1" / "token"
    demo.node_token("node-1", file)
    pool.add_node("node-1", renew=True)
    demo.node_token("node-1", file)
    assert pool.is_token_of("node-1", file.read_text())


def test_the_demo_models_and_their_test_are_artifacts_of_alpha_made_once(tmp_path):
    demo.people()
    for n, name in enumerate(("digits-0-4", "digits-5-9")):
        (tmp_path / "trained" / name).mkdir(parents=True)
        (tmp_path / "trained" / name / "model.safetensors").write_bytes(b.tensors(n))
    (tmp_path / "trained" / "digits-test").mkdir()
    (tmp_path / "trained" / "digits-test" / "test.jsonl").write_bytes(b"{}\n")
    first = demo.store(tmp_path / "trained", b.NOON)
    assert (set(first.models), set(first.datasets)) == ({"digits-0-4", "digits-5-9"}, {"digits-test"})
    assert demo.store(tmp_path / "trained", b.later(1)) == first == demo.known()
    assert set(Artifact.objects.values_list("project__name", "published", "kind")) == {
        ("alpha", True, "model"), ("alpha", True, "dataset")
    }  # fmt: skip


def test_the_admin_may_do_everything():
    demo.people()
    assert get_user_model().objects.get(username="admin").is_superuser
