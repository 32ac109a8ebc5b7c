"""The parameters of a search as OpenAPI has them, made of those of a merge and of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workers.evolve_params import (
    GRID,
    MAX_BUDGET,
    MAX_GRID,
    MAX_POPULATION,
    MAX_SEED,
    MIN_BUDGET,
    MIN_POPULATION,
    MIN_SIGMA,
    OF_OBJECTIVE,
    OF_TEST,
    SIGMA,
)
from workers.evolve_space import ALL, MAX_ANCHORS, MAX_COORDINATES, PER
from workers.merge_settings import MAX_FILTER
from workers.space_check import MAX_ENTRIES, MAX_GROUPS

Schema = dict[str, Any]
NEEDED = ["merge", "space", "objective", "budget"]
EXAMPLES: Mapping[str, Schema] = {
    "The best t for each layer, found by 300 evaluations": {
        "kind": "evolve", "project": "alpha", "gpu_count": 2, "max_duration": "2h",
        "params": {
            "merge": {"strategy": "slerp", "models": ["digits-0-4", "digits-5-9"]},
            "space": [{"name": "t", "low": 0, "high": 1, "per": "layer"}],
            "objective": {"dataset": "digits-search", "metrics": ["accuracy", "loss"], "batch_size": 1024},
            "test": {"dataset": "digits-test"}, "budget": 300, "seed": 1,
        },
    },
}  # fmt: skip


def _whole(about: str, least: int, most: int, **more: Any) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most, "description": about, **more}


def schema(merge: Mapping[str, Schema], evaluate: Mapping[str, Schema]) -> dict[str, Schema]:
    """The parameters of kind evolve; ``merge`` and ``evaluate`` are those of these kinds."""
    return {
        "merge": {
            "type": "object", "properties": {name: about for name, about in merge.items() if name != "recipe"},
            "required": ["models"], "additionalProperties": False,
            "description": "The merge of every candidate, as a job of kind merge has it but for recipe. A "
            "parameter that is searched says here where it begins, one number or a list of one a model.",
        },
        "space": {
            "type": "array", "minItems": 1, "maxItems": MAX_ENTRIES, "items": {
                "type": "object", "required": ["name", "low", "high"], "additionalProperties": False,
                "properties": {
                    "name": {"type": "string", "description": "A parameter of the strategy that is a number."},
                    "low": {"type": "number"}, "high": {"type": "number"},
                    "per": {
                        "type": "string", "enum": list(PER), "default": ALL,
                        "description": "all: one value for all tensors; layer: points over the layers; group: one for "
                        "each group of tensors.",
                    },
                    "anchors": _whole("With layer: how many points; without it one a layer.", 2, MAX_ANCHORS),
                    "groups": {
                        "type": "array", "minItems": 1, "maxItems": MAX_GROUPS,
                        "items": {"type": "string", "minLength": 1, "maxLength": MAX_FILTER},
                        "description": "With group: parts of tensor names, the first that fits; what fits none is one "
                        "more.",
                    },
                },
            },
            "description": "What is searched between which bounds, for each model on its own where a merge has it so; "
            f"{MAX_COORDINATES} numbers in all at most.",
        },
        "objective": {
            "type": "object", "required": ["dataset"], "additionalProperties": False,
            "properties": {name: about for name, about in evaluate.items() if name in OF_OBJECTIVE},
            "description": "How candidates are judged, as a job of kind evaluate: by the first of the metrics "
            "as they are listed there, then by those after it.",
        },
        "test": {
            "type": "object", "required": ["dataset"], "additionalProperties": False,
            "properties": {name: about for name, about in evaluate.items() if name in OF_TEST},
            "description": "Data that the search does not see, by which the best and the models are judged beside it.",
        },
        "population": _whole("Candidates of a generation; by default 4 + 3 ln of how many numbers are searched.",
                             MIN_POPULATION, MAX_POPULATION),
        "budget": _whole("Evaluations on the data set of the search at most: the models, where it begins and the grid "
                         "are the first.", MIN_BUDGET, MAX_BUDGET),
        "grid": _whole("Values of each parameter that are tried first, the same in all tensors, from low to high: 0 "
                       "for none, else 2 or more.", 0, MAX_GRID, default=GRID),
        "sigma": {"type": "number", "minimum": MIN_SIGMA, "maximum": 1, "default": SIGMA,
                  "description": "The first step, as a share of the bounds."},
        "seed": _whole("Of the search.", 0, MAX_SEED, default=0),
    }  # fmt: skip
