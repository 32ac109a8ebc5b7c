"""PyTorch checkpoints (.pt, .pth, .bin), opened by torch's weights-only loader and nothing else."""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from workers.engines.dtypes import BY_TORCH, TensorSpec
from workers.engines.refusals import EngineRefusal
from workers.said_back import shown

SAVE_PLAIN = "save the state dictionary alone (torch.save(model.state_dict(), path)), or as safetensors"
_GLOBAL = re.compile(r"\bGLOBAL (\S+)")
_UNREAD = re.compile(r"Unsupported operand \d+|Can only [^\n`]+|String is too long|[^\n]*persistent[^\n]*")
NESTED = ("state_dict", "model_state_dict", "model_state", "model")


def is_mapped(path: Path) -> bool:
    """Can the checkpoint be mapped? One of the format before PyTorch 1.6 is read into memory as a whole."""
    return zipfile.is_zipfile(path)


def open_checkpoint(path: Path, label: str) -> dict[str, torch.Tensor]:
    """The tensors of ``path`` by name, on the CPU; what can be mapped is not read.

    A checkpoint that keeps its weights one level down (``state_dict`` and the like) is understood. Refused:
    anything the weights-only loader refuses (it runs no code from the file), and files without tensors.
    """
    try:
        loaded = torch.load(path, map_location="cpu", mmap=is_mapped(path), weights_only=True)
    except pickle.UnpicklingError as error:
        raise _not_weights(str(error), label) from error
    except (RuntimeError, EOFError, ValueError, KeyError, OSError) as error:
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise EngineRefusal(
            "corrupt_input",
            f"{label} can't be read ({first_line[:160]}): it is cut or damaged; upload it again",
            {"file": label},
        ) from error
    tensors = _weights(loaded)
    if tensors is None:
        raise EngineRefusal(
            "corrupt_input",
            f"{label} holds no dictionary of tensors, at its top level or under {', '.join(NESTED)}",
            {"file": label},
        )
    for name, tensor in tensors.items():
        if tensor.dtype not in BY_TORCH or tensor.layout != torch.strided:
            raise EngineRefusal(
                "unsupported_dtype",
                f"{label}: tensor {name[:200]!r} is {tensor.dtype} ({tensor.layout}), which can't be read",
                {"file": label, "tensor": name[:200]},
            )
    return tensors


def _not_weights(said: str, label: str) -> EngineRefusal:
    """What PyTorch said of a file that holds more than weights, in words for whoever made it: PyTorch's own advise to
    trust the file."""
    named = _GLOBAL.search(said)
    if named is not None:
        return EngineRefusal(
            "unsafe_pickle",
            f"{label} holds {shown(named[1])} beside its weights, which may run code when it is opened, so it is not "
            f"opened: {SAVE_PLAIN}",
            {"file": label, "refused": named[1][:200]},
        )
    found = _UNREAD.search(said)
    why = f" ({found[0].strip()[:160]})" if found else ""
    return EngineRefusal(
        "corrupt_input",
        f"{label} is no file of weights that PyTorch's weights-only loader reads{why}: {SAVE_PLAIN}",
        {"file": label},
    )


def _weights(loaded: Any) -> dict[str, torch.Tensor] | None:
    candidates = [loaded]
    if isinstance(loaded, Mapping):
        candidates += [loaded[key] for key in NESTED if key in loaded]
    for candidate in candidates:
        if isinstance(candidate, Mapping) and candidate:
            tensors = {k: v for k, v in candidate.items() if isinstance(k, str) and isinstance(v, torch.Tensor)}
            if len(tensors) == len(candidate):
                return {k: v.detach() for k, v in tensors.items()}
    return None


def spec_of(name: str, tensor: torch.Tensor) -> TensorSpec:
    """The description of a tensor of a checkpoint."""
    return TensorSpec(name, BY_TORCH[tensor.dtype], tuple(tensor.shape))
