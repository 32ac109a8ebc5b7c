"""The demo: projects, people, nodes, real models and a data set. Running it again keeps everything that is there."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from scheduling.services import artifact_files, artifacts, pool
from scheduling.store import seed
from scheduling.store.queries import access

PROJECTS = (("alpha", 2.0), ("beta", 1.0))
MODELS = ("digits-0-4", "digits-5-9", "digits-base")
DATASETS = ("digits-test", "digits-search")
PEOPLE = {"alice": [("alpha", 3)], "bob": [("beta", 3)]}
RESEARCHER = ("jobs:read", "jobs:submit", "artifacts:read", "artifacts:write", "webhooks:write", "pool:read")
EVERYTHING = (*RESEARCHER, "jobs:submit:critical", "pool:operate", "admin")


def people() -> dict[str, dict[str, str]]:
    """Policy, projects, admin, alice and bob exist; returns password and token of those who are new."""
    seed.policy()
    for name, weight in PROJECTS:
        seed.project(name, weight=weight)
    fresh: dict[str, dict[str, str]] = {}
    for name in ("admin", *PEOPLE):
        password = secrets.token_urlsafe(12)
        if not seed.user(name, password, superuser=name == "admin", projects=PEOPLE.get(name, ())):
            continue
        user_id = seed.user_id(name)
        if user_id is not None:
            secret, _ = seed.token(user_id, "demo", EVERYTHING if name == "admin" else RESEARCHER, days=365)
            fresh[name] = {"password": password, "token": secret}
    return fresh


def node_token(name: str, file: Path) -> None:
    """The node exists and the token in ``file`` (mode 0600) is good for it; a token that still is good is kept."""
    if file.exists() and pool.is_token_of(name, file.read_text().strip()):
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(pool.add_node(name, renew=True))


@dataclass(frozen=True, slots=True)
class Made:
    """The ids of the demo's artifacts of project alpha, by their names."""

    models: dict[str, str]
    datasets: dict[str, str]


def store(folder: Path, now: datetime) -> Made:
    """Each directory in ``folder`` is an artifact of project alpha under its name: a data set if that is its name among
    the demo's, else a model."""
    owner_id = seed.user_id("alice") or seed.user_id("admin")
    actor = access.actor_by_id(owner_id) if owner_id is not None else None
    made = Made({}, {})
    for directory in sorted(p for p in folder.iterdir() if p.is_dir()):
        kind = "dataset" if directory.name in DATASETS else "model"
        kept = seed.artifact_named("alpha", directory.name)
        if kept is None and actor is not None:
            kept = _upload(artifacts.Owner(actor=actor), directory, kind, now)
        if kept is not None:
            (made.datasets if kind == "dataset" else made.models)[directory.name] = kept
    return made


def known() -> Made:
    """What of the demo is already an artifact of project alpha."""
    return Made(_known(MODELS), _known(DATASETS))


def _known(names: tuple[str, ...]) -> dict[str, str]:
    return {n: found for n in names if (found := seed.artifact_named("alpha", n)) is not None}


def _upload(owner: artifacts.Owner, directory: Path, kind: str, now: datetime) -> str:
    paths = sorted(p for p in directory.rglob("*") if p.is_file())
    entries: list[dict[str, Any]] = [
        {"path": str(p.relative_to(directory)), "size": p.stat().st_size, "sha256": artifact_files.digest(p)}
        for p in paths
    ]
    message = {"project": "alpha", "name": directory.name, "kind": kind, "files": entries,
               "meta": {"made_by": "the demo: digits, one base, two halves"}}  # fmt: skip
    opened = artifacts.begin(owner, message, now)
    if isinstance(opened, artifacts.Refusal):
        raise ValueError(f"demo {directory.name}: {opened.message}")
    for path, entry in zip(paths, entries, strict=True):
        if opened["have"].get(entry["path"]) != entry["size"]:
            with path.open("rb") as file:
                artifacts.put(owner, opened["upload"], entry["path"], 0, iter(lambda f=file: f.read(1 << 20), b""))  # type: ignore[misc]
    done = artifacts.commit(owner, opened["upload"], {}, now)
    if isinstance(done, artifacts.Refusal):
        raise ValueError(f"demo {directory.name}: {done.message}")
    return str(done["artifact"])
