"""What the PostgreSQL store does beyond the contract: its tables, what it refuses, and servers that fail."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
import uvloop
from psycopg import sql

from carscraper.api.columns import COLUMNS
from carscraper.exceptions import StoreRefused, StoreUnavailable
from carscraper.stores.contract import StoredCar
from carscraper.stores.postgres import database as module
from carscraper.stores.postgres.database import PostgresDatabase
from carscraper.stores.postgres.faults import FAULTS, Fault, connection_fault, fault_of
from carscraper.stores.postgres.statements import COPY, LAYOUT, SQL_TYPES, WRITE, load_sql
from carscraper.stores.readings import Reading
from carscraper.stores.record import Draft, Record, Records
from scrapy_durable.exceptions import ConfigurationError
from tests.crawling import wait_until
from tests.postgres_server import PostgresServer
from tests.stores.conftest import PostgresPlace
from tests.stores.test_contract import SPECS, all_of, car, only, opened, reading, text, when, write
from tests.tcp_proxy import TcpProxy
from tests.timeout import answered

SECRET = "canary-5e1d"


@pytest.fixture
def on_postgres(postgres: PostgresServer) -> PostgresPlace:
    """On a server that other tests use too."""
    return PostgresPlace(postgres)


@pytest.fixture
def mortal() -> Iterator[PostgresPlace]:
    """On a server of its own, which may be killed. By itself it waits ten seconds before a commit is on disk."""
    with PostgresServer(options={"synchronous_commit": "off", "wal_writer_delay": "10s"}) as server:
        yield PostgresPlace(server)


def run_as(place: PostgresPlace, *statements: str) -> None:
    """Have the superuser change the place's database."""
    with place.server.connect(place.name) as connection:
        for statement in statements:
            connection.execute(statement.encode())


# The tables.


async def test_the_table_has_the_typed_columns_in_their_order(on_postgres: PostgresPlace) -> None:
    await opened(on_postgres)
    found = {
        row["column_name"]: row["data_type"]
        for row in on_postgres.select(
            "SELECT column_name, data_type FROM information_schema.columns "
            "WHERE table_name = 'cars' ORDER BY ordinal_position"
        )
    }
    typed = {name: SQL_TYPES[kind] for name, kind in COLUMNS.items()}
    assert {name: kind for name, kind in found.items() if name in typed} == typed
    assert [name for name in found if name in typed] == list(typed)
    assert set(found) - set(typed) == {
        "id", "url", "scraped_at", "first_seen", "last_seen", "removed_at", "unread", "car_attrs",
        "specs_digest", "digest",
    }  # fmt: skip


async def test_a_changed_record_replaces_every_column(on_postgres: PostgresPlace) -> None:
    await opened(on_postgres)
    query = "SELECT column_name FROM information_schema.columns WHERE table_name = %s"
    columns = {row["column_name"] for row in on_postgres.select(query, "cars")}
    replaced = set(re.findall(r"^ +(\w+) += ", WRITE.decode(), re.MULTILINE))
    assert replaced == columns - {"id", "first_seen"}
    copied = re.findall(r"\w+", COPY.decode().partition("(")[2].partition(")")[0])
    assert set(copied) == columns - {"first_seen", "last_seen", "removed_at"}


async def test_every_table_and_column_says_what_it_is(on_postgres: PostgresPlace) -> None:
    await opened(on_postgres)
    silent = on_postgres.select(
        "SELECT relname, attname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum >= 0 "
        "WHERE relnamespace = 'public'::regnamespace AND relname <> 'car_records' AND relkind = 'r' "
        "AND NOT attisdropped AND (col_description(pg_class.oid, attnum) IS NULL "
        "OR obj_description(pg_class.oid) IS NULL)"
    )
    assert silent == []


async def test_a_row_has_the_typed_values_and_the_raw_record_beside_them(on_postgres: PostgresPlace) -> None:
    database = await opened(on_postgres)
    record = reading(price=184_900, mileage="38 329 km", seats="many", monthly_price=2356.5)
    await write(database, record)
    row = on_postgres.row("1")
    assert row is not None
    assert {name: row[name] for name in COLUMNS} == {name: getattr(record.row, name) for name in COLUMNS}
    assert (row["mileage_km"], row["torque_nm"], row["monthly_price_zar"]) == (38_329, 250.0, 2356.5)
    assert row["unread"] == {"seats": "many"}
    (whole,) = on_postgres.select("SELECT * FROM car_records")
    assert (whole["car_attrs"], whole["car_specs"]) == (record.car.car_attrs, SPECS)


