"""Do the artifacts a job names exist, and do its models fit? Told before anything is allocated."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.core.after import output_meant
from scheduling.services import job_outputs, model_config, rows_fit, search_fit
from scheduling.store.clock import past_in_words
from scheduling.store.queries import artifacts
from scheduling.store.queries.access import Actor
from workers.catalog import KINDS, nearest
from workers.merge_layout import lay_out
from workers.merge_mismatch import reconciled
from workers.merge_recipe import BASE_INPUT, Recipe, names_base, recipe_of
from workers.merge_table import Row, is_worth_telling, rows_of
from workers.model_table import Table, is_head, says_tied
from workers.tokenizer_files import has_tokenizer
from workers.tokenizer_source import lacks_tokenizer

SHOWN = 5
INSTEAD = "; on_mismatch says what becomes of tensors that differ"
BASE_FIELD = "params.base_model"


@dataclass(frozen=True, slots=True)
class Fit:
    """Each referenced artifact as ``{artifact, as, name, digest}``, everything that is wrong, and what a merge would
    make of its models where its tensors differ in that (``rows``)."""

    inputs: list[dict[str, Any]]
    errors: list[dict[str, Any]]
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the artifacts of a job are looked for: among those of the actor's projects, the job's own first, and the
    outputs of the jobs that come ``before`` it, by their ids.

    Without an actor those that were found before count, ``pinned`` by the names under which the job reads them.
    ``seen``: what was found for other jobs of the same actor, by project and reference.
    """

    project: str
    actor: Actor | None
    before: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    pinned: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    seen: dict[tuple[str, str], Any] = dataclasses.field(default_factory=dict)

    def find(self, where: str, reference: str, name: str, kind: str) -> tuple[Any, list[dict[str, Any]]]:
        """(the artifact, or None; why there is none). The output of a job that has yet to end is none, for no
        reason. ``kind``: what is looked for, to name one that is called alike."""
        meant = output_meant(reference)
        if meant is not None:
            found, wrong = job_outputs.meant(*meant, self.before)
            if found is not None and found.deleted_at is not None:
                wrong = "deleted_artifact", f"{found.name!r} was deleted: restore it on its page"
            return (found, []) if wrong is None else (None, [_wrong(where, *wrong)])
        if self.actor is None:
            return self.pinned[name], []
        key = (self.project, reference)
        if key not in self.seen:
            sees = self.actor.sees(self.project)
            self.seen[key] = artifacts.resolve(self.actor, *key) if sees else None
        found = self.seen[key]
        return found, [] if found is not None else [_unknown(where, reference, self.project, self.actor, kind)]


def check(kind: str, params: Mapping[str, Any], sources: Sources, *, right: bool) -> Fit:
    """``right``: nothing is wrong with the parameters themselves.

    An artifact the actor may not know of reads exactly like one that doesn't exist. Of the output of a job that has yet
    to end nothing is said.
    """
    inputs: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    tensors: list[tuple[str, str, dict[str, Any]]] = []
    tables: dict[str, Table] = {}
    files: dict[str, list[str]] = {}
    rows: dict[str, Any] = {}
    named = KINDS[kind].references(params)
    for field, reference, name in named:
        found, missing = sources.find(field, reference, name, _kind_to_read(kind, name))
        if found is None:
            errors += missing
        elif (wanted := KINDS[kind].kinds_of(name)) and found.kind not in wanted:
            errors.append(_wrong(field, f"not_a_{wanted[0]}", f"{found.name!r} is a {found.kind}, not a {wanted[0]}"))
        elif found.corrupt:
            errors.append(
                _wrong(field, "corrupt_artifact", f"the stored bytes of {found.name!r} failed their last check")
            )
        else:
            inputs.append({"artifact": str(found.pk), "as": name, "name": found.name, "digest": found.digest})
            files[name] = [file["path"] for file in found.files]
            rows[name] = found
            if found.tensors is not None:
                tensors.append((field, found.name, found.tensors))
                tables[name] = _table(found.name, found.tensors)
    errors += [_wrong(e.field, e.code, e.message, e.limit) for e in rows_fit.faults(kind, params, rows)]
    tables = _with_ties(tables, rows)
    if kind == "evolve":
        merge = params.get("merge", {})  # parameters that are no object have none
        inside = _merged(merge, search_fit.models(inputs), tensors, tables, files, right=right)
        made = search_fit.tensors_made(merge, tables, right=right, matching=not inside.errors)
        wrong = search_fit.faults(params, rows, made, right=right)
        errors += [_wrong(e.field, e.code, e.message, e.limit) for e in wrong]
        return Fit(inputs, [*errors, *({**e, "field": search_fit.place(e["field"])} for e in inside.errors)])
    if kind != "merge":
        return Fit(inputs, errors)
    fit = _merged(params, inputs, tensors, tables, files, right=right)
    return Fit(inputs, [*errors, *fit.errors], fit.rows if not errors else ())


