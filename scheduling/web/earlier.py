"""An earlier job's body as the forms read it, to fill a form of its kind again; a refused one may hold anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.core.fields import as_whole
from scheduling.web import where_when
from scheduling.web.form_fields import SHARED, by_right_names, rest_of, text_of


@dataclass(frozen=True)
class Earlier:
    """The ``body`` by its right names, its ``params`` (empty where they are no object), and the ``texts`` of the fields
    and of where and when it is to run; ``covered`` are the fields of the body that the texts tell."""

    body: Mapping[str, Any]
    params: Mapping[str, Any]
    texts: Mapping[str, str]
    covered: tuple[str, ...]

    @property
    def nvlink_required(self) -> bool:
        """Whether it says so; what is no switch is left for the rest."""
        return self.body.get("nvlink_required") is True

    def texts_of(self, names: Iterable[str]) -> dict[str, str]:
        """The parameters of these names as they are typed."""
        return {name: text_of(self.params.get(name)) for name in names}

    def rest(self, params: Iterable[str]) -> dict[str, Any]:
        """What the form has no field for, when it has fields for these ``params``."""
        return rest_of(self.body, (*self.covered, "nvlink_required"), tuple(params))


def read(body: Mapping[str, Any], fields: Iterable[str] = SHARED) -> Earlier:
    """The body for a form with these ``fields`` beside its parameters. Of one without a number of nodes that it lies on
    one node says nothing: all such jobs do."""
    body, fields = by_right_names(body), tuple(fields)
    params = body.get("params")
    exactly, covered = where_when.again(body)
    one = () if "node_count" in fields or as_whole(body.get("node_count")) != 1 else ("node_count",)
    texts = {name: text_of(body.get(name)) for name in fields} | exactly
    return Earlier(body, params if isinstance(params, Mapping) else {}, texts, (*fields, *covered, *one))