async def test_a_specification_is_kept_once_for_all_that_share_it(on_postgres: PostgresPlace) -> None:
    database = await opened(on_postgres)
    await write(database, *(reading(str(number)) for number in range(20)))
    other = replace(car("20"), car_specs=[])
    await write(database, Draft(other, Records()).record)
    kept = on_postgres.select("SELECT groups FROM specs ORDER BY jsonb_array_length(groups)")
    assert [row["groups"] for row in kept] == [[], SPECS]


async def test_what_others_have_emptied_is_filled_again(on_postgres: PostgresPlace) -> None:
    """On the same connection: nothing is taken to be there because it once was."""
    database = await opened(on_postgres)
    await write(database, reading())
    run_as(on_postgres, "TRUNCATE cars, specs, price_history")
    await write(database, reading())
    assert await only(database) == StoredCar(car(), when(0), when(0), None)


async def test_a_repeated_record_writes_nothing(on_postgres: PostgresPlace) -> None:
    database = await opened(on_postgres)
    records = [reading(str(number)) for number in range(50)]
    older = [reading(str(number), -1, price=7) for number in range(50)]
    await write(database, *records, *older)
    before = on_postgres.select("SELECT id, xmin::text FROM cars ORDER BY id")
    await write(database, *records, *older)
    assert on_postgres.select("SELECT id, xmin::text FROM cars ORDER BY id") == before


async def test_the_listings_can_be_read_while_they_are_written(on_postgres: PostgresPlace) -> None:
    """On one connection, as when stored records are read anew; what is acknowledged is seen from outside."""
    database = await opened(on_postgres)
    ids = sorted(str(number) for number in range(1000))
    await write(database, *(reading(listing) for listing in ids))
    read = []
    async for stored in database.cars():
        read.append(stored.car.id)
        if len(read) % 100 == 0:
            await write(database, reading(stored.car.id, 1, 200))
            assert on_postgres.prices(stored.car.id)[-1] == (when(1), 200)
    assert read == ids


# The address.


@pytest.mark.parametrize(
    "dsn",
    [
        f"nonsense:{SECRET}",
        f"host=127.0.0.1 pasword={SECRET}",
        f"mongodb://user:{SECRET}@127.0.0.1/cars",
        f"postgresql://user:{SECRET}@127.0.0.1:port/cars",
        f"postgresql://user:{SECRET}@127.0.0.1:99999/cars",
        f"postgresql://user:{SECRET}/x@127.0.0.1/cars",
        f"postgresql://user:1/{SECRET}@127.0.0.1/cars",
        f"postgresql://user:x@{SECRET}@127.0.0.1/cars",
        f"postgresql://user:{SECRET}@127.0.0.1",
        f"postgresql://user:{SECRET}@h..h/cars",
        f"host=127.0.0.1 user=user password={SECRET}",
        "",
    ],
)
def test_a_wrong_address_is_refused_in_one_line_that_does_not_repeat_it(dsn: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^POSTGRES_DSN: ") as refused:
        PostgresDatabase.from_address(dsn)
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("dsn", "target"),
    [
        (f"postgresql://user:{SECRET}@db.internal/cars", "db.internal:5432/cars"),
        (f"postgres://user:{SECRET}@127.0.0.1:5433/cars?sslmode=require", "127.0.0.1:5433/cars"),
        (f"postgresql://user:{SECRET}@[::1]:5433/cars", "::1:5433/cars"),
        (f"host=a,b port=5433,5434 dbname=cars user=user password={SECRET}", "a:5433,b:5434/cars"),
        (f"host=a,b dbname=cars user=user password={SECRET}", "a:5432,b:5432/cars"),
        ("host=/run/postgresql dbname=cars", "/run/postgresql:5432/cars"),
        ("dbname=cars", "localhost:5432/cars"),
    ],
)
def test_the_target_is_the_address_without_user_and_password(dsn: str, target: str) -> None:
    assert PostgresDatabase.from_address(dsn).target == target


