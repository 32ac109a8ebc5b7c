"""What did the sender say? A JSON object, read strictly and never further than the limit."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Any

from django.conf import settings
from rest_framework.request import Request

from scheduling.api.problems import Problem
from scheduling.core.unusable import MAX_DIGITS, BrokenText, HugeNumber, broken, broken_texts, huge_numbers
from workers.catalog import nearest

MAX_DEPTH = 32
MAX_TOLD = 50
NODE_BYTES = 16 * 1024 * 1024


def read(request: Request, *, most: int) -> bytes:
    """The whole body; 413 as soon as it is known to be longer than ``most`` bytes, without reading the rest."""
    http = request._request
    message = f"the body may have at most {most} bytes; send less"
    announced = http.META.get("CONTENT_LENGTH") or "0"
    if announced.isascii() and announced.isdigit() and int(announced) > most:
        raise Problem(413, "too_large", message, limit=most)
    content = http.read(most + 1)
    if len(content) > most:
        raise Problem(413, "too_large", message, limit=most)
    return content


def json_object(
    request: Request, *, optional: bool = False, of_node: bool = False, most: int | None = None
) -> tuple[dict[str, Any], str]:
    """(the object, its text). 413 too large, 415 another media type, 400 anything that is no clear JSON object:
    a key given twice or that no database could keep, NaN or Infinity, too deep.

    ``optional``: no body at all means ``{}``. A value that can't be used stands in the object as ``HugeNumber`` or
    ``BrokenText``, for the check of its field to refuse. ``of_node``: such a number is refused here, and a string
    may hold anything, as a job's log does.
    """
    content = read(request, most=most or settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    if not content.strip():
        if optional:
            return {}, ""
        raise Problem(400, "bad_json", "the body is empty; send a JSON object")
    media = request.content_type.split(";")[0].strip().lower() if request.content_type else ""
    if media != "application/json":
        raise Problem(
            415,
            "unsupported_media_type",
            f"send application/json, not {media[:80] or 'nothing'}",
            limit="application/json",
        )
    try:
        text = content.decode("utf-8")
        value = json.loads(
            text, object_pairs_hook=_once, parse_constant=_no_constant,
            parse_int=_small_whole if of_node else _whole, parse_float=_small_finite if of_node else _finite,
        )  # fmt: skip
        if not isinstance(value, dict):
            raise Refused("not_an_object", "the body must be a JSON object: { ... }")
        _settle(value, any_text=of_node)
    except Refused as refused:
        raise Problem(400, refused.code, str(refused), limit=refused.limit) from refused
    except UnicodeDecodeError as wrong:
        raise Problem(400, "not_utf8", f"the body is no UTF-8 (byte {wrong.start})") from wrong
    except json.JSONDecodeError as wrong:
        where = f"line {wrong.lineno}, column {wrong.colno}"
        raise Problem(400, "bad_json", f"the body is no JSON: {wrong.msg} at {where}") from wrong
    except RecursionError as deep:
        raise Problem(400, "too_deep", f"at most {MAX_DEPTH} levels of nesting", limit=MAX_DEPTH) from deep
    return value, text


def node_message(request: Request) -> dict[str, Any]:
    """The object that an agent sends: batches of reports are larger than what people send, and logs hold any text."""
    return json_object(request, of_node=True, most=NODE_BYTES)[0]


class Refused(ValueError):
    """JSON that can be parsed and is refused all the same."""

    def __init__(self, code: str, message: str, limit: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.limit = limit


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise Refused("duplicate_key", f"the key {key[:80]!r} is given twice in one object; give it once")
        made[key] = value
    return made


def _no_constant(word: str) -> Any:
    raise Refused("not_a_number", f"{word} is no JSON number; leave the field out or give a finite number")


def _whole(digits: str) -> int | HugeNumber:
    return HugeNumber(digits) if len(digits) > MAX_DIGITS else int(digits)


def _finite(digits: str) -> float | HugeNumber:
    value = float(digits)
    return value if math.isfinite(value) else HugeNumber(digits)


def _small_whole(digits: str) -> int:
    value = _whole(digits)
    if isinstance(value, HugeNumber):
        raise Refused("number_too_large", f"a whole number may have at most {MAX_DIGITS} digits", MAX_DIGITS)
    return value


def _small_finite(digits: str) -> float:
    value = _finite(digits)
    if isinstance(value, HugeNumber):
        raise Refused("number_too_large", f"{digits[:40]} is beyond what a number can be here; give a smaller one")
    return value


def _settle(value: dict[str, Any], *, any_text: bool) -> None:
    """The object is no deeper than allowed, its keys can be kept, and texts that can't be are marked in their place."""
    level: list[dict[str, Any] | list[Any]] = [value]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise Refused("too_deep", f"at most {MAX_DEPTH} levels of nesting", MAX_DEPTH)
        deeper: list[dict[str, Any] | list[Any]] = []
        for container in level:
            if isinstance(container, dict):
                _check_keys(container)
            places: Any = container if isinstance(container, dict) else range(len(container))
            for place in places:
                item = container[place]
                if isinstance(item, dict | list):
                    deeper.append(item)
                elif isinstance(item, str) and not any_text and broken(item):
                    container[place] = BrokenText(item)
        level = deeper


def _check_keys(keys: Mapping[str, Any]) -> None:
    for key in keys:
        if why := broken(key):
            raise Refused("bad_character", f"the key {key[:80]!r} {why}")


# ---------------------------------------------------------------- what holds for every body that is no job


def only(body: Mapping[str, Any], known: Sequence[str], *, instead: str = "remove it", path: str = "") -> None:
    """422 for every field but the known ones, with the nearest of them; ``instead`` says what to do."""
    errors = [
        {
            "field": f"{path}{name[:80]}",
            "code": "unknown_field",
            "message": f"there is no field {name[:80]!r}{nearest(name[:80], list(known))}; {instead}",
            "limit": list(known),
        }
        for name in islice((name for name in body if name not in known), MAX_TOLD)
    ]
    _refuse(errors)


def usable(body: Mapping[str, Any]) -> None:
    """422 for every text in the body that no database could keep and every number beyond all bounds."""
    _refuse(unusable(body))


def unusable(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """An error for every text in the body that no database could keep and every number beyond all bounds."""
    texts = ({"field": at, "code": "bad_character", "message": f"{at} {why}"} for at, why in broken_texts(body, ""))
    numbers = (
        {
            "field": at,
            "code": "number_too_large",
            "message": f"{at} may have at most {MAX_DIGITS} digits, not {number!r}",
            "limit": MAX_DIGITS,
        }
        for at, number in huge_numbers(body, "")
    )
    return list(islice(chain(texts, numbers), MAX_TOLD))


def _refuse(errors: list[dict[str, Any]]) -> None:
    if errors:
        raise Problem(422, errors[0]["code"], errors[0]["message"], errors=errors)
