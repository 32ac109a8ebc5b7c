"""The kinds of job and their parameters as OpenAPI has them: names and bounds are those of the code that checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workers.catalog import KINDS
from workers.command_params import (
    AFTER_SIGNAL,
    MAX_ENV,
    MAX_INPUTS,
    MAX_NOTICE_S,
    MAX_NPROC,
    MAX_VALUE,
    MAX_WORDS,
    SIGNALS,
)
from workers.merge_params import DTYPES, MIN_SHARD_BYTES
from workers.merge_strategies import GRANULARITIES, MAX_MODELS, RESCALES, STRATEGIES

Schema = dict[str, Any]


def _text(about: str, **more: Any) -> Schema:
    return {"type": "string", "description": about, **more}


def _whole(about: str, least: int, most: int | None = None, **more: Any) -> Schema:
    top = {} if most is None else {"maximum": most}
    return {"type": "integer", "minimum": least, **top, "description": about, **more}


def _switch(about: str, *, default: bool) -> Schema:
    return {"type": "boolean", "default": default, "description": about}


def _shares(about: str, *, above: bool = False) -> Schema:
    """From 0 to 1, once for all models or one a model."""
    one = {"type": "number", "maximum": 1, "minimum": 0, **({"exclusiveMinimum": True} if above else {})}
    return {"oneOf": [one, {"type": "array", "items": one}], "description": f"{about} One number, or one a model."}


def _of(parameter: str) -> str:
    """Which strategies have it."""
    names = [each.name for each in STRATEGIES.values() if parameter in each.own]
    return f"Of {', '.join(names[:-1])}{' and ' * (len(names) > 1)}{names[-1]}"


_ARTIFACT = "id or name of an artifact of the project"
PARAMETERS: Mapping[str, dict[str, Schema]] = {
    "merge": {
        "strategy": _text(
            "; ".join(f"{each.name}: {each.summary}" for each in STRATEGIES.values()),
            enum=list(STRATEGIES), default="slerp",
        ),
        "models": {
            "type": "array", "items": _text(_ARTIFACT), "minItems": 1, "maxItems": MAX_MODELS,
            "description": "The models in order, without a base. " + "; ".join(
                f"{each.name} takes {each.min_models}" + f" to {each.max_models}" * (each.max_models > each.min_models)
                for each in STRATEGIES.values()),
        },
        "base_model": _text(
            f"{_ARTIFACT}, from which the models were tuned; none of them. {_of('base_model')}; nuslerp may do without."
        ),
        "t": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.5,
              "description": f"{_of('t')}. 0 is the first model, 1 the second."},
        "weights": {"type": "array", "items": {"type": "number"},
                    "description": f"{_of('weights')}. One a model, in their order; all 1 by default."},
        "normalize": {
            "type": "boolean",
            "description": f"{_of('normalize')}. The result is divided by the sum of the weights, or where signs are "
            "elected of those that agree. By default true for "
            f"{', '.join(s.name for s in STRATEGIES.values() if s.normalize)}, else false.",
        },
        "lambda": {"type": "number", "default": 1, "description": f"{_of('lambda')}. What the summed changes are "
                   "multiplied by before they are added to the base."},
        "density": _shares(f"{_of('density')}, which need it. The share of each model's changes kept.", above=True),
        "epsilon": _shares(f"{_of('epsilon')}, which need it. The chance to be kept goes from density - epsilon to "
                           "density + epsilon, both above 0 and below 1."),
        "gamma": _shares(f"{_of('gamma')}. The share of the largest changes that is dropped; 0.01 by default."),
        "rescale": _text(f"{_of('rescale')}. What makes up for dropped changes: inverse divides each kept one by its "
                         "chance, l1 keeps their summed size, none does nothing.",
                         enum=list(RESCALES), default=RESCALES[0]),
        "granularity": _text(f"{_of('granularity')}. What has an angle of its own.",
                             enum=list(GRANULARITIES), default=GRANULARITIES[0]),
        "dtype": _text("What is computed in.", enum=list(DTYPES)),
        "out_dtype": _text("What is stored; by default as the models are.", enum=list(DTYPES)),
        "max_shard_size": _whole("Bytes of each file of the result at most.", MIN_SHARD_BYTES),
        "seed": _whole("Of what is random in the strategy.", 0, default=0),
    },
    "command": {
        "argv": {
            "type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MAX_WORDS,
            "description": "The program and its words, run as they are: a Python script needs python before it, unless "
            "torchrun starts it. Either this or shell.",
        },
        "shell": _text(
            "One command line, run as `exec LINE` by sh. Either this or argv. What is to be kept goes into "
            "$EMEP_OUTPUT_DIR."
        ),
        "files": _text(f"The program: {_ARTIFACT}; it starts in that directory."),
        "inputs": {
            "type": "object", "additionalProperties": _text(_ARTIFACT), "maxProperties": MAX_INPUTS,
            "description": "Artifacts by the name that they have under EMEP_INPUT_DIR.",
        },
        "cwd": _text("Where it starts instead: a directory of the node, or one of the job's own.", maxLength=1024),
        "env": {
            "type": "object", "additionalProperties": {"type": "string"}, "maxProperties": MAX_ENV,
            "description": f"Further variables, {MAX_VALUE} bytes each at most: none that EMEP sets, no secrets.",
        },
        "torchrun": _switch("torchrun starts argv, one process a GPU.", default=False),
        "nproc": _whole("With torchrun: so many processes a node instead.", 1, MAX_NPROC),
        "preempt_signal": _text("What it gets when it is to save.", enum=list(SIGNALS), default=SIGNALS[0]),
        "checkpoint_exit_code": _whole("What it exits with once it has saved.", 3, 125, default=85),
        "done_file": _text("A file in EMEP_OUTPUT_DIR that says the work is complete.", maxLength=1024),
        "exit_zero_after_signal": _text(
            "What exit code 0 after the signal means.", enum=list(AFTER_SIGNAL), default=AFTER_SIGNAL[0]
        ),
        "limit_notice_s": _whole(
            "How many seconds before the end of max_duration it gets its signal; half of max_duration at most counts.",
            0, MAX_NOTICE_S,
        ),
    },
}  # fmt: skip
NEEDED: Mapping[str, list[str]] = {"merge": ["models"], "command": []}

KIND: Schema = {
    "type": "string", "enum": list(KINDS),
    "description": "; ".join(f"{kind.name}: {kind.title[:1].lower()}{kind.title[1:]}" for kind in KINDS.values()),
}  # fmt: skip
PARAMS: Schema = {
    "description": "By kind; a parameter that the kind has not is an error. How much host memory a job may take is a "
    "setting of each node (job_memory_bytes), no parameter.",
    "oneOf": [
        {
            "title": f"Parameters of {name}", "type": "object", "properties": PARAMETERS[name],
            "additionalProperties": False, **({"required": NEEDED[name]} if NEEDED[name] else {}),
        }
        for name in KINDS
    ],
}  # fmt: skip

EXAMPLES: Mapping[str, dict[str, Any]] = {
    "A merge of two models": {
        "kind": "merge", "name": "digits", "project": "alpha", "gpu_count": 2, "nvlink_required": True,
        "max_duration": "1h", "params": {"strategy": "slerp", "t": 0.5, "models": ["digits-0-4", "digits-5-9"]},
    },
    "A weighted mean of models": {
        "kind": "merge", "project": "alpha", "gpu_count": 1, "max_duration": "30m",
        "params": {"strategy": "linear", "weights": [2, 1], "models": ["digits-0-4", "digits-5-9"],
                   "out_dtype": "bfloat16"},
    },
    "TIES of two models on their base": {
        "kind": "merge", "project": "alpha", "gpu_count": 1, "max_duration": "30m",
        "params": {"strategy": "ties", "density": 0.2, "models": ["digits-0-4", "digits-5-9"],
                   "base_model": "digits-base"},
    },
    "A script on one GPU": {
        "kind": "command", "name": "train", "project": "alpha", "gpu_count": 1, "gpu_memory_min": "40GB",
        "max_duration": "4h", "params": {"argv": ["python", "train.py", "--lr", "0.1"], "files": "my-code",
                                         "inputs": {"base": "digits-0-4"}, "env": {"SEED": "1"}, "limit_notice_s": 300},
    },
    "A line of sh": {
        "kind": "command", "project": "alpha", "gpu_count": 1, "max_duration": "10m",
        "params": {"shell": 'python eval.py > "$EMEP_OUTPUT_DIR/scores.txt"', "files": "my-code",
                   "preempt_signal": "SIGUSR1", "checkpoint_exit_code": 99, "exit_zero_after_signal": "success",
                   "done_file": "done"},
    },
    "torchrun on two nodes": {
        "kind": "command", "project": "alpha", "node_count": 2, "gpus_per_node": 2, "max_duration": "8h",
        "params": {"argv": ["train.py"], "files": "my-code", "torchrun": True, "nproc": 2},
    },
    "Rules of placement, and away from the other jobs of a group": {
        "kind": "command", "project": "alpha", "gpu_count": 1, "max_duration": "2h",
        "params": {"argv": ["python", "train.py", "--seed", "7"], "files": "my-code"},
        "affinity": {
            "required": [{"key": "gpu_model", "op": "NotIn", "values": ["T4", "P100"]}],
            "preferred": [{"key": "network_bandwidth_gbps", "op": "Gt", "values": [100], "weight": 10}],
        },
        "group": "sweep-7", "anti_affinity": {"group": "sweep-7", "level": "node"},
    },
    "In the place of a waiting job": {
        "kind": "command", "name": "train", "project": "alpha", "gpu_count": 1, "max_duration": "4h",
        "params": {"argv": ["python", "train.py"]}, "replaces": "6f1c2d9e-3a5b-4f60-9d0e-2b7c8a914e53",
    },
}  # fmt: skip
