"""What people ask of the house: jobs of all sorts, at any time, and second thoughts about them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduling.services import jobs
from scheduling.services.jobs import Accepted
from scheduling.store.queries.access import Actor
from tests import builders as b
from tests.chaos.network import Down
from tests.chaos.program import Plan

if TYPE_CHECKING:
    from tests.chaos.house import House

MANNERS = ("saves", "saves", "saves", "saves", "ignores", "dies")


@dataclass
class Wish:
    """One job as it was asked for. ``job`` is its id, once the server has said so; ``cancelled``: somebody did that;
    ``before``: the wishes whose jobs come first; ``refused``: one of those had failed already."""

    name: str
    plan: Plan
    body: dict[str, Any]
    job: str = ""
    cancelled: bool = False
    before: tuple[Wish, ...] = ()
    refused: bool = False

    def asked(self) -> dict[str, Any]:
        """The body, once what comes before has ids: it waits for those and reads what the first of them made."""
        if not self.before:
            return self.body
        ids = [each.job for each in self.before]
        params = {**self.body["params"], "inputs": {"before": f"@{ids[0]}"}}
        return {**self.body, "after": ids, "params": params}


def wish(dice: random.Random, number: int) -> Wish:
    """Some job: on one GPU or several nodes, of any level, that behaves one way or another when asked to stop."""
    plan = Plan(dice.randrange(20, 110), dice.choice([20, 40, 80]), 1 + 20 * dice.random(), dice.choice(MANNERS))
    level = dice.choice(["Low", "Low", "Low", "Normal", "High", "Critical", "Critical"])
    shape = dice.choice([{"gpu_count": 1}, {"gpu_count": 2}, {"gpu_count": 2, "nvlink_required": True},
                         {"node_count": 2, "gpus_per_node": 1}, {"node_count": 3, "gpus_per_node": 2}])  # fmt: skip
    more = {"purpose": "regression_gate"} if level == "Critical" else {}
    body = {"kind": "command", "name": f"job-{number}", "project": "alpha", "queue": "merge", "priority": level,
            "max_duration": "30m", "retries": 4, "params": plan.params, **shape, **more}  # fmt: skip
    return Wish(f"job-{number}", plan, body)


class People:
    """They ask again until they have an answer, with one key a wish, so that asking twice is asking once."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.actor: Actor = b.people()["admin"]
        self.wishes: list[Wish] = []

    def ask(self, wanted: Wish) -> None:
        """The job will be submitted, sooner or later."""
        self.wishes.append(wanted)
        self._submit(wanted)

    def _submit(self, wanted: Wish) -> None:
        house = self.house
        if not all(each.job or each.refused for each in wanted.before):
            house.clock.after(5.0, lambda: self._submit(wanted))
            return
        wanted.refused = any(each.refused for each in wanted.before)
        if wanted.refused:
            return

        def verb() -> Any:
            return jobs.submit(wanted.asked(), self.actor, house.clock.wall, key=wanted.name)

        try:
            answer = house.server.serve(verb)
        except Down:
            house.clock.after(1 + 3 * house.dice.random(), lambda: self._submit(wanted))
            return
        if not isinstance(answer, Accepted) and {e["code"] for e in answer.errors} & {"did_not_succeed", "no_output"}:
            wanted.refused = True
            return
        if not isinstance(answer, Accepted):  # the nodes that it needs have not joined yet
            assert {error["code"] for error in answer.errors} <= {"no_capacity", "no_node"}, answer
            house.clock.after(10.0, lambda: self._submit(wanted))
            return
        wanted.job = str(answer.job_id)
        house.tell("acknowledged", job=wanted.job, epoch=0, pid=0, user="admin", key=wanted.name)

    def change_their_mind(self) -> None:
        """One of the jobs is cancelled, by force or not, or held and released again."""
        house = self.house
        known = [each for each in self.wishes if each.job]
        if not known:
            return
        wanted = house.dice.choice(known)
        try:
            if house.dice.random() < 0.5:
                force = house.dice.random() < 0.3
                moved = house.server.serve(lambda: jobs.cancel(wanted.job, self.actor, house.clock.wall, force=force))
                wanted.cancelled |= bool(moved and moved.lawful)
            else:
                house.server.serve(lambda: jobs.hold(wanted.job, self.actor, house.clock.wall))
                house.clock.after(30 * house.dice.random(), lambda: self._release(wanted))
        except Down:
            pass

    def _release(self, wanted: Wish) -> None:
        house = self.house
        try:
            house.server.serve(lambda: jobs.hold(wanted.job, self.actor, house.clock.wall, release=True))
        except Down:
            house.clock.after(3.0, lambda: self._release(wanted))
