"""The parameters of a search for the best merge, checked with every reason at once. Standard library only.

Form, REST and the job all ask here, so all refuse alike. What is said of the merge and of the objective is checked as
of jobs of those kinds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workers.evaluate_params import KNOWN as OF_EVALUATE
from workers.evaluate_params import check_evaluate
from workers.evolve_space import Entry, Settings, Space, space_of, starts_of
from workers.harness_params import HARNESS, TASKS
from workers.merge_params import check_merge, merge_references
from workers.merge_recipe import recipe_references
from workers.merge_strategies import STRATEGIES, Strategy
from workers.model_families import FAMILIES, Family
from workers.param_errors import ParamError, nearest, unknown
from workers.rows_params import MODEL
from workers.said_back import shown
from workers.space_check import check_space

KNOWN = ["merge", "space", "objective", "test", "population", "budget", "grid", "sigma", "seed"]
OF_OBJECTIVE = [name for name in OF_EVALUATE if name not in (MODEL, HARNESS, TASKS)]
OF_TEST = ["dataset", "file", "limit"]
DATASET, TEST = "dataset", "test-dataset"
MIN_POPULATION, MAX_POPULATION = 4, 1000
# One model, where it begins, and a generation of the smallest.
MIN_BUDGET, MAX_BUDGET = 6, 100_000
GRID, MAX_GRID = 11, 101
MIN_SIGMA, SIGMA = 0.001, 0.2
MAX_SEED = 2**32 - 1
START = "start"
_CANDIDATE = "candidate"  # the model of every evaluation
Checked = tuple[dict[str, Any], list[ParamError]]


def check_evolve(params: Mapping[str, Any]) -> Checked:
    """The parameters with their defaults, and everything wrong with them (empty when they can run)."""
    errors = unknown(params, KNOWN, "evolve")
    strategy = _strategy(params.get("merge"))
    entries, wrong = check_space(params.get("space"), strategy)
    clean: dict[str, Any] = {"space": _plain(entries) if not wrong else params.get("space")}
    errors += wrong
    searched = [entry.name for entry in entries] if not wrong else _named(params.get("space"))
    clean["merge"], wrong = _merge(params.get("merge"), entries, searched)
    errors += wrong
    clean["objective"], wrong = _objective(params.get("objective"))
    errors += wrong
    test, wrong = _test(params.get("test"))
    clean |= test
    errors += wrong
    counts, wrong = _counts(params)
    return clean | counts, errors + wrong + ([] if errors or wrong else _too_small(clean | counts))


def evolve_references(params: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Every artifact that a search names: ``(field, reference, name under EMEP_INPUT_DIR)``, the models as a merge has
    them, then the data set of the search and that of the test."""
    merge, found = params.get("merge"), list[tuple[str, str, str]]()
    if isinstance(merge, Mapping):
        if merge.get("recipe") is None:
            found = merge_references(merge)
        else:  # it is refused, and what it names is told as far as it can be read
            named = recipe_references(merge["recipe"])
            found = [(f"params.recipe.{path}", name, given) for path, name, given in named]
    for name, given in (("objective", DATASET), ("test", TEST)):
        part = params.get(name)
        dataset = part.get("dataset") if isinstance(part, Mapping) else None
        if isinstance(dataset, str) and dataset.strip():
            found.append((f"params.{name}.dataset", dataset.strip(), given))
    return [(field.replace("params.", "params.merge.", 1) if given not in (DATASET, TEST) else field, name, given)
            for field, name, given in found]  # fmt: skip


def evaluation_params(clean: Mapping[str, Any], *, test: bool = False) -> dict[str, Any]:
    """The parameters of an evaluation of a candidate, on the data set of the test or on that of the search."""
    objective = {"model": _CANDIDATE, **clean["objective"]}
    if not test:
        return objective
    own = clean["test"]
    return {**{name: value for name, value in objective.items() if name not in OF_TEST}, **own}


def not_searched(family: Family) -> list[ParamError]:
    """Why candidates of this family can't be scored in a search; nothing where they can."""
    if not family.library:
        return []
    ours = [each.name for each in FAMILIES.values() if not each.library]
    message = (
        f"a search scores the models that EMEP builds itself ({', '.join(ours)}), not those of {family.library}: merge "
        "and evaluate them by jobs of these kinds, such as a sweep"
    )
    return [ParamError("params.architecture", "not_searched", message, ours)]


