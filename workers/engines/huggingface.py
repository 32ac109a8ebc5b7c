"""Models of Hugging Face from the files of their directory alone: no network, no code but the library's, no pickles.

They compute in float32, without dropout. ``transformers`` is an optional extra and is imported when a model needs it.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import nn

from workers.engines.libraries import by_library
from workers.engines.models import Loaded
from workers.engines.refusals import EngineRefusal, Problem
from workers.huggingface_families import TRANSFORMERS, code_faults
from workers.model_families import EMBED, LANGUAGE, Family
from workers.said_back import shown

EXTRA = "requirements/hf.txt"
# A text is rated in windows of at most so many tokens, so that the logits of one fit into memory.
WINDOW = 2048
SHOWN = 5
POOLING = "1_Pooling/config.json"  # where sentence-transformers says how a text becomes one vector
FIELD = {"field": "params.model"}
# How far apart two results are that differ by rounding alone, as a share of the largest.
ROUNDING = 1e-4
T = TypeVar("T")


class TheirWords:
    """The tokenizer beside the weights, with the special tokens that it adds by itself."""

    def __init__(self, tokenizer: Any, most: int) -> None:
        self._tokenizer = tokenizer
        self._most = most

    @property
    def tokenizer(self) -> Any:
        """The library's own."""
        return self._tokenizer

    def encode(self, text: str) -> Sequence[int]:
        """All tokens of the text."""
        text.encode()  # half of a surrogate pair is told as such
        found: list[int] = self._tokenizer(text)["input_ids"]
        return found

    def fitting(self, text: str) -> tuple[Sequence[int], bool]:
        """Cut as the tokenizer cuts: special tokens at the end stay."""
        text.encode()
        found = self._tokenizer(text, truncation=True, max_length=self._most)
        return found["input_ids"], bool(found.encodings[0].overflowing)

    def behind_the_first(self, text: str) -> int:
        """All of the text where the first token is one that the tokenizer adds."""
        start, end = self._tokenizer(text, return_offsets_mapping=True)["offset_mapping"][0]
        return len(text[end if end > start else 0 :].encode())

    def said(self, before: Sequence[int], tokens: Sequence[int]) -> str:
        """Without special tokens; with the space that parts it from what stands before."""
        head, whole, alone = (self._decoded(each) for each in (before, [*before, *tokens], tokens))
        return whole[len(head) :] if whole.startswith(head) else alone

    def _decoded(self, tokens: Sequence[int]) -> str:
        told: str = self._tokenizer.decode(
            list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )  # fmt: skip
        return told


class CausalLM(nn.Module):
    """A causal language model: tokens (batch, length) to logits (batch, length, words) in float64.

    ``config`` has its ``context``; after a token of ``stops`` it says no more.
    """

    def __init__(self, model: nn.Module, config: Mapping[str, Any], words: int) -> None:
        super().__init__()
        self.model = model
        self.config = config
        self.words = words
        self.stops = _ends(model)
        self._takes = frozenset(inspect.signature(model.forward).parameters)
        # Texts of several lengths beside each other: where it can be said which places are none.
        self.pads = {"attention_mask", "position_ids"} <= self._takes
        self._alone = threading.Lock()  # some modules of the library keep a state while they compute

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The logits of what follows each token; what stands behind a place has no part in its logits."""
        return self.run(tokens, torch.ones_like(tokens)).logits.double()

    def run(
        self, tokens: torch.Tensor, mask: torch.Tensor | None = None, places: torch.Tensor | None = None, *,
        cache: Any = None, last: bool = False,
    ) -> Any:  # fmt: skip
        """What the library gives of tokens that all count, or of those that the ``mask`` says: ``logits``, with
        ``last`` those of the last place alone where it can, and a ``cache`` of all that was read if it has one."""
        asked = {
            "attention_mask": mask,
            "position_ids": places,
            "cache": cache,
            "use_cache": last,
            "logits_to_keep": 1 if last else None,
        }
        given = {name: value for name, value in asked.items() if value is not None and name in self._takes}
        with self._alone:
            return self.model(input_ids=tokens, **given)


class TextClassifier(nn.Module):
    """Tells classes of texts apart: the tokens of several texts to logits (texts, classes) in float64."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        # Without it the library can't tell where the last of several texts ends: they are read one by one.
        self._pad: int | None = cast("Any", model).config.pad_token_id
        self._alone = threading.Lock()

    def forward(self, texts: Sequence[torch.Tensor]) -> torch.Tensor:
        """What comes of each text."""
        if self._pad is None:
            return torch.cat([self._together([text], 0) for text in texts])
        return self._together(texts, self._pad)

    def told(self, found: Any, mask: torch.Tensor) -> torch.Tensor:
        """What the library found of texts whose tokens the ``mask`` (texts, length) says."""
        logits: torch.Tensor = found.logits
        return logits.double()

    def _together(self, texts: Sequence[torch.Tensor], pad: int) -> torch.Tensor:
        shape = (len(texts), max(map(len, texts)))
        tokens, mask = torch.full(shape, pad, dtype=torch.int64), torch.zeros(shape, dtype=torch.int64)
        for row, text in enumerate(texts):
            tokens[row, : len(text)] = text
            mask[row, : len(text)] = 1
        device = next(self.parameters()).device
        mask = mask.to(device)
        with self._alone:
            return self.told(self.model(input_ids=tokens.to(device), attention_mask=mask), mask)


