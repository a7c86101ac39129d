"""Records in MongoDB: one document per listing, changed in one step each, on a single server as on a set.

Collections of the database:

- `cars`: `_id` is the listing's id; `url`, `scraped_at`, `car_attrs`, `car_specs`, `price_zar` and `digest` of
  the reading that is kept; `first_seen`, `last_seen`, `removed_at`; `prices`, a list of `{seen_at, price_zar}`
  in the order in which they were added. Times are dates in UTC.
- `price_history`: a view of `prices`, a row each: `listing_id`, `seen_at`, `price_zar`.
- `cars_meta`: the document `schema`, with the `version` of all this.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import struct
import warnings
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote_plus

import bson
import orjson
from bson.codec_options import CodecOptions, TypeDecoder, TypeRegistry
from bson.errors import BSONError
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument
from dns.exception import DNSException
from dns.resolver import NXDOMAIN, NoAnswer
from pymongo import AsyncMongoClient, InsertOne, ReadPreference, UpdateOne, WriteConcern, errors
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.uri_parser import split_options

from carscraper.exceptions import StoreError, StoreRefused, StoreUnavailable
from carscraper.export.tables import utc_text
from carscraper.items import Car
from carscraper.stores.contract import Refused, StoredCar, removed_until
from carscraper.stores.record import SPEC_MISSING, Record
from carscraper.weighed import WeighedCache
from scrapy_durable.exceptions import ConfigurationError

Document = dict[str, Any]
Write = InsertOne[Any] | UpdateOne

LAYOUT = 1
"""Version of the layout of the collections."""
DEEPEST = 180
"""Levels of a document, itself among them, that a server stores. One of 200 has it refuse the whole batch."""
LARGEST = 16 * 2**20 - 2**16
"""Bytes of a new document: what a server stores, less room for prices to come."""

_DEFAULTS = {
    "appname": "carscraper",
    "serverSelectionTimeoutMS": 5_000,
    "connectTimeoutMS": 5_000,
    "socketTimeoutMS": 30_000,
}
"""Options of the connection, unless the URI says otherwise."""
_SURE_MAJORITY = 4
"""So many servers are a majority of any set, since at most seven vote."""
_LONGEST_ID = 1024
"""Bytes of an id: what is longer is none, and hundreds are asked for at once."""
_LONGEST_REASON = 300
"""Characters of what the server or its client says that are passed on."""
_FAREWELL = 1.0
"""Seconds that a server is given to take note of the end."""
_PAGE = 300
"""Documents in memory while all are read."""
_SPECS = 8 * 1024**2
"""Bytes of specifications that are kept as BSON: most new documents have one that came before."""
_CHUNK = 1000
"""Listings that are marked as removed at once."""

UNAVAILABLE = {
    6: "HostUnreachable", 7: "HostNotFound", 24: "LockTimeout", 43: "CursorNotFound", 46: "LockBusy",
    50: "MaxTimeMSExpired", 63: "StaleShardVersion", 64: "WriteConcernFailed", 89: "NetworkTimeout",
    91: "ShutdownInProgress", 100: "UnsatisfiableWriteConcern", 112: "WriteConflict",
    117: "ConflictingOperationInProgress", 133: "FailedToSatisfyReadPreference",
    134: "ReadConcernMajorityNotAvailableYet", 150: "StaleEpoch", 175: "QueryPlanKilled",
    189: "PrimarySteppedDown", 202: "NetworkInterfaceExceededTimeLimit", 237: "CursorKilled",
    262: "ExceededTimeLimit", 391: "ReauthenticationRequired", 9001: "SocketException",
    10058: "LegacyNotPrimary", 10107: "NotWritablePrimary", 11600: "InterruptedAtShutdown",
    11601: "Interrupted", 11602: "InterruptedDueToReplStateChange", 13388: "StaleConfig",
    13435: "NotPrimaryNoSecondaryOk", 13436: "NotPrimaryOrSecondary", 14031: "OutOfDiskSpace",
}  # fmt: skip
"""Codes of what passes, and has nothing to do with a record; as in the server's `error_codes.yml`."""
REFUSED = {
    11: "UserNotFound", 13: "Unauthorized", 18: "AuthenticationFailed", 20: "IllegalOperation",
    59: "CommandNotFound", 73: "InvalidNamespace", 79: "UnknownReplWriteConcern", 115: "CommandNotSupported",
    166: "CommandNotSupportedOnView", 323: "APIStrictError", 334: "MechanismUnavailable", 8000: "AtlasError",
    13297: "DatabaseDifferCase",
}  # fmt: skip
"""Codes of what would come again for every record."""
_NAMESPACE_EXISTS = 48
_DUPLICATE_KEY = 11000


