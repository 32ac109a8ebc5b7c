"""The parameters of an evaluation, and whether they fit its model; every reason at once. Standard library only.

Form, REST and the job all ask here, so all refuse alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workers.model_families import CLASSIFY, LANGUAGE, Family, architecture
from workers.param_errors import ParamError, nearest, unknown
from workers.said_back import shown

MODEL, DATASET = "model", "dataset"
_WORDS = {MODEL: "model", DATASET: "data set"}
ARCHITECTURE = "params.architecture"
CONFIG = "config.json"
MAX_CONFIG = 4_000_000
KNOWN = ["model", "dataset", "metrics", "batch_size", "limit", "file", "architecture"]
# In the order in which they are told; the first is what the task is judged by.
OF_TASK: Mapping[str, tuple[str, ...]] = {
    CLASSIFY: ("accuracy", "loss"),
    LANGUAGE: ("perplexity", "bits_per_byte", "loss"),
}
METRICS = tuple(dict.fromkeys(name for names in OF_TASK.values() for name in names))
BATCH = 32
MAX_BATCH = 65_536
MAX_FILE = 255
MAX_SAMPLES = 1_000_000_000
FORMATS = (".jsonl", ".csv", ".safetensors")
SHOWN = 5


def check_evaluate(params: Mapping[str, Any]) -> tuple[dict[str, Any], list[ParamError]]:
    """The parameters with their defaults, and everything wrong with them (empty when they can run)."""
    errors = unknown(params, KNOWN, "evaluate")
    clean: dict[str, Any] = {}
    for name in (MODEL, DATASET):
        given = params.get(name)
        clean[name] = given.strip() if isinstance(given, str) else ""
        if not clean[name]:
            told = f"{name} is missing: give" if given is None else f"{name} must be, and not {shown(given)},"
            code = "required" if given is None else "not_a_name"
            errors.append(ParamError(f"params.{name}", code, f"{told} the id or name of a {_WORDS[name]}"))
    for read in (_metrics, _counts, _file, _architecture):
        more, wrong = read(params)
        clean |= more
        errors += wrong
    return clean, errors


def evaluate_references(params: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Both artifacts that an evaluation names: ``(field, reference, name under EMEP_INPUT_DIR)``."""
    given = [(name, params.get(name)) for name in (MODEL, DATASET)]
    return [(f"params.{name}", value, name) for name, value in given if isinstance(value, str) and value]


def chosen_metrics(clean: Mapping[str, Any], task: str) -> list[str]:
    """The metrics asked for, in the order of the task; all of the task where none were."""
    asked = clean.get("metrics")
    return [name for name in OF_TASK[task] if not asked or name in asked]


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
    family, settled, errors = architecture(config, "params.model", strict=False)
    told = [
        ParamError("params.model", each.code, f"{CONFIG} of {shown(model)}: {each.message}", each.limit)
        for each in errors
    ]
    return family, settled, told


def fit_faults(
    family: Family, settled: Mapping[str, Any], clean: Mapping[str, Any], model: str,
    tensors: Mapping[str, tuple[str, Sequence[int]]] | None,
) -> list[ParamError]:  # fmt: skip
    """Everything that keeps this model from being evaluated so: metrics of another task; tensors (``{name: (type,
    shape)}``, None: not known yet) that are missing, too many, of another shape or no floats."""
    errors = _metrics_of(family, clean)
    if tensors is None:
        return errors
    wanted, told = family.shapes(settled), shown(model)
    missing, more = [n for n in wanted if n not in tensors], sorted(n for n in tensors if n not in wanted)
    if missing:
        hint = nearest(missing[0], more)
        message = f"{told} lacks {_some(missing)}, which the architecture {family.name} has{hint}: {_FITS}"
        errors.append(ParamError("params.model", "missing_tensor", message, missing[:SHOWN]))
    if more:
        message = f"{told} has {_some(more)}, which the architecture {family.name} has not: {_FITS}"
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
            f"{told} has no floats in {_some(whole)} ({tensors[whole[0]][0]}): give the model with 16, 32 or 64 bit"
        )
        errors.append(ParamError("params.model", "unsupported_dtype", f"{message} floats", list(_FLOATS)))
    return errors


_FITS = "give a model that fits, or say with architecture what it is"
_FLOATS = ("F16", "BF16", "F32", "F64")


