"""Random numbers that depend on nothing but the seed, the tensor's name, the model's number and the place in it.

Philox's raw 64 bit words, whose sequence NumPy promises to keep, with a key from a hash: any stretch of any tensor can
be drawn alone, so neither order, chunks, threads nor a resume change a mask. Generator: Salmon et al., "Parallel
random numbers: as easy as 1, 2, 3", 2011.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch

from workers.engines.combining import stretches

_WORDS = 4  # of each step of Philox's counter
_BLOCK = 1 << 15  # stays in the cache


@dataclass(frozen=True, slots=True)
class Draw:
    """The sequence of one tensor of one model."""

    seed: int
    tensor: str
    model: int

    def uniforms(self, start: int, stop: int) -> torch.Tensor:
        """Numbers ``start`` to ``stop`` of the sequence, from 0 on and below 1, in float64."""
        name = b"\0".join((str(self.seed).encode(), self.tensor.encode(), str(self.model).encode()))
        bits = np.random.Philox(key=int.from_bytes(hashlib.sha256(name).digest()[:16], "little"))
        bits.advance(start // _WORDS)
        bits.random_raw(start % _WORDS)
        drawn = np.empty(stop - start)
        for at, end in stretches(stop - start, _BLOCK):
            raw = bits.random_raw(end - at)
            np.right_shift(raw, np.uint64(11), out=raw)
            np.multiply(raw, 2.0**-53, out=drawn[at:end])
        return torch.from_numpy(drawn)