class _PlainInt(TypeDecoder):
    """Gives whole numbers back as JSON has them, not in a class that tells how they were stored."""

    bson_type = Int64

    def transform_bson(self, value: Any) -> int:
        return int(value)


_CODEC: CodecOptions[Document] = CodecOptions(
    tz_aware=True, tzinfo=UTC, type_registry=TypeRegistry([_PlainInt()])
)


@dataclass(frozen=True, slots=True)
class _Reading:
    """A record, and the time at which it was read."""

    record: Record
    at: datetime

    @property
    def id(self) -> str:
        return self.record.id


class MongoDatabase:
    """The contract of `stores/contract.py`, with its rules applied by the server, within one document.

    The digests of a batch are asked for first. Most records of a crawl are stored already, and then only their
    time is sent; new ones are inserted. What has changed, or is being changed by another worker at this moment,
    is merged by an update that reads and writes its document in one step.

    What is acknowledged is in the journals of a majority of the servers.
    """

    name = "MongoDB"
    key = "mongo"

    def __init__(self, client: AsyncMongoClient[Document], database: str, target: str) -> None:
        self.target = target
        self.keep_removed = math.inf
        self._client = client
        self._database = client.get_database(
            database,
            codec_options=_CODEC,
            read_preference=ReadPreference.PRIMARY,
            write_concern=durable(client.write_concern),
        )
        self._cars: AsyncCollection[Document] = self._database.cars
        self._meta: AsyncCollection[Document] = self._database.cars_meta
        self._elements: WeighedCache[bytes, bytes] = WeighedCache(_SPECS)
        """Specifications as BSON, by their digests."""

    @classmethod
    def from_uri(cls, uri: str) -> MongoDatabase:
        """`mongodb://` or `mongodb+srv://`; the path is the name of the database, `cars` when there is none.

        Connects to nothing yet. Raises `ConfigurationError`, whose message tells nothing out of the URI but
        names of options.
        """
        scheme, hosts, name, options = _parts(uri)
        given = {option.partition("=")[0].lower() for option in options}
        defaults: dict[str, Any] = {key: _DEFAULTS[key] for key in _DEFAULTS if key.lower() not in given}
        logging.getLogger("pymongo").setLevel(logging.INFO)  # below that it tells of every command
        try:
            if scheme not in ("mongodb", "mongodb+srv") or "." in name:
                raise ValueError(_NO_ADDRESS)
            with _strict():
                client: AsyncMongoClient[Document] = AsyncMongoClient(uri, **defaults)
        except _WRONG as error:
            raise ConfigurationError(f"MONGO_URI: {_complaint(error, uri)}") from None
        database = client.get_default_database(default="cars").name
        return cls(client, database, f"{hosts}/{database}")

    async def open(self) -> None:
        """As in the contract. Whether it may write is found out by having the server explain a write."""
        with self._errors():
            # In this order: another worker that opens the same database now writes its version before any car.
            occupied = await self._cars.find_one({}, {"_id": 1}) is not None
            schema = await self._meta.find_one({"_id": "schema"})
            self._check_layout(schema, occupied=occupied)
            upsert = {"q": {"_id": ""}, "u": [{"$set": {"last_seen": None}}], "upsert": True}
            await self._database.command("explain", {"update": "cars", "updates": [upsert]})
            if schema is None:
                version = {"$setOnInsert": {"version": LAYOUT}}
                await self._meta.update_one({"_id": "schema"}, version, upsert=True)
            await self._make_view()

    def _check_layout(self, schema: Mapping[str, Any] | None, *, occupied: bool) -> None:
        if schema is None:
            if occupied:
                raise StoreRefused(f"{self.target}: there is a collection cars already, and it is not ours")
        elif schema.get("version") != LAYOUT:
            raise StoreRefused(
                f"{self.target}: its layout is version {schema.get('version')!r:.20}, and this release knows {LAYOUT}"
            )

    async def _make_view(self) -> None:
        if "price_history" in await self._database.list_collection_names(authorizedCollections=True):
            return
        row = {"_id": 0, "listing_id": "$_id", "seen_at": "$prices.seen_at", "price_zar": "$prices.price_zar"}
        rows = [{"$unwind": "$prices"}, {"$project": row}]
        try:
            await self._database.create_collection(
                "price_history", check_exists=False, viewOn="cars", pipeline=rows
            )
        except errors.OperationFailure as error:
            if error.code != _NAMESPACE_EXISTS:  # another worker was faster
                raise

    async def upsert(self, records: Sequence[Record]) -> list[Refused]:
        """As in the contract. Several records of one listing are written one by one, the oldest first."""
        refused: list[Refused] = []
        with self._errors():
            for readings in _rounds(records, refused):
                await self._write(readings, refused)
        return refused

    async def _write(self, readings: Sequence[_Reading], refused: list[Refused]) -> None:
        """Write readings, each of another listing; adds to `refused`."""
        ids = [one.id for one in readings]
        found = self._cars.find(
            {"_id": {"$in": ids}}, {"digest": 1, "removed_at": 1}, batch_size=len(ids) + 1
        )
        stored = {document["_id"]: document async for document in found}
        new = [one for one in readings if one.id not in stored]
        same = [one for one in readings if one.id in stored and _is_same(one, stored[one.id])]
        changed = [one for one in readings if one.id in stored and not _is_same(one, stored[one.id])]

        writes: list[tuple[_Reading, Write]] = [(one, _touch(one)) for one in same]
        writes += [(one, InsertOne(document)) for one, document in _encoded(new, refused, self._elements)]
        touched, failed = await self._send(writes)
        changed += [one for one, error in failed if _is_there_already(error)]
        _refuse(((one, error) for one, error in failed if not _is_there_already(error)), refused)
        if touched < len(same):  # another worker has changed some of them; which, the server does not tell
            told = {one.id for one, _ in failed}
            changed += [one for one in same if one.id not in told]

        _, failed = await self._send(
            [(one, _merge(one, document)) for one, document in _encoded(changed, refused, self._elements)]
        )
        if any(_is_there_already(error) for _, error in failed):
            raise StoreUnavailable(f"{self.target}: another worker has inserted the same listing")
        _refuse(failed, refused)

    async def _send(
        self, writes: Sequence[tuple[_Reading, Write]]
    ) -> tuple[int, list[tuple[_Reading, Mapping[str, Any]]]]:
        """How many documents the updates have found, and what failed for the sake of one record."""
        if not writes:
            return 0, []
        try:
            result = await self._cars.bulk_write([write for _, write in writes], ordered=False)
        except errors.BulkWriteError as error:
            details: Mapping[str, Any] = error.details
        else:
            return result.matched_count, []
        for problem in details["writeConcernErrors"]:  # then nobody knows what is written
            raise (kind_of(problem["code"]) or StoreUnavailable)(
                f"{self.target}: {_one_line(problem['errmsg'])}"
            )
        for problem in details["writeErrors"]:
            if kind := kind_of(problem["code"]):
                raise kind(f"{self.target}: {_one_line(problem['errmsg'])}")
        return details["nMatched"], [(writes[one["index"]][0], one) for one in details["writeErrors"]]

    async def mark_removed(self, seen: Collection[str], begun_at: str, removed_at: str) -> int:
        """As in the contract. Walks over all listings: an index would cost more with every record than it saves."""
        seen = frozenset(seen)
        on_site = {"removed_at": None, "last_seen": {"$lt": datetime.fromisoformat(begun_at)}}
        removal = {"$set": {"removed_at": datetime.fromisoformat(removed_at)}}
        marked = 0
        with self._errors():
            found = self._cars.find(on_site, {"_id": 1})
            gone = [document["_id"] async for document in found if document["_id"] not in seen]
            for start in range(0, len(gone), _CHUNK):
                chunk = {"_id": {"$in": gone[start : start + _CHUNK]}, **on_site}
                marked += (await self._cars.update_many(chunk, removal)).modified_count
            if until := removed_until(removed_at, self.keep_removed):
                await self._cars.delete_many({"removed_at": {"$lte": until}})
        return marked

    async def erase(self, ids: Collection[str]) -> int:
        """As in the contract. The history of a listing is in its document."""
        with self._errors():
            return (await self._cars.delete_many({"_id": {"$in": list(ids)}})).deleted_count

    async def cars(self) -> AsyncIterator[StoredCar]:
        """As in the contract. Page by page, so that nothing is open on the server while the caller is busy."""
        page: list[Document] = []
        while True:
            after = {"_id": {"$gt": page[-1]["_id"]}} if page else {}
            with self._errors():
                page = await self._cars.find(after, {"prices": 0}).sort("_id").limit(_PAGE).to_list()
            if not page:
                return
            for document in page:
                yield _stored(document)

    async def close(self) -> None:
        """As in the contract. A server that has fallen silent is not waited for."""
        try:
            async with asyncio.timeout(_FAREWELL):
                await self._client.close()
        except TimeoutError:
            await self._client.close()  # without telling the server that the sessions are over

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Puts what pymongo raises into this project's words."""
        try:
            yield
        except errors.PyMongoError as error:
            cause = self._cause(error)
            raise failure(cause)(f"{self.target}: {_one_line(_message(cause))}") from error

    def _cause(self, error: errors.PyMongoError) -> errors.PyMongoError:
        """Of a server that could not be found in time: what it has said, as to a wrong password."""
        if isinstance(error, errors.ServerSelectionTimeoutError):
            for server in self._client.topology_description.server_descriptions().values():
                if isinstance(server.error, errors.OperationFailure):
                    return server.error
        return error