def data_file(paths: Iterable[str], named: str | None, dataset: str) -> tuple[str | None, list[ParamError]]:
    """Which of the data set's files is read: the one that ``file`` names, else the only one in a known format."""
    files = sorted(paths)
    readable = [path for path in files if path.lower().endswith(FORMATS)]
    if named is not None:
        if named in files:
            return named, []
        if not isinstance(named, str) or not named.lower().endswith(FORMATS):
            return None, []  # it was told with the other parameters
        hint = nearest(named, files)
        message = f"{shown(dataset)} has no file {shown(named)}{hint}; its files are {_some(files)}"
        return None, [ParamError("params.file", "no_such_file", message, files[:SHOWN])]
    if len(readable) == 1:
        return readable[0], []
    if readable:
        message = f"{shown(dataset)} has {_some(readable)}: say with file which is read"
        return None, [ParamError("params.file", "required", message, readable[:SHOWN])]
    message = f"{shown(dataset)} has no file that ends in {', '.join(FORMATS)}: its files are {_some(files)}"
    return None, [ParamError("params.dataset", "unsupported_format", message, list(FORMATS))]


def format_faults(path: str, task: str, dataset: str) -> list[ParamError]:
    """What is wrong with the format of the file that is read for such a task: language is read as text."""
    if task == LANGUAGE and path.lower().endswith(".safetensors"):
        message = (
            f"{shown(path)} of {shown(dataset)} holds numbers, and a language model reads texts: give .jsonl or .csv"
        )
        return [ParamError("params.dataset", "unsupported_format", message, [".jsonl", ".csv"])]
    return []


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(name[:100] for name in names[:SHOWN])}{more}"


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(str(n) for n in shape) or "a single number"


def _metrics(params: Mapping[str, Any]) -> tuple[dict[str, Any], list[ParamError]]:
    given = params.get("metrics")
    if given is None:
        return {}, []
    if not isinstance(given, (list, tuple)) or not given:
        message = f"metrics must be a list of some of {', '.join(METRICS)}, not {shown(given)}; without it all are told"
        return {}, [ParamError("params.metrics", "not_a_list", message, list(METRICS))]
    errors = [
        ParamError(f"params.metrics.{place}", "unknown_metric", f"there is no metric {shown(name)}"
                   f"{nearest(str(name), METRICS)}; choose of {', '.join(METRICS)}", list(METRICS))
        for place, name in enumerate(given) if name not in METRICS
    ]  # fmt: skip
    known = [name for name in METRICS if name in given]
    if not errors and len(known) < len(given):
        message = "metrics names one twice: give each once"
        errors.append(ParamError("params.metrics", "twice", message, known))
    if known and not errors and not any(set(known) <= set(names) for names in OF_TASK.values()):
        told = "; ".join(f"of {_MODELS[task]} {', '.join(names)}" for task, names in OF_TASK.items())
        message = f"metrics {', '.join(known)} are of no one kind of model: {told}"
        errors.append(ParamError("params.metrics", "mismatch", message, list(METRICS)))
    return {"metrics": known}, errors


_MODELS = {CLASSIFY: "models that tell classes apart", LANGUAGE: "language models"}


def _metrics_of(family: Family, clean: Mapping[str, Any]) -> list[ParamError]:
    own = OF_TASK[family.task]
    foreign = [name for name in clean.get("metrics") or () if name not in own]
    if not foreign:
        return []
    message = (
        f"{', '.join(foreign)} can't be told of the architecture {family.name}: {_MODELS[family.task]} have "
        f"{', '.join(own)}"
    )
    return [ParamError("params.metrics", "mismatch", message, list(own))]


def _counts(params: Mapping[str, Any]) -> tuple[dict[str, Any], list[ParamError]]:
    clean: dict[str, Any] = {}
    errors = []
    for name, default, most in (("batch_size", BATCH, MAX_BATCH), ("limit", None, MAX_SAMPLES)):
        value = params.get(name)
        value = default if value is None else value
        if value is None:
            continue
        clean[name] = value
        if type(value) is not int or not 1 <= value <= most:
            message = f"{name} must be a whole number from 1 to {most}, not {shown(value)}"
            errors.append(ParamError(f"params.{name}", "out_of_range", message, [1, most]))
    return clean, errors


def _file(params: Mapping[str, Any]) -> tuple[dict[str, Any], list[ParamError]]:
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


def _architecture(params: Mapping[str, Any]) -> tuple[dict[str, Any], list[ParamError]]:
    given = params.get("architecture")
    if given is None:
        return {}, []
    _, clean, errors = architecture(given, ARCHITECTURE, strict=True)
    return {"architecture": clean if clean and not errors else given}, errors
