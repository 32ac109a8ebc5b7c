"""What jobs that run a model over the rows of a file have in common: their parameters, and whether model and file fit.

Standard library only: form, REST and the jobs themselves all ask here, so all refuse alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workers.huggingface_families import architecture_of_theirs, is_theirs
from workers.model_families import LANGUAGE, READ_TEXTS, Family, architecture
from workers.param_errors import ParamError, nearest
from workers.said_back import shown

MODEL = "model"
ARCHITECTURE = "params.architecture"
CONFIG = "config.json"
MAX_CONFIG = 4_000_000
ROWS_KNOWN = ["batch_size", "limit", "file", "architecture"]
BATCH = 32
MAX_BATCH = 65_536
MAX_FILE = 255
MAX_SAMPLES = 1_000_000_000
FORMATS = (".jsonl", ".csv", ".safetensors")
SHOWN = 5
_FITS = "give a model that fits, or say with architecture what it is"
_FLOATS = ("F16", "BF16", "F32", "F64")
Checked = tuple[dict[str, Any], list[ParamError]]


def check_artifacts(params: Mapping[str, Any], words: Mapping[str, str]) -> Checked:
    """The artifacts that ``params`` name under the names of ``words``, which say what each is to a person."""
    clean: dict[str, Any] = {}
    errors = []
    for name, word in words.items():
        given = params.get(name)
        clean[name] = given.strip() if isinstance(given, str) else ""
        if not clean[name]:
            told = f"{name} is missing: give" if given is None else f"{name} must be, and not {shown(given)},"
            code = "required" if given is None else "not_a_name"
            errors.append(ParamError(f"params.{name}", code, f"{told} the id or name of a {word}"))
    return clean, errors


def named_artifacts(params: Mapping[str, Any], names: Iterable[str]) -> list[tuple[str, str, str]]:
    """Those of the artifacts that are named: ``(field, reference, name under EMEP_INPUT_DIR)``."""
    given = [(name, params.get(name)) for name in names]
    return [(f"params.{name}", value, name) for name, value in given if isinstance(value, str) and value]


def check_rows(params: Mapping[str, Any]) -> Checked:
    """How the rows are read: ``ROWS_KNOWN`` with their defaults, and everything wrong with them."""
    clean: dict[str, Any] = {}
    errors: list[ParamError] = []
    for more, wrong in (
        check_whole(params, "batch_size", 1, MAX_BATCH, BATCH), check_whole(params, "limit", 1, MAX_SAMPLES),
        _file(params), _architecture(params),
    ):  # fmt: skip
        clean |= more
        errors += wrong
    return clean, errors


def check_whole(params: Mapping[str, Any], name: str, least: int, most: int, default: int | None = None) -> Checked:
    """The parameter of this name, a whole number from ``least`` to ``most``; without it its default, or nothing."""
    given = params.get(name)
    value = default if given is None else given
    if value is None:
        return {}, []
    if type(value) is int and least <= value <= most:
        return {name: value}, []
    message = f"{name} must be a whole number from {least} to {most}, not {shown(value)}"
    return {name: value}, [ParamError(f"params.{name}", "out_of_range", message, [least, most])]


def family_of(
    clean: Mapping[str, Any], config: Any, model: str
) -> tuple[Family | None, dict[str, Any], list[ParamError]]:
    """What ``architecture`` says, else the model's own ``config.json`` (``config``, None where it has none): its
    family, its clean configuration and everything wrong with it. ``model`` is the model's name in messages."""
    if clean.get("architecture") is not None:  # it was checked with the other parameters
        family, settled, _ = architecture(clean["architecture"], ARCHITECTURE, strict=False)
        return family, settled, []
    if config is None:
        message = f"{shown(model)} has no {CONFIG} that says what it is: give architecture"
        return None, {}, [ParamError(ARCHITECTURE, "required", message)]
    if is_theirs(config):
        family, settled, errors = architecture_of_theirs(config)
    else:
        family, settled, errors = architecture(config, "params.model", strict=False)
    told = [
        ParamError("params.model", each.code, f"{CONFIG} of {shown(model)}: {each.message}", each.limit)
        for each in errors
    ]
    return family, settled, told


