"""What the MongoDB store does beyond the contract: servers that fail, refuse, or are changed by others meanwhile."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bson
import orjson
import pymongo
import pytest
import uvloop
from bson.raw_bson import RawBSONDocument
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from dns.resolver import NXDOMAIN, LifetimeTimeout
from pymongo import WriteConcern, errors
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from carscraper.exceptions import StoreRefused, StoreUnavailable
from carscraper.items import Specification
from carscraper.stores.contract import StoredCar
from carscraper.stores.mongo import database as module
from carscraper.stores.mongo.address import durable
from carscraper.stores.mongo.database import MongoDatabase
from carscraper.stores.mongo.documents import DEEPEST, LARGEST
from carscraper.stores.mongo.faults import REFUSED, UNAVAILABLE, failure, kind_of
from carscraper.stores.record import Record
from scrapy_durable.exceptions import ConfigurationError
from tests.mongo_server import MongoServer
from tests.stores.conftest import MongoPlace, OwnServers
from tests.stores.test_contract import all_of, car, only, opened, reading, text, when, write
from tests.tcp_proxy import TcpProxy
from tests.timeout import answered

# The driver drops a socket that is about to be connected when it is told to stop.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(autouse=True)
def _dropped_within_the_test() -> Iterator[None]:
    yield
    gc.collect()


def cars_in(place: MongoPlace) -> dict[str, dict[str, Any]]:
    """All documents, by listing."""
    with place.server.client() as client:
        return {document["_id"]: document for document in client[place.name].cars.find()}


# The address.

SECRETS = ("s3cret", "S3cret", "h@lf", "h%40lf", "key-word")


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("", "not an address"),
        ("localhost:27017", "not an address"),
        ("http://alice:s3cret@h/", "not an address"),
        ("mongodb//u:s3cret@h/", "not an address"),
        ("mongodb://alice:s3cret", "Port contains"),
        ("mongodb://alice:s3cret@", "Empty host"),
        ("mongodb://alice:s3cret@h1:x/", "Port"),
        ("mongodb://alice:h@lf@host1/", "must be escaped"),
        ("mongodb://alice:s3cret/S3cret@host1/", "not an address"),
        ("mongodb://alice:s3cret?S3cret=h@host1/", "not an address"),
        ("mongodb://alice:s3cret@/tmp/mongodb-27017.sock/", "not an address"),
        ("mongodb://alice:s3cret@host1/a.collection", "not an address"),
        ("mongodb://alice:s3cret@host1/a b", "not an address"),
        ("mongodb+srv://alice:s3cret@host1:27017/", "must not include a port"),
        ("mongodb://alice:s3cret@host1/?tlz=s3cret", "'tlz'"),
        ("mongodb://alice:s3cret@host1/?tls=s3cret", "'tls'"),
        ("mongodb://alice:s3cret@host1/?w=1&readPreference=s3cret", "'readPreference'"),
        ("mongodb://alice:s3cret@host1/?tlsCAFile=/s3cret/no", "'tlsCAFile'"),
        ("mongodb://host1/?tlsCertificateKeyFilePassword=key-word&tlsCertificateKeyFile=/no", "KeyFile'"),
        ("mongodb://alice:s3cret@host1/?ssl=true&tls=false", "ssl and tls"),
    ],
)
def test_a_wrong_address_is_refused_without_being_repeated(uri: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        MongoDatabase.from_address(uri)
    message = str(caught.value)
    assert message.startswith("MONGO_URI: ")
    assert told in message
    assert "\n" not in message
    assert not [secret for secret in SECRETS if secret in message]
    assert caught.value.__suppress_context__  # a traceback does not repeat it either


@pytest.mark.parametrize(
    ("uri", "target"),
    [
        ("mongodb://127.0.0.1:27017/cars", "127.0.0.1:27017/cars"),
        ("mongodb://Host", "host:27017/cars"),
        ("mongodb://alice:s3cret@host/?authSource=admin", "host:27017/cars"),
        ("mongodb://alice:h%40lf@a:1,b/other", "a:1,b:27017/other"),
        ("mongodb://[::1]:27018/", "[::1]:27018/cars"),
        ("mongodb+srv://alice:s3cret@Cluster0.example.net/x?w=1", "cluster0.example.net/x"),
    ],
)
def test_where_records_go_is_told_without_user_and_password(uri: str, target: str) -> None:
    assert MongoDatabase.from_address(uri).target == target


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (WriteConcern(), "majority"),
        (WriteConcern(w=0), "majority"),
        (WriteConcern(w=1, j=False), "majority"),
        (WriteConcern(w=3), "majority"),
        (WriteConcern(w=4), 4),
        (WriteConcern(w=7), 7),
        (WriteConcern(w="everywhere"), "everywhere"),
    ],
)
def test_writes_are_in_the_journals_of_a_majority_at_least(asked: WriteConcern, given: str | int) -> None:
    assert durable(asked) == WriteConcern(w=given, j=True)


def test_how_long_to_wait_for_the_others_is_the_operators_choice() -> None:
    assert durable(WriteConcern(w=1, wtimeout=500)) == WriteConcern(w="majority", j=True, wtimeout=500)


# Opening.


async def test_nobody_listens_and_then_somebody_does(own_servers: OwnServers) -> None:
    place = own_servers.start()
    place.server.kill()
    database = place.connect(place.uri("&serverSelectionTimeoutMS=200"))
    with pytest.raises(StoreUnavailable, match=r"refused|failed"):
        await once_asked(database.open)
    place.server.start()
    await answered(database.open)
    await until_written(database, [reading()])


async def once_asked(call: Callable[[], Awaitable[object]]) -> None:
    """Make a call again for as long as the driver has had no time to ask the server."""
    while True:
        try:
            await call()
        except StoreUnavailable as error:
            if "No servers found yet" not in str(error):
                raise
        else:
            return


@pytest.fixture(scope="module")
def guarded() -> Iterator[MongoServer]:
    """A server that asks for passwords, and who may do what in the database `cars` of it."""

    def may(collection: str, *actions: str) -> dict[str, Any]:
        return {"resource": {"db": "cars", "collection": collection}, "actions": list(actions)}

    meta = [may("cars_meta", "find", "insert", "update"), may("", "createCollection", "listCollections")]
    roles = {
        "inserter": [*meta, may("cars", "find", "insert")],
        "updater": [*meta, may("cars", "find", "update")],
        "carrier": [
            may("cars", "find", "insert", "update"),
            may("cars_meta", "find"),
            may("price_history", "find"),
        ],
    }
    with MongoServer(passwords=True) as server:
        with server.client() as client:
            for name, privileges in roles.items():
                client.admin.command("createRole", name, privileges=privileges, roles=[])
                server.add_user(name, "s3cret", {"role": name, "db": "admin"})
        server.add_user("writer", "s3cret", {"role": "readWrite", "db": "cars"})
        server.add_user("reader", "s3cret", {"role": "read", "db": "cars"})
        server.add_user("stranger", "s3cret", {"role": "readWrite", "db": "other"})
        yield server


async def refusal(uri: str) -> str:
    """What opening is refused with."""
    database = MongoDatabase.from_address(uri)
    try:
        with pytest.raises(StoreRefused) as caught:
            await once_asked(database.open)
    finally:
        await database.close()
    message = str(caught.value)
    assert "s3cret" not in message
    assert "\n" not in message
    return message


@pytest.mark.parametrize("user", ["writer:wr0ng", "nobody:s3cret"])
async def test_a_wrong_password_is_told_every_time(guarded: MongoServer, user: str) -> None:
    uri = f"{guarded.uri('cars', user)}&serverSelectionTimeoutMS=500"
    database = MongoDatabase.from_address(uri)
    for _ in range(3):
        with pytest.raises(StoreRefused, match=r"/cars: Authentication failed\.$"):
            await once_asked(database.open)
    await database.close()


@pytest.mark.parametrize(
    "user", ["", "reader:s3cret@", "inserter:s3cret@", "updater:s3cret@", "stranger:s3cret@"]
)
async def test_who_may_not_write_is_told_so_before_anything_is_written(
    guarded: MongoServer, user: str
) -> None:
    message = await refusal(guarded.uri("cars", user.rstrip("@")))
    assert "not authorized on cars" in message or "requires authentication" in message
    with guarded.client() as client:
        assert "cars" not in client.list_database_names()


async def test_no_more_rights_are_needed_than_to_read_and_write(guarded: MongoServer) -> None:
    first = MongoDatabase.from_address(guarded.uri("cars", "writer:s3cret"))
    await first.open()
    await write(first, reading())
    await first.close()
    # And when all is there, only to read on other collections.
    second = MongoDatabase.from_address(guarded.uri("cars", "carrier:s3cret"))
    await second.open()
    await write(second, reading(minute=1, price=1))
    assert await second.mark_removed([], text(2), text(3)) == 1
    assert (await only(second)).removed_at == when(3)
    await second.close()
    with guarded.client() as client:
        client.drop_database("cars")


async def test_a_password_that_is_changed_meanwhile_is_told(guarded: MongoServer) -> None:
    guarded.add_user("fickle", "s3cret", {"role": "readWrite", "db": "fickle"})
    database = MongoDatabase.from_address(
        f"{guarded.uri('fickle', 'fickle:s3cret')}&serverSelectionTimeoutMS=500"
    )
    await answered(database.open)
    with guarded.client() as client:
        durably = {"w": "majority", "j": True}
        client.admin.command("updateUser", "fickle", pwd="other", writeConcern=durably)
    guarded.kill()
    guarded.start()
    with pytest.raises((StoreRefused, StoreUnavailable)):  # the connection that is cut may be noticed first
        await database.upsert([reading()])
    with pytest.raises(StoreRefused, match="Authentication failed"):
        await answered(lambda: database.upsert([reading()]))
    await database.close()


async def test_a_layout_of_an_earlier_version_is_brought_up_to_date_once(
    on_either: MongoPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(await opened(on_either), reading("1"), reading("2"))
    done = []

    async def mark_all(database: AsyncDatabase[Any]) -> None:
        done.append(database.name)
        await database.cars.update_many({}, {"$set": {"marked": True}})

    monkeypatch.setattr(module, "STEPS", (*module.STEPS, mark_all))
    for _ in range(2):
        await opened(on_either)
    assert done == [on_either.name]
    with on_either.server.client() as client:
        assert client[on_either.name].cars_meta.find_one({"_id": "schema"}) == {"_id": "schema", "version": 2}
        assert [row["marked"] for row in client[on_either.name].cars.find()] == [True, True]
    monkeypatch.undo()
    assert "its layout is version 2, and this release knows 1" in await refusal(on_either.uri())


async def test_a_layout_of_a_later_version_is_left_alone(on_either: MongoPlace) -> None:
    with on_either.server.client() as client:
        client[on_either.name].cars_meta.insert_one({"_id": "schema", "version": 2})
    assert "its layout is version 2, and this release knows 1" in await refusal(on_either.uri())
    with on_either.server.client() as client:
        assert client[on_either.name].list_collection_names() == ["cars_meta"]


async def test_a_collection_of_somebody_else_is_left_alone(on_mongo: MongoPlace) -> None:
    with on_mongo.server.client() as client:
        client[on_mongo.name].cars.insert_one({"make": "Audi"})
    assert "cars already, and it is not ours" in await refusal(on_mongo.uri())
    with on_mongo.server.client() as client:
        assert client[on_mongo.name].list_collection_names() == ["cars"]


@pytest.mark.parametrize(
    ("name", "told"),
    [("n" * 70, "Invalid database name"), ("", "different case")],
    ids=["too long", "only its case differs"],
)
async def test_a_database_that_cannot_be_is_refused(on_mongo: MongoPlace, name: str, told: str) -> None:
    await opened(on_mongo)
    assert told in await refusal(on_mongo.server.uri(name or on_mongo.name.upper()))


async def test_what_is_no_records_fault_is_not_laid_on_it(on_mongo: MongoPlace) -> None:
    await opened(on_mongo)
    with pytest.raises(StoreRefused, match="different case"):
        await on_mongo.connect(on_mongo.server.uri(on_mongo.name.upper())).upsert([reading()])


async def test_a_view_in_place_of_the_collection_is_refused(on_mongo: MongoPlace) -> None:
    with on_mongo.server.client() as client:
        client[on_mongo.name].create_collection("cars", viewOn="others", pipeline=[])
    assert "is a view" in await refusal(on_mongo.uri())


async def test_a_set_without_the_name_that_is_asked_for_is_refused(on_set: MongoPlace) -> None:
    assert "'everywhere'" in await refusal(on_set.uri("&w=everywhere"))


async def test_a_set_with_too_few_servers_is_waited_for(on_set: MongoPlace) -> None:
    with pytest.raises(StoreUnavailable, match="Not enough data-bearing nodes"):
        await on_set.connect(on_set.uri("&w=5")).open()


def certificate(path: Path) -> Path:
    """A key and a certificate for 127.0.0.1, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    formats = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(key.private_bytes(*formats) + signed.public_bytes(serialization.Encoding.PEM))
    return path


