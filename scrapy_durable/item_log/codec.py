"""Items as bytes, and back with their class and the types of their values.

Most items are a `dict` of values that JSON has: those are JSON as it stands. Others are JSON behind a letter that says
how it is to be read:

| begins with | made of |
|---|---|
| `{` and whatever else JSON begins with | plain JSON |
| `O` | an item of a class: tag, class, and fields in plain JSON |
| `P` | an item of a class that has parts: class and fields in plain JSON, a line feed, the rest (`HasParts`) |
| `T` | values that are tagged (`frontier/tagged.py`) |
| `S` | the same, with strings that have half a surrogate pair, which only Python's own JSON can hold |

The classes that it may name are those that any module of the spider's project can name. What exporters cannot tell from
something simpler comes back as that: `ItemClasses.as_data`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, time, timezone
from decimal import Decimal
from math import isfinite
from typing import Any, Protocol, Self

import orjson

from scrapy_durable.exceptions import CodecError
from scrapy_durable.frontier.classes import ProjectClasses
from scrapy_durable.frontier.tagged import object_of, object_parts, tag, untag
from scrapy_durable.item_log.records import LONGEST

_OBJECT, _PARTS, _TAGGED, _SURROGATES = b"O", b"P", b"T", b"S"
_DEEPEST = 90
"""Levels of values within values that are looked through; what is deeper is left to `tag`."""
_BASES: tuple[Any, ...] = (dict, list, tuple, set, frozenset, bytes, int, float, Decimal)
_SCALARS = frozenset((str, int, bool, type(None)))


class HasParts(Protocol):
    """What a class of items may have, that has bytes ready which nobody need make and read again."""

    def log_parts(self) -> tuple[dict[str, Any], bytes] | None:
        """The item as fields, and bytes behind them; None when it has to be kept as any other is.

        Fields that plain JSON does not have exactly have the same effect.
        """

    @classmethod
    def from_log_parts(cls, fields: dict[str, Any], rest: bytes) -> Self:
        """The item that had these parts. Raises `ValueError`, `TypeError` or `LookupError` for any others."""


class ItemCodec:
    """The items of one spider."""

    def __init__(self, spider_class: type) -> None:
        self._classes = ItemClasses(spider_class)

    def encode(self, item: Any) -> bytes:
        """Raises `CodecError`, with the path to what cannot be kept, and nothing but that."""
        try:
            data = (
                self._encode_plain(item)
                or self._encode_parts(item)
                or self._encode_object(item)
                or self._encode_tagged(item)
            )
        except CodecError:
            raise
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
            raise CodecError(f"{type(item).__name__}: {error}") from error
        if len(data) > LONGEST:
            raise CodecError(f"{type(item).__name__}: {len(data)} bytes, more than {LONGEST}")
        return data

    def decode(self, data: bytes) -> Any:
        """Raises `CodecError` for what `encode` has not written, or when a class is not there any more."""
        try:
            first = data[:1]
            if first == _OBJECT:
                name, class_name, fields = orjson.loads(memoryview(data)[1:])
                return object_of(name, class_name, fields, self._classes)
            if first == _PARTS:
                return self._decode_parts(data)
            if first == _TAGGED:
                return untag(orjson.loads(memoryview(data)[1:]), self._classes)
            if first == _SURROGATES:
                return untag(json.loads(data[1:]), self._classes)
            return orjson.loads(data)
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
            raise CodecError(f"no item can be made of it: {error}") from error

    def _encode_plain(self, item: Any) -> bytes | None:
        if not _is_plain((item,)):
            return None
        try:
            return orjson.dumps(item)
        except TypeError:
            return None

    def _encode_parts(self, item: Any) -> bytes | None:
        kind = type(item)
        parts = item.log_parts() if _has_parts(kind) else None
        if parts is None or not _is_plain((parts[0],)):
            return None
        try:
            return self.encode_parts(kind, *parts)
        except TypeError:
            return None

    def encode_parts(self, kind: type, fields: dict[str, Any], rest: bytes) -> bytes:
        """What `encode` makes of an item of a class that has such parts (`HasParts`); where the first line feed stands
        begins the rest. Raises `CodecError` and `TypeError`.
        """
        return b"".join((_PARTS, orjson.dumps([self._classes.name_of(kind), fields]), b"\n", rest))

    def _decode_parts(self, data: bytes) -> Any:
        end = data.index(b"\n")
        name, fields = orjson.loads(memoryview(data)[1:end])
        kind: Any = self._classes.find(name)
        if not _has_parts(kind):
            raise CodecError(f"{name} has no parts")
        return kind.from_log_parts(fields, data[end + 1 :])

    def _encode_object(self, item: Any) -> bytes | None:
        parts = object_parts(item, self._classes, type(item).__name__)
        if parts is None or not _is_plain(parts[2].values()):
            return None
        try:
            return _OBJECT + orjson.dumps(parts)
        except TypeError:
            return None

    def _encode_tagged(self, item: Any) -> bytes:
        tagged = tag(item, self._classes, type(item).__name__)
        try:
            return _TAGGED + orjson.dumps(tagged)
        except TypeError:
            data = json.dumps(tagged, allow_nan=False).encode()
            if json.loads(data) != tagged:
                raise CodecError(f"{type(item).__name__}: a string that JSON does not have") from None
            return _SURROGATES + data


class ItemClasses(ProjectClasses):
    """The classes of items, and of what is in them."""

    def as_data(self, value: Any) -> Any:
        """A collection or a number without its subclass, and a time in a zone with its offset alone."""
        if isinstance(value, datetime | time):
            offset = value.utcoffset() if type(value) in (datetime, time) else None
            return value if offset is None else value.replace(tzinfo=timezone(offset))
        for base in _BASES:
            if isinstance(value, base) and type(value) is not base:
                return base(value)
        return value


def _has_parts(kind: type) -> bool:
    """Whether it is as `HasParts` says."""
    return hasattr(kind, "log_parts") and hasattr(kind, "from_log_parts")


def _is_plain(values: Iterable[Any], depth: int = 0) -> bool:
    """Whether JSON has these values exactly. Keys of dictionaries are left to `orjson`, which takes nothing but `str`;
    so are integers beyond 64 bits.
    """
    for value in values:
        kind = type(value)
        if kind in _SCALARS:
            continue
        if kind is float:
            if not isfinite(value):
                return False
        elif depth < _DEEPEST and kind is dict:
            if not _is_plain(value.values(), depth + 1):
                return False
        elif not (depth < _DEEPEST and kind is list and _is_plain(value, depth + 1)):
            return False
    return True
