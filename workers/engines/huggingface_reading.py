"""Texts that a model of Hugging Face reads side by side while each grows by a token at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from workers.engines.huggingface import CausalLM


class Together:
    """Reads on where it was, as long as no text begins anew: then all that go on are read again.

    Texts of several lengths are padded in front; where a model can't be told of padding, those of one length are read
    together.
    """

    def __init__(self, module: CausalLM) -> None:
        self._module = module
        self._groups: list[_Group] = []

    def logits(self, seen: Mapping[int, Sequence[int]], *, anew: bool) -> torch.Tensor:
        """What follows the tokens that are ``seen`` of each text, by its number: (texts, words) in float64 on the CPU.

        Without ``anew`` each has one token more than before; a text that is over is not there.
        """
        if anew:
            self._groups = [_Group(self._module, rows, seen) for rows in self._side_by_side(seen)]
            found = {row: each for group in self._groups for row, each in group.begin(seen).items()}
        else:
            self._groups = [group for group in self._groups if any(row in seen for row in group.rows)]
            found = {row: each for group in self._groups for row, each in group.follow(seen).items()}
        return torch.stack([found[row] for row in seen])

    def _side_by_side(self, seen: Mapping[int, Sequence[int]]) -> list[list[int]]:
        if self._module.pads:
            return [list(seen)]
        lengths: dict[int, list[int]] = {}
        for row, tokens in seen.items():
            lengths.setdefault(len(tokens), []).append(row)
        return list(lengths.values())


class _Group:
    """Texts in one cache. One that is over stays in it and is read no more."""

    def __init__(self, module: CausalLM, rows: Sequence[int], seen: Mapping[int, Sequence[int]]) -> None:
        self.rows = rows
        self._module = module
        self._device = next(module.parameters()).device
        longest = max(len(seen[row]) for row in rows)
        self._tokens, self._mask = (torch.zeros(len(rows), longest, dtype=torch.int64) for _ in range(2))
        for place, row in enumerate(rows):
            self._tokens[place, longest - len(seen[row]) :] = torch.tensor(seen[row])
            self._mask[place, longest - len(seen[row]) :] = 1
        self._cache: Any = None

    def begin(self, seen: Mapping[int, Sequence[int]]) -> dict[int, torch.Tensor]:
        """The logits after all tokens of each text."""
        return self._read(self._tokens, seen)

    def follow(self, seen: Mapping[int, Sequence[int]]) -> dict[int, torch.Tensor]:
        """The logits after the newest token of each text that goes on."""
        newest = torch.tensor([[seen[row][-1] if row in seen else 0] for row in self.rows])
        self._tokens = torch.cat([self._tokens, newest], 1)
        self._mask = torch.cat([self._mask, torch.ones_like(newest)], 1)
        return self._read(self._tokens if self._cache is None else newest, seen)

    def _read(self, tokens: torch.Tensor, seen: Mapping[int, Sequence[int]]) -> dict[int, torch.Tensor]:
        places = (self._mask.cumsum(1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        beside = (self._mask.to(self._device), places.to(self._device)) if self._module.pads else ()
        told = self._module.run(tokens.to(self._device), *beside, cache=self._cache, last=True)
        self._cache = getattr(told, "cache", None)
        logits = told.logits[:, -1].double().cpu()
        return {row: each for row, each in zip(self.rows, logits, strict=True) if row in seen}
