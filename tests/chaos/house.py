"""A whole house on virtual time: the real services, ticks and agents' machines, and the faults between them."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

from django.conf import settings
from django.db import connection
from django.test.utils import override_settings

from scheduling.models import Event, Job
from scheduling.services import artifact_files, pool
from tests import builders as b
from tests.chaos import bell
from tests.chaos.clock import Clock
from tests.chaos.faults import Faults
from tests.chaos.network import Network
from tests.chaos.node import Node
from tests.chaos.people import People, Wish, wish
from tests.chaos.process import Process
from tests.chaos.program import chain
from tests.chaos.server import Server
from tests.checker.check import check_database
from workers.agent import messages as m

NODES = (("n1", 2, "r1"), ("n2", 2, "r1"), ("n3", 2, "r2"))
JOBS = 5
CHAINED = 3  # so many more come after others, be it after one of these
TROUBLE_S = 150.0
# Afterwards everything must come to its end: the longest work, retries' pauses and tests of GPUs included.
PATIENCE_S = 4 * 3600.0
ENDED = ("SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED")


@dataclass(frozen=True)
class Story:
    """What became of one seed; ``wrong`` is empty for a lawful one. ``events`` is a digest of all that was told."""

    seed: int
    wrong: tuple[str, ...]
    states: dict[str, int]
    kills: int
    virtual_s: float
    events: str


class House:
    """Everything there is. ``truth`` is what processes and agents say of themselves, for the checker."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.clock = Clock()
        self.network = Network(self.clock, self.dice)
        self.truth: list[dict[str, Any]] = []
        self.ranks: dict[tuple[str, int], dict[int, Process]] = {}
        self.pids = count(1)
        self.memory_mib = 80 * 10**9 // 2**20 + 1
        self.people = People(self)
        self.server = Server(self)
        self.nodes = [Node(self, *each) for each in NODES]
        self.faults = Faults(self)

    def tell(self, event: str, **more: Any) -> None:
        """A line of the truth."""
        wall = self.clock.wall.timestamp()
        self.truth.append({"event": event, "at": round(self.clock.boot, 4), "wall": round(wall, 4), **more})

    def description(self, node: Node, attempts: Any) -> dict[str, Any]:
        """What the node registers with."""
        return b.description(node.name, gpus=node.gpus, rack=node.rack, boot=node.boot_id, attempts=attempts)

    def rung(self, names: list[str]) -> None:
        """Bells that may be heard."""
        for node in self.nodes:
            if node.name in names and not (self.network.troubled and self.dice.random() < 0.3):
                self.clock.after(0.05 + self.dice.random(), partial(Node.feed, node, m.BellRang()))

    def open(self) -> None:
        """Nodes join, people come."""
        for node in self.nodes:
            pool.add_node(node.name)
        self.server.accept()
        self.server.look()
        for node in self.nodes:
            self.clock.after(3 * self.dice.random(), node.start_agent)
        asked: list[Wish] = []
        for number in range(JOBS + CHAINED):
            wanted = wish(self.dice, number)
            if number >= JOBS:
                wanted.before = tuple(self.dice.sample(asked, self.dice.choice([1, 1, 2])))
            asked.append(wanted)
            self.clock.after(0.7 * TROUBLE_S * self.dice.random(), partial(self.people.ask, wanted))
        for _ in range(3):
            self.clock.after(TROUBLE_S * self.dice.random(), self.people.change_their_mind)

    def unfinished(self) -> list[str]:
        """Jobs that have not come to their end."""
        return list(Job.objects.exclude(state__in=[*ENDED, "REJECTED"]).values_list("name", flat=True))

    def live(self) -> Iterator[str]:
        """The whole story; what is wrong in the end, in words."""
        self.open()
        self.faults.plan(TROUBLE_S)
        self.server.fragile = True
        self.clock.run(TROUBLE_S)
        self.server.fragile, self.network.troubled = False, False
        self.faults.heal()
        while self.clock.now < PATIENCE_S and (
            self.unfinished() or any(not w.job and not w.refused for w in self.people.wishes)
        ):
            self.clock.run(self.clock.now + 60)
        self.clock.run(self.clock.now + 60)
        yield from (f"never ended: {name}" for name in self.unfinished())
        yield from self._results()
        yield from check_database(
            connection.cursor(), now=self.clock.wall.timestamp(), settled=True, truth=self.truth,
            artifacts=settings.ARTIFACT_DIR,
        )  # fmt: skip

    def _results(self) -> Iterator[str]:
        """What succeeded has the undisturbed bytes; what did not has a reason that faults can give it."""
        for wanted in self.people.wishes:
            if wanted.refused:
                continue
            job = Job.objects.filter(pk=wanted.job).first()
            if job is None:
                yield f"{wanted.name} was acknowledged and is not there"
            elif job.state == "SUCCEEDED":
                outputs = [o.artifact for o in job.outputs.select_related("artifact")]
                right = chain(wanted.plan.steps).encode()
                if [artifact_files.blob(a.files[0]["sha256"]).read_bytes() for a in outputs] != [right]:
                    yield f"{wanted.name} succeeded with other bytes than an undisturbed run"
            elif job.state == "CANCELLED" and not wanted.cancelled and not _went_with(job):
                yield f"{wanted.name} is CANCELLED and nobody has asked for it"
            elif job.state == "FAILED" and not (job.app_failures > 4 or job.infra_failures > 5 or job.yields > 2):
                yield f"{wanted.name} FAILED with budget left: {job.error}"


def _went_with(job: Job) -> bool:
    """Whether one of the jobs that it was to wait for did not succeed."""
    return job.predecessors.filter(before__state__in=ENDED).exclude(before__state="SUCCEEDED").exists()


def story(seed: int, directory: Path) -> Story:
    """One seed, lived through in an empty database; the same seed gives the same story."""
    with _seeded(seed), override_settings(EMEP_BELL="tests.chaos.bell", ARTIFACT_DIR=directory):
        house = House(seed)
        bell.LISTENER[:] = [house.rung]
        try:
            wrong = tuple(house.live())
        finally:
            bell.LISTENER.clear()
        states: dict[str, int] = {}
        for state in Job.objects.values_list("state", flat=True):
            states[state] = states.get(state, 0) + 1
        told = Event.objects.order_by("id").values_list("at", "type", "object_id", "message")
        digest = hashlib.sha256(repr(list(told)).encode()).hexdigest()
        return Story(seed, wrong, states, house.faults.kills + house.server.deaths, house.clock.now, digest)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Identifiers come from the seed too: they decide who is first among equals."""
    dice = random.Random(f"ids {seed}")
    with mock.patch.object(os, "urandom", dice.randbytes):
        yield
