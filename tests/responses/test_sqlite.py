import asyncio
import math
import multiprocessing
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from scrapy_durable.exceptions import ConfigurationError, ForeignFile
from scrapy_durable.responses.contract import MOST_DERIVED
from scrapy_durable.responses.sqlite import SqliteResponseStore
from scrapy_durable.responses.sqlite_file import APPLICATION_ID
from tests.responses.conftest import Clock

URL = "https://h/x"


def opened(path):
    async def scenario():
        store = SqliteResponseStore(path)
        await store.open()
        await store.close()

    asyncio.run(scenario())


def make(path, *statements):
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_the_file_and_its_directory_are_made(tmp_path):
    opened(tmp_path / "a" / "b" / "responses.sqlite")
    opened(tmp_path / "a" / "b" / "responses.sqlite")
    with closing(sqlite3.connect(tmp_path / "a" / "b" / "responses.sqlite")) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("content", [b"", None])
def test_an_empty_file_is_as_good_as_none(tmp_path, content):
    path = tmp_path / "responses.sqlite"
    if content is None:
        make(path, "PRAGMA journal_mode = WAL")  # as left by a process that died while making it
    else:
        path.write_bytes(content)
    opened(path)


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE theirs (x)"],
        ["PRAGMA journal_mode = WAL", "CREATE TABLE theirs (x)"],
        ["PRAGMA application_id = 7"],
        [f"PRAGMA application_id = {APPLICATION_ID}", "PRAGMA user_version = 2", "CREATE TABLE response (x)"],
    ],
)
def test_a_file_of_another_kind_or_version_is_refused_and_left_untouched(tmp_path, statements):
    path = tmp_path / "responses.sqlite"
    make(path, *statements)
    before = path.read_bytes()
    with pytest.raises(ForeignFile, match=str(path)):
        opened(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"{}", b"x" * 5000, b"SQLite format 3\0"])
def test_a_file_that_is_no_database_is_moved_aside_untouched(tmp_path, content):
    path = tmp_path / "responses.sqlite"
    path.write_bytes(content)
    opened(path)
    (aside,) = tmp_path.glob("responses.sqlite.broken-*")
    assert aside.read_bytes() == content
    assert path.read_bytes().startswith(b"SQLite format 3")


@pytest.mark.parametrize(
    "path", ["/proc/responses.sqlite", "/proc/none/responses.sqlite", "/dev/null/x", "/"]
)
def test_a_place_that_cannot_be_used_is_named(path):
    with pytest.raises(ConfigurationError, match=path) as refusal:
        opened(Path(path))
    assert "\n" not in str(refusal.value)


def test_a_damaged_file_is_moved_aside_at_start_and_said_so(tmp_path, caplog):
    path = tmp_path / "responses.sqlite"
    opened(path)
    damaged = path.read_bytes()[:100] + b"\xff" * 8000
    path.write_bytes(damaged)
    opened(path)
    (aside,) = tmp_path.glob("responses.sqlite.broken-*")
    assert aside.read_bytes() == damaged
    assert f"The response store {path} is broken" in caplog.text


def test_a_full_disk_loses_the_answer_only(tmp_path, caplog):
    async def scenario():
        store = SqliteResponseStore(tmp_path / "responses.sqlite")
        await store.open()
        store._db.execute("PRAGMA max_page_count = 10")
        kept = [await store.put(str(number), 200, "u", bytes(range(256)) * 20) for number in range(100)]
        found = await store.get_many([str(number) for number in range(100)], 10.0)
        assert len(found) == sum(kept) < 100
        await store.close()

    asyncio.run(scenario())
    assert ["disk is full" in record.message for record in caplog.records] == [True]


def write_some(path, name, start):
    async def scenario():
        start.wait(20)
        store = SqliteResponseStore(path, timeout=30.0)
        await store.open()
        for number in range(200):
            assert await store.put(f"{name}/{number}", 200, "u", b"x" * 1000, crawl_id="one")
        await store.close()

    asyncio.run(scenario())


def test_processes_make_and_share_one_file(tmp_path):
    path = tmp_path / "responses.sqlite"
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Event()
    workers = [spawn.Process(target=write_some, args=(path, name, start)) for name in "abcd"]
    for worker in workers:
        worker.start()
    start.set()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 4

    async def count():
        store = SqliteResponseStore(path)
        await store.open()
        keys = {stored.key async for stored in store.iterate("one")}
        await store.close()
        return len(keys)

    assert asyncio.run(count()) == 800


def test_pruning_removes_what_is_too_old(tmp_path):
    clock = Clock()

    async def scenario():
        store = SqliteResponseStore(tmp_path / "responses.sqlite", clock=clock)
        await store.open()
        for number in range(500):
            await store.put(f"old{number}", 200, "u", b"x")
        clock.now += 100
        await store.put("new", 200, "u", b"x")
        assert (await store.prune(10**9, math.inf, math.inf)).removed == 0
        assert (await store.prune(10**9, 50.0, math.inf)).removed == 500
        keys = ["new", *(f"old{number}" for number in range(500))]
        assert list(await store.get_many(keys, math.inf)) == ["new"]
        await store.close()

    asyncio.run(scenario())


