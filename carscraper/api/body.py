"""The body of an answer read as JSON, and how a value in it is named in a message."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import orjson

from carscraper.exceptions import ApiError

DEEPEST = 32
"""Levels of lists and objects that a listing or a specification may have. The API's have five; MongoDB takes 100, and
what writes JSON here 254.
"""
LARGEST_LISTING = 256 * 1024
"""Bytes of JSON that a listing may have; one has about 2 KB."""
MOST_VALUES = 4096
"""Values that a listing may have, lists and objects and what is in them; one has about sixty. Three bytes of JSON are
enough for one that takes up a hundred times as much memory.
"""
_ALL_BUT_BRACKETS = bytes(set(range(256)).difference(b"[]{}"))
_USUAL_VALUES = 200
"""Commas in the JSON of a listing, about and rather too many."""
_STRING_OR_NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*+"|-?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?', re.DOTALL)
_LONGEST_NUMBER = 400
"""Digits and signs; the largest integer that a float can hold has 309."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def read_object(body: bytes) -> dict[str, object]:
    """The JSON object that the body holds.

    A number that no float can hold, such as `1e999`, is read as its text: it costs its field, not the body.

    Raises `ApiError` for anything else: an HTML page, a cut body, a byte order mark, NaN or Infinity, text
    that is not UTF-8, a lone surrogate (it could be read but never written again).
    """
    try:
        value = _loads(body)
    except orjson.JSONDecodeError as error:
        raise ApiError("", f"the body is not JSON: {error}; it starts with {body[:40]!r}") from error
    if type(value) is not dict:
        raise ApiError("", f"the body is {shown(value)}, not an object")
    return value


def _loads(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if "number is infinity" not in str(error):
            raise
    return orjson.loads(_STRING_OR_NUMBER.sub(_quote_infinite, body))


def _quote_infinite(found: re.Match[bytes]) -> bytes:
    """A string as it is, and a number too, unless it is beyond a float, or has more digits than anybody writes."""
    text = found.group()
    is_number = not text.startswith(b'"')
    if is_number and (len(text) > _LONGEST_NUMBER or not math.isfinite(float(text))):
        return b'"%b"' % text
    return text


def shown(value: object) -> str:
    """Names a JSON value in a message, on one line and shortly: `the string '2017'`, `null`, `a list`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the string {value[:40]!r}{'…' if len(value) > 40 else ''}"
    if isinstance(value, int | float):
        return f"the number {value!r}"
    return "a list" if isinstance(value, list) else "an object"


def step(name: str) -> str:
    """A field's name as a step of a path; an odd one is quoted and cut: it cannot forge a log line."""
    return name if _PLAIN_NAME.fullmatch(name) else repr(name[:64])


def may_be_deep(body: bytes) -> bool:
    """False when nothing in a body of JSON is nested deeper than `DEEPEST`, as is seen of nearly every answer without a
    look at its values.
    """
    brackets = body.translate(None, _ALL_BUT_BRACKETS)
    for _ in range(DEEPEST):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return bool(brackets)


def excess(entry: object) -> str | None:
    """What is too much of a listing, in words; None when it is within its bounds."""
    if is_deep(entry):
        return f"is nested deeper than {DEEPEST} levels"
    if (values := count_values(entry)) > MOST_VALUES:
        return f"has {values} values, where {MOST_VALUES} are enough"
    size = len(orjson.dumps(entry))
    return f"has {size} bytes, where {LARGEST_LISTING} are enough" if size > LARGEST_LISTING else None


def is_deep(value: object) -> bool:
    """Whether a value has more than `DEEPEST` levels of lists and objects."""
    return sum(1 for _ in _levels(value)) > DEEPEST


def count_values(value: object) -> int:
    """How many values are in a list or an object, and in those in them, as deep as allowed."""
    return sum(map(len, _levels(value)))


def may_have_many_values(body: bytes, listings: int) -> bool:
    """False when none of so many listings in a body of JSON has many more values than `MOST_VALUES`, as is seen of
    nearly every answer without a look at them.
    """
    return body.count(b",") > MOST_VALUES + _USUAL_VALUES * listings


def _levels(value: object) -> Iterator[list[object]]:
    """The values in a list or an object, then those in them, and so on, one level deeper than allowed at most."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
        yield level
