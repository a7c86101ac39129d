"""What a delivery has called durable reaches its database, whatever becomes of the database and of the process."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import shutil
from collections.abc import Collection, Sequence
from math import inf
from pathlib import Path

import pytest

from carscraper.exceptions import BacklogDamaged, StoreError, StoreUnavailable
from carscraper.items import Car, Removal, Specification
from carscraper.output.archive import Archive
from carscraper.stores import backlog, own_backlog
from carscraper.stores import delivery as module
from carscraper.stores.contract import Refused
from carscraper.stores.delivery import Bounds, Delivery
from carscraper.stores.own_backlog import OwnBacklog
from carscraper.stores.pending import Taken
from carscraper.stores.record import Draft, Record, Records
from tests.stores.logged import TARGET, car

SEEDS = int(os.environ.get("CRASH_SEEDS", "3"))
ROOMY = 1 << 30
SOON = Bounds(batch_size=5, batch_seconds=0.01, behind_bytes=ROOMY, timeout=20)


class Memory:
    """A database in memory that may be down."""

    name, key, target, keep_removed = "MongoDB", "mongo", TARGET, inf

    def __init__(self) -> None:
        self.is_down = False
        self.got: list[str] = []
        """Ids in the order in which they came, and `-` for a removal."""
        self.is_trimmed = False
        self.removal_takes = 0.0
        """Seconds."""

    async def open(self) -> None:
        """As the others."""
        await self._answer()

    async def upsert(self, records: Sequence[Record]) -> list[Refused]:
        """Half of the calls that fail have written what they were given."""
        await self._answer(if_down=[record.id for record in records][:: 2 if len(records) % 2 else 10_000])
        self.got += [record.id for record in records]
        return []

    async def mark_removed(self, seen: Collection[str], begun_at: str, removed_at: str) -> int:
        """Notes that it came."""
        await self._answer()
        await asyncio.sleep(self.removal_takes)
        self.got.append("-")
        return 0

    async def erase(self, ids: Collection[str]) -> int:
        """Never called."""
        raise NotImplementedError

    def trim(self) -> None:
        """Notes that it was asked to."""
        self.is_trimmed = True

    async def close(self) -> None:
        """Holds nothing."""

    async def _answer(self, if_down: Sequence[str] = ()) -> None:
        await asyncio.sleep(0)
        if self.is_down:
            self.got += if_down
            raise StoreUnavailable("it is down")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that takes its time takes a hundredth of it."""
    for name, value in (("_LATE", 0.05), ("_LOOK", 0.002), ("_CAUGHT_UP", 0.02), ("_LONGEST_PAUSE", 0.05)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(own_backlog, "_NOTE_EVERY", 0.01)


class Process:
    """One that logs records and delivers them, until it is killed or closed."""

    def __init__(self, out: Path, database: Memory, number: int, bounds: Bounds = SOON) -> None:
        self.archive = Archive(out, "crawl", f"w{number}", clock=lambda: float(number))
        self.archive.open(resumable=True)
        self.refused: list[StoreError] = []
        self.records = Records()
        self.delivery = Delivery(
            database,  # type: ignore[arg-type]
            out,
            self.archive,
            bounds,
            records=self.records,
            on_set_aside=self._set_aside,
            on_refused=self.refused.append,
        )

    async def bring(self, numbers: list[int], order: list[int] | None = None) -> None:
        """Log records, then take them, in that order or another."""
        cars = {number: car(number) for number in numbers}
        for one in cars.values():
            self.archive.keep(one)
        for number in order or numbers:
            draft = Draft(cars[number], self.records)
            self.delivery.take(draft, draft.log_number)

    async def kill(self) -> None:
        """Stop as a process does that is killed, but for its locks, which the system would take away."""
        for task in self.delivery._tasks:
            task.cancel()
        await asyncio.gather(*self.delivery._tasks, return_exceptions=True)
        await self.delivery.backlogs.close(nothing_waits=False)
        self.archive.close()

    async def close(self) -> None:
        """End in order."""
        await self.archive.write()
        await self.delivery.close()
        self.archive.close()

    async def _set_aside(self, refused: Refused) -> None:
        raise AssertionError(refused)


async def deliver_the_rest(out: Path, database: Memory, number: int) -> None:
    """By another process, which brings nothing."""
    process = Process(out, database, number)
    await process.delivery.open()
    assert await process.delivery.wait_until_delivered() == 0
    await process.close()


@pytest.fixture
def database() -> Memory:
    return Memory()


async def test_what_keeps_up_is_durable_once_it_is_there(tmp_path: Path, database: Memory) -> None:
    process = Process(tmp_path, database, 1)
    await process.delivery.open()
    await process.bring(list(range(12)))
    await process.archive.write()
    assert await process.delivery.wait_until_delivered() == 0
    assert database.got == [str(number) for number in range(12)]
    assert (process.delivery.durable, process.delivery.left_to_log) == (12, 0)
    await process.close()
    assert not list(tmp_path.rglob("*.position"))


async def test_what_only_makes_it_faster_is_let_go_of_when_all_is_there(
    tmp_path: Path, database: Memory
) -> None:
    process = Process(tmp_path, database, 1)
    await process.delivery.open()
    await process.bring([1])
    made = process.records.columns(Specification(None))
    assert process.records.columns(Specification(None)) is made
    assert not database.is_trimmed
    await process.archive.write()
    await process.delivery.wait_until_delivered()
    assert process.records.columns(Specification(None)) is not made
    assert database.is_trimmed
    await process.close()


async def test_what_is_only_in_memory_is_not_durable(tmp_path: Path, database: Memory) -> None:
    """The database is down, and the log is not flushed."""
    process = Process(tmp_path, database, 1)
    database.is_down = True
    await process.delivery.open()
    await process.bring(list(range(12)))
    await asyncio.sleep(0.2)
    assert process.delivery.durable == 0
    await process.archive.write()
    while process.delivery.durable < 12:
        await asyncio.sleep(0.01)
    assert process.delivery.undelivered == 12
    assert process.delivery.waiting == {"w1": 12}
    database.is_down = False
    assert await process.delivery.wait_until_delivered() == 0
    assert database.got[-12:] == [str(number) for number in range(12)]
    await process.close()


async def test_a_removal_never_overtakes_the_records_before_it(tmp_path: Path, database: Memory) -> None:
    earlier = Process(tmp_path, database, 1)
    database.is_down = True
    await earlier.delivery.open()
    await earlier.bring(list(range(7)))
    await earlier.close()
    process = Process(tmp_path, database, 2)
    await process.delivery.open()
    await process.bring(list(range(7, 20)))
    removal = Removal(["1"], "2026-11-20T10:15:00.123Z", "2026-11-20T11:15:00.123Z")
    process.delivery.take(removal, process.archive.keep_removal(removal))
    await process.archive.write()
    database.is_down, database.got = False, []
    assert await process.delivery.wait_until_delivered() == 0
    assert database.got.index("-") > max(database.got.index(str(number)) for number in range(20))
    await process.close()


async def test_a_removal_that_takes_long_is_not_begun_again(tmp_path: Path, database: Memory) -> None:
    """In a large database it takes longer than a record may be late."""
    process = Process(tmp_path, database, 1)
    await process.delivery.open()
    database.removal_takes = 20 * module._LATE
    removal = Removal(["1"], "2026-11-20T10:15:00.123Z", "2026-11-20T11:15:00.123Z")
    process.delivery.take(removal, process.archive.keep_removal(removal))
    await process.archive.write()
    assert await process.delivery.wait_until_delivered() == 0
    assert (database.got, process.delivery.left_to_log) == (["-"], 0)
    await process.close()


async def test_what_is_in_no_log_is_never_left_to_it(tmp_path: Path, database: Memory) -> None:
    """A pipeline behind the log has put another record in its place."""
    process = Process(tmp_path, database, 1)
    await process.delivery.open()
    process.archive.keep(car(1))
    await process.archive.write()
    database.is_down = True
    process.delivery.take(Draft(car(2), Records()), 0)
    await asyncio.sleep(0.2)
    assert process.delivery.durable == 0
    database.is_down = False
    assert await process.delivery.wait_until_delivered() == 0
    assert database.got[-1] == "2"
    await process.close()


async def test_one_that_is_too_far_behind_has_no_room_until_it_has_caught_up(
    tmp_path: Path, database: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    size = Draft(car(0), Records()).size
    process = Process(tmp_path, database, 1, Bounds(5, 0.01, 30 * size, 20))
    database.is_down = True
    await process.delivery.open()
    number = 0
    waits = "bytes wait on disk for MongoDB; the crawl waits for the database"
    while process.delivery.has_room or waits not in caplog.text:
        await process.bring([number])
        await process.archive.write()
        await process.delivery.wait_for_room(0.01)
        number += 1
    assert process.delivery.left_to_log <= 30
    assert process.delivery.durable == process.delivery.left_to_log < number
    database.is_down = False
    assert await process.delivery.wait_until_delivered() == 0
    assert process.delivery.has_room
    assert set(database.got) == {str(one) for one in range(number)}
    await process.close()


async def with_the_second_delivered(out: Path, database: Memory) -> tuple[Process, Car]:
    """A process whose position is behind two records, and the first, which the database had not got when it went
    down.
    """
    process = Process(out, database, 1)
    await process.delivery.open()
    first, second = car(1), car(2)
    for one in (first, second):
        process.archive.keep(one)
    await process.archive.write()
    process.delivery.take(Draft(second, Records()), second.log_number)
    position = process.archive.own_directory / "mongo.position"
    while b'"items":2' not in position.read_bytes():
        await asyncio.sleep(0.01)
    database.is_down = True
    return process, first


async def test_what_is_overtaken_in_the_pipelines_is_not_taken_for_delivered(
    tmp_path: Path, database: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was logged after it has reached the database before it came; then that is down, and the process killed."""

    async def lost(*, safely: bool) -> bool:
        out = tmp_path / str(safely)
        process, first = await with_the_second_delivered(out, database)
        process.delivery.take(Draft(first, Records()), first.log_number)
        while process.delivery.durable < 2:
            await asyncio.sleep(0.01)
        await process.kill()
        database.is_down, database.got = False, []
        await deliver_the_rest(out, database, 2)
        return "1" not in database.got

    assert not await lost(safely=True)

    async def stay(self: OwnBacklog, leaving: Sequence[Taken]) -> None:
        """Without the safeguard."""

    monkeypatch.setattr(OwnBacklog, "reach_back", stay)
    assert await lost(safely=False)


async def test_a_full_disk_never_leaves_a_position_ahead_of_what_counts_as_durable(
    tmp_path: Path, database: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first record comes when the position is behind it already, which cannot be set back now."""
    process, first = await with_the_second_delivered(tmp_path, database)
    position = process.archive.own_directory / "mongo.position"
    tried = 0

    def refuse(path: Path, *_: object) -> None:
        nonlocal tried
        tried += 1
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(backlog, "write_atomically", refuse)
        process.delivery.take(Draft(first, Records()), first.log_number)
        while tried < 3:  # however often it is tried
            assert process.delivery.durable == 1
            await asyncio.sleep(0.01)
        assert b'"items":2' in position.read_bytes()
    while process.delivery.durable < 2:
        await asyncio.sleep(0.01)
    assert b'"items":0' in position.read_bytes()
    await process.kill()


async def test_one_that_ends_while_the_disk_is_full_leaves_nothing_that_counts(
    tmp_path: Path, database: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process(tmp_path, database, 1)
    await process.delivery.open()
    first, second = car(1), car(2)
    for one in (first, second):
        process.archive.keep(one)
    await process.archive.write()
    process.delivery.take(Draft(second, Records()), second.log_number)
    while process.delivery.durable < 1:
        await asyncio.sleep(0.01)
    database.is_down = True

    def refuse(path: Path, *_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(backlog, "write_atomically", refuse)
    process.delivery.take(Draft(first, Records()), first.log_number)
    await process.close()
    assert (process.delivery.durable, process.delivery.undelivered) == (1, 1)
    assert not process.refused


async def test_a_log_that_is_gone_is_an_error_and_not_looked_for_again_and_again(
    tmp_path: Path, database: Memory
) -> None:
    process = Process(tmp_path, database, 1)
    await process.delivery.open()
    database.is_down = True
    await process.bring([1, 2, 3])
    await process.archive.write()
    while process.delivery.durable < 3:
        await asyncio.sleep(0.01)
    shutil.rmtree(process.archive.own_directory / "cars")
    database.is_down = False
    while not process.refused:
        await asyncio.sleep(0.01)
    assert isinstance(process.refused[0], BacklogDamaged)
    assert process.delivery.undelivered == 3
    await process.kill()


@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
async def test_whatever_was_durable_arrives(seed: int, tmp_path: Path, database: Memory) -> None:
    """Databases that come and go, records that overtake each other, processes that are killed and closed."""
    dice = random.Random(seed)
    durable: set[int] = set()
    number = 0
    for life in range(1, 9):
        process = Process(tmp_path, database, life, Bounds(dice.choice([1, 5, 50]), 0.01, ROOMY, 20))
        await process.delivery.open()
        taken: list[int] = []
        for _ in range(dice.randrange(30)):
            numbers = list(range(number, number := number + dice.randrange(12)))
            order = dice.sample(numbers, len(numbers))
            await process.bring(numbers, order)
            taken += order
            match dice.randrange(4):
                case 0:
                    database.is_down = not database.is_down
                case 1:
                    await asyncio.sleep(dice.uniform(0, 0.06))
            if dice.random() < 0.7:
                await process.archive.write()
        assert not process.refused
        if dice.random() < 0.6:
            await process.kill()
        else:
            await process.close()
        durable.update(taken[: process.delivery.durable])
    database.is_down = False
    await deliver_the_rest(tmp_path, database, 99)
    assert durable, "the test would show nothing"
    assert durable <= set(map(int, database.got))
    assert not list(tmp_path.rglob("*.position"))