async def test_only_a_certificate_that_is_trusted_is_taken(tmp_path: Path, own_servers: OwnServers) -> None:
    own, other = certificate(tmp_path / "own.pem"), certificate(tmp_path / "other.pem")
    place = own_servers.start(options=("--tlsMode", "preferTLS", "--tlsCertificateKeyFile", str(own)))
    await place.connect(place.uri(f"&tls=true&tlsCAFile={own}")).open()
    told = await refusal(place.uri(f"&tls=true&tlsCAFile={other}&serverSelectionTimeoutMS=500"))
    assert "certificate verify failed" in told


# Documents.


async def test_what_a_document_looks_like(on_mongo: MongoPlace) -> None:
    database = await opened(on_mongo)
    await write(database, reading("1"), reading("2", price=None))
    await write(database, reading("1", 1, 90))
    await database.mark_removed(["2"], text(2), text(3))
    record = reading("1", 1, 90)
    assert cars_in(on_mongo)["1"] == {
        "_id": "1",
        "url": "https://h/1/",
        "scraped_at": when(1),
        "car_attrs": record.car.car_attrs,
        "car_specs": record.car.car_specs,
        "price_zar": 90,
        "digest": record.digest,
        "first_seen": when(0),
        "last_seen": when(1),
        "removed_at": when(3),
        "prices": [{"seen_at": when(0), "price_zar": 100}, {"seen_at": when(1), "price_zar": 90}],
    }
    assert list(cars_in(on_mongo)["1"]) == list(cars_in(on_mongo)["2"])
    with on_mongo.server.client() as client:
        assert list(client[on_mongo.name].price_history.find({"listing_id": "1"}).sort("seen_at")) == [
            {"listing_id": "1", "seen_at": when(0), "price_zar": 100},
            {"listing_id": "1", "seen_at": when(1), "price_zar": 90},
        ]


