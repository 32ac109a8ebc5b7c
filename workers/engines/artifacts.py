"""ArtifactStore on a local disk: directories in and out by the digest of their content.

Layout under the root: ``objects/ab/cdef…`` blobs by sha256, ``manifests/`` canonical manifests by digest,
``records/`` what is known beside the bytes (kind, lineage, metadata), ``tmp/`` what is being written.
A reader never sees half an artifact: blobs first, then the manifest, then the record, each by rename.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

from workers.engines.durable import named_when_full, sync_directory, write_file
from workers.engines.merging import ENGINE_VERSION, Candidate
from workers.engines.planning import plan_output
from workers.engines.producing import produce
from workers.engines.refusals import EngineRefusal
from workers.engines.writing import PlannedWriter
from workers.protocol import FileEntry, UnsafePath, canonical_manifest, check_path, manifest_digest

_READ = 1 << 20


@dataclass(frozen=True, slots=True)
class Artifact:
    """One stored artifact: its id, files, total size in bytes, kind, and what was said about it."""

    id: str
    files: tuple[FileEntry, ...]
    size: int
    kind: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Damage:
    """A file of an artifact that is ``missing`` or ``corrupt`` in the store."""

    path: str
    what: Literal["missing", "corrupt"]


class ArtifactStore:
    """A content-addressed store under ``root``: equal contents have one id and are kept once."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        for name in ("objects", "manifests", "records", "tmp"):
            (self.root / name).mkdir(parents=True, exist_ok=True)

    def put(self, path: Path | str, kind: str = "model", *, metadata: Mapping[str, Any] | None = None) -> str:
        """Store a file or a directory; returns its id. Putting the same content again changes nothing.

        Refuses symbolic links, special files and unsafe names (``unsafe_path``) and an empty directory.
        """
        source = Path(path)
        rows = list(_regular_files(source))
        if not rows:
            raise EngineRefusal("empty_artifact", f"{source.name!r} holds no file", {"path": source.name})
        files = [self._put_blob(file, name) for name, file in rows]
        artifact_id = manifest_digest(files)
        if not self._manifest(artifact_id).exists():
            write_file(self._manifest(artifact_id), canonical_manifest(files))
        if not self._record(artifact_id).exists():
            record = {"kind": kind, "metadata": dict(metadata or {})}
            write_file(self._record(artifact_id), json.dumps(record, sort_keys=True).encode())
        return artifact_id

    def store(self, candidate: Candidate, parents: Sequence[str] = (), *, max_shard_size: int | None = None) -> str:
        """Compute ``candidate`` and put it with its lineage (``parents``: ids of the models in order, a base last)."""
        lineage = {"parents": list(parents), "recipe": candidate.recipe(), "engine_version": ENGINE_VERSION}
        plan = plan_output(
            candidate.outputs, metadata=candidate.metadata, identity=lineage, max_shard_size=max_shard_size
        )
        with self._scratch() as scratch:
            writer = PlannedWriter(plan, scratch / "work")
            try:
                writer.open()
                produce(candidate, writer)
                writer.publish(scratch / "merged")
            finally:
                writer.close()
            return self.put(scratch / "merged", "model", metadata=lineage)

    def stat(self, artifact_id: str) -> Artifact:
        """What is stored under ``artifact_id``; refuses with ``not_found``."""
        manifest = self._manifest(artifact_id)
        if not manifest.exists():
            raise EngineRefusal("not_found", f"there is no artifact {artifact_id[:80]!r}", {"artifact": artifact_id})
        files = tuple(json.loads(manifest.read_bytes())["files"])
        record = json.loads(self._record(artifact_id).read_bytes())
        return Artifact(artifact_id, files, sum(f["size"] for f in files), record["kind"], record["metadata"])

    def exists(self, artifact_id: str) -> bool:
        """Is it stored, bytes and record?"""
        return self._manifest(artifact_id).exists() and self._record(artifact_id).exists()

    def list(self, kind: str | None = None) -> tuple[Artifact, ...]:
        """All artifacts (of ``kind``), by id."""
        ids = sorted(f"sha256:{p.stem}" for p in (self.root / "records").glob("*.json"))
        return tuple(a for a in map(self.stat, ids) if kind in (None, a.kind))

    def open(self, artifact_id: str, path: str) -> BinaryIO:
        """One file of an artifact, open for reading; the caller closes it."""
        return self._blob(self._entry(artifact_id, path)["sha256"]).open("rb")

    def get(self, artifact_id: str, destination: Path | str) -> Path:
        """Lay the artifact out as the new directory ``destination``, every digest checked; all or nothing."""
        target = Path(destination)
        artifact = self.stat(artifact_id)
        if target.exists():
            raise EngineRefusal("exists", f"{target.name!r} exists; give a new directory", {"path": target.name})
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            for entry in artifact.files:
                self._lay_out(entry, beside / check_path(entry["path"]))
            beside.chmod(0o755)
            beside.rename(target)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        sync_directory(target.parent)
        return target

    def lineage(self, artifact_id: str, direction: Literal["up", "down"] = "up") -> tuple[str, ...]:
        """Ancestors (``up``) or descendants (``down``), nearest first, each once."""
        children: dict[str, list[str]] = {}
        parents = {a.id: [str(p) for p in a.metadata.get("parents", [])] for a in self.list()}
        for child, above in parents.items():
            for parent in above:
                children.setdefault(parent, []).append(child)
        edges = parents if direction == "up" else children
        found: list[str] = []
        frontier = [self.stat(artifact_id).id]
        while frontier:
            frontier = [n for n in dict.fromkeys(n for f in frontier for n in edges.get(f, [])) if n not in found]
            found += frontier
        return tuple(found)

    def verify(self, artifact_id: str) -> tuple[Damage, ...]:
        """Read every byte again; what is damaged, empty when all is well."""
        damaged: list[Damage] = []
        for entry in self.stat(artifact_id).files:
            blob = self._blob(entry["sha256"])
            if not blob.exists():
                damaged.append(Damage(entry["path"], "missing"))
            elif _digest(blob) != entry["sha256"]:
                damaged.append(Damage(entry["path"], "corrupt"))
        return tuple(damaged)

    def _put_blob(self, source: Path, name: str) -> FileEntry:
        with self._scratch() as scratch:
            copy = scratch / "blob"
            with named_when_full(source, source.stat().st_size), source.open("rb") as file, copy.open("wb") as out:
                digest, size = _copy(file, out)
                os.fsync(out.fileno())
            blob = self._blob(digest)
            if not blob.exists() or blob.stat().st_size != size:
                blob.parent.mkdir(parents=True, exist_ok=True)
                copy.chmod(0o444)
                copy.rename(blob)
                sync_directory(blob.parent)
        return {"path": name, "size": size, "sha256": digest}

    def _lay_out(self, entry: FileEntry, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        blob = self._blob(entry["sha256"])
        if not blob.exists():
            raise EngineRefusal("corrupt_artifact", f"the bytes of {entry['path']!r} are gone", {"path": entry["path"]})
        with named_when_full(path, entry["size"]), blob.open("rb") as file, path.open("wb") as out:
            digest, _ = _copy(file, out)
            os.fsync(out.fileno())
        if digest != entry["sha256"]:
            raise EngineRefusal(
                "corrupt_artifact", f"the stored bytes of {entry['path']!r} have changed", {"path": entry["path"]}
            )

    def _entry(self, artifact_id: str, path: str) -> FileEntry:
        for entry in self.stat(artifact_id).files:
            if entry["path"] == path:
                return entry
        raise EngineRefusal("not_found", f"the artifact has no file {path[:200]!r}", {"path": path[:200]})

    def _blob(self, digest: str) -> Path:
        return self.root / "objects" / digest[:2] / digest[2:]

    def _manifest(self, artifact_id: str) -> Path:
        return self.root / "manifests" / f"{_hex(artifact_id)}.json"

    def _record(self, artifact_id: str) -> Path:
        return self.root / "records" / f"{_hex(artifact_id)}.json"

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=self.root / "tmp") as name:
            yield Path(name)