def evaluation_field(field: str, *, test: bool = False) -> str:
    """Where an error of an evaluation's ``field`` belongs in the parameters of a search."""
    name = field.removeprefix("params.")
    if name.split(".")[0] == MODEL:
        return "params.merge.models"
    own = test and name.split(".")[0] in OF_TEST
    return f"params.{'test' if own else 'objective'}.{name}"


def same_data(clean: Mapping[str, Any]) -> ParamError | None:
    """What is wrong with a test on the very artifact that the search reads; another file of it is other data."""
    if clean["objective"].get("file") != clean["test"].get("file"):
        return None
    message = "test is the data set of the search, of which the score is told anyway: give another, or leave test out"
    return ParamError("params.test.dataset", "same_data", message)


def merge_field(field: str) -> str:
    """Where an error of a merge's ``field`` belongs in the parameters of a search."""
    return field.replace("params", "params.merge", 1)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a search does: its ``space``, how many candidates a generation has, and how many generations there are after
    the ``fixed`` points: ``(what it is, the point)``."""

    space: Space
    population: int
    generations: int
    fixed: tuple[tuple[str, tuple[float, ...]], ...]


def plan_of(clean: Mapping[str, Any], tensors: Iterable[str]) -> tuple[Plan | None, list[ParamError]]:
    """What a search with right parameters does on models with these names of tensors, and what is wrong for them."""
    merge = clean["merge"]
    entries, _ = check_space(clean["space"], STRATEGIES[merge["strategy"]])
    models = len(merge["models"])
    starts = {entry.name: starts_of(entry, merge.get(entry.name), models)[0] for entry in entries}
    space, errors = space_of(entries, starts, models, tensors, merge.get("layer_pattern"))
    if errors:
        return None, errors
    once: dict[tuple[float, ...], str] = {}
    for what, point in ((START, space.starts), *space.grid(clean["grid"])):
        once.setdefault(point, what)
    population = clean.get("population") or usual_population(len(space.coordinates))
    first = len(once) + references_before(merge)
    generations = (clean["budget"] - first) // population
    if generations < 1:
        return None, [_budget(first, population)]
    return Plan(space, population, generations, tuple((what, point) for point, what in once.items())), []


def usual_population(coordinates: int) -> int:
    """How many candidates a generation has where nobody says it."""
    return max(MIN_POPULATION, 4 + int(3 * math.log(coordinates)))


def references_before(merge: Mapping[str, Any]) -> int:
    """How many evaluations the models themselves take before the search."""
    return len(merge["models"]) + (merge.get("base_model") is not None)


def candidate_params(clean: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """The parameters of the merge of one candidate: those of a job of kind merge that makes it."""
    return {**clean["merge"], **settings}


def _strategy(merge: Any) -> Strategy | None:
    given = merge.get("strategy", "slerp") if isinstance(merge, Mapping) else None
    return STRATEGIES.get(given) if isinstance(given, str) else None


def _named(space: Any) -> list[str]:
    """What a wrong space would search, as far as it can be read: that these are missing in the merge is no fault."""
    listed = space if isinstance(space, (list, tuple)) else []
    return [each["name"] for each in listed if isinstance(each, Mapping) and isinstance(each.get("name"), str)]


def _plain(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    return [
        {"name": e.name, "low": e.low, "high": e.high, "per": e.per,
         **({"anchors": e.anchors} if e.anchors else {}), **({"groups": list(e.groups)} if e.groups else {})}
        for e in entries
    ]  # fmt: skip


def _merge(given: Any, entries: Sequence[Entry], searched: Sequence[str]) -> Checked:
    """The merge with where its searched parameters begin, as a merge has them."""
    if not isinstance(given, Mapping):
        code = "required" if given is None else "not_an_object"
        how = "is missing: give" if given is None else f"must be, and not {shown(given)},"
        message = f"merge {how} the parameters of a merge: strategy, models, and what is the same for all candidates"
        return {}, [ParamError("params.merge", code, message)]
    if given.get("recipe") is not None:
        message = "a recipe is not searched: give strategy and models, and say in space what differs"
        return dict(given), [ParamError("params.merge.recipe", "not_searched", message)]
    listed = given.get("models")
    models = len(listed) if isinstance(listed, (list, tuple)) else 0
    begun: dict[str, Any] = {}
    errors = []
    for entry in entries:
        values, told = starts_of(entry, given.get(entry.name), models)
        begun[entry.name] = values if entry.each else values[0]
        if told is not None:
            errors.append(ParamError(f"params.merge.{entry.name}", "out_of_range", told, [entry.low, entry.high]))
    clean, faults = check_merge({**given, **begun})
    known = {f"params.{name}" for name in (*searched, *begun)}
    found = [replace(e, field=merge_field(e.field)) for e in faults if e.field not in known]
    return clean, [*errors, *found]


def _objective(given: Any) -> Checked:
    return _evaluation("objective", given, OF_OBJECTIVE, "the data set of the search, and how candidates are judged")


def _test(given: Any) -> Checked:
    """Of the test only what it has of its own; it is judged as the search is."""
    if given is None:
        return {}, []
    clean, errors = _evaluation("test", given, OF_TEST, "the data set that the best is told of beside")
    return {"test": {name: value for name, value in clean.items() if name in OF_TEST}}, errors


def _evaluation(part: str, given: Any, known: list[str], about: str) -> Checked:
    if not isinstance(given, Mapping):
        code = "required" if given is None else "not_an_object"
        how = "is missing: give" if given is None else f"must be an object, not {shown(given)}: give"
        return {}, [ParamError(f"params.{part}", code, f"{part} {how} {about}")]
    told = [
        ParamError(f"params.{part}.{str(key)[:80]}", "unknown_field",
                   f"{part} has no {shown(str(key))}{nearest(str(key), known)}: {', '.join(known)}", known)
        for key in given if key not in known
    ]  # fmt: skip
    asked = {name: value for name, value in given.items() if name in known}
    clean, errors = check_evaluate({**asked, MODEL: _CANDIDATE})
    del clean[MODEL]
    if "metrics" in clean:  # the first of them judges the candidates
        clean["metrics"] = [name for name in asked["metrics"] if name in clean["metrics"]]
    return clean, [*told, *(replace(e, field=e.field.replace("params", f"params.{part}", 1)) for e in errors)]


def _counts(params: Mapping[str, Any]) -> Checked:
    clean: dict[str, Any] = {}
    errors: list[ParamError] = []
    for name, default, least, most in (
        ("population", None, MIN_POPULATION, MAX_POPULATION), ("budget", None, MIN_BUDGET, MAX_BUDGET),
        ("grid", GRID, 0, MAX_GRID), ("seed", 0, 0, MAX_SEED),
    ):  # fmt: skip
        value = params.get(name)
        value = default if value is None else value
        if value is None and name == "population":
            continue
        clean[name] = value
        right = type(value) is int and least <= value <= most
        if not right or (name == "grid" and value == 1):
            code = "required" if value is None else "out_of_range"
            told = "is missing: give" if value is None else f"must be, and not {shown(value)},"
            least_in_words = "0 (none) or from 2" if name == "grid" else f"from {least}"
            message = f"{name} {told} a whole number, {least_in_words} to {most}{_ABOUT[name]}"
            errors.append(ParamError(f"params.{name}", code, message, [least, most]))
    sigma = params.get("sigma")
    clean["sigma"] = SIGMA if sigma is None else sigma
    number = clean["sigma"] if type(clean["sigma"]) in (int, float) else math.nan
    if not MIN_SIGMA <= number <= 1:
        message = f"sigma must be a number from {MIN_SIGMA} to 1, a share of the bounds, not {shown(sigma)}"
        errors.append(ParamError("params.sigma", "out_of_range", message, [MIN_SIGMA, 1]))
    return clean, errors


_ABOUT: Mapping[str, str] = {
    "population": ": candidates of a generation", "budget": ": evaluations on the data set of the search",
    "grid": ": values of each parameter that are tried first", "seed": "",
}  # fmt: skip


def _too_small(clean: Mapping[str, Any]) -> list[ParamError]:
    """A budget that no models leave room for: as far as it can be told without them."""
    entries, _ = check_space(clean["space"], STRATEGIES[clean["merge"]["strategy"]])
    each = len(clean["merge"]["models"])
    least = sum((each if e.each else 1) * (e.anchors or len(e.groups) or 1) for e in entries)
    population = clean.get("population") or usual_population(least)
    # Of the points of the grid some may be the same as where it begins, one for each parameter at most.
    first = references_before(clean["merge"]) + 1 + len(entries) * max(clean["grid"] - 1, 0)
    return [_budget(first, population)] if clean["budget"] < first + population else []


def _budget(first: int, population: int) -> ParamError:
    message = (
        f"budget must be at least {first + population}: {first} evaluations before the search (the models, where it "
        f"begins, the grid) and a generation of {population}; raise it, or lower grid or population"
    )
    return ParamError("params.budget", "out_of_range", message, first + population)
