"""The world of a test, made by plain calls: policy, people, nodes, models, jobs. Nothing here asserts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from django.contrib.auth import get_user_model
from django.utils import timezone
from safetensors.numpy import save

from scheduling.models import Attempt, Availability, NodeLive
from scheduling.services import artifacts, jobs, pipelines, pool, sets, sweeps, tick
from scheduling.services.jobs import Accepted
from scheduling.store import seed
from scheduling.store.queries.access import Actor, actor_of
from tests.remembered import Remembered
from workers.model_families import FAMILIES
from workers.protocol import PROTOCOL_VERSION

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
PASSWORD = "correct horse battery"


def later(seconds: float) -> datetime:
    """``seconds`` after noon."""
    return NOON + timedelta(seconds=seconds)


@Remembered
def people() -> dict[str, Actor]:
    """The specification's policy, projects alpha (weight 2) and beta (1), and admin, alice (alpha), bob (beta)."""
    seed.policy()
    seed.project("alpha", weight=2.0)
    seed.project("beta", weight=1.0)
    seed.user("admin", PASSWORD, superuser=True)
    seed.user("alice", PASSWORD, projects=[("alpha", 3)])
    seed.user("bob", PASSWORD, projects=[("beta", 3)])
    return {name: actor_of(get_user_model().objects.get(username=name)) for name in ("admin", "alice", "bob")}


