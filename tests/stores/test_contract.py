"""What every database has to do with records, whatever its kind."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from carscraper.export.tables import utc_text
from carscraper.items import Car
from carscraper.stores.contract import Database, StoredCar
from carscraper.stores.mongo import database as mongo
from carscraper.stores.postgres import database as postgres
from carscraper.stores.record import Draft, Record, Records
from tests.stores.conftest import Place

SPECS = [{"title": "Engine", "attrs": [{"label": "Torque Max", "value": "250 Nm"}]}]
_BEGIN = datetime(2026, 11, 21, 10, tzinfo=UTC)
_names = itertools.count()


def when(minute: float) -> datetime:
    return _BEGIN + timedelta(minutes=minute)


def text(minute: float) -> str:
    """That minute as in `Car.scraped_at`."""
    return utc_text(when(minute))


def car(listing: str = "1", minute: float = 0, price: int | None = 100, **attrs: Any) -> Car:
    """A listing as it was read at that minute."""
    attrs = {"title": "2017 Audi A4", "year": 2017, "price": price, **attrs}
    return Car(listing, f"https://h/{listing}/", text(minute), attrs, SPECS)


def reading(listing: str = "1", minute: float = 0, price: int | None = 100, **attrs: Any) -> Record:
    """That car as a record."""
    return Draft(car(listing, minute, price, **attrs), Records()).record


async def opened(place: Place) -> Database:
    database = place.connect()
    await database.open()
    return database


async def all_of(database: Database) -> list[StoredCar]:
    return [stored async for stored in database.cars()]


async def only(database: Database) -> StoredCar:
    (stored,) = await all_of(database)
    return stored


async def write(database: Database, *records: Record) -> None:
    assert await database.upsert(records) == []


# A specification that could not be had.


@pytest.mark.parametrize("minute", [0, 1])
async def test_a_specification_that_could_not_be_had_takes_the_place_of_none(
    place: Place, minute: float
) -> None:
    """Also when it was read in the same millisecond, and whichever comes first."""
    database = await opened(place)
    unknown = Draft(replace(car(minute=minute, price=200), car_specs=None), Records()).record
    await write(database, reading())
    await write(database, unknown)
    found = (await only(database)).car
    assert found.car_specs == SPECS
    assert found.car_attrs["price"] == (200 if minute else 100)
    await write(database, reading(minute=minute + 1, price=300))
    assert (await only(database)).car.car_attrs["price"] == 300


async def test_a_listing_without_its_specification_is_kept_and_gets_it_later(place: Place) -> None:
    database = await opened(place)
    await write(database, Draft(replace(car(), car_specs=None), Records()).record)
    assert (await only(database)).car.car_specs is None
    await write(database, reading())
    assert (await only(database)).car.car_specs == SPECS


# What comes in comes out.

ODD = {
    "empty": "",
    "none": None,
    "flag": True,
    "text": "Ünïcode 🚗 'quoted' \\ \n",
    "float": 0.1,
    "whole_float": 3.5e9,
    "int32": -(2**31),
    "int64": 2**63 - 1,
    "list": [[], {}, [1, "1", None]],
    "object": {"b": {"deep": [{"x": 1}]}, "a": 2},
    "": "no name",
    "dotted.name": 1,
    "$set": {"$price": "$literal"},
    "when": "2026-11-21T10:00:00Z",
}


def test_the_odd_values_are_of_every_kind_that_json_has() -> None:
    assert {type(value) for value in ODD.values()} == {str, type(None), bool, float, int, list, dict}


async def test_a_listing_is_kept_as_it_was_read(place: Place) -> None:
    database = await opened(place)
    record = reading("9966395", 5, **ODD)
    await write(database, record)
    assert await only(database) == StoredCar(record.car, when(5), when(5), None)


async def test_what_comes_out_is_plain_json(place: Place) -> None:
    database = await opened(place)
    record = reading(**ODD)
    await write(database, record)
    stored = (await only(database)).car

    def kinds(value: Any) -> Any:
        if type(value) is dict:
            return {name: kinds(inner) for name, inner in value.items()}
        return [kinds(inner) for inner in value] if type(value) is list else type(value)

    assert kinds(stored.car_attrs) == kinds(record.car.car_attrs)
    assert Draft(stored, Records()).record.row == record.row
    assert orjson.loads(orjson.dumps(stored.car_attrs)) == record.car.car_attrs


async def test_another_connection_finds_it_and_opening_changes_nothing(place: Place) -> None:
    first = await opened(place)
    await write(first, reading())
    before = place.row("1")
    second = await opened(place)
    await second.open()
    assert place.row("1") == before
    assert await all_of(second) == await all_of(first)


async def test_many_may_open_an_empty_database_at_once(place: Place) -> None:
    databases = [place.connect() for _ in range(6)]
    await asyncio.gather(*(database.open() for database in databases))
    for number, database in enumerate(databases):
        await write(database, reading(str(number)))
    assert len(await all_of(databases[0])) == 6


async def test_two_thousand_records_at_once(place: Place) -> None:
    database = await opened(place)
    records = [reading(str(number), price=number) for number in range(2000)]
    await write(database, *records)
    assert {stored.car.id: stored.car for stored in await all_of(database)} == {
        record.car.id: record.car for record in records
    }


async def test_nothing_is_written_for_no_records(place: Place) -> None:
    database = await opened(place)
    assert await database.upsert([]) == []
    assert await all_of(database) == []


async def test_the_listings_come_in_the_order_of_their_ids(place: Place) -> None:
    database = await opened(place)
    ids = [
        "9",
        "10",
        "2",
        "Z",
        "a",
        "A",
        "é",
        "z",
        "b-1",
        "b1",
        *(str(number) for number in range(100, 1300)),
    ]
    await write(database, *(reading(listing) for listing in ids))
    assert [stored.car.id for stored in await all_of(database)] == sorted(ids)


async def test_a_connection_may_be_closed_twice_and_unopened(place: Place) -> None:
    await place.connect().close()
    database = await opened(place)
    await database.close()
    await database.close()


# A record may be delivered any number of times, in any order.


async def test_a_record_that_is_delivered_again_changes_nothing(place: Place) -> None:
    database = await opened(place)
    await write(database, reading())
    before = place.row("1")
    await write(database, reading())
    await write(database, reading(), reading())
    assert place.row("1") == before


async def test_the_same_content_read_later_moves_last_seen_and_nothing_else(place: Place) -> None:
    database = await opened(place)
    await write(database, reading(minute=1))
    before = place.row("1")
    assert before is not None
    await write(database, reading(minute=2))
    after = place.row("1")
    assert after is not None
    assert {name for name in after if after[name] != before[name]} == {"last_seen"}
    assert after["last_seen"] == when(2)


async def test_other_content_read_later_takes_the_place_of_the_earlier(place: Place) -> None:
    database = await opened(place)
    await write(database, reading(minute=1, colour="Red", gone="x"))
    later = reading(minute=2, colour="Blue", new="y")
    await write(database, later)
    assert await only(database) == StoredCar(later.car, when(1), when(2), None)


@pytest.mark.parametrize("in_one_call", [True, False])
async def test_of_two_readings_in_one_millisecond_the_greater_digest_wins_whichever_comes_last(
    place: Place, in_one_call: bool
) -> None:
    database = await opened(place)
    lesser, greater = sorted((reading(price=100), reading(price=90)), key=lambda record: record.digest)
    before, later = (reading(minute=minute, price=100) for minute in (-1, 1))
    orders = (
        [before, lesser, greater],
        [before, greater, lesser],
        [lesser, before, greater, lesser, greater],
    )
    for number, order in enumerate(orders):
        listing = str(number)
        records = [made_for(listing, record) for record in order]
        for batch in [records] if in_one_call else [[record] for record in records]:
            await write(database, *batch)
        (stored,) = [one for one in await all_of(database) if one.car.id == listing]
        assert stored == StoredCar(made_for(listing, greater).car, when(-1), when(0), None)
    assert place.prices("0") == place.prices("1") == history(100, greater)
    await write(database, made_for("0", later))
    assert place.prices("0") == [
        *history(100, greater),
        *([(when(1), 100)] if price_of(greater) == 90 else []),
    ]


def made_for(listing: str, record: Record) -> Record:
    """The same reading, of another listing."""
    return Draft(replace(record.car, id=listing), Records()).record


def price_of(record: Record) -> int | None:
    return record.row.price_zar


def history(first: int, then: Record) -> list[tuple[datetime, int | None]]:
    """The prices of a listing read at minute -1 and at minute 0."""
    return [(when(-1), first), *([(when(0), price_of(then))] if price_of(then) != first else [])]


async def test_a_time_keeps_its_milliseconds(place: Place) -> None:
    database = await opened(place)
    record = reading(minute=0.00205)
    assert record.car.scraped_at == "2026-11-21T10:00:00.123Z"
    await write(database, record)
    stored = await only(database)
    assert stored.car == record.car
    assert stored.first_seen == stored.last_seen == record.read_at
    later = reading(minute=0.00207, colour="Red")
    assert later.car.scraped_at == "2026-11-21T10:00:00.124Z"
    await write(database, record, later, record)
    assert (await only(database)).car == later.car


async def test_a_car_without_an_address_has_none(place: Place) -> None:
    database = await opened(place)
    record = Draft(replace(car(), url=""), Records()).record
    await write(database, record)
    assert (await only(database)).car == record.car


@pytest.mark.parametrize("colour", ["Red", "Blue"], ids=["other content", "same content"])
async def test_an_older_reading_moves_first_seen_at_most(place: Place, colour: str) -> None:
    database = await opened(place)
    await write(database, reading(minute=3, colour="Blue"))
    before = place.row("1")
    assert before is not None
    await write(database, reading(minute=1, colour=colour, price=7 if colour == "Red" else 100))
    after = place.row("1")
    assert after is not None
    assert {name for name in after if after[name] != before[name]} == {"first_seen"}
    assert after["first_seen"] == when(1)
    await write(database, reading(minute=2, colour=colour, price=7 if colour == "Red" else 100))
    assert place.row("1") == after


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
async def test_readings_of_one_listing_in_one_call_end_as_the_newest(
    place: Place, order: Sequence[int]
) -> None:
    database = await opened(place)
    readings = [reading(minute=minute, price=100 + minute) for minute in range(3)]
    await write(database, *(readings[number] for number in order), reading("2"), readings[order[0]])
    stored = (await all_of(database))[0]
    assert stored == StoredCar(readings[2].car, when(0), when(2), None)


async def test_two_clients_at_once_never_let_the_older_reading_win(place: Place) -> None:
    first, second = await opened(place), await opened(place)
    for turn in range(20):
        ids = [f"{turn}-{number}" for number in range(25)]
        old = [reading(listing, 1, 100) for listing in ids]
        new = [reading(listing, 2, 200) for listing in ids]
        same = [reading(listing, 3, 200) for listing in ids]
        await asyncio.gather(write(first, *old, *same), write(second, *reversed(new)), write(second, *old))
    ends = [(stored.car.car_attrs["price"], stored.last_seen) for stored in await all_of(first)]
    assert ends == [(200, when(3))] * 500
    assert {stored.first_seen for stored in await all_of(first)} == {when(1)}


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from("ab"), st.integers(1, 3)),
        min_size=1,
        max_size=8,
        unique=True,
    ),
    st.randoms(use_true_random=False),
    st.integers(1, 4),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def _any_order_ends_the_same(
    runner: asyncio.Runner, database: Database, readings: list[tuple[int, str, int]], chance: Any, size: int
) -> None:
    shuffled = [*readings, *chance.sample(readings, chance.randint(0, len(readings)))]
    chance.shuffle(shuffled)

    async def play(order: list[tuple[int, str, int]], size: int) -> dict[str, StoredCar]:
        """The end of it, by listing; each time with listings of its own."""
        run = f"{next(_names)}-"
        records = [
            made_for(run + listing, reading(listing, minute, price)) for minute, listing, price in order
        ]
        for start in range(0, len(records), size):
            await write(database, *records[start : start + size])
        ends = {
            one.car.id.removeprefix(run): one for one in await all_of(database) if one.car.id.startswith(run)
        }
        return {
            listing: (end.car.car_attrs, end.first_seen, end.last_seen, end.removed_at)
            for listing, end in ends.items()
        }

    assert runner.run(play(shuffled, size)) == runner.run(play(sorted(readings), 1))


# Prices.


async def test_each_change_of_the_price_adds_one_row(place: Place) -> None:
    database = await opened(place)
    for minute, price in enumerate([100, 100, 90, None, None, 90, 100]):
        await write(database, reading(minute=minute, price=price, turn=minute))
        await write(database, reading(minute=minute, price=price, turn=minute))
    assert place.prices("1") == [
        (when(0), 100), (when(2), 90), (when(3), None), (when(5), 90), (when(6), 100),
    ]  # fmt: skip


async def test_a_listing_without_a_price_begins_without_a_row(place: Place) -> None:
    database = await opened(place)
    await write(database, reading(price=None))
    assert place.prices("1") == []
    await write(database, reading(minute=1, price=5))
    assert place.prices("1") == [(when(1), 5)]


async def test_other_changes_and_older_readings_add_no_price(place: Place) -> None:
    database = await opened(place)
    await write(database, reading(minute=2))
    await write(database, reading(minute=3, colour="Red"))
    await write(database, reading(minute=1, price=50))
    await write(database, reading(minute=4, colour="Red"))
    assert place.prices("1") == [(when(2), 100)]


async def test_the_prices_of_several_readings_in_one_call_are_all_kept(place: Place) -> None:
    database = await opened(place)
    await write(database, reading(minute=3, price=80), reading(minute=1), reading(minute=2, price=90))
    assert place.prices("1") == [(when(1), 100), (when(2), 90), (when(3), 80)]


# Removal.


async def test_what_a_complete_crawl_has_not_seen_is_marked_as_removed(place: Place) -> None:
    database = await opened(place)
    await write(database, *(reading(str(number), 1) for number in range(4)))
    assert await database.mark_removed({"0", "2", "never stored"}, text(2), text(9)) == 2
    assert [stored.removed_at for stored in await all_of(database)] == [None, when(9), None, when(9)]
    assert {stored.last_seen for stored in await all_of(database)} == {when(1)}


async def test_what_was_seen_since_the_crawl_began_stays(place: Place) -> None:
    database = await opened(place)
    await write(database, *(reading(str(minute), minute) for minute in (1, 2, 3)))
    assert await database.mark_removed([], text(2), text(9)) == 1
    assert [stored.removed_at for stored in await all_of(database)] == [when(9), None, None]


async def test_what_was_removed_before_keeps_its_time(place: Place) -> None:
    database = await opened(place)
    await write(database, reading("1"), reading("2"))
    assert await database.mark_removed(["2"], text(1), text(2)) == 1
    assert await database.mark_removed([], text(3), text(4)) == 1
    assert [stored.removed_at for stored in await all_of(database)] == [when(2), when(4)]
    assert await database.mark_removed([], text(3), text(5)) == 0


async def test_what_was_removed_long_ago_is_deleted_with_its_prices_when_that_is_asked_for(
    place: Place,
) -> None:
    database = await opened(place)
    await write(database, reading("1"), reading("2"), reading("3"))
    assert await database.mark_removed(["2", "3"], text(1), text(2)) == 1
    assert await database.mark_removed(["3"], text(3), text(4)) == 1
    assert len(await all_of(database)) == 3, "they are kept unless somebody asks"
    database.keep_removed = 5 * 60.0
    assert await database.mark_removed(["3"], text(3), text(7)) == 0
    assert [stored.car.id for stored in await all_of(database)] == ["2", "3"]
    assert place.row("1") is None
    await write(database, reading("1", 8))
    assert (await all_of(database))[0].first_seen == when(8)


async def test_an_erased_listing_leaves_nothing_behind(place: Place) -> None:
    database = await opened(place)
    await write(database, reading("1"), reading("1", 1, 90), reading("2"), reading("3"))
    await database.mark_removed(["1", "2"], text(1), text(2))
    assert await database.erase(["1", "3", "never stored"]) == 2
    assert [stored.car.id for stored in await all_of(database)] == ["2"]
    assert place.prices("1") == place.prices("3") == []
    assert len(place.prices("2")) == 1
    assert await database.erase(["1"]) == await database.erase([]) == 0
    await write(database, reading("1", 8, 70))
    assert (await all_of(database))[0].first_seen == when(8)
    assert place.prices("1") == [(when(8), 70)]


@pytest.mark.parametrize("stretch", [20_000, 1000, 999], ids="{} at once".format)
async def test_thousands_are_marked_as_removed(
    place: Place, stretch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (postgres, mongo):
        monkeypatch.setattr(module, "_STRETCH", stretch)
    database = await opened(place)
    ids = [str(number) for number in range(5000)]
    await write(database, *(reading(listing) for listing in ids))
    assert await database.mark_removed(ids[::2], text(1), text(2)) == 2500
    assert {stored.car.id for stored in await all_of(database) if stored.removed_at} == set(ids[1::2])


@pytest.mark.parametrize("price", [100, 90], ids=["same content", "other content"])
async def test_a_reading_younger_than_the_removal_takes_it_back(place: Place, price: int) -> None:
    database = await opened(place)
    await write(database, reading("1"), reading("2"), reading("3"))
    await database.mark_removed([], text(1), text(5))
    await write(database, reading("1", 6, price), reading("2", 5, price), reading("3", 4, price))
    assert [(stored.removed_at, stored.last_seen) for stored in await all_of(database)] == [
        (None, when(6)), (when(5), when(5)), (when(5), when(4)),
    ]  # fmt: skip


async def test_a_listing_that_is_back_unchanged_is_as_if_it_had_never_been_away(place: Place) -> None:
    database = await opened(place)
    await write(database, reading())
    before = place.row("1")
    await database.mark_removed([], text(1), text(5))
    await write(database, reading(minute=6))
    assert before is not None
    assert place.row("1") == {**before, "last_seen": when(6)}


async def test_a_reading_from_before_last_seen_does_not_take_a_removal_back(place: Place) -> None:
    database = await opened(place)
    await write(database, reading(minute=2))
    await database.mark_removed([], text(3), text(1))
    await write(database, reading(minute=1.5))
    assert (await only(database)).removed_at == when(1)


async def test_readings_and_a_removal_at_once_end_in_one_of_the_two_orders(place: Place) -> None:
    first, second = await opened(place), await opened(place)
    ids = [str(number) for number in range(300)]
    await write(first, *(reading(listing) for listing in ids))
    again = [reading(listing, 9) for listing in ids[:150]]
    await asyncio.gather(write(first, *again), second.mark_removed([], text(1), text(2)))
    assert {stored.car.id for stored in await all_of(first) if stored.removed_at} == set(ids[150:])


# Poison.


@pytest.mark.parametrize("position", [0, 5, 9])
async def test_a_record_that_cannot_be_held_stays_out_alone(place: Place, position: int) -> None:
    database = await opened(place)
    records = [reading(str(number)) for number in range(10)]
    records[position] = reading(str(position), bad={"nul\0name": 1})
    (refused,) = await database.upsert(records)
    assert (refused.id, refused.url) == (str(position), f"https://h/{position}/")
    assert refused.problem
    assert "\n" not in refused.problem
    assert [stored.car.id for stored in await all_of(database)] == [
        str(number) for number in range(10) if number != position
    ]


async def test_only_records_that_cannot_be_held(place: Place) -> None:
    database = await opened(place)
    assert len(await database.upsert([reading(str(number), **{"\0": 1}) for number in range(3)])) == 3
    assert await all_of(database) == []


async def test_an_older_reading_is_kept_when_the_newer_cannot_be_held(place: Place) -> None:
    database = await opened(place)
    kept = reading(minute=1)
    (refused,) = await database.upsert([reading(minute=2, **{"\0": 1}), kept])
    assert refused.id == "1"
    assert await only(database) == StoredCar(kept.car, when(1), when(1), None)


def test_readings_end_the_same_in_any_order_however_often_they_come(place: Place) -> None:
    with asyncio.Runner() as runner:
        database = runner.run(opened(place))
        try:
            _any_order_ends_the_same(runner, database)
        finally:
            runner.run(place.leave())
