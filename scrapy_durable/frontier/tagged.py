"""Values that JSON does not have, as JSON: each with a tag that says what it is.

A tagged value is an object whose only key is `$`: a list of the tag and what the value is made of.

| tag | made of |
|---|---|
| `tuple`, `set`, `frozenset` | its elements |
| `dict` | pairs of key and value, where a key is no string or the only key is `$` |
| `bytes` | base64 |
| `int`, `float`, `Decimal` | digits: beyond 64 bits; NaN and infinities; any |
| `datetime`, `date`, `time` | ISO 8601, with a fixed offset if any |
| `timedelta` | days, seconds, microseconds |
| `UUID` | its 36 characters |
| `Item`, `dataclass`, `attrs` | the class, and an object of the fields that are set |
| `pydantic` | the class, and an object of the fields and extras that there are; under `$`, which of them were set |
| `namedtuple` | the class, and the elements |
| `Enum` | the class, and the member's name |

Classes are named as `classes.py` says. An object is made without its `__init__`, as a copy is, and its attributes are
those of its fields: nothing of the class is called, but for its `__hash__` in a set. A subclass of
`str` becomes a `str`, and a member of an enumeration of strings or integers its value.
"""

from __future__ import annotations

import dataclasses
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from scrapy import Item

from scrapy_durable.exceptions import CodecError
from scrapy_durable.frontier.classes import SpiderClasses

TAG = "$"
_DEEPEST = 100
"""Levels of values within values."""


def plain_str(value: object) -> str:
    """A string without its subclass. Raises `TypeError` for anything else."""
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"JSON has no {type(value).__name__}")


def tag(value: Any, classes: SpiderClasses, path: str, depth: int = 0) -> Any:
    """The value as JSON. Raises `CodecError` with the path to what cannot be carried."""
    kind = type(value)
    if depth > _DEEPEST:
        raise CodecError(f"{path}: nested too deeply")
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**64 else {TAG: ["int", str(value)]}
    if kind is float:
        return value if math.isfinite(value) else {TAG: ["float", repr(value)]}
    if kind is list:
        return _tag_all(value, classes, path, depth)
    if kind is dict:
        return _tag_dict(value, classes, path, depth)
    if write := _WRITERS.get(kind):
        if type(getattr(value, "tzinfo", None)) not in (type(None), timezone):
            if (kept := classes.as_data(value)) is value:
                raise CodecError(f"{path}: a time in a zone that is no fixed offset")
            return tag(kept, classes, path, depth + 1)
        return {TAG: [kind.__name__, write(value)]}
    if kind in _COLLECTIONS:
        return {TAG: [kind.__name__, _tag_all(value, classes, path, depth)]}
    if isinstance(value, str):
        return plain_str(value)
    if isinstance(value, Enum):
        if isinstance(value, int):
            return int(value)
        if kind.__members__.get(value.name) is not value:
            raise CodecError(f"{path}: a {kind.__name__} that is no single member")
        return {TAG: ["Enum", _class_name(kind, classes, path), value.name]}
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return {TAG: ["namedtuple", _class_name(kind, classes, path), _tag_all(value, classes, path, depth)]}
    if parts := object_parts(value, classes, path):
        name, class_name, fields = parts
        tagged = {key: tag(inner, classes, f"{path}.{key}", depth + 1) for key, inner in fields.items()}
        return {TAG: [name, class_name, tagged]}
    if (kept := classes.as_data(value)) is not value:
        return tag(kept, classes, path, depth + 1)
    raise CodecError(f"{path}: JSON has no {kind.__name__}")


def object_parts(value: Any, classes: SpiderClasses, path: str) -> tuple[str, str, dict[str, Any]] | None:
    """Tag, class, and fields, not tagged, of an object of a project's own class; None for anything else. Raises
    `CodecError`.
    """
    kind = type(value)
    for name, (is_one, fields_of) in _OBJECTS.items():
        if is_one(kind):
            return name, _class_name(kind, classes, path), fields_of(value, path)
    return None


def object_of(name: str, class_name: str, fields: dict[str, Any], classes: SpiderClasses) -> Any:
    """The object that has such parts. Raises as `untag`."""
    kind = classes.find(class_name)
    if not _OBJECTS[name][0](kind):
        raise CodecError(f"{class_name} is no {name}")
    return _MAKERS[name](kind, fields)


def untag(value: Any, classes: SpiderClasses, depth: int = 0) -> Any:
    """The value that `tag` was given. Raises `CodecError`, `ValueError`, `TypeError`, `LookupError` or
    `ArithmeticError` for anything else.
    """
    if depth > _DEEPEST:
        raise CodecError("nested too deeply")
    if type(value) is list:
        return [untag(inner, classes, depth + 1) for inner in value]
    if type(value) is not dict:
        return value
    if value.keys() != {TAG}:
        return {key: untag(inner, classes, depth + 1) for key, inner in value.items()}
    name, *parts = value[TAG]
    if read := _READERS.get(name):
        (part,) = parts
        return read(part)
    if name in ("tuple", "set", "frozenset"):
        (elements,) = parts
        return _BY_NAME[name](untag(inner, classes, depth + 1) for inner in elements)
    if name == "dict":
        (pairs,) = parts
        return {untag(key, classes, depth + 1): untag(inner, classes, depth + 1) for key, inner in pairs}
    class_name, content = parts
    if type(class_name) is not str:
        raise CodecError(f"{name} without a class")
    if name in _OBJECTS:
        if type(content) is not dict:
            raise CodecError(f"{class_name} without fields")
        fields = {key: untag(inner, classes, depth + 1) for key, inner in content.items()}
        return object_of(name, class_name, fields, classes)
    kind = classes.find(class_name)
    if name == "Enum" and issubclass(kind, Enum):
        return kind.__members__[content]
    if name == "namedtuple" and issubclass(kind, tuple) and len(content) == len(getattr(kind, "_fields", ())):
        return tuple.__new__(kind, (untag(inner, classes, depth + 1) for inner in content))
    raise CodecError(f"{class_name} is no {name}")


