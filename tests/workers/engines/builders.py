"""Models, files and candidates for the engines' tests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from workers.engines.merging import Candidate, MergeEngine
from workers.engines.planning import OutputPlan, plan_output
from workers.engines.producing import produce
from workers.engines.refusals import EngineRefusal
from workers.engines.tensors import load_tensors
from workers.engines.writing import PlannedWriter
from workers.merge_params import check_merge, merge_references
from workers.merge_recipe import recipe_of

PT = {"format": "pt"}


def model(directory: Path, tensors: Mapping[str, Any], **files: str) -> Path:
    """A model directory: lists become float32 tensors; ``files`` are further files by name (``_`` for ``.``)."""
    directory.mkdir(parents=True, exist_ok=True)
    made = {n: t if isinstance(t, torch.Tensor) else torch.tensor(t, dtype=torch.float32) for n, t in tensors.items()}
    save_file(made, directory / "model.safetensors", metadata=PT)
    for name, content in files.items():
        (directory / name.replace("_", ".")).write_text(content)
    return directory


def random_model(directory: Path, seed: int, dtype: torch.dtype = torch.float32, scale: int = 1) -> Path:
    """Six tensors of different shape, one scalar and one of integers that is equal for every seed."""
    g = torch.Generator().manual_seed(seed)
    shapes = {"a.weight": (40 * scale, 33), "a.bias": (40,), "b.weight": (7, 5, 3), "z": (), "ü.w": (257,)}
    tensors = {n: torch.randn(s, generator=g).to(dtype) for n, s in shapes.items()}
    return model(directory, {**tensors, "position_ids": torch.arange(9)})


def header_bytes(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file with this header, true or not; ``length`` overrides the length prefix."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(raw) if length is None else length).to_bytes(8, "little") + raw + data


def candidate(
    first: Path, *others: Path, strategy: str = "slerp", chunk: int = 1 << 20, base: Path | None = None, **params: Any
) -> Candidate:
    """The candidate of merging these models, with ``base`` as what they were tuned from."""
    sources = [first, *others] if base is None else [first, *others, base]
    return MergeEngine(chunk=chunk).merge(strategy, load_tensors(*sources, based=base is not None), params)


def merged(made: Candidate) -> dict[str, torch.Tensor]:
    """Every output tensor of a candidate."""
    return {spec.name: made.tensor(spec.name) for spec in made.outputs}


def plan_of(made: Candidate, identity: str = "x", max_shard_size: int | None = None) -> OutputPlan:
    """A plan for a candidate."""
    return plan_output(made.outputs, metadata=made.metadata, identity={"of": identity}, max_shard_size=max_shard_size)


def written(made: Candidate, directory: Path, max_shard_size: int | None = None) -> list[Path]:
    """The candidate, computed and published under ``directory / "out"``."""
    writer = PlannedWriter(plan_of(made, max_shard_size=max_shard_size), directory / "work")
    writer.open()
    produce(made, writer)
    return writer.publish(directory / "out")


def refusal(call: Any, *args: Any, **kwargs: Any) -> EngineRefusal:
    """The refusal that the call ends in."""
    try:
        call(*args, **kwargs)
    except EngineRefusal as error:
        return error
    raise AssertionError("it was not refused")


def bits(tensor: torch.Tensor) -> bytes:
    """The bytes of a tensor."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def sha256(path: Path) -> str:
    """Digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def layered_model(directory: Path, seed: int, layers: int = 3, dtype: torch.dtype = torch.float32) -> Path:
    """Layers of two tensors each, an embedding before and a norm behind them, and integers that are equal for every
    seed."""
    g = torch.Generator().manual_seed(seed)
    shapes = {f"model.layers.{i}.{part}": shape for i in range(layers)
              for part, shape in (("attn.weight", (6, 5)), ("mlp.weight", (4, 7)))}  # fmt: skip
    shapes |= {"model.embed.weight": (9, 5), "model.norm.weight": (5,)}
    tensors = {name: torch.randn(shape, generator=g).to(dtype) for name, shape in shapes.items()}
    ids = {"model.embed.ids": torch.arange(9)}
    return model(directory, {**tensors, **ids})


def by_recipe(
    document: Mapping[str, Any], models: Mapping[str, Path], *, chunk: int = 1 << 20, seed: int = 0
) -> Candidate:
    """The candidate of a recipe; ``models`` are the places of those that it names."""
    clean, errors = check_merge({"recipe": document, "seed": seed})
    assert errors == []
    recipe, references = recipe_of(clean), merge_references(clean)
    places = [models[name] for _, name, _ in references]
    labels = [name for _, name, _ in references]
    tensors = load_tensors(*places, labels=labels, sliced=recipe.is_sliced)
    params = {**clean, **{k: document[k] for k in ("dtype", "out_dtype") if k in document}}
    return MergeEngine(chunk=chunk).follow(recipe, tensors, params, [given for _, _, given in references])
