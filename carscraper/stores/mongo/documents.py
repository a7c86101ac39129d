"""Records as documents, the updates that merge them, and back."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC
from typing import Any

import bson
import orjson
from bson.codec_options import CodecOptions, TypeDecoder, TypeRegistry
from bson.errors import BSONError
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument
from pymongo import InsertOne, UpdateOne

from carscraper.export.tables import utc_text
from carscraper.items import Car
from carscraper.stores.contract import Refused, StoredCar
from carscraper.stores.mongo.elements import Elements
from carscraper.stores.readings import Reading, refuse
from carscraper.stores.record import SPEC_MISSING, Record

Document = dict[str, Any]
Write = InsertOne[Any] | UpdateOne

DEEPEST = 180
"""Levels of a document, itself among them, that a server stores. One of 200 has it refuse the whole batch."""
LARGEST = 16 * 2**20 - 2**16
"""Bytes of a new document: what a server stores, less room for prices to come."""

_REFERENCE = b'"$ref"'
"""In JSON, of which no document is made that holds a reference without holding this."""
_LONGEST_ID = 1024
"""Bytes of an id: what is longer is none, and hundreds are asked for at once."""


class _PlainInt(TypeDecoder):
    """Gives whole numbers back as JSON has them, not in a class that tells how they were stored."""

    bson_type = Int64

    def transform_bson(self, value: Any) -> int:
        return int(value)


CODEC: CodecOptions[Document] = CodecOptions(
    tz_aware=True, tzinfo=UTC, type_registry=TypeRegistry([_PlainInt()])
)


def problem(record: Record) -> str | None:
    """Why a record cannot be asked for; None for all others."""
    try:
        size = len(record.id.encode())
    except UnicodeEncodeError as error:
        return str(error)
    if size > _LONGEST_ID:
        return f"the id is longer than {_LONGEST_ID} bytes"
    return None


def encoded(
    readings: Iterable[Reading], refused: list[Refused], made: Elements
) -> Iterator[tuple[Reading, RawBSONDocument]]:
    """Each reading with the document of a new listing; those that BSON cannot hold are added to `refused`."""
    for reading in readings:
        try:
            yield reading, _encode(reading, made)
        except (BSONError, OverflowError, ValueError, RecursionError) as error:
            refused.append(refuse(reading.record, error))


def _encode(reading: Reading, made: Elements) -> RawBSONDocument:
    record, at = reading.record, reading.at
    attrs = orjson.loads(record.attrs_json)
    _refuse_too_deep(attrs, record.attrs_json)
    price = record.row.price_zar
    document = {
        "_id": record.id,
        "url": record.url,
        "scraped_at": at,
        "car_attrs": attrs,
        "price_zar": price,
        "digest": record.digest,
        "first_seen": at,
        "last_seen": at,
        "removed_at": None,
        "prices": [] if price is None else [{"seen_at": at, "price_zar": price}],
    }
    most = bson.encode(document)
    specs, may_refer = _specs_element(record, made)
    encoded = b"".join((struct.pack("<i", len(most) + len(specs)), most[4:-1], specs, most[-1:]))
    if len(encoded) > LARGEST:
        raise ValueError(f"its {len(encoded)} bytes are more than {LARGEST}")
    if may_refer or _REFERENCE in record.attrs_json:
        whole = {**document, "car_specs": record.specs.groups}
        if bson.decode(encoded, CODEC) != whole:
            raise ValueError("$ref and $id together are a reference to another document in MongoDB")
    return RawBSONDocument(encoded)


def _specs_element(record: Record, made: Elements) -> tuple[bytes, bool]:
    """The element `car_specs` of a document: most of it, and the same for all cars of a kind. And whether it may hold
    what MongoDB takes for a reference.

    In BSON, a document is its length, its elements one after the other, and a zero.
    """
    found = made.get(record.specs.digest)
    if found is None:
        text, groups = record.specs.json, record.specs.groups
        _refuse_too_deep(groups, text)
        found = bson.encode({"car_specs": groups})[4:-1], _REFERENCE in text
        made.put(record.specs.digest, *found)
    return found


def _refuse_too_deep(part: Any, text: bytes) -> None:
    """Raises `ValueError` for a part, `text` in JSON, of a document that is deeper than `DEEPEST` levels for it."""
    # Nothing is nested deeper than it has brackets, and nearly everything has too few.
    if text.count(b"{") + text.count(b"[") < DEEPEST:
        return
    level: list[Any] = [part]
    for _ in range(DEEPEST - 1):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return
    raise ValueError(f"it is nested deeper than {DEEPEST} levels")


def is_same(reading: Reading, stored: Mapping[str, Any]) -> bool:
    """Whether only the times of a document have to be moved."""
    return stored.get("digest") == reading.record.digest and stored.get("removed_at") is None


def touch(reading: Reading) -> UpdateOne:
    """Finds its document only while `is_same` holds for it."""
    same = {"_id": reading.id, "digest": reading.record.digest, "removed_at": None}
    return UpdateOne(same, {"$max": {"last_seen": reading.at}, "$min": {"first_seen": reading.at}})


def merge(reading: Reading, document: RawBSONDocument) -> UpdateOne:
    """Applies all rules of the contract to whatever is there, or is not."""
    at, price, digest = reading.at, reading.record.row.price_zar, reading.record.digest
    first_seen = {"first_seen": {"$min": ["$first_seen", at]}}
    history = {
        "$filter": {"input": {"$ifNull": ["$prices", []]}, "cond": {"$ne": ["$$this.seen_at", at]}},
    }
    before = {"$let": {"vars": {"last": {"$last": history}}, "in": {"$ifNull": ["$$last.price_zar", None]}}}
    content = {"$cond": [{"$eq": ["$digest", digest]}, {}, {"$literal": document}]}
    facts = {
        **first_seen,
        "last_seen": at,
        "removed_at": {"$cond": [{"$lt": ["$removed_at", at]}, None, "$removed_at"]},
        "prices": {
            "$cond": [
                {"$eq": [before, price]},
                history,
                {"$concatArrays": [history, [{"seen_at": at, "price_zar": price}]]},
            ]
        },
    }
    if reading.record.specs.digest == SPEC_MISSING:
        facts["car_specs"] = {"$ifNull": ["$car_specs", None]}  # what is known of it is not forgotten
    # Not where there are none: in BSON's order that comes before dates and digests.
    is_older = {
        "$or": [
            {"$lt": [at, "$last_seen"]},
            {"$and": [{"$eq": [at, "$last_seen"]}, {"$lt": [digest, "$digest"]}]},
        ]
    }
    older, newer = {"$mergeObjects": ["$$ROOT", first_seen]}, {"$mergeObjects": ["$$ROOT", content, facts]}
    return UpdateOne(
        {"_id": reading.id}, [{"$replaceWith": {"$cond": [is_older, older, newer]}}], upsert=True
    )


def stored(document: Mapping[str, Any]) -> StoredCar:
    """A document, read without its prices."""
    car = Car(
        document["_id"],
        document["url"],
        utc_text(document["scraped_at"]),
        document["car_attrs"],
        document["car_specs"],
    )
    return StoredCar(car, document["first_seen"], document["last_seen"], document["removed_at"])