def _regular_files(source: Path) -> Iterable[tuple[str, Path]]:
    if source.is_symlink():
        raise _unsafe(source.name, "is a symbolic link")
    if source.is_file():
        return [(_checked(source.name), source)]
    if not source.is_dir():
        raise EngineRefusal("not_found", f"there is no file or directory {source.name!r}", {"path": source.name})
    rows = []
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source).as_posix()
        if path.is_symlink():
            raise _unsafe(name, "is a symbolic link")
        if path.is_file():
            rows.append((_checked(name), path))
        elif not path.is_dir():
            raise _unsafe(name, "is neither a file nor a directory")
    return rows


def _checked(name: str) -> str:
    try:
        return check_path(name)
    except UnsafePath as error:
        raise _unsafe(name, str(error)) from error


def _unsafe(name: str, why: str) -> EngineRefusal:
    return EngineRefusal("unsafe_path", f"{name[:200]!r} {why}; it can't be part of an artifact", {"path": name[:200]})


def _hex(artifact_id: str) -> str:
    digest = artifact_id.removeprefix("sha256:")
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise EngineRefusal("not_found", f"{artifact_id[:80]!r} is not an artifact id", {"artifact": artifact_id[:80]})
    return digest


def _copy(source: BinaryIO, target: BinaryIO) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    while chunk := source.read(_READ):
        digest.update(chunk)
        target.write(chunk)
        size += len(chunk)
    target.flush()
    return digest.hexdigest(), size


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
