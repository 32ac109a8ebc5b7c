"""Nodes as they register, and what each has kept of its work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F

from scheduling.core.policy import Policy
from scheduling.core.words import duration_in_words, gpus_in_words
from scheduling.models import AttemptNode, Event, Node, NodeLive
from scheduling.store import journal
from scheduling.store.commit import drains
from scheduling.store.commit.attempts import End
from scheduling.store.commit.gpus import described, owners
from scheduling.store.commit.locks import lock_live, lock_node
from scheduling.store.commit.parts import end_part, live_parts
from scheduling.store.node_names import named

# Of so many attempts that were taken back from a node it is looked whether they run on there.
LATELY_LOST = 100


@dataclass(frozen=True, slots=True)
class Overtaken:
    """A message that came too late; ``seq`` is that of the newest."""

    seq: int


@transaction.atomic
def register(
    name: str, description: Mapping[str, Any], *, now: datetime, policy: Policy
) -> tuple[list[str], list[str]] | Overtaken | None:
    """The node and its GPUs are as its agent describes them; returns (attempts to adopt, attempts to kill).

    None for an unknown node, and nothing happens for one whose newer words of this boot were here first: what it has
    been given since is not named in it. A live attempt that the node does not hold alive any more has ended LOST. GPUs
    are known by UUID: one that is not described any more is out of service until it is again and has passed its test.
    A GPU that another node owns moves to the node that reports it. A node that was closed stays so.
    """
    node = lock_node(name)
    if node is None:
        return None
    lock_live({name, *owners([g["uuid"] for g in description["gpus"]])})
    rebooted = node.boot_id != description["boot_id"]
    newest = NodeLive.objects.filter(node=node).values_list("seq", flat=True).first() or 0
    if not rebooted and 0 < description["seq"] <= newest:
        return Overtaken(newest)
    state, facts = drains.state_at_registration(node, rebooted=rebooted)
    Node.objects.filter(pk=node.pk).update(
        state=state, boot_id=description["boot_id"], rack_id=description["rack_id"],
        network_bandwidth_gbps=description["network_bandwidth_gbps"], labels=description["labels"],
        address=description["address"], agent_version=description["agent_version"],
        simulated=description["simulated"], left_out=description["left_out"], registered_at=now,
        version=F("version") + 1, **facts,
    )  # fmt: skip
    NodeLive.objects.update_or_create(
        node=node, defaults={"last_heartbeat_at": now, "seq": description["seq"], "leaving": False}
    )
    gpus = gpus_in_words(len(description["gpus"]))
    journal.write(
        [
            journal.Note(
                "node_registered", "node", name, actor=f"node {name}", node=name, version=node.version + 1,
                message=f"registered with {gpus}" + (" after a new boot" if rebooted else ""),
                data={"boot_id": description["boot_id"], "to": state, "simulated": description["simulated"]},
            )
        ],
        now,
    )  # fmt: skip
    adopt, kill = _reconcile(node, description["attempts"], now=now, policy=policy)
    described(node, description["gpus"], boot_id=description["boot_id"], now=now, policy=policy)
    return adopt, kill


def _reconcile(
    node: Node, held: Sequence[Mapping[str, Any]], *, now: datetime, policy: Policy
) -> tuple[list[str], list[str]]:
    """Which attempts the node keeps and which it kills; live ones it doesn't hold alive have ended LOST.

    Of one that was taken back and runs there all the same the timeline tells for how long.
    """
    alive = {str(h["attempt"]): int(h["epoch"]) for h in held if h.get("pid_alive", True)}
    adopt: list[str] = []
    for part in live_parts(node.pk):
        attempt = part.attempt
        if alive.get(str(attempt.pk)) == attempt.epoch:
            adopt.append(str(attempt.pk))
        elif part.claimed_at is not None:
            how = End("LOST", error=f"{named(node.name)} came back without it", why="lost", data={"cause": "not_held"})
            end_part(attempt.pk, attempt.epoch, node.name, how, now=now, actor=f"node {node.name}", policy=policy)
    run = {str(h["attempt"]): int(h["epoch"]) for h in held if h.get("runs") and str(h["attempt"]) not in adopt}
    _tell_of_those_that_ran_on(node, run, now)
    return adopt, [str(h["attempt"]) for h in held if str(h["attempt"]) not in adopt]


def _tell_of_those_that_ran_on(node: Node, run: Mapping[str, int], now: datetime) -> None:
    """Each of these attempts that had ended LOST on the node, which did not know: it runs there until now. Once: a node
    whose registration is not answered registers again."""
    if not run:
        return
    told = set(Event.objects.filter(type="ran_on", node=node.name).values_list("attempt", flat=True))
    lost = AttemptNode.objects.filter(node=node, outcome="LOST").select_related("attempt__job__project")
    notes = []
    for part in lost.order_by("-ended_at")[:LATELY_LOST]:
        attempt, job = part.attempt, part.attempt.job
        if part.ended_at is None or run.get(str(attempt.pk)) != attempt.epoch or attempt.pk in told:
            continue
        ran_on_s = max(0, round((now - part.ended_at).total_seconds()))
        words = (
            f"{named(node.name)} is heard of again: attempt {attempt.number} still ran there, "
            f"{duration_in_words(ran_on_s)} after it had been taken back; it is stopped, and nothing that it did "
            "in that time counts"
        )
        notes.append(
            journal.Note(
                "ran_on", "job", str(job.pk), actor=f"node {node.name}", node=node.name, version=job.version,
                project=job.project.name if job.project else "", attempt=attempt.pk, epoch=attempt.epoch, message=words,
                data={"ran_on_s": ran_on_s},
            )
        )  # fmt: skip
    journal.write(notes, now)
