"""The parameters of batch inference, and whether they fit its model; every reason at once. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workers.model_families import CLASSIFY, CLASSIFY_TEXTS, EMBED, LANGUAGE, TASK_WORDS, Family
from workers.param_errors import ParamError, unknown
from workers.rows_params import (
    MAX_SAMPLES,
    MODEL,
    ROWS_KNOWN,
    Checked,
    check_artifacts,
    check_rows,
    check_whole,
    named_artifacts,
)
from workers.said_back import shown

INPUT = "input"
OF_LANGUAGE = ("max_new_tokens", "temperature", "seed", "logprobs")
KNOWN = [MODEL, INPUT, *OF_LANGUAGE, "max_bad_rows", *ROWS_KNOWN]
NEW_TOKENS = 32
MAX_NEW_TOKENS = 65_536
MAX_TEMPERATURE = 100.0
MAX_SEED = 2**63 - 1
_CLASSES = "a label and its probabilities"
_GIVE: Mapping[str, str] = {CLASSIFY: _CLASSES, CLASSIFY_TEXTS: _CLASSES, EMBED: "a vector"}


@dataclass(frozen=True, slots=True)
class Generation:
    """What a language model makes of a text: so many ``tokens``, each the likeliest (``temperature`` 0) or drawn by
    ``seed`` and row; with ``logprobs`` how likely it found each token."""

    tokens: int
    temperature: float
    seed: int
    logprobs: bool


def check_infer(params: Mapping[str, Any]) -> Checked:
    """The parameters with their defaults, and everything wrong with them (empty when they can run). What is of one
    task alone has no default here."""
    errors = unknown(params, KNOWN, "infer")
    clean: dict[str, Any] = {}
    artifacts = check_artifacts(params, {MODEL: "model", INPUT: "data set"})
    for more, wrong in (
        artifacts, check_whole(params, "max_new_tokens", 0, MAX_NEW_TOKENS), _temperature(params),
        check_whole(params, "seed", 0, MAX_SEED), _logprobs(params),
        check_whole(params, "max_bad_rows", 0, MAX_SAMPLES, 0), check_rows(params),
    ):  # fmt: skip
        clean |= more
        errors += wrong
    if clean.get("max_new_tokens") == 0 and type(clean["max_new_tokens"]) is int and not clean.get("logprobs"):
        message = "max_new_tokens is 0 and logprobs are not asked for, so nothing would come out: change one of them"
        errors.append(ParamError("params.max_new_tokens", "mismatch", message, [1, MAX_NEW_TOKENS]))
    return clean, errors


def infer_references(params: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Both artifacts that an inference names: ``(field, reference, name under EMEP_INPUT_DIR)``."""
    return named_artifacts(params, (MODEL, INPUT))


def generation_faults(family: Family, clean: Mapping[str, Any]) -> list[ParamError]:
    """The parameters of language models that were given for a model of another task."""
    if family.task == LANGUAGE:
        return []
    why = f"of the architecture {family.name}: {TASK_WORDS[family.task]} give {_GIVE[family.task]}; leave it out"
    foreign = [name for name in OF_LANGUAGE if clean.get(name) is not None]
    return [ParamError(f"params.{name}", "mismatch", f"{name} can't be asked {why}") for name in foreign]


def generation_of(clean: Mapping[str, Any]) -> Generation:
    """What clean parameters ask of a language model, with the defaults."""
    return Generation(
        clean.get("max_new_tokens", NEW_TOKENS), float(clean.get("temperature", 0.0)), clean.get("seed", 0),
        clean.get("logprobs", False),
    )  # fmt: skip


def _temperature(params: Mapping[str, Any]) -> Checked:
    given = params.get("temperature")
    if given is None:
        return {}, []
    if type(given) in (int, float) and 0 <= given <= MAX_TEMPERATURE and math.isfinite(given):
        return {"temperature": given}, []
    message = (
        f"temperature must be a number from 0 (always the likeliest token) to {MAX_TEMPERATURE:g}, not {shown(given)}"
    )
    return {"temperature": given}, [
        ParamError("params.temperature", "out_of_range", message, [0, MAX_TEMPERATURE])
    ]  # fmt: skip


def _logprobs(params: Mapping[str, Any]) -> Checked:
    given = params.get("logprobs")
    if given is None:
        return {}, []
    if isinstance(given, bool):
        return {"logprobs": given}, []
    message = f"logprobs must be true or false, not {shown(given)}"
    return {"logprobs": given}, [ParamError("params.logprobs", "not_a_boolean", message, [True, False])]
