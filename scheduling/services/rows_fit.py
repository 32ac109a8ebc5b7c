"""Does a model that is run over the rows of a data set fit its architecture, its job and these? Told before anything is
allocated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduling.services.model_config import config_of
from workers.catalog import KINDS
from workers.harness_params import HARNESS, task_file_faults
from workers.huggingface_families import file_faults
from workers.model_families import Family, architecture
from workers.param_errors import ParamError
from workers.rows_params import (
    ARCHITECTURE,
    MODEL,
    data_file,
    family_of,
    format_faults,
    tensor_faults,
)


def faults(kind: str, params: Mapping[str, Any], found: Mapping[str, Any]) -> list[ParamError]:
    """Everything that headers, configuration and names of files can tell; nothing of a kind that runs no model over
    rows. ``params`` are the checked ones, ``found`` the artifacts by the names of the inputs, as far as they are there
    and of the right kind.

    The rows themselves are read by the job, before the first of them is computed.
    """
    fits = KINDS[kind].fits
    if fits is None:
        return []
    errors: list[ParamError] = []
    family: Family | None = None
    if MODEL in found:
        model = found[MODEL]
        family, settled, errors = _family(params, model)
        if family is not None:
            errors = [
                *errors,
                *fits(family, params),
                *file_faults(family, model.name, [str(f["path"]) for f in model.files]),
                *tensor_faults(family, settled, model.name, model.tensors),
            ]
    data = KINDS[kind].data
    if data in found:
        dataset, field = found[data], f"params.{data}"
        paths = [str(f["path"]) for f in dataset.files]
        if params.get(HARNESS) is not None:
            return [*errors, *task_file_faults(paths, dataset.name, field)]
        path, wrong = data_file(paths, params.get("file"), dataset.name, field)
        errors += wrong
        if path is not None and family is not None:
            errors += format_faults(path, family.task, dataset.name, field)
    return errors


def _family(params: Mapping[str, Any], model: Any) -> tuple[Family | None, dict[str, Any], list[ParamError]]:
    """None where its architecture can't be told; of a wrong one in the parameters the errors are told already."""
    given = params.get("architecture")
    if given is not None and architecture(given, ARCHITECTURE, strict=True)[2]:
        return None, {}, []
    family, settled, errors = family_of(params, config_of(model.files), model.name)
    return (None, {}, errors) if errors else (family, settled, [])