OPERATORS: dict[str, Any] = {
    "$set": 1,
    "$literal": {"$add": [1, 2]},
    "$$ROOT": "$$ROOT",
    "$unset": ["price"],
    "a.b": {"c.$d": "$price"},
    "": {"": "$url"},
    "$ref": "cars",
    "list": [{"$cond": [True, "$a", "$b"]}, "$$REMOVE"],
}


@pytest.mark.parametrize("known", [False, True], ids=["inserted", "merged"])
async def test_what_looks_like_operators_is_stored_as_it_is(on_either: MongoPlace, known: bool) -> None:
    database = await opened(on_either)
    if known:
        await write(database, reading())
    record = reading(minute=1, **OPERATORS)
    await write(database, record)
    assert (await only(database)).car == record.car
    assert cars_in(on_either)["1"]["car_attrs"] == record.car.car_attrs


async def test_it_runs_on_the_loop_that_crawls_run_on(on_mongo: MongoPlace) -> None:
    async def crawl() -> StoredCar:
        database = await opened(on_mongo)
        await write(database, reading(), reading("2"))
        await database.mark_removed(["1"], text(1), text(2))
        found = await all_of(database)
        await on_mongo.leave()
        return found[1]

    def run() -> StoredCar:
        return uvloop.run(crawl())

    assert (await asyncio.to_thread(run)).removed_at == when(2)