# What is refused before anything is crawled.


async def refusal(database: PostgresDatabase) -> str:
    """The one line with which opening it is refused."""
    with pytest.raises(StoreRefused) as refused:
        await database.open()
    line = str(refused.value)
    assert line.startswith(f"{database.target}: ")
    assert "\n" not in line
    assert SECRET not in line
    return line


async def test_a_wrong_password(on_postgres: PostgresPlace) -> None:
    database = on_postgres.connect(on_postgres.server.dsn(on_postgres.name, password=SECRET))
    assert "password authentication failed" in await refusal(database)


async def test_a_wrong_user_is_not_named(on_postgres: PostgresPlace) -> None:
    dsn = on_postgres.server.dsn(on_postgres.name, user=SECRET, password=SECRET)
    await refusal(on_postgres.connect(dsn))


async def test_a_database_that_is_not_there(on_postgres: PostgresPlace) -> None:
    line = await refusal(on_postgres.connect(on_postgres.server.dsn("nowhere")))
    assert line.endswith('database "nowhere" does not exist')


async def test_a_wrong_option(on_postgres: PostgresPlace) -> None:
    for option in ("sslmode=nonsense", "connect_timeout=soon", "sslmode=verify-full sslrootcert=/nowhere"):
        await refusal(on_postgres.connect(f"{on_postgres.server.dsn(on_postgres.name)} {option}"))


async def test_an_encoding_that_cannot_hold_every_text(on_postgres: PostgresPlace) -> None:
    name = f"latin_{on_postgres.name}"
    with on_postgres.server.connect() as connection:
        create = "CREATE DATABASE {} ENCODING 'LATIN1' TEMPLATE template0"
        connection.execute(sql.SQL(create).format(sql.Identifier(name)))
    assert "LATIN1" in await refusal(on_postgres.connect(on_postgres.server.dsn(name)))


async def test_a_role_that_may_not_make_tables(on_postgres: PostgresPlace) -> None:
    role = on_postgres.server.create_role(SECRET)
    database = on_postgres.connect(on_postgres.server.dsn(on_postgres.name, user=role, password=SECRET))
    assert "permission denied" in await refusal(database)
    assert on_postgres.select("SELECT 1 FROM pg_class WHERE relname = 'cars_schema'") == []


RIGHTS = [
    ("cars", "SELECT"), ("cars", "INSERT"), ("cars", "UPDATE"), ("specs", "SELECT"), ("specs", "INSERT"),
    ("price_history", "SELECT"), ("price_history", "INSERT"), ("price_history", "UPDATE"),
    ("price_history", "DELETE"),
    ("car_records", "SELECT"), ("cars_schema", "SELECT"),
]  # fmt: skip


async def test_a_role_needs_no_more_rights_than_those_that_are_asked_for(on_postgres: PostgresPlace) -> None:
    await opened(on_postgres)
    role = on_postgres.server.create_role(SECRET)
    run_as(on_postgres, *(f"GRANT {right} ON {relation} TO {role}" for relation, right in RIGHTS))
    database = on_postgres.connect(on_postgres.server.dsn(on_postgres.name, user=role, password=SECRET))
    await database.open()
    await write(database, reading())
    await write(database, reading(minute=1, price=90))
    assert await database.mark_removed([], text(5), text(6)) == 1
    assert len(await all_of(database)) == 1


@pytest.mark.parametrize("lacking", [*RIGHTS, ("DATABASE", "TEMPORARY")], ids=" ".join)
async def test_a_role_that_lacks_one_right(on_postgres: PostgresPlace, lacking: tuple[str, str]) -> None:
    await opened(on_postgres)
    role = on_postgres.server.create_role(SECRET)
    granted = [
        f"GRANT {right} ON {relation} TO {role}" for relation, right in RIGHTS if (relation, right) != lacking
    ]
    run_as(on_postgres, *granted)
    if lacking[0] == "DATABASE":
        run_as(on_postgres, f"REVOKE TEMPORARY ON DATABASE {on_postgres.name} FROM PUBLIC")
    line = await refusal(
        on_postgres.connect(on_postgres.server.dsn(on_postgres.name, user=role, password=SECRET))
    )
    assert lacking[1] in line or "permission denied" in line
    assert lacking[0].lower() in line


