"""The families of models that EMEP builds itself: what their configuration says, and which tensors follow from it.

Standard library only: admission asks here before anything waits, the job once more before a byte is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from workers.param_errors import ParamError, nearest
from workers.said_back import shown

CLASSIFY, LANGUAGE, CLASSIFY_TEXTS, EMBED = "classify", "language", "classify_texts", "embed"
TASK_WORDS: Mapping[str, str] = {
    CLASSIFY: "models that tell classes apart",
    LANGUAGE: "language models",
    CLASSIFY_TEXTS: "models that tell classes of texts apart",
    EMBED: "models that embed texts",
}
TELL_CLASSES = (CLASSIFY, CLASSIFY_TEXTS)
READ_TEXTS = (LANGUAGE, CLASSIFY_TEXTS, EMBED)
MAX_SIZE = 1_000_000
MAX_LAYERS = 1_000
MAX_CHARACTERS = 200_000
BYTES = 256
ACTIVATIONS = ("relu", "gelu", "tanh")
NAMES_IT = "model_type"
Shapes = dict[str, tuple[int, ...]]
Checked = tuple[dict[str, Any], list[ParamError]]


@dataclass(frozen=True, slots=True)
class Family:
    """A family: what it does (``task``), the fields of its configuration, and what follows from them.

    ``check(config, field)`` gives the clean configuration and everything wrong with it, ``shapes(clean)`` the shape of
    each of its tensors by name, in their order. ``library``: who builds it and knows its tensors; "" for EMEP itself.
    """

    name: str
    title: str
    task: str
    fields: tuple[str, ...]
    check: Callable[[Mapping[str, Any], str], Checked]
    shapes: Callable[[Mapping[str, Any]], Shapes]
    library: str = ""


def architecture(config: Any, field: str, *, strict: bool) -> tuple[Family | None, dict[str, Any], list[ParamError]]:
    """The family that the configuration names, the configuration cleaned, and everything wrong with it.

    ``strict``: fields of no meaning are errors too; a model's own ``config.json`` may hold others. ``field`` is what
    errors are told of.
    """
    if not isinstance(config, Mapping):
        message = f"an architecture is an object with a {NAMES_IT}, not {shown(config)}"
        return None, {}, [ParamError(field, "not_an_object", message)]
    name = config.get(NAMES_IT)
    family = FAMILIES.get(name) if isinstance(name, str) else None
    if family is None:
        return None, {}, [_no_family(name, field)]
    clean, errors = family.check(config, field)
    if strict:
        known = [NAMES_IT, *family.fields]
        errors += [
            ParamError(f"{field}.{str(key)[:80]}", "unknown_field",
                       f"the architecture {family.name} has no {shown(str(key))}{nearest(str(key), known)}", known)
            for key in config if key not in known
        ]  # fmt: skip
    return family, {NAMES_IT: family.name, **clean}, errors


def _no_family(name: Any, field: str) -> ParamError:
    known = list(FAMILIES)
    if name is None:
        message = f"{NAMES_IT} is missing: say which architecture it is, one of {', '.join(known)}"
        return ParamError(f"{field}.{NAMES_IT}", "required", message, known)
    message = (
        f"{NAMES_IT} is one of {', '.join(known)}, not {shown(name)}{nearest(str(name), known)}: give such a model, or "
        "run a program of your own (kind command)"
    )
    return ParamError(f"{field}.{NAMES_IT}", "unknown_architecture", message, known)


def _whole(config: Mapping[str, Any], name: str, field: str, most: int) -> tuple[int, list[ParamError]]:
    value = config.get(name)
    if type(value) is int and 1 <= value <= most:
        return value, []
    code = "required" if value is None else "out_of_range"
    message = f"{name} must be a whole number from 1 to {most}, {_is(value)}"
    return 0, [ParamError(f"{field}.{name}", code, message, [1, most])]


def _is(value: Any) -> str:
    return "and is missing" if value is None else f"not {shown(value)}"


def _mlp(config: Mapping[str, Any], field: str) -> Checked:
    sizes = config.get("layer_sizes")
    errors: list[ParamError] = []
    right = isinstance(sizes, (list, tuple)) and 2 <= len(sizes) <= MAX_LAYERS
    if not right or not all(type(size) is int and 1 <= size <= MAX_SIZE for size in sizes or ()):
        message = (
            f"layer_sizes must list 2 to {MAX_LAYERS} whole numbers from 1 to {MAX_SIZE}, the inputs first and the "
            f"classes last, {_is(sizes)}"
        )
        code = "required" if sizes is None else "out_of_range"
        errors.append(ParamError(f"{field}.layer_sizes", code, message, [1, MAX_SIZE]))
        sizes = None
    activation = config.get("activation", ACTIVATIONS[0])
    if activation not in ACTIVATIONS:
        message = f"activation must be one of {', '.join(ACTIVATIONS)}, not {shown(activation)}"
        errors.append(ParamError(f"{field}.activation", "unknown_activation", message, list(ACTIVATIONS)))
    classes = config.get("classes")
    if classes is not None and sizes and (type(classes) is not int or classes != sizes[-1]):
        message = f"classes is {shown(classes)} and the last of layer_sizes {sizes[-1]}: leave it out, or make them one"
        errors.append(ParamError(f"{field}.classes", "mismatch", message, sizes[-1]))
    return {"layer_sizes": list(sizes or ()), "activation": activation}, errors


def _mlp_shapes(clean: Mapping[str, Any]) -> Shapes:
    """Every second module is an activation, which has no tensors."""
    found: Shapes = {}
    sizes = clean["layer_sizes"]
    for place, (inputs, outputs) in enumerate(pairwise(sizes)):
        found |= {f"{2 * place}.weight": (outputs, inputs), f"{2 * place}.bias": (outputs,)}
    return found


def _decoder(config: Mapping[str, Any], field: str) -> Checked:
    clean: dict[str, Any] = {}
    errors: list[ParamError] = []
    for name, most in (("num_layers", MAX_LAYERS), ("width", MAX_SIZE), ("heads", MAX_SIZE), ("context", MAX_SIZE)):
        clean[name], wrong = _whole(config, name, field, most)
        errors += wrong
    if clean["width"] and clean["heads"] and clean["width"] % clean["heads"]:
        message = f"heads is {clean['heads']}, of which width, {clean['width']}, is no multiple: change one of them"
        errors.append(ParamError(f"{field}.heads", "mismatch", message, clean["width"]))
    characters = config.get("characters")
    if characters is not None:
        clean["characters"] = characters
        several = isinstance(characters, str) and 2 <= len(characters) <= MAX_CHARACTERS
        if not several or len(set(characters)) < len(characters) or not _is_text(characters):
            message = (
                f"characters must be a text of 2 to {MAX_CHARACTERS} different characters, in the order of their "
                f"numbers, not {shown(characters)}; without it the model reads bytes"
            )
            errors.append(ParamError(f"{field}.characters", "out_of_range", message, [2, MAX_CHARACTERS]))
    return clean, errors


def _is_text(characters: str) -> bool:
    """Half of a surrogate pair is no character, and no text holds one."""
    return not any("\ud800" <= character <= "\udfff" for character in characters)


def _decoder_shapes(clean: Mapping[str, Any]) -> Shapes:
    width, words = clean["width"], len(clean["characters"]) if "characters" in clean else BYTES
    found: Shapes = {"embed.weight": (words, width), "pos_embed.weight": (clean["context"], width)}
    for place in range(clean["num_layers"]):
        for part, inputs, outputs in (
            ("qkv", width, 3 * width), ("proj", width, width), ("up", width, 4 * width), ("down", 4 * width, width),
        ):  # fmt: skip
            found |= {f"layers.{place}.{part}.weight": (outputs, inputs), f"layers.{place}.{part}.bias": (outputs,)}
        for part in ("norm1", "norm2"):
            found |= {f"layers.{place}.{part}.{each}": (width,) for each in ("weight", "bias")}
    return found | {"norm.weight": (width,), "norm.bias": (width,), "head.weight": (words, width)}


FAMILIES: dict[str, Family] = {
    "mlp": Family(
        "mlp", "layers of neurons that tell classes apart", CLASSIFY, ("layer_sizes", "activation", "classes"),
        _mlp, _mlp_shapes,
    ),
    "decoder": Family(
        "decoder", "a small transformer that foretells the next character or byte", LANGUAGE,
        ("num_layers", "width", "heads", "context", "characters"), _decoder, _decoder_shapes,
    ),
}  # fmt: skip
