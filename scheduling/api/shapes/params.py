"""The kinds of job and their parameters as OpenAPI has them: names and bounds are those of the code that checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduling.api.shapes import evolve
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
from workers.evaluate_params import METRICS, OF_TASK
from workers.harness_params import HARNESS, HARNESSES, MAX_NAME, MAX_TASKS, TASKS
from workers.infer_params import MAX_NEW_TOKENS, MAX_SEED, MAX_TEMPERATURE, NEW_TOKENS
from workers.merge_mismatch import WORDS as ON_MISMATCH
from workers.merge_params import MIN_SHARD_BYTES
from workers.merge_settings import MAX_FILTER, MAX_FILTERS, MAX_POINTS
from workers.merge_strategies import GRANULARITIES, MAX_MODELS, RESCALES, STRATEGIES
from workers.model_families import FAMILIES, NAMES_IT, TASK_WORDS
from workers.model_layers import MAX_PATTERN, NUMBER
from workers.recipe_check import DTYPES, MAX_TEXT, TOP
from workers.rows_params import BATCH, FORMATS, MAX_BATCH, MAX_FILE, MAX_SAMPLES

Schema = dict[str, Any]


def _text(about: str, **more: Any) -> Schema:
    return {"type": "string", "description": about, **more}


def _whole(about: str, least: int, most: int | None = None, **more: Any) -> Schema:
    top = {} if most is None else {"maximum": most}
    return {"type": "integer", "minimum": least, **top, "description": about, **more}


def _switch(about: str, *, default: bool) -> Schema:
    return {"type": "boolean", "default": default, "description": about}


def _setting(value: Schema, *, numbers: bool = True) -> Schema:
    """One value for all tensors, a gradient over the layers, or the first filter that fits."""
    gradient = {"type": "array", "items": value, "minItems": 1, "maxItems": MAX_POINTS}
    one = {"oneOf": [value, gradient]} if numbers else value
    entry = {
        "type": "object", "required": ["value"], "additionalProperties": False,
        "properties": {"filter": {"type": "string", "minLength": 1, "maxLength": MAX_FILTER}, "value": one},
    }  # fmt: skip
    filters = {"type": "array", "items": entry, "minItems": 1, "maxItems": MAX_FILTERS}
    return {"oneOf": [*(one["oneOf"] if numbers else [value]), filters]}


def _varied(about: str, value: Schema, *, numbers: bool = True, **more: Any) -> Schema:
    """A parameter that is one for the merge, and may differ from tensor to tensor."""
    return {**_setting(value, numbers=numbers), "description": about, **more}


def _each(about: str, value: Schema) -> Schema:
    """Once for all models or one a model, each of which may differ from tensor to tensor."""
    setting = _setting(value)
    filters = setting["oneOf"][-1]
    return {
        "oneOf": [value, filters, {"type": "array", "items": setting, "maxItems": MAX_MODELS}],
        "description": f"{about} One for all, or a list of one a model.",
    }


def _share(*, above: bool = False) -> Schema:
    """From 0 to 1; ``above``: 0 itself is none."""
    return {"type": "number", "maximum": 1, "minimum": 0, **({"exclusiveMinimum": True} if above else {})}


def _of(parameter: str) -> str:
    """Which strategies have it."""
    names = [each.name for each in STRATEGIES.values() if parameter in each.own]
    return f"Of {', '.join(names[:-1])}{' and ' * (len(names) > 1)}{names[-1]}"


_ARTIFACT = "id or name of an artifact of the project"
# Of every kind that runs a model over the rows of a data set.
_ROWS: Mapping[str, Schema] = {
    "batch_size": _whole("Samples at a time.", 1, MAX_BATCH, default=BATCH),
    "limit": _whole("Only the first so many samples.", 1, MAX_SAMPLES),
    "file": _text(f"Which file of the data set is read, where it has several that end in {', '.join(FORMATS)}.",
                  maxLength=MAX_FILE),
    "architecture": {
        "type": "object", "required": [NAMES_IT],
        "properties": {NAMES_IT: {"type": "string", "enum": list(FAMILIES)},
                       **{name: {} for family in FAMILIES.values() for name in family.fields}},
        "additionalProperties": False,
        "description": "What the model is, where its config.json does not say so: " + "; ".join(
            f"{f.name}, {f.title} ({', '.join(f.fields)})" for f in FAMILIES.values()) + ".",
    },
}  # fmt: skip
PARAMETERS: Mapping[str, dict[str, Schema]] = {
    "merge": {
        "strategy": _text(
            "; ".join(f"{each.name}: {each.summary}" for each in STRATEGIES.values()),
            enum=list(STRATEGIES), default="slerp",
        ),
        "models": {
            "type": "array", "items": _text(_ARTIFACT), "minItems": 1, "maxItems": MAX_MODELS,
            "description": "The models in order, without a base; needed unless there is a recipe. " + "; ".join(
                f"{each.name} takes {each.min_models}" + f" to {each.max_models}" * (each.max_models > each.min_models)
                for each in STRATEGIES.values()),
        },
        "base_model": _text(
            f"{_ARTIFACT}, from which the models were tuned; none of them. {_of('base_model')}; nuslerp may do without."
        ),
        "recipe": {
            "oneOf": [
                {"type": "string", "maxLength": MAX_TEXT, "title": "YAML"},
                {"type": "object", "properties": {name: {} for name in TOP}, "additionalProperties": False},
            ],
            "description": "The merge as mergekit writes it, as YAML or as the object: "
            f"{', '.join(TOP)}. Only max_shard_size, seed, layer_pattern and on_mismatch stand beside it. "
            "docs/merges.md tells all of it.",
        },
        "t": _varied(f"{_of('t')}. 0 is the first model, 1 the second. A list is a gradient over the layers, a list of "
                     "{filter, value} gives the first value whose filter is a part of the tensor's name; so for every "
                     "parameter here.", _share(), default=0.5),
        "weights": _each(f"{_of('weights')}. In the order of the models; all 1 by default.", {"type": "number"}),
        "normalize": _varied(
            f"{_of('normalize')}. The result is divided by the sum of the weights, or where signs are "
            "elected of those that agree. By default true for "
            f"{', '.join(s.name for s in STRATEGIES.values() if s.normalize)}, else false.",
            {"type": "boolean"}, numbers=False,
        ),
        "lambda": _varied(f"{_of('lambda')}. What the summed changes are multiplied by before they are added to the "
                          "base.", {"type": "number"}, default=1),
        "scale": _varied(f"{_of('scale')}. What each tensor is multiplied by; with 1 it is copied bit for bit.",
                         {"type": "number"}, default=1),
        "density": _each(f"{_of('density')}, which need it. The share of each model's changes kept.",
                         _share(above=True)),
        "epsilon": _each(f"{_of('epsilon')}, which need it. The chance to be kept goes from density - epsilon to "
                         "density + epsilon, both above 0 and below 1.", _share()),
        "gamma": _each(f"{_of('gamma')}. The share of the largest changes that is dropped; 0.01 by default.", _share()),
        "rescale": _varied(f"{_of('rescale')}. What makes up for dropped changes: inverse divides each kept one by its "
                           "chance, l1 keeps their summed size, none does nothing.",
                           {"type": "string", "enum": list(RESCALES)}, numbers=False, default=RESCALES[0]),
        "granularity": _varied(f"{_of('granularity')}. What has an angle of its own.",
                               {"type": "string", "enum": list(GRANULARITIES)}, numbers=False,
                               default=GRANULARITIES[0]),
        "dtype": _text("What is computed in.", enum=list(DTYPES)),
        "out_dtype": _text("What is stored; by default as the models are.", enum=list(DTYPES)),
        "max_shard_size": {
            "oneOf": [_whole("Bytes.", MIN_SHARD_BYTES), {"type": "string", "example": "5GB"}],
            "description": "How large each file of the result may be: bytes, or a text with a unit (5GB, 500MiB). "
            "Stored as bytes.",
        },
        "layer_pattern": _text(
            "Where the number of a layer stands in the names of tensors, for gradients and slices: a part of a name "
            f"with {NUMBER} in its place, such as block{NUMBER}_. Without it a layer is the first whole number between "
            "the dots of a name.", minLength=1, maxLength=MAX_PATTERN,
        ),
        "on_mismatch": _varied(
            "What becomes of a tensor that one model has otherwise than another, or not at all: error refuses it all, "
            "base and first take it as that model has it, min merges the rows that all have.",
            {"type": "string", "enum": list(ON_MISMATCH)}, numbers=False, default=ON_MISMATCH[0],
        ),
        "tokenizer_source": _text(
            "Of which model the tokenizer's files are: base (that of base_model) or one of the models, as it is called "
            "there. By default of base_model, else of the first model, as all other small files."
        ),
        "seed": _whole("Of what is random in the strategy.", 0, default=0),
    },
    "evaluate": {
        "model": _text(f"{_ARTIFACT}, a model."),
        "dataset": _text(f"{_ARTIFACT}, a dataset. docs/evaluations.md tells what its file holds."),
        "metrics": {
            "type": "array", "items": {"type": "string", "enum": list(METRICS)}, "minItems": 1, "uniqueItems": True,
            "description": "What is told; without it all of the model's kind: " + "; ".join(
                f"of {TASK_WORDS[task]} {', '.join(names)}"
                for task, names in OF_TASK.items()) + ".",
        },
        HARNESS: _text("What evaluates instead, by task files in the dataset, a causal language model of Hugging Face. "
                       "Without it the rows of the dataset are evaluated.", enum=list(HARNESSES)),
        TASKS: {
            "type": "array", "items": {"type": "string", "minLength": 1, "maxLength": MAX_NAME}, "minItems": 1,
            "maxItems": MAX_TASKS, "uniqueItems": True,
            "description": "With harness: which of the tasks; without it all that the task files have.",
        },
        **_ROWS,
    },
    "infer": {
        "model": _text(f"{_ARTIFACT}, a model."),
        "input": _text(f"{_ARTIFACT}, a dataset. docs/inference.md tells what its file holds."),
        "max_new_tokens": _whole("Of a language model: how many tokens follow each text; with 0 only logprobs are "
                                 "told.", 0, MAX_NEW_TOKENS, default=NEW_TOKENS),
        "temperature": {
            "type": "number", "minimum": 0, "maximum": MAX_TEMPERATURE, "default": 0,
            "description": "Of a language model: 0 always takes the likeliest token; above, one is drawn as likely as "
            "exp(logit / temperature).",
        },
        "seed": _whole("Of what is drawn, which depends on it, the row and the place alone.", 0, MAX_SEED, default=0),
        "logprobs": _switch("Of a language model: how likely it finds each token of the text and of what follows.",
                            default=False),
        "max_bad_rows": _whole("So many rows that can't be read are passed over and say why; more are refused.", 0,
                               MAX_SAMPLES, default=0),
        **_ROWS,
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
PARAMETERS = {**PARAMETERS, "evolve": evolve.schema(PARAMETERS["merge"], PARAMETERS["evaluate"])}
NEEDED: Mapping[str, list[str]] = {
    "merge": [], "evaluate": ["model", "dataset"], "infer": ["model", "input"], "command": [],
    "evolve": evolve.NEEDED,
}  # fmt: skip

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
    "SLERP with another t for each layer, as mergekit writes it": {
        "kind": "merge", "project": "alpha", "gpu_count": 1, "max_duration": "30m",
        "params": {"recipe": (
            "merge_method: slerp\nbase_model: digits-0-4\nmodels:\n  - model: digits-0-4\n  - model: digits-5-9\n"
            "parameters:\n  t:\n    - {filter: weight, value: [0.2, 0.5, 0.8]}\n    - {value: 0.5}\n"
        )},
    },
    "The first two layers of one model, the last two of another": {
        "kind": "merge", "project": "alpha", "gpu_count": 1, "max_duration": "30m",
        "params": {"recipe": {
            "merge_method": "passthrough",
            "slices": [{"sources": [{"model": "digits-0-4", "layer_range": [0, 2]}]},
                       {"sources": [{"model": "digits-5-9", "layer_range": [2, 4]}]}],
        }},
    },
    "How well a model reads the digits": {
        "kind": "evaluate", "project": "alpha", "gpu_count": 1, "max_duration": "30m",
        "params": {"model": "digits-0-4", "dataset": "digits-test", "metrics": ["accuracy"], "batch_size": 64},
    },
    "A model whose architecture the job says, on the first samples": {
        "kind": "evaluate", "project": "alpha", "gpu_count": 1, "max_duration": "30m",
        "params": {"model": "digits-5-9", "dataset": "digits-test", "limit": 100, "file": "test.jsonl",
                   "architecture": {"model_type": "mlp", "layer_sizes": [64, 256, 128, 64, 10]}},
    },
    "A language model by tasks of lm-eval": {
        "kind": "evaluate", "project": "alpha", "gpu_count": 1, "max_duration": "2h",
        "params": {"model": "tiny-llama", "dataset": "our-tasks", "harness": "lm-eval", "tasks": ["rivers"],
                   "batch_size": 16},
    },
    "What a model makes of each row": {
        "kind": "infer", "project": "alpha", "gpu_count": 1, "max_duration": "1h",
        "params": {"model": "digits-0-4", "input": "digits-test", "batch_size": 64, "max_bad_rows": 10},
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
EXAMPLES = {**EXAMPLES, **evolve.EXAMPLES}
