"""Records in PostgreSQL: one typed row per listing, changed by the statements in `sql/`.

The tables are those of `sql/schema/`. Of a batch, first only digests and times are sent; most records of
a crawl are stored already, and that is all they cost. What is new or has changed follows by COPY, after the
specifications that the database does not have.

Each of these steps is a transaction of its own, which takes its locks in the order of the ids: workers that write
the same listings wait for each other and never in a circle. Nothing is lost between two of them, since a batch
counts as written after the last one and may be repeated.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from datetime import datetime
from enum import Enum, auto
from functools import partial
from importlib.resources import files
from operator import attrgetter
from typing import Any, TypeVar

import orjson
import psycopg
from psycopg import AsyncConnection, pq
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import Jsonb, set_json_loads

from carscraper.api.columns import COLUMNS
from carscraper.exceptions import StoreError, StoreRefused, StoreUnavailable
from carscraper.export.tables import utc_text
from carscraper.items import Car
from carscraper.stores.contract import Refused, StoredCar, removed_until
from carscraper.stores.postgres_answer import answered_state, is_answer
from carscraper.stores.record import SPEC_MISSING, Record
from scrapy_durable.exceptions import ConfigurationError

_T = TypeVar("_T")
_Connection = AsyncConnection[tuple[Any, ...]]

LAYOUT = 2
"""Version of the layout of the tables: the last file in `sql/schema/`."""
TIMEOUT = 30.0
"""Seconds that one step may take before the database counts as unavailable."""
SQL_TYPES: dict[type, str] = {str: "text", int: "bigint", float: "double precision"}
"""What the types of `COLUMNS` are in the tables."""

_DEFAULTS = {
    "application_name": "carscraper",
    "connect_timeout": "5",
    "keepalives": "1",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}
"""Parameters of the connection, unless the DSN says otherwise."""
_SECOND_LOOK = 5.0
"""Seconds for the SQLSTATE of an answer that let nobody in."""
_LOCK = 0x63617273
"""Number of the advisory lock on the layout: "cars"."""
_PAGE = 300
"""Rows in memory while all are read."""
_ROUNDS = 10
"""How often a batch is looked at again because other workers have changed its listings meanwhile."""
_LONGEST_REASON = 300
"""Characters of what the server or its client says that are passed on."""

_INCOMING = ("id", "url", "scraped_at", *COLUMNS, "unread", "car_attrs", "specs_digest", "digest")
_TYPES = (
    "text", "text", "timestamptz", *(SQL_TYPES[kind] for kind in COLUMNS.values()),
    "jsonb", "jsonb", "bytea", "bytea",
)  # fmt: skip
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""The character NUL in JSON: no backslash but its own is left over before it."""


def load_sql(name: str) -> bytes:
    """The text of `sql/<name>.sql`."""
    return files("carscraper.stores").joinpath("sql", f"{name}.sql").read_bytes()