async def test_a_layout_of_a_later_version(on_postgres: PostgresPlace) -> None:
    await opened(on_postgres)
    run_as(on_postgres, f"INSERT INTO cars_schema (version) VALUES ({LAYOUT + 1})")
    line = await refusal(on_postgres.connect())
    assert line.endswith(f"its layout is version {LAYOUT + 1}, and this release knows {LAYOUT}")


async def test_a_table_of_that_name_that_is_not_ours(on_postgres: PostgresPlace) -> None:
    run_as(on_postgres, "CREATE TABLE cars (plate text)")
    assert 'relation "cars" already exists' in await refusal(on_postgres.connect())
    assert on_postgres.select("SELECT 1 FROM pg_class WHERE relname = 'cars_schema'") == []


async def test_a_layout_of_an_earlier_version_is_brought_up_to_date(on_postgres: PostgresPlace) -> None:
    addresses = ["https://h/1/", "HTTP://h/2/", "", "javascript:alert(1)"]
    row = (
        "INSERT INTO cars (id, url, scraped_at, first_seen, last_seen, price_zar, car_attrs, specs_digest, digest) "
        "VALUES ('{0}', '{1}', now(), now(), now(), 5, '{{}}', 'd', 'x')"
    )
    run_as(
        on_postgres,
        load_sql("schema/0001").decode(),
        "INSERT INTO specs VALUES ('d', '[]')",
        *(row.format(number, address) for number, address in enumerate(addresses)),
    )
    database = await opened(on_postgres)
    found = on_postgres.select("SELECT url FROM cars ORDER BY id")
    assert [row["url"] for row in found] == [*addresses[:2], None, None]
    assert [stored.car.url for stored in await all_of(database)] == [*addresses[:2], "", ""]
    assert on_postgres.prices("3")[0][1] == 5
    versions = on_postgres.select("SELECT version FROM cars_schema ORDER BY version")
    assert [row["version"] for row in versions] == list(range(1, LAYOUT + 1))


def test_the_layout_is_that_of_the_last_file() -> None:
    assert f"INSERT INTO cars_schema (version) VALUES ({LAYOUT});" in load_sql(f"schema/{LAYOUT:04}").decode()
    with pytest.raises(FileNotFoundError):
        load_sql(f"schema/{LAYOUT + 1:04}")


async def test_tables_that_are_dropped_meanwhile_are_refused_not_waited_for(
    on_postgres: PostgresPlace,
) -> None:
    database = await opened(on_postgres)
    run_as(on_postgres, "DROP TABLE cars CASCADE")
    with pytest.raises(StoreRefused, match='relation "cars" does not exist'):
        await database.upsert([reading()])


# Whose fault an error is.


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        *[(state, Fault.SERVER) for state in (
            "08000", "08006", "25006", "40001", "40P01", "53100", "53200", "53300", "55P03", "57014", "57P01",
            "57P02", "57P03", "57P05", "58030", "XX000", "XX001",
        )],
        *[(state, Fault.SET_UP) for state in (
            "0A000", "28000", "28P01", "3D000", "3F000", "42501", "42601", "42703", "42P01",
        )],
        *[(state, Fault.RECORD) for state in (
            "22003", "22021", "22P02", "22P05", "23502", "23505", "23514", "54000", "54001", "P0001",
        )],
    ],
)  # fmt: skip
def test_the_fault_of_each_state(state: str, fault: Fault) -> None:
    try:
        kind = psycopg.errors.lookup(state)
    except KeyError:
        kind = type("Unknown", (psycopg.Error,), {"sqlstate": state})
    assert fault_of(kind("")) is fault


def test_a_lost_connection_is_the_servers_fault_and_what_the_client_cannot_send_the_records() -> None:
    assert fault_of(psycopg.OperationalError("consuming input failed")) is Fault.SERVER
    assert fault_of(psycopg.InterfaceError("the connection is closed")) is Fault.SERVER
    assert fault_of(psycopg.DataError("cannot be dumped")) is Fault.RECORD
    assert fault_of(psycopg.ProgrammingError("a bug")) is Fault.SET_UP