def _merged(
    params: Mapping[str, Any], inputs: list[dict[str, Any]], tensors: list[tuple[str, str, dict[str, Any]]],
    tables: Mapping[str, Table], files: Mapping[str, list[str]], *, right: bool,
) -> Fit:  # fmt: skip
    """What is wrong between the models of a merge, and what would be made of them; of the parameters' own faults
    nothing is said."""
    errors = _same_model_twice(inputs) if "recipe" in params else _counted_twice(inputs)
    recipe = recipe_of(params) if right else None
    tokenizer = _no_tokenizer(recipe, inputs, files) if recipe else []
    if not (recipe.is_sliced if recipe else "recipe" in params):
        settled = reconciled(params.get("on_mismatch"), list(tables.values()), based=names_base(params))
        tensors = [(f, n, {t: row for t, row in held.items() if t not in settled}) for f, n, held in tensors]
        for field, other, theirs in tensors[1:]:
            beside = field if field.endswith(".base_model") or "recipe" in params else "params.models"
            errors += _differences(beside, tensors[0][1:], (other, theirs))
    telling = recipe is not None and is_worth_telling(recipe)
    whole = len(tables) == len(KINDS["merge"].references(params))
    if recipe is None or errors or not whole or not (telling or recipe.pattern):
        return Fit(inputs, [*errors, *tokenizer])
    parts, wrong = lay_out(recipe, tables)
    made = tuple(rows_of(recipe, parts, tables)) if telling and not wrong else ()
    return Fit(inputs, [*(_wrong(e.field, e.code, e.message, e.limit) for e in wrong), *tokenizer], made)


def _kind_to_read(kind: str, name: str) -> str:
    """Which kind of artifact the input of this name is; of one that may be any, the most likely."""
    return next(iter(KINDS[kind].kinds_of(name)), "model")


def _unknown(where: str, reference: str, project: str, actor: Actor, kind: str) -> dict[str, Any]:
    """What there is no artifact for, or no more."""
    gone = artifacts.deleted(actor, project, reference) if actor.sees(project) else None
    if gone is not None and gone.deleted_at is not None:
        words = (
            f"{gone.name!r} was deleted on {past_in_words(gone.deleted_at)} ({gone.deleted_why}): restore it on its "
        )
        return _wrong(where, "deleted_artifact", f"{words}page while its bytes are kept, or give another")
    hint = nearest(reference, artifacts.names(actor, project, kind)) if actor.sees(project) else ""
    return _wrong(where, "no_such_artifact", f"there is no artifact {reference[:100]!r} in your projects{hint}")


def _table(name: str, tensors: Mapping[str, Any]) -> Table:
    return Table(name, {tensor: (str(row[0]), tuple(row[1])) for tensor, row in tensors.items()})


