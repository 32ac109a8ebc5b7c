"""What a safetensors file says it holds, believed only as far as it can be checked.

The format: 8 bytes little-endian length, a JSON header, then the data. Offsets are relative to the data,
contiguous, in range and without overlap. Anything else is refused as ``corrupt_input`` with the file's name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from workers.engines.dtypes import DTYPES, SUB_BYTE, TensorSpec
from workers.engines.refusals import EngineRefusal

MAX_HEADER = 100_000_000
_PREFIX = 8


@dataclass(frozen=True, slots=True)
class Extent:
    """Where one tensor lies: ``start`` in bytes from the beginning of ``path``."""

    spec: TensorSpec
    path: Path
    start: int


@dataclass(frozen=True, slots=True)
class Header:
    """A checked header: every tensor by name, and the free-text metadata."""

    extents: Mapping[str, Extent]
    metadata: Mapping[str, str]


def read_header(path: Path, label: str | None = None) -> Header:
    """Read and check the header of ``path``; the data stays unread. ``label`` is the name used in errors."""
    named = label or path.name
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(_exactly(file.read(_PREFIX), _PREFIX, named), "little")
            if length > MAX_HEADER:
                _corrupt(named, f"the header claims {length} bytes, the limit is {MAX_HEADER}")
            if length > size - _PREFIX:
                _corrupt(named, f"the header claims {length} bytes, the file has {size - _PREFIX} after its prefix")
            raw = _exactly(file.read(length), length, named)
    except OSError as error:
        raise EngineRefusal("unreadable_input", f"{named} can't be read: {error.strerror}", {"file": named}) from error
    document = _parse(raw, named)
    metadata = document.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        _corrupt(named, "__metadata__ must map strings to strings")
    data_start = _PREFIX + length
    rows = [_entry(name, row, named) for name, row in document.items()]
    _check_layout(rows, size - data_start, named)
    extents = {spec.name: Extent(spec, path, data_start + begin) for spec, begin, _ in rows}
    return Header(extents, metadata)


def _corrupt(named: str, what: str) -> NoReturn:
    raise EngineRefusal("corrupt_input", f"{named} is not a valid safetensors file: {what}", {"file": named})


def _exactly(data: bytes, wanted: int, named: str) -> bytes:
    if len(data) != wanted:
        _corrupt(named, f"it ends after {len(data)} of {wanted} header bytes")
    return data


def _parse(raw: bytes, named: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys: dict[str, Any] = {}
        for key, value in pairs:
            if key in keys:
                _corrupt(named, f"the header names {key[:200]!r} twice")
            keys[key] = value
        return keys

    if not raw.startswith(b"{"):
        _corrupt(named, "the header does not start with '{'")
    try:
        text = raw.decode("utf-8")
        document = json.loads(text, object_pairs_hook=unique, parse_constant=lambda c: _corrupt(named, f"{c} in it"))
        json.dumps(list(document), ensure_ascii=False).encode()  # an escaped half of a surrogate pair is no name
    except (ValueError, RecursionError) as error:
        _corrupt(named, f"the header is not JSON in UTF-8 ({str(error)[:120]})")
    return document


def _entry(name: str, row: Any, named: str) -> tuple[TensorSpec, int, int]:
    shown = name[:200]
    if not isinstance(row, dict) or set(row) != {"dtype", "shape", "data_offsets"}:
        _corrupt(named, f"tensor {shown!r} needs exactly dtype, shape and data_offsets")
    dtype = DTYPES.get(row["dtype"]) if isinstance(row["dtype"], str) else None
    if row["dtype"] in SUB_BYTE:
        raise EngineRefusal(
            "unsupported_dtype",
            f"{named}: tensor {shown!r} is {row['dtype']}; give the model with 16 or 32 bit floats",
            {"file": named, "tensor": shown, "dtype": row["dtype"]},
        )
    if dtype is None:
        _corrupt(named, f"tensor {shown!r} has the unknown dtype {str(row['dtype'])[:40]!r}")
    shape, offsets = row["shape"], row["data_offsets"]
    if not _whole_numbers(shape) or not _whole_numbers(offsets) or len(offsets) != 2:
        _corrupt(named, f"tensor {shown!r} needs a shape and two offsets of whole numbers from 0")
    spec = TensorSpec(name, dtype, tuple(shape))
    begin, end = offsets
    if end < begin or end - begin != spec.nbytes:
        _corrupt(named, f"tensor {shown!r} has {end - begin} bytes at its offsets and {spec.nbytes} by its shape")
    return spec, begin, end


def _whole_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 2**63 for n in value)


def _check_layout(rows: list[tuple[TensorSpec, int, int]], available: int, named: str) -> None:
    reached = 0
    for spec, begin, end in sorted(rows, key=lambda row: (row[1], row[2])):
        if begin != reached:
            what = "overlaps the one before" if begin < reached else "leaves a gap before it"
            _corrupt(named, f"tensor {spec.name[:200]!r} starts at {begin} where {reached} was due: it {what}")
        reached = end
    if reached > available:
        _corrupt(named, f"it is cut off: the tensors need {reached} bytes of data, the file has {available}")
    if reached < available:
        _corrupt(named, f"{available - reached} bytes follow the last tensor")