SESSION = load_sql("session")
LOCK_LAYOUT = load_sql("lock_layout")
VERSION = load_sql("version")
RIGHTS = load_sql("rights")
INCOMING = load_sql("incoming")
SEE_AGAIN = load_sql("see_again")
MISSING_SPECS = load_sql("missing_specs")
ADD_SPECS = load_sql("add_specs")
COPY = f"COPY incoming ({', '.join(_INCOMING)}) FROM STDIN (FORMAT BINARY)".encode()
WRITE = load_sql("write")
MARK_REMOVED = load_sql("mark_removed")
DELETE_REMOVED = load_sql("delete_removed")
ERASE = load_sql("erase")
PAGE = load_sql("page")


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
        self._parameters = parameters
        self._timeout = timeout
        self._connection: _Connection | None = None
        self._lock = asyncio.Lock()
        self._answer: tuple[str, str | None] = "", None
        """What the server said last when it let nobody in, and its SQLSTATE."""

    @classmethod
    def from_dsn(cls, dsn: str, *, timeout: float = TIMEOUT) -> PostgresDatabase:
        """`postgresql://user:password@host:port/database`, or `key=value` pairs, as libpq understands them.

        Connects to nothing yet. Raises `ConfigurationError`, whose message tells nothing out of the DSN.
        """
        logging.getLogger("psycopg").setLevel(logging.ERROR)  # its warnings tell what is raised here, too
        try:
            given = conninfo_to_dict(dsn)
        except psycopg.ProgrammingError:
            raise ConfigurationError(
                "POSTGRES_DSN: not an address such as postgresql://user:password@host:5432/cars, "
                "or host=… dbname=…"
            ) from None
        parameters = {**_DEFAULTS, **given, "client_encoding": "UTF8"}
        return cls(parameters, _target(given), timeout=timeout)

    async def open(self) -> None:
        """As in the contract. Missing tables are made by one worker while the others wait."""
        await self.close()
        try:
            connection = await AsyncConnection.connect(**self._parameters, autocommit=True)
        except psycopg.Error as error:
            raise await self._no_connection(error) from error
        set_json_loads(orjson.loads, connection)
        self._connection = connection
        try:
            await self._step(self._set_up)
        except StoreError:
            await self.close()
            raise

    async def _set_up(self, connection: _Connection) -> None:
        timeout = f"{self._timeout * 1000:.0f}ms"
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

    async def _lay_out(self, connection: _Connection) -> None:
        async with connection.transaction():
            cursor = await connection.execute(LOCK_LAYOUT, {"lock": _LOCK})
            found = 0
            if await cursor.fetchone() == (True,):
                (found,) = await (await connection.execute(VERSION)).fetchone() or (0,)
            if found > LAYOUT:
                raise StoreRefused(
                    f"{self.target}: its layout is version {found}, and this release knows {LAYOUT}"
                )
            for version in range(found + 1, LAYOUT + 1):
                await connection.execute(load_sql(f"schema/{version:04}"))

    async def upsert(self, records: Sequence[Record]) -> list[Refused]:
        """As in the contract. Several records of one listing are written one after the other, the oldest first."""
        refused: list[Refused] = []
        for readings in _rounds(records, refused):
            await self._write_apart(readings, refused)
        return refused

    async def _write_apart(self, records: Sequence[Record], refused: list[Refused]) -> None:
        """Write records, each of another listing; halve them until those that cannot be held stand alone."""
        try:
            await self._step(partial(self._write, records=records))
        except psycopg.Error as error:
            if len(records) == 1:
                refused.append(_refuse(records[0], _one_line(error)))
                return
            middle = len(records) // 2
            await self._write_apart(records[:middle], refused)
            await self._write_apart(records[middle:], refused)

    async def _write(self, connection: _Connection, records: Sequence[Record]) -> None:
        rest = {record.id: record for record in records}
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

    async def _see_again(self, connection: _Connection, records: Collection[Record]) -> list[str]:
        arguments = {
            "ids": [record.id for record in records],
            "digests": [record.digest for record in records],
            "times": [record.read_at for record in records],
        }
        cursor = await connection.execute(SEE_AGAIN, arguments, binary=True)
        return [listing for (listing,) in await cursor.fetchall()]

    async def _add_specs(self, connection: _Connection, records: Collection[Record]) -> None:
        needed = {record.specs.digest: record.specs_json for record in records}
        cursor = await connection.execute(MISSING_SPECS, {"digests": list(needed)}, binary=True)
        missing = [digest for (digest,) in await cursor.fetchall()]
        if missing:
            groups = [Jsonb(needed[digest], dumps=bytes) for digest in missing]
            await connection.execute(ADD_SPECS, {"digests": missing, "groups": groups})

    async def _replace(self, connection: _Connection, records: Collection[Record]) -> list[str]:
        async with connection.transaction(), connection.cursor() as cursor:
            async with cursor.copy(COPY) as copy:
                copy.set_types(_TYPES)
                for record in records:
                    await copy.write_row(_incoming(record))
            await cursor.execute(WRITE, {"spec_missing": SPEC_MISSING})
            return [listing for (listing,) in await cursor.fetchall()]

    async def mark_removed(self, seen: Collection[str], begun_at: str, removed_at: str) -> int:
        """As in the contract. Walks over all listings: an index would cost more with every record than it saves."""
        arguments = {
            "seen": list(seen),
            "begun_at": datetime.fromisoformat(begun_at),
            "removed_at": datetime.fromisoformat(removed_at),
        }

        async def mark(connection: _Connection) -> int:
            marked = (await connection.execute(MARK_REMOVED, arguments)).rowcount
            if until := removed_until(removed_at, self.keep_removed):
                await connection.execute(DELETE_REMOVED, {"until": until})
            return marked

        return await self._step(mark)

    async def erase(self, ids: Collection[str]) -> int:
        """As in the contract."""

        async def delete(connection: _Connection) -> int:
            (count,) = await (await connection.execute(ERASE, {"ids": list(ids)})).fetchone() or (0,)
            return int(count)

        return await self._step(delete)

    async def cars(self) -> AsyncIterator[StoredCar]:
        """As in the contract. Page by page, so that nothing is open on the server while the caller is busy."""
        after: str | None = None
        while True:
            arguments = {"after": after, "rows": _PAGE}

            async def read(
                connection: _Connection, arguments: dict[str, Any] = arguments
            ) -> list[tuple[Any, ...]]:
                return await (await connection.execute(PAGE, arguments, binary=True)).fetchall()

            page = await self._step(read)
            for row in page:
                yield _stored(row)
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    async def close(self) -> None:
        """As in the contract."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with contextlib.suppress(psycopg.Error):
                await connection.close()

    async def _step(self, work: Callable[[_Connection], Coroutine[Any, Any, _T]]) -> _T:
        """The result of work on the connection, within the time that a step may take.

        Raises `psycopg.Error` when the fault is that of a record; the connection goes on. All other errors are
        this project's, and end it.
        """
        async with self._lock:
            connection = self._connection
            if connection is None:
                raise StoreUnavailable(f"{self.target}: not connected")
            task = asyncio.ensure_future(work(connection))
            timer = asyncio.get_running_loop().call_later(self._timeout, _cut, connection)
            try:
                return await asyncio.shield(task)
            except psycopg.Error as error:
                fault = fault_of(error)
                if fault is Fault.RECORD:
                    raise
                late = timer.when() <= asyncio.get_running_loop().time()
                await self.close()
                reason = f"no answer within {self._timeout:g} s" if late else _one_line(error)
                raise _ERRORS[fault](f"{self.target}: {reason}") from error
            except asyncio.CancelledError:
                _cut(connection)
                await asyncio.wait([task])
                await self.close()
                raise
            finally:
                timer.cancel()

    async def _no_connection(self, error: psycopg.Error) -> StoreError:
        message = str(error)
        if isinstance(error, psycopg.ProgrammingError):
            fault = Fault.SET_UP
        else:
            fault = connection_fault(message, await self._state_of(message))
        reason = _one_line(message.partition("\n")[0].rpartition("failed: ")[2]).removeprefix("FATAL: ")
        reason = _NAMED.sub(_UNNAMED, reason)
        if (user := self._parameters.get("user")) and user != self._parameters.get("dbname"):
            reason = reason.replace(f"»{user}«", "…").replace(f"« {user} »", "…").replace(f"«{user}»", "…")
        return _ERRORS[fault](f"{self.target}: {reason}")

    async def _state_of(self, message: str) -> str | None:
        """The SQLSTATE of the server's answer; None when it has not answered, or it cannot be had."""
        if not is_answer(message):
            return None
        if message != self._answer[0] or self._answer[1] is None:
            self._answer = message, await asyncio.to_thread(answered_state, self._parameters, _SECOND_LOOK)
        return self._answer[1]


