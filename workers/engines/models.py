"""From a state dictionary to a model that computes: the built-in families, loaded from headers that were checked.

All of them compute in float64, so that what a sample gives does not depend, in the digits that are kept, on the
samples beside it in its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from workers.engines.refusals import EngineRefusal
from workers.engines.sources import Model
from workers.model_families import FAMILIES, NAMES_IT

ACTIVATIONS: Mapping[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh}


class Decoder(nn.Module):
    """Foretells the next token: tokens (batch, length), length at most ``context``, to logits (batch, length, words).

    What stands behind a place has no part in its logits.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.config = config
        words, width = FAMILIES["decoder"].shapes(config)["embed.weight"]
        self.words = words
        self.embed, self.pos_embed = nn.Embedding(words, width), nn.Embedding(config["context"], width)
        self.layers = nn.ModuleList(_Layer(width, config["heads"]) for _ in range(config["num_layers"]))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The logits of what follows each token."""
        return self._told(self._read(tokens, lambda layer: _causal))

    def begin(self, tokens: torch.Tensor, lengths: torch.Tensor, memory: Memory, rows: torch.Tensor) -> torch.Tensor:
        """The logits (rows, words) of what follows the first ``lengths`` of each row's tokens, which the memory has in
        its ``rows`` afterwards."""
        x = self._read(tokens, lambda layer: memory.filling(layer, rows))
        return self._told(x[torch.arange(len(lengths), device=x.device), lengths - 1])

    def follow(self, tokens: torch.Tensor, places: torch.Tensor, memory: Memory, rows: torch.Tensor) -> torch.Tensor:
        """The logits (rows, words) of what follows one more token of each row, at its place, behind what the memory's
        ``rows`` have of it."""
        x = (self.embed(tokens) + self.pos_embed.weight[places])[:, None]
        return self._told(self._through(x, lambda layer: memory.following(layer, rows, places))[:, 0])

    def _read(self, tokens: torch.Tensor, attend: Callable[[int], Attend]) -> torch.Tensor:
        return self._through(self.embed(tokens) + self.pos_embed.weight[: tokens.shape[1]], attend)

    def _through(self, x: torch.Tensor, attend: Callable[[int], Attend]) -> torch.Tensor:
        for number, layer in enumerate(self.layers):
            x = layer(x, attend(number))
        return x

    def _told(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def _causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class Memory:
    """What a decoder of ``config`` has read of so many rows, at most ``places`` tokens of each: the keys and values of
    every layer. Each token that follows then costs its own computing and not that of all before it."""

    def __init__(self, config: Mapping[str, Any], rows: int, places: int, device: torch.device) -> None:
        heads = config["heads"]
        shape = (config["num_layers"], rows, heads, places, config["width"] // heads)
        self._keys, self._values = (torch.zeros(shape, dtype=torch.float64, device=device) for _ in range(2))

    def filling(self, layer: int, rows: torch.Tensor) -> Attend:
        """Attention in which each token looks at those before it, and which is kept for these rows."""

        def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            self._keys[layer][rows, :, : k.shape[2]] = k
            self._values[layer][rows, :, : v.shape[2]] = v
            return _causal(q, k, v)

        return attend

    def following(self, layer: int, rows: torch.Tensor, places: torch.Tensor) -> Attend:
        """Attention of one token of each of these rows, which is kept at its place, to those before it."""
        seen = int(places.max()) + 1
        mask = torch.arange(seen, device=places.device) <= places[:, None]

        def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            self._keys[layer][rows, :, places] = k[:, :, 0]
            self._values[layer][rows, :, places] = v[:, :, 0]
            keys, values = (kept[layer][rows, :, :seen] for kept in (self._keys, self._values))
            return functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask[:, None, None])

        return attend


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, attend: Attend) -> torch.Tensor:
        q, k, v = (self._by_head(part) for part in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        mixed = attend(q, k, v)
        x = x + self.proj(mixed.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))

    def _by_head(self, part: torch.Tensor) -> torch.Tensor:
        return part.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def mlp(config: Mapping[str, Any]) -> nn.Sequential:
    """Layers of neurons with an activation between them: inputs (batch, features) to logits (batch, classes)."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(config["layer_sizes"]):
        layers += [nn.Linear(inputs, outputs), ACTIVATIONS[config["activation"]]()]
    return nn.Sequential(*layers[:-1])


BUILDERS: Mapping[str, Callable[[Mapping[str, Any]], nn.Module]] = {"mlp": mlp, "decoder": Decoder}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model of a family with its weights, once on each device; ``library``: what computes it and in which version,
    "" for EMEP itself."""

    config: Mapping[str, Any]
    modules: tuple[nn.Module, ...]
    library: str = ""

    @property
    def window(self) -> int:
        """How many tokens of a text a language model reads at a time to rate it."""
        return int(self.config.get("window", self.config["context"]))

    def version(self, engine: str) -> str:
        """The version of an engine that computes with it."""
        return f"{engine} with {self.library}" if self.library else engine


def load(source: Model, config: Mapping[str, Any], devices: Sequence[torch.device]) -> Loaded:
    """The model of ``config`` (checked, and its shapes against ``source``) with the weights of ``source`` in float64.

    Raises ``nonfinite_input`` with every tensor that holds NaN or infinity.
    """
    with torch.device("meta"):
        empty = BUILDERS[config[NAMES_IT]](config)
    state: dict[str, torch.Tensor] = {}
    unsound: dict[str, int] = {}
    for name in empty.state_dict():
        spec = source.specs[name]
        tensor = source.reader.read(spec, 0, spec.numel).to(torch.float64).reshape(spec.shape)
        state[name] = tensor
        if wrong := int((~torch.isfinite(tensor)).sum()):
            unsound[name] = wrong
    if unsound:
        told = ", ".join(f"{name!r} ({count})" for name, count in list(unsound.items())[:5])
        more = f" and {len(unsound) - 5} more tensors" if len(unsound) > 5 else ""
        raise EngineRefusal(
            "nonfinite_input",
            f"{source.label} holds values that are no finite numbers in {told}{more}: give a model without them",
            {"field": "params.model", "tensors": dict(list(unsound.items())[:20])},
        )
    made: dict[torch.device, nn.Module] = {}
    for device in devices:
        if device not in made:
            with torch.device("meta"):
                module = BUILDERS[config[NAMES_IT]](config)
            module.load_state_dict({name: tensor.to(device) for name, tensor in state.items()}, assign=True)
            made[device] = module.requires_grad_(requires_grad=False).eval()
    return Loaded(config, tuple(made[device] for device in devices))