# Poison: found before it is sent.


def nested(levels: int, kind: str) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if kind == "list" else {"a": value}
    return value


def record_of(**changes: Any) -> Record:
    """A record with parts that a `Draft` would not have let through."""
    return replace(reading("poison", 1), digest=b"poison", **changes)


def large(size: int, listing: str = "poison", minute: float = 1) -> Record:
    """A record whose new document has that many bytes."""
    body = {
        "_id": listing, "url": "", "scraped_at": when(0), "car_attrs": {"text": ""}, "car_specs": [],
        "price_zar": None, "digest": bytes(16), "first_seen": when(0), "last_seen": when(0),
        "removed_at": None, "prices": [],
    }  # fmt: skip
    blank = size - len(bson.encode(body))
    record = reading(listing, minute, None)
    attrs = orjson.dumps({"text": "x" * blank})
    return replace(
        record, url="", attrs_json=attrs, specs=Specification([]), digest=bytes([int(minute)] * 16)
    )


POISON = {
    "integer": (reading("poison", 1, big=2**63), "8-byte ints"),
    "surrogate in the url": (record_of(url="\ud800"), "surrogates not allowed"),
    "surrogate in the id": (record_of(id="\ud800"), "surrogates not allowed"),
    "JSON that is none": (record_of(attrs_json=b"{"), "unexpected end of data"),
    "name with NUL": (reading("poison", 1, **{"a\0b": 1}), "NULL byte"),
    "nesting of objects": (reading("poison", 1, a=nested(DEEPEST - 1, "dict")), "deeper than 180"),
    "nesting of lists": (reading("poison", 1, a=nested(200, "list")), "deeper than 180"),
    "reference": (reading("poison", 1, a={"$ref": "cars", "$id": 5, "x": 1}), "a reference"),
    "reference in a specification": (
        record_of(specs=Specification([{"title": {"$ref": "cars", "$id": 5}}])),
        "a reference",
    ),
    "reference in a list": (reading("poison", 1, a=[{"$ref": "c", "$id": 1, "$db": "d"}]), "a reference"),
    "long id": (reading("p" * 1025, 1), "longer than 1024"),
    "no time": (record_of(scraped_at=""), "isoformat"),
    "no time zone": (record_of(scraped_at="2026-11-21T10:00:00"), "no time zone"),
}


