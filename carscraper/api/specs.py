"""The specification of a variant: bytes in, groups of labels and values out as they came; what is odd is counted."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

from carscraper.api.body import DEEPEST, count_values, is_deep, may_be_deep, read_object, shown, step
from carscraper.api.deviations import MISSING, Deviations, note
from carscraper.exceptions import ApiError

_TOP_FIELDS = frozenset({"data"})
_GROUP_FIELDS = frozenset({"title", "attrs"})
_ATTR_FIELDS = frozenset({"label", "value"})
_NEW = "new field"
MOST_VALUES = 20_000
"""Values that a specification may have which departs from the known shape; one has about four hundred."""
_DATA = "specs.data"


@dataclass(frozen=True, slots=True)
class Specs:
    """What the API knows of one variant of one year."""

    groups: list[dict[str, Any]]
    """`[{"title": str or None, "attrs": [{"label": str, "value": str}]}]`, as the API gave them, so that any part
    may be missing or of another type; empty when it knows nothing."""
    deviations: Deviations
    """Where it departs from its known shape; paths begin with `specs.`, as in `specs.data[][].attrs[].value`."""


def parse_specs(body: bytes) -> Specs:
    """The specification that the body holds: a list of groups, in a list of one, in several, or by itself.

    Groups come out in one list. Raises `ApiError` with the path when there is no list, or none with a group in it.
    """
    top = read_object(body)
    if (plain := _plain_groups(top)) is not None:
        return Specs(plain, {})
    if may_be_deep(body) and is_deep(top):
        raise ApiError("data", f"is nested deeper than {DEEPEST} levels")
    if body.count(b",") > MOST_VALUES and (values := count_values(top)) > MOST_VALUES:
        raise ApiError("data", f"has {values} values, where {MOST_VALUES} are enough")
    found: Deviations = {}
    for name in top.keys() - _TOP_FIELDS:
        note(found, f"specs.{step(name)}", top[name], _NEW)
    groups = _groups(top, found)
    if groups and not any(type(group) is dict for group in groups):
        raise ApiError("data", f"holds {shown(groups[0])} where a group of labels and values is due")
    for group in groups:
        _note_group(found, group)
    return Specs(groups, found)


def _plain_groups(top: dict[str, Any]) -> list[Any] | None:
    """The groups of a specification that has its known shape throughout, as nearly all have; None of any other."""
    outer = top.get("data")
    if type(outer) is not list or len(outer) != 1 or len(top) != 1 or type(outer[0]) is not list:
        return None
    return outer[0] if all(map(_is_plain, outer[0])) else None


def _is_plain(group: Any) -> bool:
    """Looks at all labels and values together: a specification has a hundred."""
    if type(group) is not dict or group.keys() != _GROUP_FIELDS:
        return False
    title, attrs = group["title"], group["attrs"]
    if (title is not None and type(title) is not str) or type(attrs) is not list:
        return False
    return not attrs or (
        set(map(type, attrs)) == {dict}
        and set(map(len, attrs)) == {len(_ATTR_FIELDS)}
        and set(chain.from_iterable(attrs)) == _ATTR_FIELDS
        and set(map(type, chain.from_iterable(map(dict.values, attrs)))) == {str}
    )


def _groups(top: dict[str, Any], found: Deviations) -> list[Any]:
    if "data" not in top:
        raise ApiError("data", "is missing, where a list is due")
    outer = top["data"]
    if type(outer) is not list:
        raise ApiError("data", f"is {shown(outer)}, not a list")
    if len(outer) == 1 and type(outer[0]) is list:
        return outer[0]
    if outer and all(type(inner) is list for inner in outer):
        note(found, _DATA, outer, "several arrays")
    groups: list[Any] = []
    for inner in outer:
        if type(inner) is list:
            groups += inner
        else:
            note(found, f"{_DATA}[]", inner)
            groups.append(inner)
    return groups


def _note_group(found: Deviations, group: Any) -> None:
    path = f"{_DATA}[][]"
    if type(group) is not dict:
        note(found, path, group)
        return
    title = group.get("title")
    if type(title) is not str and title is not None:
        note(found, f"{path}.title", title)
    elif "title" not in group:
        note(found, f"{path}.title", None, MISSING)
    if len(group) > 2:
        _note_new(found, path, group, _GROUP_FIELDS)
    attrs = group.get("attrs")
    if type(attrs) is not list:
        note(found, f"{path}.attrs", attrs, "" if "attrs" in group else MISSING)
        return
    for attr in attrs:
        if type(attr) is not dict:
            note(found, f"{path}.attrs[]", attr)
            continue
        if type(attr.get("label")) is not str or type(attr.get("value")) is not str:
            for name in ("label", "value"):
                if type(attr.get(name)) is not str:
                    note(found, f"{path}.attrs[].{name}", attr.get(name), "" if name in attr else MISSING)
        if len(attr) > 2:
            _note_new(found, f"{path}.attrs[]", attr, _ATTR_FIELDS)


def _note_new(found: Deviations, path: str, fields: dict[str, Any], known: frozenset[str]) -> None:
    for name in fields.keys() - known:
        note(found, f"{path}.{step(name)}", fields[name], _NEW)
