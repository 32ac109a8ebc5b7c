"""Data sets as tensors: of a safetensors file ``inputs`` (samples, features), floats, and ``labels`` (samples)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from workers.engines.data_files import Columns, Faults, has_columns
from workers.engines.dtypes import TensorSpec
from workers.engines.headers import read_header
from workers.engines.sources import Positioned

INPUTS, LABELS = "inputs", "labels"


@dataclass(frozen=True, slots=True)
class TensorFile:
    """A file whose tensors have the right shapes and types; its numbers are not read yet."""

    specs: Mapping[str, TensorSpec]
    reader: Positioned

    @property
    def count(self) -> int:
        """How many samples it has."""
        return self.specs[INPUTS].shape[0]

    def inputs(self, count: int, faults: Faults) -> torch.Tensor:
        """The first ``count`` samples in float64; those that are not finite are told."""
        spec = self.specs[INPUTS]
        features = spec.shape[1]
        found = self.reader.read(spec, 0, count * features).to(torch.float64).reshape(count, features)
        for place in (~torch.isfinite(found)).any(1).nonzero().flatten().tolist():
            faults.add("not_finite", f"sample {place}", "inputs holds NaN or infinity: every number must be finite",
                       place)  # fmt: skip
        return found

    def labels(self, count: int) -> torch.Tensor:
        """The labels of the first ``count`` samples."""
        return self.reader.read(self.specs[LABELS], 0, count).to(torch.int64)


def open_tensors(path: Path, columns: Columns, features: int, faults: Faults) -> TensorFile:
    """The file, for a model that reads so many ``features``; refused with everything that its header has wrong."""
    header = read_header(path, faults.label)
    specs = {name: extent.spec for name, extent in header.extents.items()}
    if has_columns(specs, columns, "", faults):
        inputs = specs[INPUTS]
        if inputs.dtype.kind != "float" or len(inputs.shape) != 2 or inputs.shape[1] != features:
            faults.add("wrong_shape", INPUTS, f"it is {list(inputs.shape)} of {inputs.dtype.name}; the model "
                       f"reads floats of shape [samples, {features}]")  # fmt: skip
        labels = specs[LABELS] if LABELS in columns.needed else None
        if labels is not None and (
            labels.dtype.kind != "integer" or len(labels.shape) != 1 or labels.shape[:1] != inputs.shape[:1]
        ):
            faults.add("wrong_shape", LABELS, f"it is {list(labels.shape)} of {labels.dtype.name}; there must be one "
                       "integer a sample")  # fmt: skip
    faults.stop()
    return TensorFile(specs, Positioned(header.extents))