# The address


def _target(given: dict[str, Any]) -> str:
    """Hosts with ports, and the database; raises `ConfigurationError` for what libpq accepts and is none."""
    known = {
        option.keyword.decode(): option.val.decode() for option in pq.Conninfo.get_defaults() if option.val
    }
    known |= {key: str(value) for key, value in given.items() if value}
    hosts = known.get("host") or known.get("hostaddr") or known.get("service") or "localhost"
    ports = known.get("port", "5432")
    database = known.get("dbname", "")
    if not database and "service" not in known:
        raise ConfigurationError(
            "POSTGRES_DSN: the name of a database is needed, as in postgresql://host/cars"
        )
    if "@" in hosts + database or not all(_is_port(port) for port in ports.split(",")):
        raise ConfigurationError(
            "POSTGRES_DSN: host, port and database cannot be told apart; in a URL, write odd characters of a "
            "password as %XX"
        )
    try:
        hosts.encode("idna")
    except UnicodeError:
        raise ConfigurationError("POSTGRES_DSN: its host is no name") from None
    names = hosts.split(",")
    numbers = ports.split(",") if "," in ports else [ports] * len(names)
    places = (f"{name}:{number or 5432}" for name, number in zip(names, numbers, strict=False))
    return f"{','.join(places)}/{database}"


def _is_port(text: str) -> bool:
    return not text or (text.isascii() and text.isdigit() and 0 < int(text) < 65536)


# Errors


class Fault(Enum):
    """Whose fault an error is."""

    SERVER = auto()
    """The server's, or that of the way there; it may pass."""
    SET_UP = auto()
    """That of the role, the database or its tables; it would come again for every record."""
    RECORD = auto()
    """That of one record among those that were sent."""


FAULTS = {
    "08": Fault.SERVER,  # connection
    "0A": Fault.SET_UP,  # feature not supported
    "22": Fault.RECORD,  # data
    "23": Fault.RECORD,  # constraint
    "25006": Fault.SERVER,  # read only: a standby, or a disk that was nearly full
    "28": Fault.SET_UP,  # authorisation
    "3D": Fault.SET_UP,  # no such database
    "3F": Fault.SET_UP,  # no such schema
    "40": Fault.SERVER,  # rolled back: deadlock, serialisation
    "42": Fault.SET_UP,  # rights, tables, columns
    "53": Fault.SERVER,  # disk full, out of memory, too many connections
    "54": Fault.RECORD,  # limits: size, depth
    "55P03": Fault.SERVER,  # lock not available
    "57": Fault.SERVER,  # statement timeout, shutdown, starting up
    "P0": Fault.RECORD,  # raised by somebody's trigger
}
"""By SQLSTATE or the beginning of it; what is not there is the server's, such as XX000 and 58030."""