@pytest.mark.parametrize("known", [False, True], ids=["inserted", "merged"])
@pytest.mark.parametrize("kind", list(POISON))
async def test_what_cannot_be_stored_is_refused_alone(on_mongo: MongoPlace, kind: str, known: bool) -> None:
    poison, told = POISON[kind]
    database = await opened(on_mongo)
    neighbours = [reading(str(number), 1, number) for number in range(4)]
    if known:
        before = [reading(str(number)) for number in range(4)]
        await write(database, *before, *([reading("poison")] if poison.id == "poison" else []))
    (refused,) = await database.upsert([*neighbours[:2], poison, *neighbours[2:]])
    assert (refused.id, refused.url) == (poison.id, poison.url)
    assert told in refused.problem
    assert len(refused.problem) <= 300
    assert "\n" not in refused.problem
    found = {stored.car.id: stored.car for stored in await all_of(database)}
    if known and poison.id == "poison":
        assert found.pop("poison") == car("poison")
    assert found == {record.car.id: record.car for record in neighbours}


@pytest.mark.parametrize("known", [False, True], ids=["inserted", "merged"])
@pytest.mark.parametrize("kind", ["dict", "list"])
async def test_the_deepest_that_a_server_stores_is_stored(
    on_either: MongoPlace, kind: str, known: bool
) -> None:
    database = await opened(on_either)
    if known:
        await write(database, reading())
    # The document is one level, car_attrs another.
    deep = reading(minute=1, a=nested(DEEPEST - 2, kind))
    await write(database, deep, reading("2"))
    assert [stored.car for stored in await all_of(database)] == [deep.car, car("2")]


def test_one_document_that_is_too_deep_has_the_server_refuse_its_neighbours_too(on_mongo: MongoPlace) -> None:
    deep = RawBSONDocument(bson.encode({"_id": "deep", "a": nested(200, "dict")}))
    with on_mongo.server.client() as client:
        cars = client[on_mongo.name].cars
        merged = [{"$replaceWith": {"$literal": deep}}]
        writes = [
            pymongo.UpdateOne({"_id": "neighbour"}, {"$set": {"a": 1}}, upsert=True),
            pymongo.UpdateOne({"_id": "deep"}, merged, upsert=True),
        ]
        with pytest.raises(errors.OperationFailure, match="maximum nested object depth"):
            cars.bulk_write(writes, ordered=False)
        assert cars.count_documents({}) == 0


async def test_the_largest_is_stored_and_changed(on_either: MongoPlace) -> None:
    database = await opened(on_either)
    await write(database, large(LARGEST), reading("1"))
    await write(database, large(LARGEST, minute=2), reading("1", 2, 7))
    assert [stored.last_seen for stored in await all_of(database)] == [when(2), when(2)]
    assert len(bson.encode(cars_in(on_either)["poison"])) == LARGEST
    (refused,) = await database.upsert([large(LARGEST + 1, minute=3), reading("1", 3)])
    assert "are more than" in refused.problem
    assert [stored.last_seen for stored in await all_of(database)] == [when(3), when(2)]


# Poison: found by the server.


async def test_what_the_collections_own_rules_refuse_stays_out_alone(on_either: MongoPlace) -> None:
    database = await opened(on_either)
    await write(database, reading("old", price=5))
    with on_either.server.client() as client:
        rule = {"car_attrs.price": {"$gte": 50}}
        client[on_either.name].command("collMod", "cars", validator=rule)
    records = [reading("1"), reading("2", price=3), reading("old", 1, 5), reading("old2", 1, 500)]
    refused = await database.upsert(records)
    assert sorted((one.id, one.problem) for one in refused) == [
        ("2", "Document failed validation"),
        ("old", "Document failed validation"),
    ]
    assert sorted(cars_in(on_either)) == ["1", "old", "old2"]
    refused = await database.upsert([reading("1", 2, 4), reading("old2", 2, 600)])
    assert [one.id for one in refused] == ["1"]
    assert cars_in(on_either)["old2"]["price_zar"] == 600


async def test_a_value_that_a_unique_index_has_already_stays_out_alone(on_mongo: MongoPlace) -> None:
    database = await opened(on_mongo)
    with on_mongo.server.client() as client:
        client[on_mongo.name].cars.create_index("car_attrs.reference", unique=True)
    (refused,) = await database.upsert([reading("1", reference="x"), reading("2", reference="x")])
    assert "duplicate key" in refused.problem
    assert len(cars_in(on_mongo)) == 1


# Errors.