class TextEncoder(TextClassifier):
    """Embeds texts: the tokens of several texts to vectors (texts, width) of length 1 in float64, each the mean over
    the places of its tokens."""

    def told(self, found: Any, mask: torch.Tensor) -> torch.Tensor:
        """The mean over the tokens, divided by its length."""
        seen = mask[:, :, None].double()
        mean = (found.last_hidden_state.double() * seen).sum(1) / seen.sum(1)
        return nn.functional.normalize(mean, dim=1)


@dataclass(frozen=True, slots=True)
class Theirs:
    """An opened model: its tokenizer, and what is needed to load its weights."""

    directory: Path
    label: str
    family: Family
    config: Mapping[str, Any]
    words: TheirWords
    vocabulary: int
    library: Any

    def load(self, devices: Sequence[torch.device]) -> Loaded:
        """The model with its weights in float32, once on each device. Refuses weights that are not all of its
        tensors, and no finite numbers, and a language model that looks ahead."""
        made: dict[torch.device, nn.Module] = {}
        for device in devices:
            if device not in made:
                made[device] = self._wrapped(_moved(self._read(), device, self.label))
        version = f"{TRANSFORMERS} {self.library.__version__}"
        return Loaded(self.config, tuple(made[device] for device in devices), version)

    def _read(self) -> nn.Module:
        loader = _loader(self.library, self.family)
        model, told = _tried(
            lambda: loader.from_pretrained(
                self.directory, dtype=torch.float32, use_safetensors=True, output_loading_info=True,
                ignore_mismatched_sizes=True, **_LOCAL,
            ),
            "unreadable_model", f"{self.label} can't be loaded as {self.family.name}",
        )  # fmt: skip
        _whole(told, self.label, self.family.name)
        _finite(model, self.label)
        made: nn.Module = model.requires_grad_(requires_grad=False).eval()
        return made

    def _wrapped(self, model: nn.Module) -> nn.Module:
        if self.family.task != LANGUAGE:
            return (TextEncoder if self.family.task == EMBED else TextClassifier)(model).eval()
        made = CausalLM(model, self.config, self.vocabulary).eval()
        _looks_back(made, self.label)
        return made


_LOCAL = {"local_files_only": True, "trust_remote_code": False}


def open_theirs(directory: Path, label: str, family: Family, config: Mapping[str, Any]) -> Theirs:
    """The model in ``directory``, of a family of the library; ``config`` is the clean one.

    Refuses a node without the library, code beside the weights, and a tokenizer that can't be read or has tokens that
    the model has not.
    """
    library = _library(label, family)
    named = [p for p in directory.iterdir() if p.name.endswith("_config.json") and p.is_file()]
    faults = [fault for path in sorted(named) for fault in code_faults(_document(path), path.name, label)]
    pooling = _document(directory / POOLING) if family.task == EMBED else None
    if isinstance(pooling, dict) and not pooling.get("pooling_mode_mean_tokens", True):
        message = (
            f"{POOLING} of {label} asks for another vector than the mean over the tokens, which is all there is here"
        )
        raise EngineRefusal("unsupported_config", message, FIELD)
    if faults:
        raise EngineRefusal.of(Problem(each.code, each.message, FIELD) for each in faults)
    tokenizer = _tried(
        lambda: library.AutoTokenizer.from_pretrained(directory, **_LOCAL),
        "unreadable_tokenizer", f"the tokenizer of {label} can't be read",
    )  # fmt: skip
    if not tokenizer.is_fast:
        message = f"the tokenizer of {label} has no tokenizer.json: save it with one (save_pretrained of a fast one)"
        raise EngineRefusal("unreadable_tokenizer", message, FIELD)
    empty = _tried(lambda: _empty(library, directory, family), "unreadable_model",
                   f"{label} can't be built as {family.name}")  # fmt: skip
    vocabulary = int(empty.get_input_embeddings().num_embeddings)
    most = max(tokenizer.get_vocab().values(), default=-1)
    if most >= vocabulary:
        message = (
            f"the tokenizer of {label} has tokens up to {most} and the model {vocabulary} from 0: give the tokenizer "
            "that it was trained with"
        )
        raise EngineRefusal("mismatch", message, {**FIELD, "limit": vocabulary})
    context = config["context"] - _unused_places(empty)
    settled = {**config, "context": context, "window": min(context, WINDOW)}
    words = TheirWords(tokenizer, min(context, tokenizer.model_max_length))
    return Theirs(directory, label, family, settled, words, vocabulary, library)


