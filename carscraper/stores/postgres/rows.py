"""Records as rows of the tables, and back."""

from __future__ import annotations

import re
from typing import Any

import orjson
from psycopg.types.json import Jsonb

from carscraper.export.tables import utc_text
from carscraper.items import Car
from carscraper.stores.contract import StoredCar
from carscraper.stores.readings import Reading
from carscraper.stores.record import Record

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""The character NUL in JSON: no backslash but its own is left over before it."""


def problem(record: Record) -> str | None:
    """Why a record certainly cannot be held; None for all others."""
    if "\0" in record.id or "\0" in record.url or _has_nul(record.attrs_json) or _has_nul(record.specs.json):
        return "a text holds the character NUL"
    try:
        (record.id + record.url).encode()
    except UnicodeEncodeError:
        return "id or url: half of a surrogate pair"
    return None


def _has_nul(text: bytes) -> bool:
    return b"\\u0000" in text and _NUL.search(text) is not None


def incoming(reading: Reading) -> tuple[Any, ...]:
    """The values that `COPY` sends."""
    record = reading.record
    unread = record.row.unread
    return (
        record.id,
        record.url or None,
        reading.at,
        *record.row.values,
        Jsonb(unread, dumps=orjson.dumps) if unread else None,
        Jsonb(record.attrs_json, dumps=bytes),
        record.specs.digest,
        record.digest,
    )


def stored(row: tuple[Any, ...]) -> StoredCar:
    """A row of `page`."""
    listing, url, scraped_at, attrs, specs, first_seen, last_seen, removed_at = row
    car = Car(listing, url, utc_text(scraped_at), attrs, specs)
    return StoredCar(car, first_seen, last_seen, removed_at)