def _tag_all(values: Iterable[Any], classes: SpiderClasses, path: str, depth: int) -> list[Any]:
    return [tag(inner, classes, f"{path}[{index}]", depth + 1) for index, inner in enumerate(values)]


def _tag_dict(value: dict[Any, Any], classes: SpiderClasses, path: str, depth: int) -> Any:
    if all(isinstance(key, str) for key in value) and value.keys() != {TAG}:
        return {
            plain_str(key): tag(inner, classes, f"{path}.{key}", depth + 1) for key, inner in value.items()
        }
    pairs = [
        [tag(key, classes, f"{path} (a key)", depth + 1), tag(inner, classes, f"{path}[{key!r}]", depth + 1)]
        for key, inner in value.items()
    ]
    return {TAG: ["dict", pairs]}


def _class_name(kind: type, classes: SpiderClasses, path: str) -> str:
    try:
        return classes.name_of(kind)
    except CodecError as error:
        raise CodecError(f"{path}: {error}") from error


# Objects of a project's own classes


def _is_item(kind: type) -> bool:
    return issubclass(kind, Item)


def _is_dataclass(kind: type) -> bool:
    return dataclasses.is_dataclass(kind)


def _is_attrs(kind: type) -> bool:
    return "__attrs_attrs__" in vars(kind)


def _is_pydantic(kind: type) -> bool:
    return "__pydantic_fields__" in vars(kind)


def _item_fields(value: Any, path: str) -> dict[str, Any]:
    if len(vars(value)) > 1:
        raise CodecError(f"{path}: a {type(value).__name__} with attributes beside its fields")
    return {key: value[key] for key in value}


def _object_fields(value: Any, path: str) -> dict[str, Any]:
    names = _field_names(type(value))
    if not getattr(value, "__dict__", {}).keys() <= names:
        raise CodecError(f"{path}: a {type(value).__name__} with attributes beside its fields")
    _make_object(type(value), {})  # of some, such as exceptions, none can be made
    return {name: getattr(value, name) for name in sorted(names) if hasattr(value, name)}


def _model_fields(value: Any, path: str) -> dict[str, Any]:
    extra = value.__pydantic_extra__ or {}
    if (
        value.__pydantic_private__
        or TAG in extra
        or not vars(value).keys() <= type(value).__pydantic_fields__.keys()
    ):
        raise CodecError(f"{path}: a {type(value).__name__} with attributes beside its fields")
    return {**vars(value), **extra, TAG: sorted(value.__pydantic_fields_set__)}


def _field_names(kind: type) -> set[str]:
    if dataclasses.is_dataclass(kind):
        return {field.name for field in dataclasses.fields(kind)}
    return {field.name for field in getattr(kind, "__attrs_attrs__", ())}


def _make_item(kind: Any, fields: dict[str, Any]) -> Item:
    item: Item = Item.__new__(kind)
    Item.__init__(item)
    for name, value in fields.items():
        Item.__setitem__(item, name, value)
    return item


def _make_object(kind: type, fields: dict[str, Any]) -> Any:
    if not fields.keys() <= _field_names(kind):
        raise CodecError(f"{kind.__name__} has other fields")
    try:
        made: Any = object.__new__(kind)
    except TypeError as error:
        raise CodecError(str(error)) from error
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def _make_model(kind: Any, fields: dict[str, Any]) -> Any:
    names = kind.__pydantic_fields__.keys()
    extra = {name: value for name, value in fields.items() if name not in names and name != TAG}
    if extra and kind.model_config.get("extra") != "allow":
        raise CodecError(f"{kind.__name__} has other fields")
    made: Any = object.__new__(kind)
    attributes = {
        "__dict__": {name: fields[name] for name in fields if name in names},
        "__pydantic_fields_set__": set(fields[TAG]),
        "__pydantic_extra__": extra if kind.model_config.get("extra") == "allow" else None,
        "__pydantic_private__": None,
    }
    for name, value in attributes.items():
        object.__setattr__(made, name, value)
    return made


_OBJECTS: dict[str, tuple[Callable[[type], bool], Callable[[Any, str], dict[str, Any]]]] = {
    "Item": (_is_item, _item_fields),
    "dataclass": (_is_dataclass, _object_fields),
    "attrs": (_is_attrs, _object_fields),
    "pydantic": (_is_pydantic, _model_fields),
}

_MAKERS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "Item": _make_item,
    "dataclass": _make_object,
    "attrs": _make_object,
    "pydantic": _make_model,
}

# Values of Python's own classes


_COLLECTIONS = (tuple, set, frozenset)
_BY_NAME: dict[str, Callable[[Iterable[Any]], Any]] = {kind.__name__: kind for kind in _COLLECTIONS}
_WRITERS: dict[type, Callable[[Any], Any]] = {
    bytes: lambda value: b64encode(value).decode(),
    Decimal: str,
    datetime: datetime.isoformat,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    UUID: str,
}
_READERS: dict[str, Callable[[Any], Any]] = {
    "bytes": lambda part: b64decode(part, validate=True),
    "int": int,
    "float": float,
    "Decimal": Decimal,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda part: timedelta(*part),
    "UUID": UUID,
}
