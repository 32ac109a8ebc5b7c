"""Opens what a job reads that runs a model over the rows of a data set, and gathers all that is wrong with it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch

from workers.catalog import KINDS, check_params
from workers.engines.dtypes import TensorSpec
from workers.engines.huggingface import Theirs, open_theirs
from workers.engines.models import Loaded, load
from workers.engines.refusals import EngineRefusal, Problem
from workers.engines.sources import open_model
from workers.engines.words import Words
from workers.harness_params import HARNESS, task_file_faults
from workers.huggingface_families import file_faults
from workers.kinds.context import JobContext, JobInput
from workers.model_families import Family
from workers.param_errors import ParamError
from workers.rows_params import CONFIG, MAX_CONFIG, MODEL, data_file, family_of, format_faults, tensor_faults

T = TypeVar("T")
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Subject(Generic[S]):
    """What is worked on: the parameters, the model with its family and configuration, and what was read of the rows."""

    params: Mapping[str, Any]
    family: Family
    config: Mapping[str, Any]
    model: Loaded
    samples: S


@dataclass(frozen=True, slots=True)
class DataFile:
    """The file of the data set that is read, or its directory: where it lies, what messages call it, and the ``field``
    of the job that names the data set; the first ``limit`` rows of it, for a model of this family and configuration.
    ``words``: those of the model where it has a tokenizer of its own."""

    path: Path
    label: str
    field: str
    limit: int | None
    family: Family
    config: Mapping[str, Any]
    words: Words | None = None


def open_subject(
    context: JobContext, devices: Sequence[torch.device], read: Callable[[DataFile, Mapping[str, Any]], S]
) -> Subject[S]:
    """All of it, checked; raises one refusal with everything that is wrong, as far as it can be known beside the rest.

    ``read(file, params)`` gives the rows, of parameters that may be wrong themselves.
    """
    return _Opening(context).subject(devices, read)


class _Opening:
    def __init__(self, context: JobContext) -> None:
        self._kind = KINDS[context.kind]
        self._inputs = context.inputs_by_name
        self._params, errors = check_params(context.kind, context.params)
        self._problems = [Problem("config", e.message, {"field": e.field}) for e in errors]

    def subject(
        self, devices: Sequence[torch.device], read: Callable[[DataFile, Mapping[str, Any]], S]
    ) -> Subject[S]:  # fmt: skip
        model = self._inputs[MODEL]
        source = self._tried(lambda: open_model(model.directory, model.title))
        family, config = self._family(model)
        loaded = samples = None
        if family is not None:
            fits = self._kind.fits(family, self._params) if self._kind.fits else []
            wrong = tensor_faults(family, config, model.title, table_of(source.specs.values()) if source else None)
            wrong += file_faults(family, model.title, _files(model.directory))
            self._told([*fits, *wrong])
            theirs = self._theirs(model, family, config) if family.library and not wrong else None
            if theirs is not None:
                config = theirs.config
            if source is not None and not wrong and not family.library:
                loaded = self._tried(lambda: load(source, config, devices))
            elif source is not None and theirs is not None:
                loaded = self._tried(lambda: theirs.load(devices))
            file = self._file(self._inputs[self._kind.data], family, config)
            if file is not None and family.library:
                file = dataclasses.replace(file, words=theirs.words) if theirs else None
            samples = self._tried(lambda: read(file, self._params)) if file is not None else None
        if self._problems or family is None or loaded is None or samples is None:
            raise EngineRefusal.of(self._problems)
        return Subject(self._params, family, config, loaded, samples)

    def _family(self, model: JobInput) -> tuple[Family | None, Mapping[str, Any]]:
        if any(str(p.details.get("field", "")).startswith("params.architecture") for p in self._problems):
            return None, {}
        family, config, errors = family_of(self._params, config_of(model.directory), model.title)
        self._told(errors)
        return (None, {}) if errors else (family, config)

    def _theirs(self, model: JobInput, family: Family, config: Mapping[str, Any]) -> Theirs | None:
        return self._tried(lambda: open_theirs(model.directory, model.title, family, config))

    def _file(self, data: JobInput, family: Family, config: Mapping[str, Any]) -> DataFile | None:
        file, errors = file_of(data, f"params.{self._kind.data}", self._params, family, config)
        self._told(errors)
        return file

    def _told(self, errors: Sequence[ParamError]) -> None:
        self._problems += problems_of(errors)

    def _tried(self, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except EngineRefusal as refusal:
            self._problems += refusal.problems
            return None


def _files(directory: Path) -> list[str]:
    return [path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()]


def file_of(
    data: JobInput, field: str, params: Mapping[str, Any], family: Family, config: Mapping[str, Any]
) -> tuple[DataFile | None, list[ParamError]]:
    """The file of the data set that ``params`` name, all of it for tasks of a harness, and what is wrong with that;
    ``field`` names the data set."""
    if params.get(HARNESS) is not None:
        errors = task_file_faults(_files(data.directory), data.title, field)
        limit = params.get("limit")
        right = not errors and (limit is None or type(limit) is int)
        return (DataFile(data.directory, data.title, field, limit, family, config) if right else None), errors
    path, errors = data_file(_files(data.directory), params.get("file"), data.title, field)
    if path is not None:
        errors += format_faults(path, family.task, data.title, field)
    limit = params.get("limit")
    if path is None or errors or (limit is not None and type(limit) is not int):
        return None, errors
    label = f"{data.title}: {path}" if data.title != path else path
    return DataFile(data.directory / path, label, field, limit, family, config), []


def problems_of(errors: Iterable[ParamError]) -> list[Problem]:
    """What is wrong with parameters as an engine tells what is wrong."""
    return [Problem(e.code, e.message, {"field": e.field}) for e in errors]


def table_of(specs: Iterable[TensorSpec]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Type and shape of each tensor by its name."""
    return {spec.name: (spec.dtype.name, spec.shape) for spec in specs}


def config_of(directory: Path) -> Any:
    """What the model's ``config.json`` says; None where it has none that can be read."""
    path = directory / CONFIG
    try:
        return json.loads(path.read_text("utf-8")) if path.stat().st_size <= MAX_CONFIG else None
    except (OSError, ValueError, RecursionError):
        return None
