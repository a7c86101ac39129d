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
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from pymongo import AsyncMongoClient, InsertOne, ReadPreference, errors
from pymongo.asynchronous.collection import AsyncCollection

from carscraper.exceptions import StoreRefused, StoreUnavailable
from carscraper.stores.contract import Refused, StoredCar, removed_until, unseen
from carscraper.stores.layout import missing_steps
from carscraper.stores.mongo.address import connect, durable
from carscraper.stores.mongo.documents import (
    CODEC,
    Document,
    Write,
    encoded,
    is_same,
    merge,
    problem,
    stored,
    touch,
)
from carscraper.stores.mongo.elements import Elements
from carscraper.stores.mongo.faults import failure, is_there_already, kind_of, message
from carscraper.stores.mongo.layout import STEPS, make_view
from carscraper.stores.readings import Reading, one_line, refuse, rounds
from carscraper.stores.record import Record

_GRACE_PERIOD = 1.0
"""Seconds that a server is given to take note of the end."""
_PAGE = 300
"""Documents in memory while all are read."""
_STRETCH = 20_000
"""Ids in memory while those are looked for that were not seen."""
_CHUNK = 1000
"""Listings that are marked as removed at once."""


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
            codec_options=CODEC,
            read_preference=ReadPreference.PRIMARY,
            write_concern=durable(client.write_concern),
        )
        self._cars: AsyncCollection[Document] = self._database.cars
        self._meta: AsyncCollection[Document] = self._database.cars_meta
        self._elements = Elements()

    @classmethod
    def from_address(cls, uri: str) -> MongoDatabase:
        """`mongodb://` or `mongodb+srv://`; the path is the name of the database, `cars` when there is none.

        Connects to nothing yet. Raises `ConfigurationError`, whose message tells nothing out of the URI but
        names of options.
        """
        logging.getLogger("pymongo").setLevel(logging.INFO)  # below that it tells of every command
        return cls(*connect(uri))

    async def open(self) -> None:
        """As in the contract. Whether it may write is found out by having the server explain a write."""
        with self._errors():
            # In this order: another worker that opens the same database now writes its version before any car.
            occupied = await self._cars.find_one({}, {"_id": 1}) is not None
            schema = await self._meta.find_one({"_id": "schema"})
            if schema is None and occupied:
                raise StoreRefused(f"{self.target}: there is a collection cars already, and it is not ours")
            steps = missing_steps(schema.get("version") if schema else 0, len(STEPS), self.target)
            upsert = {"q": {"_id": ""}, "u": [{"$set": {"last_seen": None}}], "upsert": True}
            await self._database.command("explain", {"update": "cars", "updates": [upsert]})
            for step in steps:
                await STEPS[step - 1](self._database)
                await self._meta.update_one({"_id": "schema"}, {"$max": {"version": step}}, upsert=True)
            await make_view(self._database)

    async def upsert(self, records: Sequence[Record]) -> list[Refused]:
        """As in the contract. Several records of one listing are written one by one, the oldest first."""
        refused: list[Refused] = []
        with self._errors():
            for readings in rounds(records, problem, refused):
                await self._write(readings, refused)
        return refused

    async def _write(self, readings: Sequence[Reading], refused: list[Refused]) -> None:
        """Write readings, each of another listing; adds to `refused`."""
        ids = [one.id for one in readings]
        found = self._cars.find(
            {"_id": {"$in": ids}}, {"digest": 1, "removed_at": 1}, batch_size=len(ids) + 1
        )
        stored = {document["_id"]: document async for document in found}
        new = [one for one in readings if one.id not in stored]
        same = [one for one in readings if one.id in stored and is_same(one, stored[one.id])]
        changed = [one for one in readings if one.id in stored and not is_same(one, stored[one.id])]

        writes: list[tuple[Reading, Write]] = [(one, touch(one)) for one in same]
        writes += [(one, InsertOne(document)) for one, document in encoded(new, refused, self._elements)]
        touched, failed = await self._send(writes)
        changed += [one for one, error in failed if is_there_already(error)]
        _add_refused(((one, error) for one, error in failed if not is_there_already(error)), refused)
        if touched < len(same):  # another worker has changed some of them; which, the server does not tell
            told = {one.id for one, _ in failed}
            changed += [one for one in same if one.id not in told]

        _, failed = await self._send(
            [(one, merge(one, document)) for one, document in encoded(changed, refused, self._elements)]
        )
        if any(is_there_already(error) for _, error in failed):
            raise StoreUnavailable(f"{self.target}: another worker has inserted the same listing")
        _add_refused(failed, refused)

    async def _send(
        self, writes: Sequence[tuple[Reading, Write]]
    ) -> tuple[int, list[tuple[Reading, Mapping[str, Any]]]]:
        """How many documents the updates have found, and what failed for the sake of one record."""
        if not writes:
            return 0, []
        try:
            result = await self._cars.bulk_write([write for _, write in writes], ordered=False)
        except errors.BulkWriteError as error:
            details: Mapping[str, Any] = error.details
        else:
            return result.matched_count, []
        for failed in details["writeConcernErrors"]:  # then nobody knows what is written
            raise (kind_of(failed["code"]) or StoreUnavailable)(
                f"{self.target}: {one_line(failed['errmsg'])}"
            )
        for failed in details["writeErrors"]:
            if kind := kind_of(failed["code"]):
                raise kind(f"{self.target}: {one_line(failed['errmsg'])}")
        return details["nMatched"], [(writes[one["index"]][0], one) for one in details["writeErrors"]]

    async def mark_removed(self, seen: Collection[str], begun_at: str, removed_at: str) -> int:
        """As in the contract. Walks over all listings: an index would cost more with every record than it saves."""
        on_site = {"removed_at": None, "last_seen": {"$lt": datetime.fromisoformat(begun_at)}}
        removal = {"$set": {"removed_at": datetime.fromisoformat(removed_at)}}
        marked = 0
        with self._errors():
            async for listings in self._stretches(on_site):
                gone = unseen(listings, seen)
                for start in range(0, len(gone), _CHUNK):
                    chunk = {"_id": {"$in": gone[start : start + _CHUNK]}, **on_site}
                    marked += (await self._cars.update_many(chunk, removal)).modified_count
            if until := removed_until(removed_at, self.keep_removed):
                await self._cars.delete_many({"removed_at": {"$lte": until}})
        return marked

    async def _stretches(self, which: Document) -> AsyncIterator[list[str]]:
        """The ids of the listings for which it holds, in their order, some thousands at a time."""
        after: Document = {}
        while True:
            found = self._cars.find({**which, **after}, {"_id": 1}).sort("_id").limit(_STRETCH)
            listings = [document["_id"] async for document in found]
            yield listings
            if len(listings) < _STRETCH:
                return
            after = {"_id": {"$gt": listings[-1]}}

    async def erase(self, ids: Collection[str]) -> int:
        """As in the contract. The history of a listing is in its document."""
        with self._errors():
            return (await self._cars.delete_many({"_id": {"$in": list(ids)}})).deleted_count

    def trim(self) -> None:
        """As in the contract."""
        self._elements.clear()

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
                yield stored(document)

    async def close(self) -> None:
        """As in the contract. A server that has fallen silent is not waited for."""
        self._elements.clear()
        try:
            async with asyncio.timeout(_GRACE_PERIOD):
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
            raise failure(cause)(f"{self.target}: {one_line(message(cause))}") from error

    def _cause(self, error: errors.PyMongoError) -> errors.PyMongoError:
        """Of a server that could not be found in time: what it has said, as to a wrong password."""
        if isinstance(error, errors.ServerSelectionTimeoutError):
            for server in self._client.topology_description.server_descriptions().values():
                if isinstance(server.error, errors.OperationFailure):
                    return server.error
        return error


def _add_refused(failed: Iterable[tuple[Reading, Mapping[str, Any]]], refused: list[Refused]) -> None:
    refused += [refuse(one.record, error["errmsg"]) for one, error in failed]
