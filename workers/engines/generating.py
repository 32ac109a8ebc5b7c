"""What a language model says after a text: token by token, the likeliest or drawn by seed, row and place alone.

The model sees all that is there as long as that is no more than its context. When the context is full the older half
of it is let go, and it goes on with the newer one as with a text of its own; of a text that is longer from the start
it sees the last ``context`` tokens first. A text is over early with a token that its model ends by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from workers.engines.choosing import drawn, likeliest
from workers.engines.huggingface import CausalLM
from workers.engines.huggingface_reading import Together
from workers.engines.in_batches import Abandoned
from workers.engines.models import Decoder, Memory
from workers.engines.strategies.drawing import Draw
from workers.infer_params import Generation

DRAWN_AHEAD = 256  # so that long texts of a large batch don't have all their numbers in memory at once


@dataclass(slots=True)
class Continued:
    """The ``tokens`` that follow a text and the natural logarithm of how likely the model found each; ``broken`` where
    it gave no finite number and could not go on, ``ended`` where the last token is one that ends a text."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    broken: bool = False
    ended: bool = False


def go_on(
    texts: Mapping[int, torch.Tensor], ask: Generation, module: Decoder | CausalLM, must_stop: Callable[[], bool]
) -> dict[int, Continued]:
    """``ask.tokens`` tokens that follow each text (its tokens, by its row), or as many as end it. Raises
    :class:`Abandoned` once ``must_stop`` says so."""
    if not texts or not ask.tokens:
        return {row: Continued() for row in texts}
    context = module.config["context"]
    states = [_State(row, text.tolist(), context, ask) for row, text in texts.items()]
    stops: frozenset[int] = frozenset() if isinstance(module, Decoder) else module.stops
    reader = _ByMemory(module, states, ask) if isinstance(module, Decoder) else _Beside(module)
    for _ in range(ask.tokens):
        if must_stop():
            raise Abandoned
        going = [state for state in states if not (state.made.broken or state.made.ended)]
        for several, logits in reader.read(going):
            _append(several, logits, ask, stops)
    return {state.row: state.made for state in states}


class _State:
    """A text that grows: what the model sees of it begins at ``start``."""

    def __init__(self, row: int, tokens: list[int], context: int, ask: Generation) -> None:
        self.row = row
        self.tokens = tokens
        self.made = Continued()
        self.start = max(0, len(tokens) - context)
        self._draw = Draw(ask.seed, "row", row)
        self._drawn = torch.empty(0)
        self._context = context
        self._begun = False

    @property
    def seen(self) -> list[int]:
        """The tokens that the model sees."""
        return self.tokens[self.start :]

    def uniform(self) -> torch.Tensor:
        """The number that the next token is drawn by."""
        place = len(self.made.tokens)
        if place % DRAWN_AHEAD == 0:
            self._drawn = self._draw.uniforms(place, place + DRAWN_AHEAD)
        return self._drawn[place % DRAWN_AHEAD]

    def begins_anew(self) -> bool:
        """Whether all that it sees has to be read: at first, and when the context is full."""
        if len(self.tokens) - self.start > self._context:
            self.start = len(self.tokens) - (self._context + 1) // 2
            return True
        first, self._begun = not self._begun, True
        return first


Read = Iterator[tuple[Sequence[_State], torch.Tensor]]


class _ByMemory:
    """What follows texts that a built-in decoder remembers: those that begin anew first, then the others."""

    def __init__(self, module: Decoder, states: Sequence[_State], ask: Generation) -> None:
        most = max(min(len(state.tokens) + ask.tokens, module.config["context"]) for state in states)
        self._module = module
        self._states = states
        self._memory = Memory(module.config, len(states), most, module.embed.weight.device)

    def read(self, going: Sequence[_State]) -> Read:
        """The logits of what comes next, by the texts that they are of."""
        anew = {state.row: state.begins_anew() for state in going}
        for read, first in ((_begin, True), (_follow, False)):
            places = [n for n, state in enumerate(self._states) if anew.get(state.row) is first]
            if places:
                yield [self._states[n] for n in places], read(self._module, self._memory, self._states, places)


class _Beside:
    """What follows texts that a model of Hugging Face reads side by side: when one begins anew, all do."""

    def __init__(self, module: CausalLM) -> None:
        self._together = Together(module)

    def read(self, going: Sequence[_State]) -> Read:
        """The logits of what comes next, of all texts at once."""
        if going:
            anew = [state.begins_anew() for state in going]
            yield going, self._together.logits({state.row: state.seen for state in going}, anew=any(anew))


def _begin(module: Decoder, memory: Memory, states: Sequence[_State], places: Sequence[int]) -> torch.Tensor:
    seen = [states[n].seen for n in places]
    padded = torch.zeros(len(seen), max(map(len, seen)), dtype=torch.int64)
    for row, tokens in enumerate(seen):
        padded[row, : len(tokens)] = torch.tensor(tokens)
    device = module.embed.weight.device
    lengths = torch.tensor([len(tokens) for tokens in seen], device=device)
    return module.begin(padded.to(device), lengths, memory, torch.tensor(places, device=device)).cpu()


def _follow(module: Decoder, memory: Memory, states: Sequence[_State], places: Sequence[int]) -> torch.Tensor:
    device = module.embed.weight.device
    newest = torch.tensor([states[n].tokens[-1] for n in places], device=device)
    at = torch.tensor([len(states[n].seen) - 1 for n in places], device=device)
    return module.follow(newest, at, memory, torch.tensor(places, device=device)).cpu()


def _append(states: Sequence[_State], logits: torch.Tensor, ask: Generation, stops: frozenset[int]) -> None:
    """One token more of each, or the word that there is none."""
    sound = logits.isfinite().all(1)
    for state, right in zip(states, sound.tolist(), strict=True):
        state.made.broken = not right
    going = [state for state, right in zip(states, sound.tolist(), strict=True) if right]
    if not going:
        return
    logits = logits[sound]
    if ask.temperature:
        uniforms = torch.stack([state.uniform() for state in going])
        chosen: Sequence[int | None] = drawn(logits, ask.temperature, uniforms)
    else:
        chosen = likeliest(logits)
    likely = logits.log_softmax(1)
    for row, (state, token) in enumerate(zip(going, chosen, strict=True)):
        if token is None:
            raise RuntimeError("of finite numbers one is the highest")
        state.tokens.append(token)
        state.made.tokens.append(token)
        state.made.logprobs.append(float(likely[row, token]))
        state.made.ended = token in stops