_ERRORS: dict[Fault, type[StoreError]] = {Fault.SERVER: StoreUnavailable, Fault.SET_UP: StoreRefused}

_SET_UP_MESSAGES = re.compile(
    r"authentication failed|no password supplied|does not exist|permission denied|pg_hba\.conf|not permitted"
    r"|certificate verify failed|does not support SSL|invalid \S+ value|could not match"
)
"""What is said of a connection that fails and would fail again, where there is no SQLSTATE: by libpq itself, which
speaks English, and by a server whose state cannot be had.
"""
_NAMED, _UNNAMED = re.compile(r"\b(user|role) \"[^\"]*\""), r"the \1"


def fault_of(error: psycopg.Error) -> Fault:
    """Whose fault an error on an open connection is."""
    state = error.sqlstate
    if state is not None:
        return _fault_of_state(state)
    if isinstance(error, psycopg.DataError):
        return Fault.RECORD
    return (
        Fault.SERVER if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) else Fault.SET_UP
    )


def _fault_of_state(state: str) -> Fault:
    return FAULTS.get(state) or FAULTS.get(state[:2]) or Fault.SERVER


def connection_fault(message: str, state: str | None = None) -> Fault:
    """Whose fault it is that a connection cannot be made: by the SQLSTATE of the server's answer, in whatever language
    it is; without one by what libpq says, and then a server that does not speak English is taken for one that is down.
    """
    if state is not None:
        return _fault_of_state(state)
    return Fault.SET_UP if _SET_UP_MESSAGES.search(message) else Fault.SERVER


def _one_line(error: psycopg.Error | str) -> str:
    """The first that is said, with its detail: short, and without line breaks."""
    if isinstance(error, psycopg.Error):
        diagnosis = error.diag
        parts = (diagnosis.message_primary or str(error).partition("\n")[0], diagnosis.message_detail)
        error = ": ".join(part for part in parts if part)
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in error).split())
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}…"


def _cut(connection: _Connection) -> None:
    """End a connection from below: what waits for an answer on it fails at once, even when nothing comes."""
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.fileno())) as twin,
    ):
        twin.shutdown(socket.SHUT_RDWR)


# Records and rows


def _rounds(records: Sequence[Record], refused: list[Refused]) -> list[list[Record]]:
    """The records in rounds, each listing once a round, the oldest reading first; by id within a round.

    Those that certainly cannot be held go to `refused`.
    """
    fit = []
    for record in records:
        problem = _problem(record)
        if problem is None:
            fit.append(record)
        else:
            refused.append(_refuse(record, problem))
    rounds: list[list[Record]] = []
    turns: Counter[str] = Counter()
    for record in sorted(fit, key=attrgetter("read_at")):
        turn = turns[record.id]
        turns[record.id] += 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(record)
    for readings in rounds:
        readings.sort(key=attrgetter("id"))
    return rounds


def _problem(record: Record) -> str | None:
    if "\0" in record.id or "\0" in record.url or _has_nul(record.attrs_json) or _has_nul(record.specs_json):
        return "a text holds the character NUL"
    try:
        (record.id + record.url).encode()
        if record.read_at.tzinfo is None:
            return "scraped_at: no time in UTC"
    except UnicodeEncodeError:
        return "id or url: half of a surrogate pair"
    except ValueError:
        return "scraped_at: no time in UTC"
    return None


def _has_nul(text: bytes) -> bool:
    return b"\\u0000" in text and _NUL.search(text) is not None


def _refuse(record: Record, problem: str) -> Refused:
    return Refused(record.id, record.url, problem)


def _incoming(record: Record) -> tuple[Any, ...]:
    """The values of `_INCOMING`."""
    unread = record.row.unread
    return (
        record.id,
        record.url or None,
        record.read_at,
        *record.row.values,
        Jsonb(unread, dumps=orjson.dumps) if unread else None,
        Jsonb(record.attrs_json, dumps=bytes),
        record.specs.digest,
        record.digest,
    )


def _stored(row: tuple[Any, ...]) -> StoredCar:
    listing, url, scraped_at, attrs, specs, first_seen, last_seen, removed_at = row
    car = Car(listing, url, utc_text(scraped_at), attrs, specs)
    return StoredCar(car, first_seen, last_seen, removed_at)