def test_every_kind_of_error_has_states() -> None:
    assert set(FAULTS.values()) == set(Fault)


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ('FATAL:  password authentication failed for user "x"', Fault.SET_UP),
        ('FATAL:  database "x" does not exist', Fault.SET_UP),
        ('FATAL:  role "x" is not permitted to log in', Fault.SET_UP),
        ('FATAL:  permission denied for database "x"', Fault.SET_UP),
        ('FATAL:  no pg_hba.conf entry for host "::1", user "x", database "y", no encryption', Fault.SET_UP),
        ("fe_sendauth: no password supplied", Fault.SET_UP),
        ("server does not support SSL, but SSL was required", Fault.SET_UP),
        ("SSL error: certificate verify failed", Fault.SET_UP),
        ('invalid sslmode value: "x"', Fault.SET_UP),
        ("Connection refused", Fault.SERVER),
        ("failed to resolve host 'x': [Errno -3] Temporary failure in name resolution", Fault.SERVER),
        ("connection timeout expired", Fault.SERVER),
        ("FATAL:  the database system is starting up", Fault.SERVER),
        ("FATAL:  sorry, too many clients already", Fault.SERVER),
        ("server closed the connection unexpectedly", Fault.SERVER),
    ],
)
def test_whose_fault_it_is_that_there_is_no_connection(message: str, fault: Fault) -> None:
    assert connection_fault(f'connection to server at "127.0.0.1", port 5432 failed: {message}') is fault


# Records that cannot be held.


GOOD = reading("7")


def changed(**parts: Any) -> Record:
    """The good one's car with other parts."""
    return Draft(replace(GOOD.car, **parts), Records()).record


POISON: dict[str, Callable[[], Record]] = {
    "NUL in a text": lambda: reading("7", colour="a\0b"),
    "NUL behind a backslash": lambda: reading("7", colour="\\\0"),
    "NUL in a key": lambda: reading("7", **{"a\0b": 1}),
    "NUL in the URL": lambda: changed(url="https://h/\0"),
    "NUL in the id": lambda: changed(id="7\0"),
    "NUL in the specification": lambda: changed(car_specs=[{"title": "\0", "attrs": []}]),
    "an id longer than an index takes": lambda: reading("7" + random.Random(1).randbytes(5000).hex()),
    "an id that is no text": lambda: replace(GOOD, id="7\ud800"),
    "a time that is none": lambda: changed(scraped_at="yesterday"),
    "a time without its zone": lambda: changed(scraped_at="2026-11-21T10:00:00"),
    "JSON that is none": lambda: replace(GOOD, attrs_json=b"{"),
    "what the owner forbids": lambda: reading("7", price=666),
    "what the owner's trigger forbids": lambda: reading("7", price=667),
}
"""Listing 7, with something in it that the database cannot hold."""
FORBID = (
    "ALTER TABLE cars ADD CHECK (price_zar <> 666)",
    "CREATE FUNCTION forbid() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN IF NEW.price_zar = 667 THEN RAISE 'no\n%', NEW.price_zar; END IF; RETURN NEW; END $$",
    "CREATE TRIGGER forbid BEFORE INSERT ON cars FOR EACH ROW EXECUTE FUNCTION forbid()",
)


@pytest.mark.parametrize("kind", POISON)
async def test_one_bad_record_among_many_is_told_of_and_stays_out_alone(
    on_postgres: PostgresPlace, kind: str
) -> None:
    database = await opened(on_postgres)
    run_as(on_postgres, *FORBID)
    bad = POISON[kind]()
    good = [reading(f"g{number}") for number in range(40)]
    (refused,) = await database.upsert([*good[:27], bad, *good[27:]])
    assert (refused.id, refused.url) == (bad.id, bad.url)
    assert refused.problem
    assert refused.problem.isprintable()
    assert len(refused.problem) < 400
    assert {stored.car.id for stored in await all_of(database)} == {record.car.id for record in good}
    await write(database, reading("after"))


