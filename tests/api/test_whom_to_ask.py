"""Every 403 names the permission or scope that is missing, and who can give it."""

from __future__ import annotations

import pytest

from tests.api.calls import Caller, problem, world

pytestmark = pytest.mark.django_db

OPERATIONS = [
    ("POST", "pool/nodes/n1/drain/", "to drain a node"),
    ("POST", "pool/gpus/GPU-n1-0/retire/", "to retire a GPU"),
    ("POST", "pool/silence/confirm/", "to confirm that nodes are gone"),
    ("POST", "pool/windows/", "closing nodes"),
    ("DELETE", "pool/windows/1/", "opening closed nodes"),
    ("POST", "plan/replay/", "a replay"),
]


@pytest.mark.parametrize(("method", "path", "doing"), OPERATIONS)
def test_who_may_not_operate_is_told_the_permission_and_whom_to_ask(method, path, doing):
    found = problem(world().alice(method, path, {}), 403, "permission_denied")
    assert found["permission"] == "operate_pool"
    assert found["detail"] == (
        f"{doing} needs the permission operate_pool, which operators have and alice does not: ask an admin, who can "
        "give it at /admin/"
    )


@pytest.mark.parametrize(
    ("who", "scope", "path", "more"),
    [
        ("alice", "jobs:read", "artifacts/", ""),
        ("alice", "jobs:read", "pool/windows/", ""),
        ("admin", "jobs:read", "pool/nodes/n1/drain/", ""),
        ("alice", "jobs:read", "pool/nodes/n1/drain/",
         ", once an admin has given alice the permission operate_pool at /admin/"),
    ],
)  # fmt: skip
def test_a_token_without_the_scope_is_told_where_to_make_one_and_whom_to_ask_first(who, scope, path, more):
    w = world()
    answer = w.caller(who, scope)("POST" if path.endswith("drain/") else "GET", path)
    found = problem(answer, 403, "scope_missing")
    assert found["detail"].startswith(f"this token lacks the scope {found['scope']}: make one that has it on the page")
    assert found["detail"].endswith(f"by POST /api/v1/tokens/{more}")


def test_a_browser_without_the_csrf_token_is_told_which_header_to_send():
    world(node=False)
    answer = Caller(session="alice", csrf=True).post("jobs/", {"kind": "merge"})
    assert "header X-CSRFToken" in problem(answer, 403, "permission_denied")["detail"]


@pytest.mark.parametrize(
    ("changed", "field", "words"),
    [
        ({"priority": "Critical", "purpose": "regression_gate"}, "priority",
         "have an admin give you the permission submit_critical (and your token the scope jobs:submit:critical) and a "
         "level cap of 4 in the project"),
        ({"preemptible": False}, "preemptible", "needs the permission submit_unpreemptible, which an admin can give"),
    ],
)  # fmt: skip
def test_a_field_that_needs_a_permission_names_it(changed, field, words):
    w = world()
    found = problem(w.alice.post("jobs/", w.body(**changed)), 422)["errors"]
    assert [each["field"] for each in found] == [field]
    assert words in found[0]["message"]
