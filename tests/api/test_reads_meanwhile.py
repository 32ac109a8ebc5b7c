"""Whatever is committed between the queries of a page or an answer, it is one: what is new or gone breaks nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from scheduling.models import AttemptNode, Gpu, Node
from scheduling.services import jobs, pool, windows
from tests import builders as b
from tests.api.calls import Caller, busy_world

pytestmark = pytest.mark.django_db

# Each address whose queries no other one has: the form of programs reads what that of merges does, and so on.
PATHS = (
    "/", "/jobs/", "/jobs/new/", "/jobs/{run}/", "/share/", "/nodes/n1/", "/artifacts/{model}/", "pool/",
    "pool/nodes/n1/", "pool/gpus/{gpu}/", "pool/windows/", "queues/", "jobs/", "jobs/{wait}/", "jobs/{run}/attempts/",
)  # fmt: skip


def written(act: Callable[[], object]) -> list[tuple[str, Any, bool]]:
    """The statements by which ``act`` changes rows, each with its values, or with many of them; all of it is undone."""
    found: list[tuple[str, Any, bool]] = []

    def noting(execute, sql, values, many, context):
        kind = sql.split(maxsplit=1)[0]
        assert kind in ("SELECT", "INSERT", "UPDATE", "DELETE", "SAVEPOINT", "RELEASE"), sql
        if kind in ("INSERT", "UPDATE", "DELETE"):
            found.append((sql, values, many))
        return execute(sql, values, many, context)

    with transaction.atomic():
        with connection.execute_wrapper(noting):
            act()
        transaction.set_rollback(True)
    assert found
    return found


class Life:
    """A pool at work, and a turn of what goes on there: nodes, jobs, windows and artifacts come and go."""

    def __init__(self) -> None:
        self.world, self.run = busy_world()
        self.alice, self.admin = self.world.who["alice"], self.world.who["admin"]
        self.waits = b.submitted(self.alice, b.merge_body(self.world.models, gpu_count=4, priority="Low"))
        self.gpu = self.run.gpus[0]
        self.written = written(self.turn)

    def goes_on(self) -> None:
        """A turn has been committed by somebody else, statement by statement as it was written once.

        PostgreSQL gives no number twice, so rows there would refer to others: the turn is taken anew.
        """
        if connection.vendor != "sqlite":
            self.turn()
            return
        for statement, values, many in self.written:
            with connection.cursor() as cursor:
                (cursor.executemany if many else cursor.execute)(statement, values)
        assert Node.objects.filter(name="n2").exists()

    def turn(self) -> None:
        """A node joins and gets a job, the one that ran ends, the one that waited is cancelled, and so on."""
        b.node("n2")
        jobs.cancel(self.waits, self.alice, b.NOON)
        b.finished(self.run)
        pool.operate("n1", "cordon", self.admin, b.NOON)
        job = b.submitted(self.alice, b.merge_body(self.world.models))
        b.ticked()
        assert AttemptNode.objects.get(attempt__job_id=job).node.name == "n2"
        b.model(self.alice, "more", 7)
        window = {"name": "w", "nodes": ["n2"], "start": b.later(5).isoformat(), "end": b.later(500).isoformat()}
        assert windows.add(window, self.admin, b.NOON)
        Gpu.objects.filter(node__name="n1").exclude(uuid=self.gpu).update(state="RETIRED")

    def path(self, pattern: str) -> str:
        """An address in which a job, a model or a GPU of it is named."""
        return pattern.format(run=self.run.job, wait=self.waits, model=self.world.models[0], gpu=self.gpu)


class Meanwhile:
    """After the ``nth`` query, ``act`` happens once."""

    def __init__(self, nth: int, act: Callable[[], object]) -> None:
        self.nth, self.act, self.seen = nth, act, 0

    def __call__(self, execute, sql, *rest):
        answer = execute(sql, *rest)
        if sql.lstrip().startswith("SELECT"):
            self.seen += 1
            if self.seen == self.nth:
                self.act()
        return answer


@pytest.mark.parametrize("pattern", PATHS)
def test_an_answer_stands_whatever_is_committed_between_its_queries(pattern):
    life = Life()
    caller = Caller(session="alice") if pattern.startswith("/") else life.world.alice
    path = life.path(pattern)
    caller.get(path)  # what is remembered is remembered
    nth, seen = 0, 1
    while nth <= seen:
        meanwhile = Meanwhile(nth, life.goes_on)
        with transaction.atomic():
            with connection.execute_wrapper(meanwhile):
                answer = caller.get(path)
            transaction.set_rollback(True)
        assert answer.status_code == 200, (nth, answer.content[:500])
        seen, nth = (meanwhile.seen if nth == 0 else seen), nth + 1
    assert seen > 1