async def test_ten_bad_records_among_five_hundred(on_postgres: PostgresPlace) -> None:
    database = await opened(on_postgres)
    run_as(on_postgres, *FORBID)
    records = [reading(str(number), price=666 if number % 50 == 7 else number) for number in range(500)]
    refused = await database.upsert(records)
    assert {one.id for one in refused} == {str(number) for number in range(7, 500, 50)}
    assert len(await all_of(database)) == 490


async def test_a_changed_record_that_cannot_be_held_leaves_the_stored_one(on_postgres: PostgresPlace) -> None:
    database = await opened(on_postgres)
    run_as(on_postgres, *FORBID)
    await write(database, reading("1"), reading("2"))
    before = on_postgres.row("1")
    (refused,) = await database.upsert([reading("1", 1, price=666), reading("2", 1, price=90)])
    assert refused.id == "1"
    assert on_postgres.row("1") == before
    assert on_postgres.prices("2") == [(when(0), 100), (when(1), 90)]


async def test_what_only_looks_like_nul_is_held(on_postgres: PostgresPlace) -> None:
    database = await opened(on_postgres)
    record = reading(colour="\\u0000", reference="\\\\u0000", **{"\\u0000": "\\u0000\\"})
    await write(database, record)
    assert (await only(database)).car == record.car


async def test_deep_and_wide_records_are_held(on_postgres: PostgresPlace) -> None:
    database = await opened(on_postgres)
    deep: Any = 1
    for _ in range(240):
        deep = [deep]
    record = reading(deep=deep, wide=list(range(50_000)), long="x" * 3_000_000, big=2**64 - 1, small=5e-324)
    await write(database, record)
    assert (await only(database)).car == record.car


# Servers that fail.


async def until_written(database: PostgresDatabase, record: Record) -> None:
    """Open and write as whoever delivers does: again, for as long as the server does not answer in time."""

    async def open_and_write() -> None:
        await database.open()
        await write(database, record)

    await answered(open_and_write)


async def test_a_server_that_is_down_is_worth_another_try(mortal: PostgresPlace) -> None:
    database = mortal.connect()
    mortal.server.kill()
    with pytest.raises(StoreUnavailable, match=r"[Cc]onnection refused") as down:
        await database.open()
    assert "\n" not in str(down.value)
    with pytest.raises(StoreUnavailable, match="not connected"):
        await database.upsert([reading()])
    mortal.server.start()
    await database.open()
    await write(database, reading())
    mortal.server.kill()
    with pytest.raises(StoreUnavailable):
        await database.upsert([reading("2")])
    with pytest.raises(StoreUnavailable):
        await database.mark_removed([], text(1), text(2))
    mortal.server.start()
    await database.open()
    await write(database, reading("2"))
    assert [stored.car.id for stored in await all_of(database)] == ["1", "2"]


async def test_a_connection_that_the_server_ends_is_worth_another_try(on_postgres: PostgresPlace) -> None:
    database = await opened(on_postgres)
    ended = on_postgres.select(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s AND application_name = %s",
        on_postgres.name,
        "carscraper",
    )
    assert ended == [{"pg_terminate_backend": True}]
    with pytest.raises(StoreUnavailable):
        await database.upsert([reading()])
    await database.open()
    await write(database, reading())


async def test_a_server_with_no_connection_to_spare_is_worth_another_try(on_postgres: PostgresPlace) -> None:
    role = on_postgres.server.create_role(SECRET)
    run_as(on_postgres, f"ALTER ROLE {role} CONNECTION LIMIT 0")
    database = on_postgres.connect(on_postgres.server.dsn(on_postgres.name, user=role, password=SECRET))
    with pytest.raises(StoreUnavailable, match="too many connections"):
        await database.open()


async def test_a_server_that_takes_no_writes_is_worth_another_try(on_postgres: PostgresPlace) -> None:
    run_as(on_postgres, f"ALTER DATABASE {on_postgres.name} SET default_transaction_read_only = on")
    database = on_postgres.connect()
    with pytest.raises(StoreUnavailable, match="takes no writes"):
        await database.open()
    run_as(
        on_postgres,
        "SET default_transaction_read_only = off",
        f"ALTER DATABASE {on_postgres.name} RESET default_transaction_read_only",
    )
    await database.open()
    await write(database, reading())