def test_no_code_is_of_two_kinds() -> None:
    assert not set(UNAVAILABLE) & set(REFUSED)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(code, StoreUnavailable) for code in (91, 10107, 14031)]
    + [(code, StoreRefused) for code in (13, 8000)]
    + [(code, None) for code in (2, 9, 15, 52, 121, 10334, 11000, 17280, 17419, 17420, None)],
)  # fmt: skip
def test_a_failed_write_speaks_for_the_others_or_for_itself(code: int | None, kind: type | None) -> None:
    assert kind_of(code) is kind


def of_names(cause: Exception) -> errors.ConfigurationError:
    error = errors.ConfigurationError(str(cause))
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.AutoReconnect("connection closed"), StoreUnavailable),
        (errors.NetworkTimeout("timed out"), StoreUnavailable),
        (errors.NotPrimaryError("not primary"), StoreUnavailable),
        (errors.WaitQueueTimeoutError("no connection in time"), StoreUnavailable),
        (errors.ServerSelectionTimeoutError("No servers found yet"), StoreUnavailable),
        (errors.ServerSelectionTimeoutError("[SSL] certificate verify failed: expired"), StoreRefused),
        (errors.ExecutionTimeout("too long", 50), StoreUnavailable),
        (errors.CursorNotFound("gone", 43), StoreUnavailable),
        (errors.WriteConcernError("waiting for replication timed out", 64), StoreUnavailable),
        (errors.WriteConcernError("of a kind that nobody knows", 4242), StoreUnavailable),
        (errors.WriteConcernError("no mode named so", 79), StoreRefused),
        (errors.OperationFailure("no", 4242, {"errorLabels": ["RetryableWriteError"]}), StoreUnavailable),
        (errors.OperationFailure("no", 4242), StoreRefused),
        (errors.OperationFailure("no"), StoreRefused),
        (errors.OperationFailure("Authentication failed.", 18), StoreRefused),
        (errors.ConfigurationError("this server is too old"), StoreRefused),
        (of_names(NXDOMAIN()), StoreRefused),
        (of_names(LifetimeTimeout(timeout=5, errors=[])), StoreUnavailable),
        (errors.ProtocolError("not MongoDB"), StoreUnavailable),
    ],
)  # fmt: skip
def test_a_failed_call_is_worth_another_try_or_is_not(error: errors.PyMongoError, kind: type) -> None:
    assert failure(error) is kind


FAILURES: dict[str, tuple[type, dict[str, Any]]] = {
    **{
        f"error {code}": (StoreUnavailable, {"errorCode": code}) for code in (6, 50, 91, 112, 189, 262, 10107)
    },
    **{f"error {code}": (StoreUnavailable, {"errorCode": code}) for code in (11600, 11601, 11602, 14031)},
    **{f"error {code}": (StoreRefused, {"errorCode": code}) for code in (13, 18, 8000)},
    **{
        f"write concern {code}": (StoreUnavailable, {"writeConcernError": {"code": code, "errmsg": "a\nb"}})
        for code in (64, 91, 100, 4242)
    },
    "write concern 79": (StoreRefused, {"writeConcernError": {"code": 79, "errmsg": "no such name"}}),
    "connection": (StoreUnavailable, {"closeConnection": True}),
}


@pytest.mark.parametrize("how", list(FAILURES))
async def test_a_write_that_the_server_fails_may_be_made_again(on_either: MongoPlace, how: str) -> None:
    kind, point = FAILURES[how]
    database = await opened(on_either)
    await write(database, reading("same"), reading("changed"))
    records = [reading("same", 1), reading("changed", 1, 90), reading("new", 1)]
    with on_either.server.failing("insert", "update", **point), pytest.raises(kind) as caught:
        await database.upsert(records)
    assert "\n" not in str(caught.value)
    await write(database, *records)
    await write(database, *records)
    assert [(stored.car.id, stored.first_seen, stored.last_seen) for stored in await all_of(database)] == [
        ("changed", when(0), when(1)), ("new", when(1), when(1)), ("same", when(0), when(1)),
    ]  # fmt: skip
    assert on_either.prices("changed") == [(when(0), 100), (when(1), 90)]
    assert on_either.prices("new") == [(when(1), 100)]


async def test_a_set_makes_good_for_one_failure_by_itself(on_set: MongoPlace) -> None:
    database = await opened(on_set)
    once = {"mode": {"times": 1}, "errorCode": 11600, "errorLabels": ["RetryableWriteError"]}
    with on_set.server.failing("insert", **once):
        await write(database, reading())
    assert on_set.prices("1") == [(when(0), 100)]


@pytest.mark.parametrize("command", ["find", "update"])
async def test_a_removal_that_the_server_fails_may_be_made_again(on_either: MongoPlace, command: str) -> None:
    database = await opened(on_either)
    await write(database, reading("1"), reading("2"))
    with on_either.server.failing(command, errorCode=11600), pytest.raises(StoreUnavailable):
        await database.mark_removed(["1"], text(1), text(2))
    assert await database.mark_removed(["1"], text(1), text(2)) == 1


