"""Queries that are worded once a process: putting one into words takes Django longer than the database its answer.

A tick, a heartbeat and a report each ask a dozen of them. What changes from call to call is handed to the call, in the
order in which the maker of the query takes it: ``Fixed(lambda name: Node.objects.filter(name=name)...)`` is called with
a name. Texts, numbers, truth values, UUIDs, times and what JSON can say can be handed over; None only to be written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Expression, Model, QuerySet
from django.db.models.query import get_related_populators
from django.db.models.sql import InsertQuery, UpdateQuery

Row = tuple[Any, ...]
M = TypeVar("M", bound=Model)


class _Brought(Expression):
    """Stands in the words for the value that a call brings at this place."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:  # type: ignore[override]
        return "%s", [self]


@dataclass(frozen=True)
class _Words:
    """A statement, its parameters with places for what calls bring, and what reads the rows of its answer."""

    sql: str
    params: Sequence[Any]
    read: Any = None


class _Worded:
    """What is put into words at its first call, and said again and again: for each kind of database, for each choice of
    columns to be written, and for each number of values."""

    def __init__(self, made: Callable[..., QuerySet[Any, Any]]) -> None:
        self._made = made
        self._known: dict[tuple[str, tuple[str, ...], int], _Words] = {}

    def _word(self, columns: tuple[str, ...], *places: Any) -> _Words:
        raise NotImplementedError

    def _say(self, here: Any, cursor: Any, values: tuple[Any, ...], columns: tuple[str, ...] = ()) -> _Words:
        which = (here.vendor, columns, len(values))
        words = self._known.get(which)
        if words is None:
            words = self._known[which] = self._word(columns, *map(_Brought, range(len(values))))
        brought = [_as_kept(value, here) for value in values]
        cursor.execute(words.sql, [brought[p.place] if isinstance(p, _Brought) else p for p in words.params])
        return words


class Fixed(_Worded):
    """Rows as the database gives them: what is asked for must be texts, whole numbers and fractions, since times, JSON
    and truth values come as each database keeps them."""

    def __call__(self, *values: Any) -> list[Row]:
        """The rows as they are now."""
        here = connections[DEFAULT_DB_ALIAS]
        with here.cursor() as cursor:
            self._say(here, cursor, values)
            return list(cursor.fetchall())

    def _word(self, columns: tuple[str, ...], *places: Any) -> _Words:
        return _Words(*self._made(*places).query.sql_with_params())


class FixedValues(_Worded):
    """Rows of any values, as ``values_list`` would give them."""

    def __call__(self, *values: Any) -> list[Row]:
        """The rows as they are now."""
        here = connections[DEFAULT_DB_ALIAS]
        with here.cursor() as cursor:
            read = self._say(here, cursor, values).read
            return [tuple(row) for row in _converted(cursor.fetchall(), read, here)]

    def _word(self, columns: tuple[str, ...], *places: Any) -> _Words:
        sql, params, compiler = _compiled(self._made(*places))
        return _Words(sql, params, _converters(compiler))


class FixedObjects(_Worded, Generic[M]):
    """Objects of a model, with those that ``select_related`` names."""

    def __init__(self, made: Callable[..., QuerySet[M, M]]) -> None:
        super().__init__(made)  # here for the type of what is read

    def __call__(self, *values: Any) -> list[M]:
        """The objects as their rows are now."""
        here = connections[DEFAULT_DB_ALIAS]
        with here.cursor() as cursor:
            converters, build = self._say(here, cursor, values).read
            return [build(row) for row in _converted(cursor.fetchall(), converters, here)]

    def first(self, *values: Any) -> M | None:
        """The first of them; None where there is none."""
        return next(iter(self(*values)), None)

    def _word(self, columns: tuple[str, ...], *places: Any) -> _Words:
        sql, params, compiler = _compiled(self._made(*places))
        info: Any = compiler.klass_info
        chosen: Any = compiler.select
        start, end = info["select_fields"][0], info["select_fields"][-1] + 1
        names = [each[0].target.attname for each in chosen[start:end]]
        related = get_related_populators(info, chosen, DEFAULT_DB_ALIAS)  # type: ignore[call-arg]  # of a later Django

        def build(row: Sequence[Any]) -> M:
            made: M = info["model"].from_db(DEFAULT_DB_ALIAS, names, row[start:end])
            for each in related:
                each.populate(row, made)
            return made

        return _Words(sql, params, (_converters(compiler), build))