# Errors


def kind_of(code: int | None) -> type[StoreError] | None:
    """What a failed write, of which the server told that code, says of all others; None when it says nothing."""
    if code in UNAVAILABLE:
        return StoreUnavailable
    return StoreRefused if code in REFUSED else None


def failure(error: errors.PyMongoError) -> type[StoreError]:
    """Whether it is worth another try that a call has failed as a whole."""
    if isinstance(error, errors.ConfigurationError):
        cause = error.__cause__  # the look-up of a mongodb+srv name, which fails when the network does
        passes = isinstance(cause, DNSException) and not isinstance(cause, NXDOMAIN | NoAnswer)
        return StoreUnavailable if passes else StoreRefused
    if isinstance(error, errors.OperationFailure):
        if error.has_error_label("RetryableWriteError") or error.has_error_label("TransientTransactionError"):
            return StoreUnavailable
        unknown_outcome = isinstance(error, errors.WriteConcernError)
        return kind_of(error.code) or (StoreUnavailable if unknown_outcome else StoreRefused)
    if isinstance(error, errors.ServerSelectionTimeoutError) and "certificate verify failed" in str(error):
        return StoreRefused
    return StoreUnavailable


def _message(error: errors.PyMongoError) -> str:
    """What it says, but for the command that failed and the state of all servers."""
    details = error.details if isinstance(error, errors.OperationFailure) else None
    text = str((details or {}).get("errmsg") or error)
    return re.split(r" to execute command | \(configured timeouts|, Timeout: |, full error: ", text)[0]