def _with_ties(tables: Mapping[str, Table], rows: Mapping[str, Any]) -> dict[str, Table]:
    """The tables with what configurations say of tied heads, where not all models have the same heads."""
    heads = {frozenset(filter(is_head, table.tensors)) for table in tables.values()}
    if len(heads) < 2:
        return dict(tables)
    return {
        name: dataclasses.replace(table, tied=says_tied(model_config.config_of(rows[name].files)))
        for name, table in tables.items()
    }


def _no_tokenizer(recipe: Recipe, inputs: list[dict[str, Any]], files: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    """A model that was named for its tokenizer and has none."""
    if not recipe.names_tokenizer or has_tokenizer(files.get(recipe.tokenizer, [])):
        return []
    return [
        _wrong(f"{recipe.field}.tokenizer_source", "no_tokenizer", lacks_tokenizer(row["name"]))
        for row in inputs
        if row["as"] == recipe.tokenizer
    ]


def _same_model_twice(inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A recipe that calls one model by two names: whatever it says of the one it doesn't say of the other."""
    errors = []
    for row, other in _again(inputs):
        if row["artifact"] == other["artifact"]:
            message = f"{row['name']!r} is called by two names, of which one is its id: call it by the same everywhere"
        else:
            message = f"{row['name']!r} holds the same bytes as {other['name']!r}: call it by one name everywhere"
        errors.append(_wrong("params.recipe", "called_differently", message))
    return errors


def _counted_twice(inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A model that is named twice, or a base that is merged too: that would only count as a model that changed
    nothing."""
    errors = []
    for row, other in _again(inputs):
        first = f"models[{other['as'].removeprefix('model-')}]"
        same = "" if row["name"] == other["name"] else f" (there {other['name']!r}, the same bytes)"
        if row["as"] == BASE_INPUT:
            message = f"{row['name']!r} is the base and one of the models{same}: leave it out of models"
            errors.append(_wrong(BASE_FIELD, "base_among_models", message))
        else:
            message = (
                f"{row['name']!r} is {first} already{same}, so it would be counted twice: leave one of them out, or "
                "give it more weight"
            )
            errors.append(_wrong(f"params.models.{row['as'].removeprefix('model-')}", "counted_twice", message))
    return errors


def _again(inputs: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each input whose content an earlier one has, with that one."""
    first: dict[str, dict[str, Any]] = {}
    for row in inputs:
        other = first.setdefault(row["digest"], row)
        if other is not row:
            yield row, other


def _differences(
    field: str, one: tuple[str, dict[str, Any]], another: tuple[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """What keeps two models from being merged: tensors only one has, and shapes that differ, both named."""
    (first, ours), (other, theirs) = one, another
    errors = []
    for holder, lacker, names in (
        (first, other, ours.keys() - theirs.keys()),
        (other, first, theirs.keys() - ours.keys()),
    ):
        if names:
            shown = ", ".join(sorted(names)[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
            hint = nearest(min(names), sorted((theirs if holder == first else ours).keys()))
            errors.append(
                _wrong(
                    field,
                    "missing_tensor",
                    f"{lacker!r} lacks {shown}, which {holder!r} has{hint}{INSTEAD}",
                    sorted(names)[:SHOWN],
                )
            )
    unequal = [n for n in sorted(ours.keys() & theirs.keys()) if ours[n][1] != theirs[n][1]]
    for n in unequal[:SHOWN]:
        errors.append(
            _wrong(field, "shape_mismatch",
                   f"tensor {n!r} is {_shape(ours[n])} in {first!r} and {_shape(theirs[n])} in {other!r}{INSTEAD}", n)
        )  # fmt: skip
    if len(unequal) > SHOWN:
        errors.append(_wrong(field, "shape_mismatch", f"and {len(unequal) - SHOWN} more differ in shape"))
    return errors


def _shape(row: Any) -> str:
    return " x ".join(str(n) for n in row[1]) or "a single number"


def _wrong(field: str, code: str, message: str, limit: Any = None) -> dict[str, Any]:
    return {"field": field, "code": code, "message": message, "limit": limit}