def description(
    name: str,
    *,
    gpus: int = 4,
    memory_gb: int = 80,
    groups: bool = True,
    wide: str | None = None,
    rack: str = "r1",
    boot: str = "boot-1",
    attempts: Iterable[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The registration of a node whose GPUs are one NVLink group, or lie in that of several nodes named ``wide``."""
    return {
        "boot_id": boot,
        "protocol": PROTOCOL_VERSION,
        "agent_version": "test",
        "address": "127.0.0.1",
        "rack_id": rack,
        "network_bandwidth_gbps": 100.0,
        "labels": {},
        "simulated": True,
        "attempts": list(attempts),
        "gpus": [
            {
                "uuid": f"GPU-{name}-{i}",
                "index": i,
                "model": f"Test {memory_gb}GB",
                "memory_mib": memory_gb * 10**9 // 2**20 + 1,
                "nvlink_group_id": wide or (f"{name}-nv" if groups else None),
            }
            for i in range(gpus)
        ],
    }


def node(name: str = "n1", *, now: datetime = NOON, **kw: Any) -> str:
    """A registered node; returns its token."""
    token = pool.add_node(name, renew=True)
    pool.accepting(now)
    pool.register(name, description(name, **kw), now)
    return token


def listening(until: float, start: float = 0) -> None:
    """A web process has been accepting heartbeats from ``start`` to ``until`` seconds after noon without a gap."""
    pool.accepting(later(start))
    # What is told every few seconds moves nothing else on than the time of the last word.
    Availability.objects.filter(last_seen_at__lt=later(until)).update(last_seen_at=later(until))


def quiet(seconds: float, *names: str) -> datetime:
    """A web process listens for an hour before the present and after it; by now these nodes have been silent for so
    long, and the others not at all. Returns the present."""
    present = timezone.now()
    Availability.objects.update(since=present - timedelta(hours=1), last_seen_at=present + timedelta(hours=1))
    NodeLive.objects.update(last_heartbeat_at=present)
    NodeLive.objects.filter(node__name__in=names).update(last_heartbeat_at=present - timedelta(seconds=seconds))
    return present


def beat(
    name: str = "n1",
    *,
    now: datetime = NOON,
    boot: str = "boot-1",
    reports: Iterable[Mapping[str, Any]] = (),
    **kw: Any,
) -> Any:
    """A heartbeat of the node; returns the reply."""
    message = {
        "boot_id": boot,
        "seq": 1,
        "disk_low": False,
        "draining": False,
        "gpus": None,
        "attempts": [],
        "reports": [{"n": i, **r} for i, r in enumerate(reports)],
        **kw,
    }
    return pool.heartbeat(name, message, now)


def tensors(seed_: int = 0, shapes: Mapping[str, tuple[int, ...]] | None = None) -> bytes:
    """The bytes of a small safetensors file."""
    rng = np.random.default_rng(seed_)
    return save(
        {
            n: rng.standard_normal(s).astype(np.float32)
            for n, s in (shapes or {"fc.weight": (4, 3), "fc.bias": (4,)}).items()
        }
    )


def _agreed(answer: Any) -> dict[str, Any]:
    """The answer, which is no refusal; fails loudly with it otherwise."""
    if not isinstance(answer, dict):
        raise TypeError(str(answer))
    return answer


def artifact(
    actor: Actor,
    name: str,
    files: Mapping[str, bytes],
    *,
    project: str = "alpha",
    kind: str = "model",
    now: datetime = NOON,
) -> str:
    """An uploaded, committed artifact; returns its id."""
    owner = artifacts.Owner(actor=actor)
    entries = [{"path": p, "size": len(b), "sha256": hashlib.sha256(b).hexdigest()} for p, b in files.items()]
    opened = _agreed(artifacts.begin(owner, {"project": project, "name": name, "kind": kind, "files": entries}, now))
    for path, content in files.items():
        if opened["have"].get(path) != len(content):
            artifacts.put(owner, opened["upload"], path, 0, iter([content]))
    return str(_agreed(artifacts.commit(owner, opened["upload"], {}, now))["artifact"])


def model(
    actor: Actor,
    name: str,
    seed_: int = 0,
    *,
    project: str = "alpha",
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> str:
    """A small model as an artifact; returns its id."""
    return artifact(actor, name, {"model.safetensors": tensors(seed_, shapes), "config.json": b"{}"}, project=project)


def mlp(
    actor: Actor, name: str, seed_: int = 0, *, sizes: Sequence[int] = (64, 256, 128, 64, 10), project: str = "alpha",
    config: bytes | None = None,
) -> str:  # fmt: skip
    """A classifier of the family mlp whose ``config.json`` says what it is, or ``config`` instead; returns its id."""
    said = {"model_type": "mlp", "layer_sizes": list(sizes), "activation": "relu"}
    weights = tensors(seed_, FAMILIES["mlp"].shapes(said))
    files = {"model.safetensors": weights, "config.json": json.dumps(said).encode() if config is None else config}
    return artifact(actor, name, files, project=project)


def dataset(actor: Actor, name: str, *, content: bytes = b"", file: str = "test.jsonl", project: str = "alpha") -> str:
    """A data set of one file; returns its id."""
    return artifact(actor, name, {file: content}, kind="dataset", project=project)


def evaluate_body(model: str, dataset: str, **kw: Any) -> dict[str, Any]:
    """The body of an evaluation on one GPU."""
    params = {"model": model, "dataset": dataset, **kw.pop("params", {})}
    return {
        "kind": "evaluate", "name": "digits", "project": "alpha", "queue": "eval", "priority": "Normal",
        "gpu_count": 1, "max_duration": "1h", "params": params, **kw,
    }  # fmt: skip


def evolve_body(models: Iterable[str], search: str, **kw: Any) -> dict[str, Any]:
    """The body of a search over one t on one GPU; ``params`` change that."""
    params = {
        "merge": {"strategy": "slerp", "models": list(models)}, "space": [{"name": "t", "low": 0, "high": 1}],
        "objective": {"dataset": search}, "budget": 40, **kw.pop("params", {}),
    }  # fmt: skip
    return {
        "kind": "evolve", "name": "search", "project": "alpha", "queue": "merge", "priority": "Normal",
        "gpu_count": 1, "max_duration": "1h", "params": params, **kw,
    }  # fmt: skip


def infer_body(model: str, rows: str, **kw: Any) -> dict[str, Any]:
    """The body of a batch inference on one GPU."""
    params = {"model": model, "input": rows, **kw.pop("params", {})}
    return {
        "kind": "infer", "name": "digits", "project": "alpha", "queue": "inference", "priority": "Normal",
        "gpu_count": 1, "max_duration": "1h", "params": params, **kw,
    }  # fmt: skip


def merge_body(models: Iterable[str], **kw: Any) -> dict[str, Any]:
    """The body of a SLERP merge on 2 GPUs of one NVLink group."""
    params = {"strategy": "slerp", "t": 0.5, "models": list(models), **kw.pop("params", {})}
    return {
        "kind": "merge",
        "name": "slerp-a-b",
        "project": "alpha",
        "queue": "merge",
        "priority": "Normal",
        "gpu_count": 2,
        "nvlink_required": True,
        "max_duration": "1h",
        "params": params,
        **kw,
    }


def command_body(**kw: Any) -> dict[str, Any]:
    """The body of a job that runs a program on 2 GPUs."""
    return {
        "kind": "command",
        "name": "train",
        "project": "alpha",
        "queue": "merge",
        "priority": "Normal",
        "gpu_count": 2,
        "max_duration": "1h",
        "params": {"argv": ["python", "train.py"]},
        **kw,
    }


def submitted(actor: Actor, body: Mapping[str, Any], *, now: datetime = NOON, key: str | None = None) -> str:
    """The id of the accepted job; fails loudly with the reasons otherwise."""
    result = jobs.submit(body, actor, now, key=key)
    if not isinstance(result, Accepted):
        raise TypeError(json.dumps(getattr(result, "errors", str(result)), default=str, indent=1))
    return str(result.job_id)


def a_set(actor: Actor, kind: str, *, now: datetime = NOON) -> str:
    """The id of a pipeline or a sweep of two jobs that run programs."""
    body: dict[str, Any] = {"jobs": [{"key": "a", **command_body()}, {"key": "b", "after": ["a"], **command_body()}]}
    if kind == "pipeline":
        made = pipelines.submit(body, actor, now)
    else:
        made = sweeps.submit({"job": command_body(), "over": {"gpu_count": [1, 2]}}, actor, now)
    if not isinstance(made, sets.Made):
        raise TypeError(str(made))
    return str(made.set_id)


def ticked(now: datetime = NOON, holder: str = "test") -> tick.TickResult:
    """One tick of the scheduler."""
    return tick.run_tick(holder, now)


@dataclass(frozen=True)
class Running:
    """A job whose attempt runs on ``node``."""

    job: str
    attempt: str
    epoch: int
    node: str
    gpus: list[str]


def running(actor: Actor, models: Iterable[str], *, now: datetime = NOON, node: str = "n1", **kw: Any) -> Running:
    """A submitted job that was granted, claimed and started."""
    job = submitted(actor, merge_body(models, **kw), now=now)
    ticked(now)
    granted = str(Attempt.objects.get(job_id=job, ended_at__isnull=True).pk)
    wanted = next(each for each in beat(node, now=now)["desired"] if each["attempt"] == granted)
    launch = _agreed(pool.claim(node, wanted["attempt"], wanted["epoch"], now))
    beat(node, now=now, reports=[{"type": "started", "attempt": wanted["attempt"], "epoch": wanted["epoch"], "pid": 1}])
    return Running(job, wanted["attempt"], wanted["epoch"], node, launch["gpus"])


@dataclass(frozen=True)
class Lab:
    """People, the token of node n1 with 4 GPUs, and two models of alpha."""

    who: dict[str, Actor]
    node_token: str
    models: list[str]


@Remembered
def lab() -> Lab:
    """What most tests begin with: nothing runs, nothing waits."""
    who = people()
    token = node("n1")
    return Lab(who, token, [model(who["alice"], "a", 1), model(who["alice"], "b", 2)])


@Remembered
def busy_lab() -> tuple[Lab, Running]:
    """The lab, with a merge of alice's two models running on 2 of its GPUs."""
    made = lab()
    return made, running(made.who["alice"], made.models)


@Remembered
def full_lab() -> tuple[Lab, Running]:
    """The lab, with a merge of alice's of level Low running on all 4 of its GPUs."""
    made = lab()
    return made, running(made.who["alice"], made.models, priority="Low", gpu_count=4)


def output(
    run: Running, name: str = "merged", content: bytes | None = None, *, now: datetime = NOON, kind: str = "model",
    meta: Mapping[str, Any] | None = None,
) -> str:  # fmt: skip
    """An artifact that the running attempt has committed; returns its id."""
    owner = artifacts.Owner(node=run.node, attempt=run.attempt, epoch=run.epoch)
    content = tensors(9) if content is None else content
    path = "model.safetensors" if kind == "model" else "experiment.json"
    sha = hashlib.sha256(content).hexdigest()
    files = [{"path": path, "size": len(content), "sha256": sha}]
    opened = _agreed(artifacts.begin(owner, {"name": name, "kind": kind, "files": files, "meta": meta or {}}, now))
    artifacts.put(owner, opened["upload"], path, 0, iter([content]))
    return str(_agreed(artifacts.commit(owner, opened["upload"], {"sha256": {path: sha}}, now))["artifact"])


def finished(run: Running, outcome: str = "SUCCEEDED", *, now: datetime = NOON, **kw: Any) -> Any:
    """The answer to the attempt's last report."""
    report = {"type": "finished", "attempt": run.attempt, "epoch": run.epoch, "outcome": outcome, "exit_code": 0, **kw}
    return beat(run.node, now=now, reports=[report])["answers"][0]
