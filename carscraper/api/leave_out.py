"""A listing page without what shall not be kept, attributes or listings: nothing that comes after it can tell what
that was.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import Any

import orjson

from carscraper.api.body import is_deep, may_be_deep
from carscraper.api.deviations import coerced_id


def leave_out(body: bytes, patterns: Sequence[str]) -> bytes:
    """The body without the attributes of listings whose name matches one of the patterns (`*`, `?`, `[…]`).

    A body that is no page of listings is returned as it came, and refused by whoever reads it. A listing nested
    so deeply that it could not be written again loses all its attributes, and is refused for that.
    """
    page = _read(body)
    if not page:
        return body
    deep = may_be_deep(body)
    for holder in _holders(page):
        for entry in _entries(holder):
            if deep and is_deep(entry):
                entry["attributes"] = {}
            _clear(entry.get("attributes"), patterns)
    try:
        return orjson.dumps(page)
    except orjson.JSONEncodeError:
        return b""


def listings_in(body: bytes, ids: Collection[str]) -> set[str]:
    """Which of these listings a page holds, featured or not, fit for use or not."""
    page = _read(body)
    named = {_id_of(entry) for holder in _holders(page) for entry in _entries(holder)}
    return named.intersection(ids)


def leave_out_listings(body: bytes, ids: Collection[str]) -> bytes | None:
    """The page as if these listings, all of which its catalogue had, were not there: a total is less by their number.

    None when it cannot be written again.
    """
    page = _read(body)
    for holder in _holders(page):
        if type(holder) is dict and type(entries := holder.get("data")) is list:
            holder["data"] = [entry for entry in entries if _id_of(entry) not in ids]
    meta = page.get("meta")
    if type(meta) is dict and type(meta.get("total")) is int:
        meta["total"] = max(0, meta["total"] - len(ids))
    try:
        return orjson.dumps(page)
    except orjson.JSONEncodeError:
        return None


def _read(body: bytes) -> dict[str, Any]:
    """The page, or an empty object for what is none."""
    try:
        page = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return page if type(page) is dict else {}


def _holders(page: dict[str, Any]) -> tuple[Any, Any]:
    """What holds listings: the page itself, and the featured ones."""
    meta = page.get("meta")
    return page, meta.get("featured_listings") if type(meta) is dict else None


def _entries(holder: Any) -> list[dict[str, Any]]:
    entries = holder.get("data") if type(holder) is dict else None
    return [entry for entry in entries if type(entry) is dict] if type(entries) is list else []


def _id_of(entry: Any) -> str:
    """Empty when it has none that could be one."""
    given = coerced_id(entry.get("id")) if type(entry) is dict else None
    return given if type(given) is str else ""


def _clear(attributes: Any, patterns: Sequence[str]) -> None:
    if type(attributes) is dict:
        for name in [name for name in attributes if any(fnmatchcase(name, one) for one in patterns)]:
            del attributes[name]