def tensor_faults(
    family: Family, settled: Mapping[str, Any], model: str, tensors: Mapping[str, tuple[str, Sequence[int]]] | None
) -> list[ParamError]:
    """What keeps these tensors (``{name: (type, shape)}``, None: not known yet) from being a model of this
    architecture: those that are missing, too many, of another shape or no floats. Of a library's architecture the job
    finds them, by the library."""
    if tensors is None or family.library:
        return []
    errors: list[ParamError] = []
    wanted, told = family.shapes(settled), shown(model)
    missing, more = [n for n in wanted if n not in tensors], sorted(n for n in tensors if n not in wanted)
    if missing:
        hint = nearest(missing[0], more)
        message = f"{told} lacks {some(missing)}, which the architecture {family.name} has{hint}: {_FITS}"
        errors.append(ParamError("params.model", "missing_tensor", message, missing[:SHOWN]))
    if more:
        message = f"{told} has {some(more)}, which the architecture {family.name} has not: {_FITS}"
        errors.append(ParamError("params.model", "unknown_tensor", message, more[:SHOWN]))
    unequal = [n for n in wanted if n in tensors and tuple(tensors[n][1]) != wanted[n]]
    errors += [
        ParamError("params.model", "shape_mismatch", f"tensor {n!r} is {_shape(tensors[n][1])} in {told} and "
                   f"{_shape(wanted[n])} by its architecture: {_FITS}", n)
        for n in unequal[:SHOWN]
    ]  # fmt: skip
    if len(unequal) > SHOWN:
        message = f"and {len(unequal) - SHOWN} more differ in shape"
        errors.append(ParamError("params.model", "shape_mismatch", message))
    whole = [n for n in wanted if n in tensors and tensors[n][0] not in _FLOATS]
    if whole:
        message = (
            f"{told} has no floats in {some(whole)} ({tensors[whole[0]][0]}): give the model with 16, 32 or 64 bit"
        )
        errors.append(ParamError("params.model", "unsupported_dtype", f"{message} floats", list(_FLOATS)))
    return errors


def data_file(
    paths: Iterable[str], named: str | None, dataset: str, field: str
) -> tuple[str | None, list[ParamError]]:  # fmt: skip
    """Which of the data set's files is read: the one that ``file`` names, else the only one in a known format.
    ``field`` is the parameter that names the data set."""
    files = sorted(paths)
    readable = [path for path in files if path.lower().endswith(FORMATS)]
    if named is not None:
        if named in files:
            return named, []
        if not isinstance(named, str) or not named.lower().endswith(FORMATS):
            return None, []  # it was told with the other parameters
        hint = nearest(named, files)
        message = f"{shown(dataset)} has no file {shown(named)}{hint}; its files are {some(files)}"
        return None, [ParamError("params.file", "no_such_file", message, files[:SHOWN])]
    if len(readable) == 1:
        return readable[0], []
    if readable:
        message = f"{shown(dataset)} has {some(readable)}: say with file which is read"
        return None, [ParamError("params.file", "required", message, readable[:SHOWN])]
    message = f"{shown(dataset)} has no file that ends in {', '.join(FORMATS)}: its files are {some(files)}"
    return None, [ParamError(field, "unsupported_format", message, list(FORMATS))]


def format_faults(path: str, task: str, dataset: str, field: str) -> list[ParamError]:
    """What is wrong with the format of the file that is read for such a task: language is read as text."""
    if task in READ_TEXTS and path.lower().endswith(".safetensors"):
        reader = "a language model" if task == LANGUAGE else "this model"
        message = f"{shown(path)} of {shown(dataset)} holds numbers, and {reader} reads texts: give .jsonl or .csv"
        return [ParamError(field, "unsupported_format", message, [".jsonl", ".csv"])]
    return []


def some(names: Sequence[str]) -> str:
    """The first of the names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(name[:100] for name in names[:SHOWN])}{more}"


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(str(n) for n in shape) or "a single number"


def _file(params: Mapping[str, Any]) -> Checked:
    given = params.get("file")
    if given is None:
        return {}, []
    if isinstance(given, str) and (size := len(given.encode("utf-8", "replace"))) > MAX_FILE:
        message = f"file has {size} bytes, at most {MAX_FILE} are taken: give the file a shorter name"
        return {"file": given}, [ParamError("params.file", "too_long", message, MAX_FILE)]
    if not isinstance(given, str) or not given.lower().endswith(FORMATS):
        message = f"file must name a file of the data set that ends in {', '.join(FORMATS)}, not {shown(given)}"
        return {"file": given}, [ParamError("params.file", "unsupported_format", message, list(FORMATS))]
    return {"file": given}, []


def _architecture(params: Mapping[str, Any]) -> Checked:
    given = params.get("architecture")
    if given is None:
        return {}, []
    _, clean, errors = architecture(given, ARCHITECTURE, strict=True)
    return {"architecture": clean if clean and not errors else given}, errors