async def test_reading_all_tells_when_the_server_fails(on_either: MongoPlace) -> None:
    database = await opened(on_either)
    await write(database, *(reading(str(number)) for number in range(700)))
    found = database.cars()
    got = [await anext(found) for _ in range(300)]
    with on_either.server.failing("find", errorCode=11600), pytest.raises(StoreUnavailable):
        await anext(found)
    assert len(got) == 300
    assert len(await all_of(database)) == 700


# Others change the same listings at the same moment: between the look of one worker and its write.


class Meanwhile(CommandListener):
    """Does something once, right before the client sends a command of that name; the client waits for it."""

    def __init__(self, command: str, act: Callable[[], object]) -> None:
        self._command = command
        self._act: Callable[[], object] | None = act

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name == self._command and self._act is not None:
            act, self._act = self._act, None
            act()

    def succeeded(self, event: CommandSucceededEvent) -> None:
        pass

    def failed(self, event: CommandFailedEvent) -> None:
        pass


async def overtaken(
    place: MongoPlace, command: str, others: Callable[[MongoDatabase], Coroutine[Any, Any, object]]
) -> MongoDatabase:
    """A connection that another worker overtakes, when it is about to send the next command of that name."""

    async def work() -> None:
        database = MongoDatabase.from_address(place.uri())
        try:
            await others(database)
        finally:
            await database.close()

    def act() -> None:
        with ThreadPoolExecutor(1) as thread:  # on a loop of its own
            thread.submit(asyncio.run, work()).result()

    await opened(place)
    return place.connect(None, Meanwhile(command, act))


async def test_a_listing_that_changes_under_a_touch_is_merged(on_either: MongoPlace) -> None:
    async def others(database: MongoDatabase) -> None:
        await write(database, reading("1", 2, 90), reading("2", 4, 80))

    database = await overtaken(on_either, "update", others)
    await write(database, *(reading(listing) for listing in "123"))
    await write(database, *(reading(listing, 3) for listing in "123"))
    ends = [(stored.car.car_attrs["price"], stored.last_seen) for stored in await all_of(database)]
    assert ends == [(100, when(3)), (80, when(4)), (100, when(3))]
    assert on_either.prices("1") == [(when(0), 100), (when(2), 90), (when(3), 100)]


async def test_a_listing_that_changes_under_a_merge_is_merged_with_that(on_either: MongoPlace) -> None:
    async def others(database: MongoDatabase) -> None:
        await write(database, reading("1", 2, 80), reading("2", 4, 80), reading("3", 3, 90))

    database = await overtaken(on_either, "update", others)
    await write(database, *(reading(listing) for listing in "123"))
    await write(database, *(reading(listing, 3, 90) for listing in "123"))
    assert on_either.prices("1") == [(when(0), 100), (when(2), 80), (when(3), 90)]
    assert on_either.prices("2") == [(when(0), 100), (when(4), 80)]
    assert on_either.prices("3") == [(when(0), 100), (when(3), 90)]


async def test_a_listing_that_two_insert_at_once_is_merged(on_either: MongoPlace) -> None:
    async def others(database: MongoDatabase) -> None:
        await write(database, reading("1", 2, 200), reading("2", 4, 400), reading("3", 3, 300))

    database = await overtaken(on_either, "insert", others)
    await write(database, *(reading(listing, 3, 300) for listing in "1234"))
    assert [
        (stored.car.car_attrs["price"], stored.first_seen, stored.last_seen)
        for stored in await all_of(database)
    ] == [(300, when(2), when(3)), (400, when(3), when(4)), (300, when(3), when(3)), (300, when(3), when(3))]


@pytest.mark.parametrize("minute", [0, 1], ids=["touched", "merged"])
async def test_a_listing_that_is_deleted_meanwhile_is_there_as_if_it_were_new(
    on_either: MongoPlace, minute: int
) -> None:
    async def others(_: MongoDatabase) -> None:
        with on_either.server.client() as client:
            client[on_either.name].cars.delete_many({})

    database = await overtaken(on_either, "update", others)
    records = [reading("1", minute, 100, turn=minute), reading("2", minute, None, turn=minute)]
    await write(
        database, *(reading(listing, 0, price, turn=0) for listing, price in (("1", 100), ("2", None)))
    )
    await write(database, *records)
    overtaken_by = cars_in(on_either)
    await others(database)
    await write(database, *records)
    assert overtaken_by == cars_in(on_either)
    assert len(overtaken_by) == 2


