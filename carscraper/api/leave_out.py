"""A listing page without the attributes that shall not be kept: nothing that comes after it can tell what they were."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import orjson

from carscraper.api.body import is_deep, may_be_deep


def leave_out(body: bytes, patterns: Sequence[str]) -> bytes:
    """The body without the attributes of listings whose name matches one of the patterns (`*`, `?`, `[…]`).

    A body that is no page of listings is returned as it came, and refused by whoever reads it. A listing nested
    so deeply that it could not be written again loses all its attributes, and is refused for that.
    """
    try:
        page = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body
    if type(page) is not dict:
        return body
    deep = may_be_deep(body)
    meta = page.get("meta")
    featured = meta.get("featured_listings") if type(meta) is dict else None
    for holder in (page, featured):
        for entry in _entries(holder):
            if deep and is_deep(entry):
                entry["attributes"] = {}
            _clear(entry.get("attributes"), patterns)
    try:
        return orjson.dumps(page)
    except orjson.JSONEncodeError:
        return b""


def _entries(holder: Any) -> list[dict[str, Any]]:
    entries = holder.get("data") if type(holder) is dict else None
    return [entry for entry in entries if type(entry) is dict] if type(entries) is list else []


def _clear(attributes: Any, patterns: Sequence[str]) -> None:
    if type(attributes) is dict:
        for name in [name for name in attributes if any(fnmatchcase(name, one) for one in patterns)]:
            del attributes[name]