def _one_line(problem: object) -> str:
    return " ".join(str(problem).split())[:_LONGEST_REASON]


def _is_there_already(error: Mapping[str, Any]) -> bool:
    return error["code"] == _DUPLICATE_KEY and list(error.get("keyPattern", {})) == ["_id"]


def _refuse(failed: Iterable[tuple[_Reading, Mapping[str, Any]]], refused: list[Refused]) -> None:
    refused += [_refused(one.record, error["errmsg"]) for one, error in failed]


def _refused(record: Record, problem: object) -> Refused:
    return Refused(record.id, record.url, _one_line(problem))


# The address


def durable(asked: WriteConcern) -> WriteConcern:
    """The journals of a majority, or of more, or of the servers behind a name, when those are asked for."""
    servers = asked.document.get("w")
    enough = isinstance(servers, str) or (isinstance(servers, int) and servers >= _SURE_MAJORITY)
    return WriteConcern(w=servers if enough else "majority", j=True, wtimeout=asked.document.get("wtimeout"))


def _parts(uri: str) -> tuple[str, str, str, list[str]]:
    """Scheme, servers with their ports, path, and options `name=value` of a URI; not to be shown if it is wrong."""
    scheme, _, rest = uri.partition("://")
    rest, _, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    hosts = authority.rpartition("@")[2].lower()
    if scheme == "mongodb":
        named = hosts.split(",")
        hosts = ",".join(host if re.search(r":\d+$|\.sock$", host) else f"{host}:27017" for host in named)
    return scheme, hosts, path, [option for option in re.split("[&;]", query) if option]


_WRONG = (errors.PyMongoError, ValueError, TypeError, OSError, UserWarning)
"""What pymongo raises for an address that is none, when it is strict."""


