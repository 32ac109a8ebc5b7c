"""What does the text of a recipe say? YAML without tags, anchors and surprises, read into plain objects and back."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import yaml

from workers.catalog import check_params
from workers.param_errors import ParamError
from workers.recipe_check import FIELD, MAX_TEXT
from workers.said_back import shown

MAX_DEPTH = 20
_WHOLE = re.compile(r"[-+]?[0-9]{1,30}")
_FRACTION = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_STR, _BOOL, _NULL = (f"tag:yaml.org,2002:{name}" for name in ("str", "bool", "null"))
_TRUE = ("true", "yes", "on")
_ORDER = ("merge_method", "base_model", "models", "slices", "sources", "model", "layer_range", "filter", "value",
          "parameters", "dtype", "out_dtype", "tokenizer_source")  # fmt: skip


class Unread(Exception):
    """The text is no recipe; the message says where and why."""


class _Plain(yaml.SafeLoader):
    """YAML without anchors, which make a short text a huge document, and without tags."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()
        anchor = getattr(event, "anchor", None)
        if anchor is not None:
            line, sign = event.start_mark.line + 1, "*" if isinstance(event, yaml.AliasEvent) else "&"
            raise Unread(f"line {line}: anchors and aliases ({sign}{anchor[:40]}) are not read: write it out")
        tag = getattr(event, "tag", None)
        if tag is not None:
            line = event.start_mark.line + 1
            raise Unread(f"line {line}: tags ({shown(tag)}) are not read: texts, numbers, lists and objects have none")
        return super().compose_node(parent, index)


class _Quoting(yaml.SafeDumper):
    """Quotes a text that would be read as a number."""


def _text(dumper: yaml.SafeDumper, text: str) -> Any:
    quoted = '"' if _FRACTION.fullmatch(text) else None
    return dumper.represent_scalar(_STR, text, style=quoted)


_Quoting.add_representer(str, _text)


def check(kind: str, params: Any) -> tuple[dict[str, Any], list[ParamError]]:
    """The clean parameters of a job, a recipe's text read into an object, and everything that is wrong with them."""
    if kind != "merge" or not isinstance(params, Mapping) or not isinstance(params.get("recipe"), str):
        return check_params(kind, params)
    try:
        document = read(params["recipe"])
    except Unread as error:
        clean, errors = check_params(kind, {**params, "recipe": {}})
        others = [each for each in errors if each.field != FIELD and not each.field.startswith(f"{FIELD}.")]
        return {**clean, "recipe": {}}, [ParamError(FIELD, "unreadable", f"recipe: {error}"), *others]
    return check_params(kind, {**params, "recipe": document})


def read(text: str) -> Any:
    """The text as objects, lists, texts, numbers and switches. Raises :class:`Unread`."""
    if len(text) > MAX_TEXT:
        raise Unread(f"the text has {len(text)} characters, at most {MAX_TEXT} are read")
    try:
        node = yaml.compose(text, Loader=_Plain)
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise Unread(f"{where}this is no YAML: {error.problem or error.context}") from None
    except RecursionError:
        raise Unread(f"it is nested more than {MAX_DEPTH} deep") from None
    except (yaml.YAMLError, ValueError) as error:
        raise Unread(f"this is no YAML: {str(error).splitlines()[0]}") from None
    if node is None:
        raise Unread("the text is empty")
    return _value(node, MAX_DEPTH)


def as_text(document: Any) -> str:
    """The document as YAML, in the order in which people write it."""
    made: str = yaml.dump(
        _ordered(document), Dumper=_Quoting, default_flow_style=None, sort_keys=False, allow_unicode=True, width=100
    )
    return made


def _value(node: Any, depth: int) -> Any:
    line = node.start_mark.line + 1
    if depth == 0:
        raise Unread(f"line {line}: nested more than {MAX_DEPTH} deep")
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return [_value(each, depth - 1) for each in node.value]
    found: dict[str, Any] = {}
    for key, value in node.value:
        at = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise Unread(f"line {at}: the name of a field is a text, not a list or an object")
        if key.value in found:
            raise Unread(f"line {at}: {shown(key.value)} is there twice")
        found[key.value] = _value(value, depth - 1)
    return found


def _scalar(node: yaml.ScalarNode) -> Any:
    """A text in quotes is one; without quotes a number, a switch or nothing where it looks like one."""
    text: str = node.value
    if node.style is not None or (node.tag == _STR and not _FRACTION.fullmatch(text)):
        return text
    if node.tag == _BOOL:
        return text.lower() in _TRUE
    if node.tag == _NULL:
        return None
    if _WHOLE.fullmatch(text):
        return int(text)
    number = float(text) if _FRACTION.fullmatch(text) else math.nan
    return number if math.isfinite(number) else text


def _ordered(value: Any, depth: int = MAX_DEPTH) -> Any:
    """What a refused recipe holds deeper than any right one is left out."""
    if depth == 0:
        return "..."
    if isinstance(value, list):
        return [_ordered(each, depth - 1) for each in value]
    if not isinstance(value, Mapping):
        return value
    known = [name for name in _ORDER if name in value]
    return {name: _ordered(value[name], depth - 1) for name in (*known, *sorted(set(value) - set(known)))}
