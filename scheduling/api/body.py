"""What did the sender say? A JSON object, read strictly and never further than the limit."""

from __future__ import annotations

import json
import math
from typing import Any

from django.conf import settings
from rest_framework.request import Request

from scheduling.api.problems import Problem

MAX_DEPTH = 32
MAX_DIGITS = 20
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
    request: Request, *, optional: bool = False, any_text: bool = False, most: int | None = None
) -> tuple[dict[str, Any], str]:
    """(the object, its text). 413 too large, 415 another media type, 400 anything that is no clear JSON object:
    a key given twice, NaN or Infinity, a number beyond a float, a lone surrogate, too deep.

    ``optional``: no body at all means ``{}``. ``any_text``: strings may hold NUL and lone surrogates, as a job's log
    does; elsewhere no database could keep them.
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
            text, object_pairs_hook=_once, parse_constant=_no_constant, parse_int=_whole, parse_float=_finite
        )
        if not isinstance(value, dict):
            raise Refused("not_an_object", "the body must be a JSON object: { ... }")
        _check_depth_and_text(value, any_text=any_text)
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
    return json_object(request, any_text=True, most=NODE_BYTES)[0]


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


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise Refused("number_too_large", f"a whole number may have at most {MAX_DIGITS} digits", MAX_DIGITS)
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise Refused("number_too_large", f"{digits[:40]} is beyond what a number can be here; give a smaller one")
    return value


def _check_depth_and_text(value: Any, *, any_text: bool) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise Refused("too_deep", f"at most {MAX_DEPTH} levels of nesting", MAX_DEPTH)
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                _check_texts(item, any_text=False)
                deeper.extend(item.values())
            elif isinstance(item, list):
                deeper.extend(item)
            elif isinstance(item, str):
                _check_texts((item,), any_text=any_text)
        level = deeper


def _check_texts(texts: Any, *, any_text: bool) -> None:
    for text in texts:
        if text.isascii() and "\x00" not in text:
            continue
        if any_text:
            continue
        if "\x00" in text:
            raise Refused("bad_character", "a text holds the NUL character (\\u0000); remove it")
        try:
            text.encode()
        except UnicodeEncodeError as lone:
            raise Refused("bad_character", "a text holds half of a surrogate pair, which is no character") from lone