@contextmanager
def _strict() -> Iterator[None]:
    """Has pymongo raise what it would only warn of, such as an option that it does not know."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


_NO_ADDRESS = "not an address such as mongodb://127.0.0.1:27017/cars"


def _complaint(error: Exception, uri: str) -> str:
    """What is wrong with a URI: an option by its name, or what pymongo says unless that quotes the URI."""
    names = set()
    if "@" not in uri.partition("?")[2]:  # else what looks like an option may be half a password
        for option in _parts(uri)[3]:
            name = option.partition("=")[0]
            names.add(name)
            try:
                with _strict():
                    split_options(option)
            except errors.ConfigurationError:
                return f"there is no option {name!r}, or it has no value"
            except _WRONG:
                return f"the option {name!r} cannot have that value"
    values = set(re.split(r"[:/?#@&;=,\[\]]", uri.partition("://")[2] or uri)) - names - {""}
    if any(quoted in str(error) for value in values for quoted in (value, unquote_plus(value))):
        return _NO_ADDRESS
    return _one_line(error)


# Documents


def _rounds(records: Iterable[Record], refused: list[Refused]) -> list[list[_Reading]]:
    """The records in the order of their times, each listing once in a round; adds to `refused`."""
    readings = []
    for record in records:
        try:
            readings.append(_reading(record))
        except ValueError as error:
            refused.append(_refused(record, error))
    rounds: list[list[_Reading]] = []
    turns: dict[str, int] = {}
    for reading in sorted(readings, key=lambda one: one.at):
        turn = turns[reading.id] = turns.get(reading.id, -1) + 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(reading)
    return rounds


def _reading(record: Record) -> _Reading:
    """Raises `ValueError` for a record that cannot be put in order, or not be asked for."""
    if len(record.id.encode()) > _LONGEST_ID:
        raise ValueError(f"the id is longer than {_LONGEST_ID} bytes")
    at = record.read_at
    if at.tzinfo is None:
        raise ValueError(f"scraped_at has no time zone: {record.scraped_at!r}")
    return _Reading(record, at)


def _encoded(
    readings: Iterable[_Reading], refused: list[Refused], made: WeighedCache[bytes, bytes]
) -> Iterator[tuple[_Reading, RawBSONDocument]]:
    """Each reading with the document of a new listing; those that BSON cannot hold are added to `refused`."""
    for reading in readings:
        try:
            yield reading, _encode(reading, made)
        except (BSONError, OverflowError, ValueError, RecursionError) as error:
            refused.append(_refused(reading.record, error))


def _encode(reading: _Reading, made: WeighedCache[bytes, bytes]) -> RawBSONDocument:
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
    most, specs = bson.encode(document), _specs_element(record, made)
    encoded = struct.pack("<i", len(most) + len(specs)) + most[4:-1] + specs + most[-1:]
    if len(encoded) > LARGEST:
        raise ValueError(f"its {len(encoded)} bytes are more than {LARGEST}")
    if b"$ref\0" in encoded:
        whole = {**document, "car_specs": orjson.loads(record.specs_json)}
        if bson.decode(encoded, _CODEC) != whole:
            raise ValueError("$ref and $id together are a reference to another document in MongoDB")
    return RawBSONDocument(encoded)


def _specs_element(record: Record, made: WeighedCache[bytes, bytes]) -> bytes:
    """The element `car_specs` of a document: most of it, and the same for all cars of a kind.

    In BSON, a document is its length, its elements one after the other, and a zero.
    """
    element = made.get(record.specs.digest)
    if element is None:
        groups = orjson.loads(record.specs_json)
        _refuse_too_deep(groups, record.specs_json)
        element = bson.encode({"car_specs": groups})[4:-1]
        made.put(record.specs.digest, element, len(element))
    return element


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


def _is_same(reading: _Reading, stored: Mapping[str, Any]) -> bool:
    """Whether only the times of a document have to be moved."""
    return stored.get("digest") == reading.record.digest and stored.get("removed_at") is None


def _touch(reading: _Reading) -> UpdateOne:
    """Finds its document only while `_is_same` holds for it."""
    same = {"_id": reading.id, "digest": reading.record.digest, "removed_at": None}
    return UpdateOne(same, {"$max": {"last_seen": reading.at}, "$min": {"first_seen": reading.at}})


def _merge(reading: _Reading, document: RawBSONDocument) -> UpdateOne:
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


def _stored(document: Mapping[str, Any]) -> StoredCar:
    car = Car(
        document["_id"],
        document["url"],
        utc_text(document["scraped_at"]),
        document["car_attrs"],
        document["car_specs"],
    )
    return StoredCar(car, document["first_seen"], document["last_seen"], document["removed_at"])