async def test_what_is_acknowledged_outlives_a_kill_in_the_middle(mortal: PostgresPlace) -> None:
    """Five times; then everything is delivered again, as by a caller that cannot know, and nothing is twice."""
    database = mortal.connect()
    acknowledged: dict[str, Record] = {}
    given: dict[str, Record] = {}
    numbers = itertools.count()
    for kill in range(5):
        await database.open()
        enough = asyncio.Event()

        async def deliver(kill: int = kill, enough: asyncio.Event = enough) -> None:
            for done in itertools.count():
                fresh = [reading(str(next(numbers)), kill) for _ in range(30)]
                again = [reading(listing, kill + 0.5, 200 + kill) for listing in list(given)[-30:]]
                batch = {record.car.id: record for record in [*again, *fresh]}
                given.update(batch)
                await write(database, *batch.values())
                acknowledged.update(batch)
                if done == 5:
                    enough.set()

        delivery = asyncio.create_task(deliver())
        await asyncio.wait(
            [delivery, asyncio.create_task(enough.wait())], return_when=asyncio.FIRST_COMPLETED
        )
        mortal.server.kill()
        with pytest.raises(StoreUnavailable):
            await delivery
        mortal.server.start()
        stored = {row["id"]: row for row in mortal.select("SELECT id, price_zar, last_seen FROM cars")}
        for listing, record in acknowledged.items():
            newest = {record.row.price_zar, given[listing].row.price_zar}
            assert stored[listing]["price_zar"] in newest
            assert stored[listing]["last_seen"] >= record.read_at
    assert len(acknowledged) > 5 * 5 * 30
    await database.open()
    await write(database, *given.values())
    assert {row["id"] for row in mortal.select("SELECT id FROM cars")} == set(given)
    doubled = "SELECT listing_id FROM price_history GROUP BY listing_id, price_zar HAVING count(*) > 1"
    assert mortal.select(doubled) == []


async def test_a_plain_connection_to_that_server_loses_what_it_acknowledges(mortal: PostgresPlace) -> None:
    """The counterpart: the kill is felt, and it is our connection that waits for the disk."""
    database = await opened(mortal)
    with mortal.server.connect(mortal.name) as plain:
        plain.execute("SET synchronous_commit = on")
        plain.execute("CREATE TABLE theirs (number int)")
        plain.execute("SET synchronous_commit = off")
        walwriter = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"
        wait_until(lambda: mortal.select(walwriter), what="the server's start of it")
        (writer,) = mortal.select(walwriter)
        os.kill(writer["pid"], signal.SIGSTOP)
        await write(database, reading())
        for number in range(100):
            plain.execute("INSERT INTO theirs VALUES (%s)", [number])
        mortal.server.kill()
    mortal.server.start()
    assert len(mortal.select("SELECT number FROM theirs")) < 100
    assert mortal.row("1") is not None


async def test_answers_that_are_cut_off_anywhere_change_nothing_by_a_repetition(
    on_postgres: PostgresPlace,
) -> None:
    """At every answer of the server, and within some; some cuts come before the commit and some after it."""
    before = [reading(listing, price=50) for listing in ("b", "d")]
    batch = [reading("a", 1), reading("b", 1, 60), reading("c", 1), reading("d", 1, 50)]
    async with TcpProxy(on_postgres.server.port) as proxy:
        database = on_postgres.connect(on_postgres.server.dsn(on_postgres.name, port=proxy.port))
        await database.open()
        await write(database, *before)
        started = proxy.answer_bytes
        await write(database, *batch)
        length = proxy.answer_bytes - started
        stored = set()
        for cut in range(0, length, 13):
            run_as(on_postgres, "TRUNCATE cars, specs, price_history")
            await write(database, *before)
            proxy.drop_next_answer(after=cut)
            with pytest.raises(StoreUnavailable):
                await database.upsert(batch)
            proxy.heal()
            await database.open()
            stored.add(len(on_postgres.select("SELECT id FROM cars")))
            await write(database, *batch)
            assert [one.car.id for one in await all_of(database)] == ["a", "b", "c", "d"]
            assert [on_postgres.prices(listing) for listing in "abcd"] == [
                [(when(1), 100)], [(when(0), 50), (when(1), 60)], [(when(1), 100)], [(when(0), 50)],
            ]  # fmt: skip
    assert stored == {2, 4}