async def test_a_listing_that_is_seen_while_it_is_being_removed_stays(on_either: MongoPlace) -> None:
    async def others(database: MongoDatabase) -> None:
        await write(database, reading("1", 5))
        assert await database.mark_removed(["1", "3"], text(1), text(6)) == 1

    database = await overtaken(on_either, "update", others)
    await write(database, reading("1"), reading("2"), reading("3"))
    assert await database.mark_removed([], text(1), text(9)) == 1
    assert [stored.removed_at for stored in await all_of(database)] == [None, when(6), when(9)]


# The network.


@pytest.mark.parametrize("command", ["insert", "update"])
async def test_an_answer_that_is_lost_after_the_write_leaves_it_written_once(
    on_either: MongoPlace, command: str
) -> None:
    other = await opened(on_either)
    if command == "update":
        await write(other, reading())
    record = reading(minute=1, price=90)
    async with TcpProxy(on_either.server.port) as proxy:
        # No other try by the driver itself.
        database = on_either.connect(on_either.uri("&retryWrites=false", port=proxy.port))
        proxy.drop_answer_to(f"{command}\0".encode())
        with pytest.raises(StoreUnavailable):
            await database.upsert([record])
        written = on_either.row("1")
        assert written is not None
        assert written["last_seen"] == when(1)
        await write(database, record)
        await write(other, record)
        assert on_either.row("1") == written
        await on_either.leave()


async def test_a_server_that_falls_silent_is_given_up_and_found_again(on_mongo: MongoPlace) -> None:
    async with TcpProxy(on_mongo.server.port) as proxy:
        options = "&socketTimeoutMS=300&connectTimeoutMS=300&serverSelectionTimeoutMS=500"
        database = on_mongo.connect(on_mongo.uri(options, port=proxy.port))
        await answered(database.open)
        proxy.black_hole = True
        with pytest.raises(StoreUnavailable):
            await database.upsert([reading()])
        with pytest.raises(StoreUnavailable):
            await database.open()
        proxy.heal()
        proxy.cut()
        await until_written(database, [reading()])
        await on_mongo.leave()


async def until_written(database: MongoDatabase, records: list[Record]) -> None:
    """Write as whoever delivers does: again, for as long as the server does not answer."""
    assert await answered(lambda: database.upsert(records)) == []


@pytest.mark.parametrize("replica_set", [False, True], ids=["standalone", "replica set"])
async def test_what_was_acknowledged_outlives_the_servers_kills(
    own_servers: OwnServers, replica_set: bool
) -> None:
    place = own_servers.start(replica_set=replica_set)
    database = place.connect(place.uri("&serverSelectionTimeoutMS=300"))
    await answered(database.open)
    acknowledged: dict[str, int] = {}
    """The reading of each listing, by its minute, that is known to be stored."""
    stopped = asyncio.Event()

    def read_at(listing: str, minute: int) -> Record:
        return reading(listing, minute, 100 - minute)

    async def deliver(worker: int) -> None:
        for turn in itertools.count():
            ids = [f"{worker}-{turn}-{number}" for number in range(20)]
            for minute in range(2):
                await until_written(database, [read_at(listing, minute) for listing in ids])
                acknowledged.update(dict.fromkeys(ids, minute))
            if stopped.is_set():
                return

    async def lost(expected: dict[str, int]) -> list[str]:
        """Of which listing neither that reading is stored, nor a later one."""
        found = {stored.car.id: stored async for stored in place.connect().cars()}
        return [
            listing
            for listing, least in expected.items()
            if found.get(listing)
            not in [
                StoredCar(read_at(listing, minute).car, when(0), when(minute), None)
                for minute in range(least, 2)
            ]
        ]

    workers = [asyncio.create_task(deliver(worker)) for worker in range(3)]
    for _ in range(3):
        before = len(acknowledged)
        while len(acknowledged) < before + 300:
            await asyncio.sleep(0.01)
        place.server.kill()
        expected = dict(acknowledged)
        await asyncio.to_thread(place.server.start)
        assert await lost(expected) == []
    stopped.set()
    await asyncio.gather(*workers)
    assert await lost(dict.fromkeys(acknowledged, 1)) == []
    assert {len(document["prices"]) for document in cars_in(place).values()} == {2}


async def test_what_is_not_in_the_journal_is_lost(own_servers: OwnServers) -> None:
    place = own_servers.start()
    acknowledged = 0
    for _ in range(10):
        with place.server.client() as client:
            cars = client[place.name].get_collection("cars", write_concern=WriteConcern(w=1, j=False))
            for _ in range(50):
                acknowledged += len(cars.insert_many([{"n": number} for number in range(20)]).inserted_ids)
        place.server.kill()
        place.server.start()
        with place.server.client() as client:
            if client[place.name].cars.count_documents({}) < acknowledged:
                return
    pytest.fail("all of it was there")
