"""The specification of a variant: bytes in, checked groups of labels and values out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from carscraper.api.body import DEEPEST, is_deep, may_be_deep, read_object, shown, step
from carscraper.exceptions import ApiError

_TOP_FIELDS = frozenset({"data"})
_GROUP_FIELDS = frozenset({"title", "attrs"})
_ATTR_FIELDS = frozenset({"label", "value"})


@dataclass(frozen=True, slots=True)
class Specs:
    """What the API knows of one variant of one year."""

    groups: list[dict[str, Any]]
    """`[{"title": str or None, "attrs": [{"label": str, "value": str}]}]`, as the API gave them; empty when
    it knows nothing."""
    unknown: frozenset[str]
    """Paths of fields that this release does not know, without positions, as in `data[][].attrs[].unit`."""


def parse_specs(body: bytes) -> Specs:
    """The specification that the body holds: a list of groups within a list of one, or an empty list.

    Raises `ApiError` with the path to the first value that does not fit, as in `data[0][2].attrs[5].value`.
    """
    top = read_object(body)
    if may_be_deep(body) and is_deep(top):
        raise ApiError("data", f"is nested deeper than {DEEPEST} levels")
    unknown = {step(name) for name in top.keys() - _TOP_FIELDS}
    groups = _only_list(top)
    for index, group in enumerate(groups):
        _check_group(group, f"data[0][{index}]", unknown)
    return Specs(groups, frozenset(unknown))


def _only_list(top: dict[str, Any]) -> list[Any]:
    if "data" not in top:
        raise ApiError("data", "is missing, where a list is due")
    outer = top["data"]
    if type(outer) is not list:
        raise ApiError("data", f"is {shown(outer)}, not a list")
    if not outer:
        return []
    if len(outer) > 1:
        raise ApiError("data", f"holds {len(outer)} lists of groups, where one is due")
    if type(outer[0]) is not list:
        raise ApiError("data[0]", f"is {shown(outer[0])}, not a list")
    return outer[0]


def _check_group(group: Any, path: str, unknown: set[str]) -> None:
    if type(group) is not dict:
        raise ApiError(path, f"is {shown(group)}, not an object")
    title = _due(group, "title", path)
    if title is not None and type(title) is not str:
        raise ApiError(f"{path}.title", f"is {shown(title)}, not a string or null")
    attrs = _due(group, "attrs", path)
    if type(attrs) is not list:
        raise ApiError(f"{path}.attrs", f"is {shown(attrs)}, not a list")
    if len(group) > 2:
        unknown.update(f"data[][].{step(name)}" for name in group.keys() - _GROUP_FIELDS)
    for index, attr in enumerate(attrs):
        if type(attr) is not dict:
            raise ApiError(f"{path}.attrs[{index}]", f"is {shown(attr)}, not an object")
        if type(attr.get("label")) is not str or type(attr.get("value")) is not str:
            for name in ("label", "value"):
                text = _due(attr, name, f"{path}.attrs[{index}]")
                if type(text) is not str:
                    raise ApiError(f"{path}.attrs[{index}].{name}", f"is {shown(text)}, not a string")
        if len(attr) > 2:
            unknown.update(f"data[][].attrs[].{step(name)}" for name in attr.keys() - _ATTR_FIELDS)


def _due(fields: dict[str, Any], name: str, path: str) -> Any:
    if name not in fields:
        raise ApiError(f"{path}.{name}", "is missing")
    return fields[name]