def _library(label: str, family: Family) -> Any:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
    try:
        library = importlib.import_module(TRANSFORMERS)
    except ImportError as error:
        message = (
            f"{label} is a {family.name} of Hugging Face, and the Python of this node has no {TRANSFORMERS}: install "
            f"{EXTRA} there (pip install -r {EXTRA}), or let the job run on a node that has it"
        )
        raise EngineRefusal("missing_extra", message, {**FIELD, "install": EXTRA}) from error
    library.logging.set_verbosity_error()
    library.logging.disable_progress_bar()
    return library


def _loader(library: Any, family: Family) -> Any:
    of_task = {LANGUAGE: "AutoModelForCausalLM", EMBED: "AutoModel"}
    return getattr(library, of_task.get(family.task, "AutoModelForSequenceClassification"))


def _empty(library: Any, directory: Path, family: Family) -> Any:
    """The model without memory for its weights."""
    config = library.AutoConfig.from_pretrained(directory, **_LOCAL)
    with torch.device("meta"):
        return _loader(library, family).from_config(config)


def _unused_places(model: nn.Module) -> int:
    """How many of its places no text takes: those up to that of padding, where they begin behind it."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding) and module.padding_idx is not None:
            return module.padding_idx + 1
    return 0


def _document(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _tried(work: Callable[[], T], code: str, what: str) -> T:
    return by_library(work, code, what, FIELD)


def _whole(told: Mapping[str, Any], label: str, name: str) -> None:
    problems = []
    for key, code, what in (
        ("missing_keys", "missing_tensor", "lacks {names}, which {name} has"),
        ("unexpected_keys", "unknown_tensor", "has {names}, which {name} has not"),
        ("mismatched_keys", "shape_mismatch", "has {names} in another shape than {name}"),
    ):
        found = sorted(str(each[0] if isinstance(each, tuple) else each) for each in told[key])
        if found:
            more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            names = f"{', '.join(found[:SHOWN])}{more}"
            message = f"{shown(label)} {what.format(names=names, name=name)}: give a model that fits its config.json"
            problems.append(Problem(code, message, {**FIELD, "tensors": found[:20]}))
    if problems:
        raise EngineRefusal.of(problems)


def _finite(model: nn.Module, label: str) -> None:
    unsound = {
        name: wrong for name, tensor in model.named_parameters() if (wrong := int((~torch.isfinite(tensor)).sum()))
    }
    if unsound:
        told = ", ".join(f"{name!r} ({count})" for name, count in list(unsound.items())[:SHOWN])
        more = f" and {len(unsound) - SHOWN} more tensors" if len(unsound) > SHOWN else ""
        raise EngineRefusal(
            "nonfinite_input",
            f"{label} holds values that are no finite numbers in {told}{more}: give a model without them",
            {**FIELD, "tensors": dict(list(unsound.items())[:20])},
        )


def _moved(model: nn.Module, device: torch.device, label: str) -> nn.Module:
    try:
        return model.to(device)
    except torch.OutOfMemoryError as error:
        size = sum(each.numel() * each.element_size() for each in model.parameters())
        message = f"{label} takes {size} bytes in float32, more than {device} has free: ask for GPUs with more memory"
        raise EngineRefusal("out_of_memory", message, {**FIELD, "bytes": size}) from error


def _looks_back(module: CausalLM, label: str) -> None:
    """Refuses a model whose logits change with what stands behind their place: its losses would mean nothing."""
    device = next(module.parameters()).device
    pair = torch.tensor([[0, 0], [0, module.words - 1]], device=device)
    with torch.no_grad():
        one, other = module(pair)[:, 0]
    if float((one - other).abs().max()) > ROUNDING * float(one.abs().max()):
        message = f"{label} sees the tokens that it foretells: give a causal model (of some, is_decoder in config.json)"
        raise EngineRefusal("not_causal", message, FIELD)


def _ends(model: Any) -> frozenset[int]:
    """The tokens after which a text is over, by the model's own files."""
    told = model.generation_config.eos_token_id
    return frozenset() if told is None else frozenset([told] if isinstance(told, int) else told)