class FixedUpdate(_Worded):
    """Columns of the rows of a query are written: those that the call names, and ``always`` by their expressions."""

    def __init__(self, made: Callable[..., QuerySet[Any, Any]], **always: Any) -> None:
        super().__init__(made)
        self._always = always

    def __call__(self, *values: Any, **columns: Any) -> int:
        """They are written; how many rows it were."""
        here = connections[DEFAULT_DB_ALIAS]
        with here.cursor() as cursor:
            self._say(here, cursor, (*values, *columns.values()), tuple(columns))
            return int(cursor.rowcount)

    def _word(self, columns: tuple[str, ...], *places: Any) -> _Words:
        rows = self._made(*places[: len(places) - len(columns)])
        query: Any = rows.query.chain(UpdateQuery)
        written = zip(columns, places[len(places) - len(columns) :], strict=True)
        query.add_update_values({**dict(written), **self._always})
        return _Words(*query.get_compiler(DEFAULT_DB_ALIAS).as_sql())


class FixedInsert:
    """Rows of a model are made whose keys the database gives; the objects do not learn them."""

    def __init__(self, model: type[Model]) -> None:
        self._model = model
        self._fields = [f for f in model._meta.concrete_fields if not f.primary_key]
        self._known: dict[str, str] = {}

    def __call__(self, rows: Sequence[Model]) -> None:
        """There is a row of each."""
        here = connections[DEFAULT_DB_ALIAS]
        sql = self._known.get(here.vendor)
        if sql is None:
            sql = self._known[here.vendor] = self._word(rows[0])
        kept = [[f.get_db_prep_save(getattr(row, f.attname), here) for f in self._fields] for row in rows]
        with here.cursor() as cursor:
            if len(kept) == 1:
                cursor.execute(sql, kept[0])
            else:
                cursor.executemany(sql, kept)

    def _word(self, row: Model) -> str:
        query: Any = InsertQuery(self._model)
        query.insert_values(self._fields, [row])
        ((sql, _),) = query.get_compiler(DEFAULT_DB_ALIAS).as_sql()
        return str(sql)


def _as_kept(value: Any, here: Any) -> Any:
    """The value as the database keeps it."""
    if isinstance(value, datetime):
        return here.ops.adapt_datetimefield_value(value)
    if isinstance(value, UUID):
        return value if here.features.has_native_uuid_field else value.hex
    if isinstance(value, (dict, list)):
        return here.ops.adapt_json_value(value, None)
    return value


def _compiled(rows: QuerySet[Any, Any]) -> tuple[str, Sequence[Any], Any]:
    compiler: Any = rows.query.get_compiler(DEFAULT_DB_ALIAS)
    sql, params = compiler.as_sql()
    return sql, params, compiler


def _converters(compiler: Any) -> list[tuple[int, list[Any], Any]]:
    """Column, what makes its value, and its expression. What belongs to the connection goes by its name: the words
    outlive the connection that they were first said on."""
    ops = compiler.connection.ops
    found = compiler.get_converters([column for column, *_ in compiler.select])
    return [
        (place, [c.__name__ if getattr(c, "__self__", None) is ops else c for c in converters], expression)
        for place, (converters, expression) in found.items()
    ]


def _converted(rows: Sequence[Row], converters: list[tuple[int, list[Any], Any]], here: Any) -> Iterator[Sequence[Any]]:
    if not converters:
        yield from rows
        return
    ops = here.ops
    steps = [
        (place, [getattr(ops, each) if isinstance(each, str) else each for each in each_of], expression)
        for place, each_of, expression in converters
    ]
    for row in rows:
        values = list(row)
        for place, each_of, expression in steps:
            for convert in each_of:
                values[place] = convert(values[place], expression, here)
        yield values