def test_a_crawl_is_too_old_as_a_whole_some_time_after_its_last_answer(tmp_path):
    clock = Clock()

    async def scenario():
        store = SqliteResponseStore(tmp_path / "responses.sqlite", clock=clock)
        await store.open()
        for crawl_id in ("long", "short"):
            await store.put(f"{crawl_id}/first", 200, "u", b"x", crawl_id=crawl_id)
        clock.now += 100
        await store.put("long/last", 200, "u", b"x", crawl_id="long")
        assert (await store.prune(10**9, math.inf, 50.0)).removed == 1
        assert [crawl.keys for crawl in await store.crawls()] == [["long/first", "long/last"]]
        clock.now += 50
        assert (await store.prune(10**9, math.inf, 50.0)).removed == 2
        await store.close()

    asyncio.run(scenario())


def test_pruning_gives_space_back_to_the_disk(tmp_path):
    path = tmp_path / "responses.sqlite"

    async def scenario():
        store = SqliteResponseStore(path)
        await store.open()
        for number in range(2000):
            await store.put(str(number), 200, "u", str([n * number for n in range(300)]).encode())
        await store.prune(100_000, 1e9, 1e9)
        await store.close()

    asyncio.run(scenario())
    assert path.stat().st_size <= 100_000


def test_what_is_derived_stays_with_its_answer_and_goes_with_it(tmp_path):
    clock = Clock()

    async def scenario():
        store = SqliteResponseStore(tmp_path / "responses.sqlite", clock=clock)
        await store.open()

        async def derived():
            return {key: one.derived for key, one in (await store.get_many("abcd", math.inf)).items()}

        await store.put("a", 200, URL, b"body", derived=b"made")
        for key in "bcd":
            await store.put(key, 200, URL, b"body")
        earlier, clock.now = clock.now, clock.now + 1
        await store.put("c", 200, URL, b"newer")
        large = bytes(MOST_DERIVED + 1)
        await store.derive(
            {"b": (earlier, b"later" * 1000), "c": (earlier, b"too late"), "d": (earlier, large)}
        )
        assert await derived() == {"a": b"made", "b": b"later" * 1000, "c": b"", "d": b""}
        await store.put("a", 200, URL, b"another")
        assert (await derived())["a"] == b""
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "damaged", ["x'00'", "7", "'text'", "derived || x'00'", "(SELECT derived FROM response)"]
)
def test_damage_to_what_is_derived_leaves_the_answer(tmp_path, damaged):
    path = tmp_path / "responses.sqlite"

    async def scenario():
        store = SqliteResponseStore(path)
        await store.open()
        await store.put("a", 200, URL, b"body", derived=b"of a")
        await store.put("b", 200, URL, b"body", derived=b"made")
        make(path, f"UPDATE response SET derived = {damaged} WHERE key = 'b'")
        found = await store.get("b", math.inf)
        await store.close()
        return found

    found = asyncio.run(scenario())
    assert (found.body, found.derived) == (b"body", b"")


def test_an_answer_that_a_damaged_index_leads_to_is_none_of_that_key(tmp_path):
    """SQLite has no checksums: one bit, and the index has another answer's row under a key."""
    path = tmp_path / "responses.sqlite"
    keys = ["car-a/2017", "car-b/2017", "car-c/2017"]

    async def with_store(scenario):
        store = SqliteResponseStore(path)
        await store.open()
        try:
            return await scenario(store)
        finally:
            await store.close()

    async def put_all(store):
        for key in keys:
            await store.put(key, 200, URL, key.encode(), derived=key.encode())

    async def bodies(store):
        return {key: one.body for key, one in (await store.get_many(keys, math.inf)).items()}

    asyncio.run(with_store(put_all))
    data = path.read_bytes()
    entry, of_another_row = b"car-c/2017\x03", b"car-c/2017\x02"
    assert data.count(entry) == 1, "the entry of the index: the key, and the number of its row"
    path.write_bytes(data.replace(entry, of_another_row))
    assert asyncio.run(with_store(bodies)) == {key: key.encode() for key in keys[:2]}


def test_what_was_derived_of_a_body_that_is_rewritten_goes_with_it(tmp_path):
    async def scenario():
        store = SqliteResponseStore(tmp_path / "responses.sqlite")
        await store.open()
        await store.put("page/1", 200, URL, b"old", crawl_id="a", derived=b"of the old one")
        assert await store.rewrite("a", "page/1", b"new")
        found = [(stored.body, stored.derived) async for stored in store.iterate("a")]
        await store.close()
        return found

    assert asyncio.run(scenario()) == [(b"new", b"")]


def test_a_file_of_an_earlier_release_is_used_as_it_is_and_by_both(tmp_path):
    path = tmp_path / "responses.sqlite"
    opened(path)
    make(path, "ALTER TABLE response DROP COLUMN derived")
    put = "INSERT OR REPLACE INTO response (key, status, url, fetched_at, body) SELECT '{}', status, url, 2e9, body"

    async def scenario():
        store = SqliteResponseStore(path)
        await store.open()
        await store.put("a", 200, URL, b"body", derived=b"made")
        make(path, put.format("b") + " FROM response", put.format("a") + " FROM response LIMIT 1")
        found = await store.get_many("ab", math.inf)
        await store.close()
        return {key: (one.body, one.derived) for key, one in found.items()}

    assert asyncio.run(scenario()) == {"a": (b"body", b""), "b": (b"body", b"")}
