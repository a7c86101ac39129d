"""The verdict as its finder leaves it for the other workers, and read back with care: others can write there."""

from __future__ import annotations

from dataclasses import is_dataclass
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

import orjson

from scrapy_durable.exceptions import FrontierDamaged

_V = TypeVar("_V")

_MOST = 10**9
"""No count is larger."""
_LONGEST = 2000
"""Characters of a text; what is longer is cut."""


def read_published(kind: type[_V], published: bytes) -> _V:
    """A verdict of that kind, a dataclass, out of JSON; its texts can be printed. Raises `FrontierDamaged`."""
    try:
        return cast("_V", _read(kind, orjson.loads(published)))
    except (ValueError, TypeError) as error:
        raise FrontierDamaged(
            f"the verdict that another worker published cannot be read ({error}), so somebody else has written it"
        ) from error


def _read(hint: Any, value: Any) -> Any:
    """A value that JSON has, as the annotation has it. Raises TypeError or ValueError when it is of another type."""
    arguments = get_args(hint)
    kind = get_origin(hint) or hint
    if kind is Any:
        return _any(value)
    if kind is UnionType:
        return (
            None if value is None else _read(next(one for one in arguments if one is not type(None)), value)
        )
    if is_dataclass(kind):
        return _record(cast("type", kind), value)
    if kind is tuple:
        return tuple(_read(arguments[0], item) for item in _of(list, value))
    if kind is list:
        return [_read(arguments[0], item) for item in _of(list, value)]
    if kind is dict:
        return {_text(key): _read(arguments[1], item) for key, item in _of(dict, value).items()}
    if kind is str:
        return _text(_of(str, value))
    if kind is int and not 0 <= _of(int, value) <= _MOST:
        raise ValueError("a count beyond all bounds")
    return _of(kind, value)


def _record(kind: type, value: Any) -> Any:
    hints = get_type_hints(kind)
    if _of(dict, value).keys() != hints.keys():
        raise ValueError(f"other fields than those of {kind.__name__}")
    return kind(**{name: _read(hint, value[name]) for name, hint in hints.items()})


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{type(value).__name__} instead of {kind.__name__}")
    return value


def _any(value: Any) -> Any:
    if isinstance(value, dict):
        return {_text(key): _any(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_any(item) for item in value]
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text[:_LONGEST])
