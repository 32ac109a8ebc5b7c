"""Which priorities may this person ask for, and in which of their projects?"""

from __future__ import annotations

from scheduling.core.request import Rights, may_ask
from scheduling.store import load
from scheduling.store.queries import access
from scheduling.store.queries.access import Actor


def permitted(actor: Actor) -> dict[str, tuple[str, ...]]:
    """By the name of each priority that a queue has: the actor's projects in which a job may have it, in their order;
    none where it would be refused in each."""
    policy = load.policy_of()
    rights = {
        project: Rights(levels_cap=access.level_cap(actor, project), may_critical=actor.may_critical)
        for project in actor.projects
    }
    levels = [level for queue in policy.queues for level in queue.levels]
    found: dict[str, tuple[str, ...]] = {level.name: () for level in levels}
    for name in found:
        asked = [level for level in levels if level.name == name]
        found[name] = tuple(
            project for project, held in rights.items() if any(may_ask(policy, held, level) for level in asked)
        )
    return found
