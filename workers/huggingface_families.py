"""Models of Hugging Face: what their ``config.json`` says of them, and what of it can't be run here.

Standard library only: admission asks here before anything waits, the job once more before a byte is read. Whether the
node can run them at all only the node knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from workers.model_families import CLASSIFY_TEXTS, EMBED, FAMILIES, LANGUAGE, NAMES_IT, Family
from workers.param_errors import ParamError
from workers.said_back import shown
from workers.tokenizer_files import has_tokenizer

TRANSFORMERS = "transformers"
NAMES_CLASS = "architectures"
# What a class of the library is run as, by the end of its name.
CAUSAL = ("ForCausalLM", "LMHeadModel")
CLASSIFIER = ("ForSequenceClassification",)
ENCODER = ("BertModel", "RobertaModel")
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
ADAPTER = "adapter_config.json"
CUSTOM_CODE = "auto_map"
# Where the length that a model was made for stands, by whose configuration it is.
LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length", "seq_length")
CONTEXT = 2048
MAX_CLASSES = 1_000_000
Told = tuple[Family | None, dict[str, Any], list[ParamError]]
_FIELD = "params.model"
_INSTEAD = "run a program of your own (kind command)"


def is_theirs(config: Any) -> bool:
    """Whether this ``config.json`` is of a model of that library and of none of EMEP's own families."""
    return isinstance(config, Mapping) and NAMES_CLASS in config and config.get(NAMES_IT) not in FAMILIES


def architecture_of_theirs(config: Mapping[str, Any]) -> Told:
    """The family of a configuration that :func:`is_theirs`, what is needed of it, and everything wrong with it.

    Needed are ``architecture`` (the class), ``model_type``, ``context`` (tokens that it reads at a time) and of one
    that tells classes apart ``classes``.
    """
    clean: dict[str, Any] = {"context": _context(config)}
    task, errors = _task(config, clean)
    kind = config.get(NAMES_IT)
    if isinstance(kind, str) and kind:
        clean[NAMES_IT] = kind
    else:
        told = f"{NAMES_IT} must name the library's type of model, not {shown(kind)}"
        errors.append(_wrong("required" if kind is None else "unknown_architecture", told))
    errors += [*_code_faults(config), *_number_faults(config)]
    if task == CLASSIFY_TEXTS:
        clean["classes"], wrong = _classes(config)
        errors += wrong
    family = None if errors else Family(
        clean["architecture"], "a model of Hugging Face", task, (), _unchecked, _unknown, TRANSFORMERS
    )  # fmt: skip
    return family, clean, errors


def file_faults(family: Family, model: str, paths: Iterable[str]) -> list[ParamError]:
    """What of the files of a model named ``model`` keeps it from being opened, by their names; nothing of a family of
    EMEP's own."""
    if family.library != TRANSFORMERS:
        return []
    names = set(paths)
    errors = []
    if not names & set(WEIGHTS):
        message = (
            f"{shown(model)} has neither {' nor '.join(WEIGHTS)}: of a model of Hugging Face only safetensors are read;"
            " save it with save_pretrained"
        )
        errors.append(_wrong("no_weights", message, list(WEIGHTS)))
    if not has_tokenizer(name for name in names if len(PurePosixPath(name).parts) == 1):
        message = f"{shown(model)} has no tokenizer beside its weights: store it with tokenizer.json"
        errors.append(_wrong("no_tokenizer", message, ["tokenizer.json"]))
    if ADAPTER in names:
        message = f"{shown(model)} holds an adapter ({ADAPTER}): merge it into its model and give that"
        errors.append(_wrong("unsupported_format", message))
    return errors


def code_faults(document: Any, file: str, model: str) -> list[ParamError]:
    """The refusal of a file beside the model that names code of its own; nothing where it names none."""
    if isinstance(document, Mapping) and document.get(CUSTOM_CODE):
        message = f"{file} of {shown(model)} names code of its own ({CUSTOM_CODE}), which is never run: {_INSTEAD}"
        return [_wrong("custom_code", message)]
    return []


def _task(config: Mapping[str, Any], clean: dict[str, Any]) -> tuple[str, list[ParamError]]:
    classes = config[NAMES_CLASS]
    name = classes[0] if isinstance(classes, list) and len(classes) == 1 else None
    ends = f"{NAMES_CLASS} must be a list of one name that ends in {', '.join((*CAUSAL, *CLASSIFIER, *ENCODER))}"
    if not isinstance(name, str):
        return "", [_wrong("unknown_architecture", f"{ends}, not {shown(classes)}: {_INSTEAD}")]
    clean["architecture"] = name
    for task, known in ((LANGUAGE, CAUSAL), (CLASSIFY_TEXTS, CLASSIFIER), (EMBED, ENCODER)):
        if name.endswith(known):
            return task, []
    return "", [
        _wrong("unknown_architecture", f"{ends}, not {shown(name)}: {_INSTEAD}", [*CAUSAL, *CLASSIFIER, *ENCODER])
    ]


def _code_faults(config: Mapping[str, Any]) -> list[ParamError]:
    if config.get(CUSTOM_CODE):
        message = f"it names code of its own ({CUSTOM_CODE}), which is never run: {_INSTEAD}"
        return [_wrong("custom_code", message)]
    return []


def _number_faults(config: Mapping[str, Any]) -> list[ParamError]:
    errors = []
    if config.get("quantization_config"):
        message = "it is quantized (quantization_config): give the model with 16 or 32 bit floats"
        errors.append(_wrong("unsupported_dtype", message))
    for name in ("rope_parameters", "rope_scaling"):
        rope = config.get(name)
        if isinstance(rope, Mapping) and "dynamic" in (rope.get("rope_type"), rope.get("type")):
            message = (
                f"{name} is dynamic, with which what a text gives depends on those that were read before: choose"
                " another rope_type, such as yarn or linear"
            )
            errors.append(_wrong("unsupported_config", message))
            break
    return errors


def _context(config: Mapping[str, Any]) -> int:
    given = [config[name] for name in LENGTHS if type(config.get(name)) is int and config[name] > 0]
    return given[0] if given else CONTEXT


def _classes(config: Mapping[str, Any]) -> tuple[int, list[ParamError]]:
    named, counted = config.get("id2label"), config.get("num_labels")
    count = len(named) if isinstance(named, Mapping) else 2 if counted is None else counted
    errors = []
    if type(count) is not int or not 2 <= count <= MAX_CLASSES:
        message = f"it must tell 2 to {MAX_CLASSES} classes apart (id2label, num_labels), not {shown(count)}"
        errors.append(_wrong("out_of_range", message, [2, MAX_CLASSES]))
    kind = config.get("problem_type")
    if kind not in (None, "single_label_classification"):
        message = f"problem_type is {shown(kind)}: only single_label_classification has one label a text; {_INSTEAD}"
        errors.append(_wrong("unsupported_config", message, "single_label_classification"))
    return count, errors


def _wrong(code: str, message: str, limit: Any = None) -> ParamError:
    return ParamError(_FIELD, code, message, limit)


def _unchecked(config: Mapping[str, Any], field: str) -> tuple[dict[str, Any], list[ParamError]]:
    """What is needed of such a configuration was told when the family was."""
    return dict(config), []


def _unknown(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Which tensors it has the library alone knows."""
    return {}