async def test_a_server_that_falls_silent_is_given_up(on_postgres: PostgresPlace) -> None:
    async with TcpProxy(on_postgres.server.port) as proxy:
        dsn = on_postgres.server.dsn(on_postgres.name, port=proxy.port)
        database = on_postgres.connect(dsn, timeout=1.0)
        await answered(database.open)
        proxy.black_hole = True
        with pytest.raises(StoreUnavailable, match="no answer within 1 s"):
            await database.upsert([reading()])
        proxy.heal()
        await until_written(database, reading())


async def test_a_caller_that_no_longer_waits_is_let_go_at_once(on_postgres: PostgresPlace) -> None:
    """Though the server is silent; the connection ends with the call, since nobody knows what it has done."""
    async with TcpProxy(on_postgres.server.port) as proxy:
        database = on_postgres.connect(on_postgres.server.dsn(on_postgres.name, port=proxy.port))
        await database.open()
        proxy.black_hole = True
        call = asyncio.create_task(database.upsert([reading()]))
        await asyncio.wait([call], timeout=0.2)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        with pytest.raises(StoreUnavailable, match="not connected"):
            await database.upsert([reading()])
        proxy.heal()
        await database.open()
        await write(database, reading())


async def test_rows_that_somebody_holds_are_waited_for_until_the_time_is_over(
    on_postgres: PostgresPlace,
) -> None:
    database = on_postgres.connect(timeout=1.0)
    await until_written(database, reading())
    with on_postgres.server.connect(on_postgres.name) as other, other.transaction():
        other.execute("SELECT * FROM cars FOR UPDATE")
        with pytest.raises(StoreUnavailable, match=r"statement timeout|no answer within 1 s"):
            await database.upsert([reading(minute=1)])
    await until_written(database, reading(minute=1))
    row = on_postgres.row("1")
    assert row is not None
    assert row["last_seen"] == when(1)


# Several workers.


async def quarrel(place: PostgresPlace, turns: int) -> None:
    """Two clients write the same new and changed listings at once, each in an order of its own."""
    first, second = await opened(place), await opened(place)
    chance = random.Random(1)
    for turn in range(turns):
        ids = [f"{turn // 2}-{number}" for number in range(300)]
        one = [reading(listing, turn, 100 + turn) for listing in ids]
        other = [reading(listing, turn, 100 + turn - chance.randint(0, 1)) for listing in reversed(ids)]
        await asyncio.gather(write(first, *one), write(second, *other))


async def test_two_clients_never_wait_for_each_other_in_a_circle(on_postgres: PostgresPlace) -> None:
    """A deadlock would be raised; and each price has one row, whoever was first."""
    await quarrel(on_postgres, 20)
    rows = on_postgres.select(
        "SELECT listing_id, array_agg(price_zar ORDER BY seen_at) AS prices FROM price_history GROUP BY 1"
    )
    assert len(rows) == 3000
    assert all(len(row["prices"]) <= 2 for row in rows)
    assert len(await all_of(await opened(on_postgres))) == 3000


async def test_without_an_order_they_would(
    on_postgres: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counterpart: the clients are truly at it at the same time."""
    run_as(on_postgres, f"ALTER DATABASE {on_postgres.name} SET deadlock_timeout = '20ms'")
    monkeypatch.setattr(module, "WRITE", WRITE.replace(b"ORDER BY id\n", b""))
    monkeypatch.setattr(
        module,
        "rounds",
        lambda records, problem, refused: [[Reading(one.id, one.read_at, one) for one in records]],
    )
    with pytest.raises(StoreUnavailable, match="deadlock"):
        await quarrel(on_postgres, 200)


def test_it_runs_on_uvloop_as_on_asyncio(on_postgres: PostgresPlace) -> None:
    async def play() -> list[StoredCar]:
        database = await opened(on_postgres)
        await write(database, *(reading(str(number)) for number in range(600)))
        await write(database, *(reading(str(number), 1) for number in range(600)))
        assert len(await database.upsert([reading("bad", colour="\0"), reading("good")])) == 1
        try:
            return await all_of(database)
        finally:
            await on_postgres.leave()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert len(runner.run(play())) == 601
