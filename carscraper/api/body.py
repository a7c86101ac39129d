"""The body of an answer read as JSON, and how a value in it is named in a message."""

from __future__ import annotations

import re

import orjson

from carscraper.exceptions import ApiError

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def read_object(body: bytes) -> dict[str, object]:
    """The JSON object that the body holds.

    Raises `ApiError` for anything else: an HTML page, a cut body, a byte order mark, NaN or Infinity, text
    that is not UTF-8, a lone surrogate (it could be read but never written again).
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ApiError("", f"the body is not JSON: {error}; it starts with {body[:40]!r}") from error
    if type(value) is not dict:
        raise ApiError("", f"the body is {shown(value)}, not an object")
    return value


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
