"""What becomes of a tensor that one model has otherwise than another, or not at all? Standard library only.

``on_mismatch`` says it, once for all tensors or by filters: ``error`` refuses the merge, ``base`` and ``first`` take
the tensor as that model has it (and leave it out where it has none), ``min`` merges the rows that all models have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workers.merge_settings import is_filters, setting_faults, value_at
from workers.model_table import Row, Table
from workers.param_errors import ParamError
from workers.said_back import shown

FIELD = "params.on_mismatch"
ERROR, BASE, FIRST, MIN = WORDS = ("error", "base", "first", "min")
FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
MAX_TOLD = 5


@dataclass(frozen=True, slots=True)
class Had:
    """What one model has for a tensor of the result: the name of the ``input``, the ``tensor`` there, and its ``row``,
    None where it has none."""

    input: str
    tensor: str
    row: Row | None


@dataclass(frozen=True, slots=True)
class Settled:
    """What a tensor of the result is made of; nothing (no ``origins``) where it is left out.

    ``copied``: it is the one tensor it is made of, whatever the strategy. ``rows``: only so many of each, from the
    first. ``kept``: which of the origins counts where integers differ in value, None where that is refused.
    """

    origins: tuple[tuple[str, str], ...]
    copied: bool = False
    rows: int | None = None
    kept: int | None = None


def setting_errors(given: Any, *, based: bool) -> list[ParamError]:
    """Everything that is wrong with an ``on_mismatch``. ``based``: there is a ``base_model``."""
    known = f"one of {', '.join(WORDS)}, or a list of {{filter, value}} of them"
    right = lambda value: isinstance(value, str) and value in WORDS  # noqa: E731
    faults = list(setting_faults(given, right, numbers=False))[:MAX_TOLD]
    told = [
        ParamError(FIELD, "not_a_rule", f"on_mismatch{where} {what or f'is {known}, not {shown(value)}'}", list(WORDS))
        for where, what, value in faults
    ]
    if not told and not based and BASE in _words(given):
        message = f"on_mismatch is {BASE} and there is no base_model: {FIRST} takes tensors of the first model"
        told.append(ParamError(FIELD, "no_base", message, [word for word in WORDS if word != BASE]))
    return told


def rule_for(setting: Any, tensor: str) -> str:
    """Which of the words counts for a tensor; ``error`` where none is said or no filter fits."""
    found = None if setting is None else value_at(setting, tensor, 0.0)
    return found if found in WORDS else ERROR


def had(tables: Mapping[str, Table], origins: Iterable[tuple[str, str]]) -> list[Had]:
    """What each of the ``(input, tensor)`` has; a head that is tied is had in the embeddings."""
    found = []
    for name, tensor in origins:
        stored = tables[name].stored_as(tensor)
        row = None if stored is None else tables[name].tensors[stored]
        found.append(Had(name, stored or tensor, row))
    return found


def settle(rows: Sequence[Had], rule: str, base: int | None) -> Settled | None:
    """What the tensor is made of; None where that is refused. ``base``: which of them is the base, None for no base."""
    chosen = {FIRST: 0, BASE: base}.get(rule)
    everything = tuple((each.input, each.tensor) for each in rows)
    if alike([each.row for each in rows]):
        return Settled(everything, kept=chosen)
    if chosen is not None:
        return Settled((everything[chosen],), copied=True) if rows[chosen].row is not None else Settled(())
    common = _common_rows([each.row for each in rows]) if rule == MIN else None
    return None if common is None else Settled(everything, rows=common)


def reconciled(setting: Any, tables: Sequence[Table], *, based: bool) -> frozenset[str]:
    """The tensors that the models of a merge have otherwise than each other and that can be merged all the same."""
    by_name = {str(i): table for i, table in enumerate(tables)}
    found = []
    for name in {name for table in tables for name in table.tensors}:
        rows = had(by_name, [(each, name) for each in by_name])
        plain = [table.tensors.get(name) for table in tables]
        if not alike(plain) and settle(rows, rule_for(setting, name), 0 if based else None) is not None:
            found.append(name)
    return frozenset(found)


def alike(rows: Sequence[Row | None]) -> bool:
    """Can tensors of these types and shapes be merged, element by element?"""
    if any(row is None for row in rows):
        return False
    there = [row for row in rows if row is not None]
    kinds = {dtype for dtype, _ in there}
    return len({shape for _, shape in there}) == 1 and (len(kinds) == 1 or kinds <= FLOATS)


def _common_rows(rows: Sequence[Row | None]) -> int | None:
    """How many rows all of them have; None where they differ in more than that, or have no rows."""
    there = [row for row in rows if row is not None]
    if len(there) < len(rows) or not {dtype for dtype, _ in there} <= FLOATS:
        return None
    if len({shape[1:] for _, shape in there}) > 1 or not all(shape for _, shape in there):
        return None
    return min(shape[0] for _, shape in there) or None


def _words(setting: Any) -> set[str]:
    return {entry["value"] for entry in setting} if is_filters(setting) else {setting}
