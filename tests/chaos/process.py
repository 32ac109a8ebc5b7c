"""A job's process on a node, and the directory it writes into; it tells the truth to the checker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.chaos.program import Plan, chain, link
from workers.agent.messages import Saved, StopAsked
from workers.agent.outcome import Exit, Facts
from workers.agent.statedir import Ref
from workers.protocol import Launch

if TYPE_CHECKING:
    from tests.chaos.node import Node

STEP_S = 10  # so many steps are told at once
ORPHAN_S = 7.0  # a rank whose peers are gone gives up by itself after that, if it does


@dataclass
class Directory:
    """What lies on the node's disk of one attempt; it survives the agent, the keeper and the node's power."""

    launch: Launch | None = None
    told_to_start: bool = False
    born: tuple[int, float, str] | None = None  # pid, boot-time clock, boot id
    status: Exit | None = None
    report: dict[str, Any] | None = None
    stop: StopAsked | None = None
    events: list[dict[str, Any] | Saved] = field(default_factory=list)
    kept: int = 0
    text: str = ""
    checkpoint: tuple[int, str] | None = None
    declared: bool = False
    output: bytes | None = None
    done: bool = False
    port: int = 0
    upload_until: tuple[float, str] | None = None  # boot-time clock, boot id

    def facts(self) -> Facts:
        """What the job has declared, as its end is judged by."""
        since = self.stop.events_offset if self.stop is not None else None
        saves = [n for n, event in enumerate(self.events) if isinstance(event, Saved)]
        outputs = ({"name": "result", "path": "result", "kind": "output"},) if self.output is not None else ()
        return Facts(
            done=self.done,
            last_path="." if self.declared else None,
            checkpoint_after_stop=since is not None and any(n >= since for n in saves),
            last_step=self.checkpoint[0] if self.checkpoint else None,
            artifacts=outputs,
        )


class Process:
    """One rank at work: a step a second, together with its peers on other nodes where it has any."""

    def __init__(self, node: Node, ref: Ref, directory: Directory, pid: int) -> None:
        assert directory.launch is not None
        self.node, self.ref, self.directory, self.pid = node, ref, directory, pid
        self.launch = directory.launch
        self.plan = Plan.of(self.launch["params"])
        self.alive, self.asked, self.hung_since = True, False, -1.0
        self.step, self.state = directory.checkpoint or (0, "")
        self.house = node.house
        self._tell("resumed") if self.launch["resume"] else None
        self._tell("start", gpus=list(self.launch["gpus"]))
        self.house.ranks.setdefault((ref.attempt, ref.epoch), {})[self.launch["node_rank"]] = self
        self.house.clock.after(STEP_S, self._work)

    @property
    def leads(self) -> bool:
        return self.launch["node_rank"] == 0

    def _tell(self, event: str, **more: Any) -> None:
        self.house.tell(event, job=self.launch["job"], epoch=self.ref.epoch, pid=self.pid, **more)

    def _peers_are_here(self) -> bool:
        ranks = self.house.ranks[self.ref.attempt, self.ref.epoch]
        return len(ranks) == self.launch["node_count"] and all(r.alive or r.directory.done for r in ranks.values())

    def _work(self) -> None:
        if not self.alive:
            return
        clock = self.house.clock
        if self.launch["node_count"] > 1 and not self._peers_are_here():
            self.hung_since = clock.now if self.hung_since < 0 else self.hung_since
            if clock.now - self.hung_since > ORPHAN_S and self.house.dice.random() < 0.5:
                self.end(Exit(1, None, "exit", "connection closed by peer"))  # as a collective does that fails
                return
            clock.after(STEP_S, self._work)
            return
        for _ in range(min(STEP_S, self.plan.steps - self.step)):
            self.state, self.step = link(self.state, self.step), self.step + 1
        if self.leads:
            self._tell("step", step=self.step)
            told = {"type": "progress", "step": self.step, "total": self.plan.steps, "unit": "step"}
            self.directory.events.append(told)
        if self.step >= self.plan.steps:
            self._finish()
            return
        if self.step % self.plan.save_every < STEP_S:
            self._save()
        clock.after(STEP_S, self._work)

    def _save(self) -> None:
        """The checkpoint is whole where the contract wants it, and declared; each rank tells its log."""
        self.directory.text += f"step {self.step}\n"
        if not self.leads:
            return
        self.directory.checkpoint, self.directory.declared = (self.step, self.state), True
        self._tell("saved", step=self.step)
        self.directory.events.append(Saved(".", self.step))

    def _finish(self) -> None:
        assert self.state == chain(self.plan.steps) or not self.leads
        if self.leads:
            self.directory.output = self.state.encode()
        self.directory.done = True
        self.end(Exit(0))

    def term(self) -> None:
        """SIGTERM to it: the first one counts."""
        if not self.alive or self.asked:
            return
        self.asked = True
        if self.plan.manner == "dies":
            self.end(Exit(None, 15))
        elif self.plan.manner == "saves":
            self.house.clock.after(self.plan.save_s, self._leave)

    def _leave(self) -> None:
        if self.alive:
            self._save()
            self.end(Exit(85))

    def kill(self, cause: str = "kill") -> None:
        """SIGKILL to all of it."""
        if self.alive:
            self.end(Exit(None, 9, cause), seen_dead=True)

    def end(self, how: Exit, *, seen_dead: bool = False) -> None:
        """It is gone; the keeper, if there is one, writes down how."""
        self.alive = False
        self._tell("died" if seen_dead or how.signal else "end")
        self.node.buried(self.ref, how)
