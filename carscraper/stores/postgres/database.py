"""Records in PostgreSQL: one typed row per listing, changed by the statements in `sql/`.

The tables are those of `sql/schema/`. Of a batch, first only digests and times are sent; most records of
a crawl are stored already, and that is all they cost. What is new or has changed follows by COPY, after the
specifications that the database does not have.

Each of these steps is a transaction of its own, which takes its locks in the order of the ids: workers that write
the same listings wait for each other and never in a circle. Nothing is lost between two of them, since a batch
counts as written after the last one and may be repeated.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from carscraper.exceptions import StoreError, StoreRefused, StoreUnavailable
from carscraper.stores.contract import Refused, StoredCar, removed_until, unseen
from carscraper.stores.layout import missing_steps
from carscraper.stores.postgres.address import parse
from carscraper.stores.postgres.connection import Connection, Open
from carscraper.stores.postgres.faults import told
from carscraper.stores.postgres.rows import incoming, problem, stored
from carscraper.stores.postgres.statements import (
    ADD_SPECS,
    COPY,
    DELETE_REMOVED,
    ERASE,
    INCOMING,
    LAYOUT,
    LOCK_LAYOUT,
    MARK_REMOVED,
    MISSING_SPECS,
    PAGE,
    RIGHTS,
    SEE_AGAIN,
    SEEN_BEFORE,
    SESSION,
    TYPES,
    VERSION,
    WRITE,
    load_sql,
)
from carscraper.stores.readings import Reading, refuse, rounds
from carscraper.stores.record import SPEC_MISSING, Record

TIMEOUT = 30.0
"""Seconds that one step may take before the database counts as unavailable."""
_LOCK = 0x63617273
"""Number of the advisory lock on the layout: "cars"."""
_STRETCH = 20_000
"""Ids in memory while those are looked for that were not seen."""
_PAGE = 300
"""Rows in memory while all are read."""
_ROUNDS = 10
"""How often a batch is looked at again because other workers have changed its listings meanwhile."""


class PostgresDatabase:
    """The contract of `stores/contract.py`, with its rules applied by the server, within one statement each.

    One connection, on which one step runs at a time. A step that takes longer than `timeout` seconds, or whose
    caller is cancelled, is ended by closing the connection.
    """

    name = "PostgreSQL"
    key = "postgres"

    def __init__(self, parameters: dict[str, Any], target: str, *, timeout: float = TIMEOUT) -> None:
        self.target = target
        self.keep_removed = math.inf
        self._connection = Connection(parameters, target, timeout)

    @classmethod
    def from_address(cls, dsn: str, *, timeout: float = TIMEOUT) -> PostgresDatabase:
        """`postgresql://user:password@host:port/database`, or `key=value` pairs, as libpq understands them.

        Connects to nothing yet. Raises `ConfigurationError`, whose message tells nothing out of the DSN.
        """
        logging.getLogger("psycopg").setLevel(logging.ERROR)  # its warnings tell what is raised here, too
        return cls(*parse(dsn), timeout=timeout)

    async def open(self) -> None:
        """As in the contract. Missing tables are made by one worker while the others wait."""
        await self._connection.open()
        try:
            await self._connection.step(self._set_up)
        except StoreError:
            await self._connection.close()
            raise

    async def _set_up(self, connection: Open) -> None:
        timeout = f"{self._connection.timeout * 1000:.0f}ms"
        cursor = await connection.execute(SESSION, {"timeout": timeout})
        encoding, read_only, *_ = await cursor.fetchone() or ()
        if encoding != "UTF8":
            raise StoreRefused(
                f"{self.target}: its encoding is {encoding}, which cannot hold every text; UTF8 can"
            )
        if read_only == "on":
            raise StoreUnavailable(f"{self.target}: takes no writes now")
        await self._lay_out(connection)
        missing = await (await connection.execute(RIGHTS)).fetchall()
        if missing:
            rights = ", ".join(f"{privilege} on {relation}" for privilege, relation in missing)
            raise StoreRefused(f"{self.target}: rights are missing: {rights}")
        await connection.execute(INCOMING)

    async def _lay_out(self, connection: Open) -> None:
        async with connection.transaction():
            cursor = await connection.execute(LOCK_LAYOUT, {"lock": _LOCK})
            found = 0
            if await cursor.fetchone() == (True,):
                (found,) = await (await connection.execute(VERSION)).fetchone() or (0,)
            for step in missing_steps(found, LAYOUT, self.target):
                await connection.execute(load_sql(f"schema/{step:04}"))

    async def upsert(self, records: Sequence[Record]) -> list[Refused]:
        """As in the contract. Several records of one listing are written one after the other, the oldest first."""
        refused: list[Refused] = []
        for readings in rounds(records, problem, refused):
            await self._write_apart(readings, refused)
        return refused

    async def _write_apart(self, readings: Sequence[Reading], refused: list[Refused]) -> None:
        """Write readings, each of another listing; halve them until those that cannot be held stand alone."""
        try:
            await self._connection.step(partial(self._write, readings=readings))
        except psycopg.Error as error:
            if len(readings) == 1:
                refused.append(refuse(readings[0].record, told(error)))
                return
            middle = len(readings) // 2
            await self._write_apart(readings[:middle], refused)
            await self._write_apart(readings[middle:], refused)

    async def _write(self, connection: Open, readings: Sequence[Reading]) -> None:
        rest = {reading.id: reading for reading in readings}
        for _ in range(_ROUNDS):
            for listing in await self._see_again(connection, rest.values()):
                del rest[listing]
            if rest:
                await self._add_specs(connection, rest.values())
                for listing in await self._replace(connection, rest.values()):
                    del rest[listing]
            if not rest:
                return
        raise StoreUnavailable(f"{self.target}: others write the same listings all the time")

    async def _see_again(self, connection: Open, readings: Collection[Reading]) -> list[str]:
        arguments = {
            "ids": [reading.id for reading in readings],
            "digests": [reading.record.digest for reading in readings],
            "times": [reading.at for reading in readings],
        }
        cursor = await connection.execute(SEE_AGAIN, arguments, binary=True)
        return [listing for (listing,) in await cursor.fetchall()]

    async def _add_specs(self, connection: Open, readings: Collection[Reading]) -> None:
        needed = {one.record.specs.digest: one.record.specs.json for one in readings}
        cursor = await connection.execute(MISSING_SPECS, {"digests": list(needed)}, binary=True)
        missing = [digest for (digest,) in await cursor.fetchall()]
        if missing:
            groups = [Jsonb(needed[digest], dumps=bytes) for digest in missing]
            await connection.execute(ADD_SPECS, {"digests": missing, "groups": groups})

    async def _replace(self, connection: Open, readings: Collection[Reading]) -> list[str]:
        async with connection.transaction(), connection.cursor() as cursor:
            async with cursor.copy(COPY) as copy:
                copy.set_types(TYPES)
                for reading in readings:
                    await copy.write_row(incoming(reading))
            await cursor.execute(WRITE, {"spec_missing": SPEC_MISSING})
            return [listing for (listing,) in await cursor.fetchall()]

    async def mark_removed(self, seen: Collection[str], begun_at: str, removed_at: str) -> int:
        """As in the contract. Walks over all listings: an index would cost more with every record than it saves."""
        times = {
            "begun_at": datetime.fromisoformat(begun_at),
            "removed_at": datetime.fromisoformat(removed_at),
        }

        marked, after = 0, None
        while listings := await self._seen_before(times["begun_at"], after):
            if gone := unseen(listings, seen):
                marked += await self._change(MARK_REMOVED, {"gone": gone, **times})
            after = listings[-1]
        if until := removed_until(removed_at, self.keep_removed):
            await self._change(DELETE_REMOVED, {"until": until})
        return marked

    async def _seen_before(self, begun_at: datetime, after: str | None) -> list[str]:
        """Ids of listings on the site that were not seen since, the next in their order, some thousands at a time."""
        arguments = {"begun_at": begun_at, "after": after, "rows": _STRETCH}

        async def read(connection: Open) -> list[tuple[str]]:
            return await (await connection.execute(SEEN_BEFORE, arguments)).fetchall()

        return [listing for (listing,) in await self._connection.step(read)]

    async def _change(self, statement: bytes, arguments: Mapping[str, Any]) -> int:
        """How many rows it has changed."""

        async def change(connection: Open) -> int:
            return (await connection.execute(statement, arguments)).rowcount

        return await self._connection.step(change)

    async def erase(self, ids: Collection[str]) -> int:
        """As in the contract."""

        async def delete(connection: Open) -> int:
            (count,) = await (await connection.execute(ERASE, {"ids": list(ids)})).fetchone() or (0,)
            return int(count)

        return await self._connection.step(delete)

    def trim(self) -> None:
        """As in the contract: there is nothing."""

    async def cars(self) -> AsyncIterator[StoredCar]:
        """As in the contract. Page by page, so that nothing is open on the server while the caller is busy."""
        after: str | None = None
        while True:
            arguments = {"after": after, "rows": _PAGE}

            async def read(connection: Open, arguments: dict[str, Any] = arguments) -> list[tuple[Any, ...]]:
                return await (await connection.execute(PAGE, arguments, binary=True)).fetchall()

            page = await self._connection.step(read)
            for row in page:
                yield stored(row)
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    async def close(self) -> None:
        """As in the contract."""
        await self._connection.close()
