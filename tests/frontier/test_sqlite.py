"""What the SQLite backend does beyond the contract: its lock, its file, its resumption, and files that are
not its own.
"""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from scrapy_durable.exceptions import (
    ConfigurationError,
    ForeignFile,
    FrontierError,
    FrontierUnavailable,
    OtherRelease,
)
from scrapy_durable.frontier import sqlite_change, sqlite_file
from scrapy_durable.frontier.contract import Counts, DeadLettered, Outbox, SlotLimit
from scrapy_durable.frontier.sqlite import SqliteFrontier
from scrapy_durable.frontier.sqlite_file import check_header
from tests.frontier.backends import LEASE, MAX_ATTEMPTS, SqliteBackend
from tests.frontier.test_contract import begun, counts, entries, held, keys


async def test_a_second_process_gets_one_line_with_the_path(on_file: SqliteBackend) -> None:
    await begun(on_file)
    with pytest.raises(ConfigurationError, match="another crawl is running") as caught:
        await on_file.open().begin("crawl")
    assert str(on_file.path) in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_the_lock_ends_with_its_holder(on_file: SqliteBackend) -> None:
    first = await begun(on_file)
    await first.close()
    assert (await on_file.open().begin("crawl")).resumed


async def test_a_crawl_goes_on_after_a_kill_with_its_leases_free_and_their_attempts_counted(
    on_file: SqliteBackend,
) -> None:
    """The process is killed with SIGKILL in the middle of its work."""
    script = f"""
import asyncio, os
from pathlib import Path
from scrapy_durable.frontier.contract import Entry, Held, Outbox, SlotLimit
from scrapy_durable.frontier.sqlite import SqliteFrontier
from scrapy_durable.frontier.sqlite_file import check_header

async def main():
    frontier = SqliteFrontier(Path({str(on_file.path)!r}), worker="w0", limits={{}}, default_limit=SlotLimit(0))
    await frontier.begin("crawl")
    inbox = await frontier.exchange(Outbox(entries=[Entry(key, "a", "parse", b"p") for key in range(10)]), 4)
    await frontier.exchange(Outbox(acks=[Held(inbox.leases[0].key, inbox.leases[0].token)]), 0)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""
    process = subprocess.run([sys.executable, "-c", script], timeout=20, check=False, cwd=Path.cwd())
    assert process.returncode == -9
    frontier = on_file.open()
    state = await frontier.begin("another")
    assert (state.crawl_id, state.resumed) == ("crawl", True)
    assert await counts(frontier) == Counts(queued=9, delayed=0, leased=0, dead=0, done=1)
    inbox = await frontier.exchange(Outbox(), 20)
    assert keys(inbox) == list(range(1, 10))
    assert [lease.attempt for lease in inbox.leases] == [2, 2, 2, 1, 1, 1, 1, 1, 1]


async def test_an_element_that_kills_each_process_that_has_it_ends_among_the_dead(
    on_file: SqliteBackend,
) -> None:
    frontier = await begun(on_file)
    await frontier.exchange(entries(1), 0)
    for _ in range(MAX_ATTEMPTS):
        assert keys(await frontier.exchange(Outbox(), 1)) == [1]
        await frontier.close()
        frontier = await begun(on_file)
    assert keys(await frontier.exchange(Outbox(), 1)) == []
    assert [letter.key for letter in await frontier.dead_letters()] == [1]


async def test_everything_can_be_seen_and_dead_letters_tried_again_beside_a_running_crawl(
    on_file: SqliteBackend,
) -> None:
    frontier, beside = await begun(on_file), on_file.open("cli")
    inbox = await frontier.exchange(entries(1, 2), 2)
    await frontier.exchange(Outbox(dead_lettered=[DeadLettered(held(inbox.leases[0])[0], "404")]), 0)
    assert (await beside.status()).total == Counts(queued=0, delayed=0, leased=1, dead=1, done=0)
    assert len(await beside.dead_letters()) == 1
    assert await beside.retry_dead() == 1
    assert keys(await frontier.exchange(Outbox(), 2)) == [1]


async def test_a_look_at_a_path_without_a_file_makes_none(on_file: SqliteBackend) -> None:
    assert (await on_file.open().status()).crawl_id is None
    await on_file.open().forget()
    assert on_file.path is not None
    assert list(on_file.path.parent.iterdir()) == []


async def test_a_verdict_is_forgotten_after_an_hour(on_file: SqliteBackend) -> None:
    frontier = await begun(on_file)
    assert await frontier.elect_finisher()
    assert await frontier.publish_verdict(b"v")
    on_file.advance(3000)
    await frontier.forget()
    on_file.advance(3000)
    assert await frontier.verdict() == b"v"
    on_file.advance(601)
    assert await frontier.verdict() is None


# Files that are not ours.


def foreign_sqlite(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE work (id INTEGER)")


def of_another_release(path: Path, by: int) -> None:
    async def make() -> None:
        frontier = SqliteFrontier(path, worker="w", limits={}, default_limit=SlotLimit(0))
        await frontier.begin("crawl")
        await frontier.close()

    asyncio.run(make())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {sqlite_file.SCHEMA_VERSION + by}")


def of_an_older_release(path: Path) -> None:
    of_another_release(path, -1)


def of_a_newer_release(path: Path) -> None:
    of_another_release(path, 1)


def text(path: Path) -> None:
    path.write_text("requests.seen\n" * 100)


def empty(path: Path) -> None:
    path.touch()


def corrupt(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {sqlite_file.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {sqlite_file.SCHEMA_VERSION}")
        connection.execute("CREATE TABLE crawl (one INTEGER)")
    data = bytearray(path.read_bytes())
    data[100:200] = b"\xff" * 100
    path.write_bytes(data)


def ours_by_its_header_only(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {sqlite_file.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {sqlite_file.SCHEMA_VERSION}")
        connection.execute("CREATE TABLE other (one INTEGER)")


@pytest.mark.parametrize(
    "make",
    [
        foreign_sqlite,
        of_an_older_release,
        of_a_newer_release,
        text,
        empty,
        corrupt,
        ours_by_its_header_only,
    ],
)
def test_a_file_that_is_not_ours_is_refused_and_left_as_it_is(tmp_path: Path, make: object) -> None:
    path = tmp_path / "frontier.sqlite"
    make(path)  # type: ignore[operator]
    before = path.read_bytes()
    backend = SqliteBackend(path)

    async def refuse() -> None:
        for call in (backend.open().begin("crawl"), backend.open().status(), backend.open().forget()):
            with pytest.raises((ForeignFile, OtherRelease)) as caught:
                await call
            assert str(path) in str(caught.value)
            assert "\n" not in str(caught.value)
            for frontier in backend._opened:
                await frontier.close()

    asyncio.run(refuse())
    assert path.read_bytes() == before


# What the disk does.


async def test_a_file_that_another_process_writes_to_is_unavailable(
    on_file: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_TIMEOUT", 0.05)
    frontier = await begun(on_file)
    assert on_file.path is not None
    outbox = entries(1)
    with closing(sqlite3.connect(on_file.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(FrontierUnavailable, match="busy"):
            await frontier.exchange(outbox, 1)
        other.execute("ROLLBACK")
    assert keys(await frontier.exchange(outbox, 1)) == [1]


async def test_a_full_disk_is_an_error_and_what_was_there_stays(on_file: SqliteBackend) -> None:
    frontier = await begun(on_file)
    await frontier.exchange(entries(1), 0)
    assert isinstance(frontier, SqliteFrontier)
    connection = frontier._file._connection
    assert connection is not None
    connection.execute("PRAGMA max_page_count = 30")
    with pytest.raises(FrontierError, match="full"):
        await frontier.exchange(entries(*range(10, 5000)), 0)
    connection.execute("PRAGMA max_page_count = 1000000")
    assert (await counts(frontier)).seen == 1
    await frontier.exchange(entries(*range(10, 5000)), 0)
    assert (await counts(frontier)).seen == 4991


async def test_leasing_is_a_walk_along_an_index() -> None:
    """The plans of the statements that run for each element name an index, and no sorting and no whole table."""
    backend = SqliteBackend(None)
    frontier = await begun(backend)
    assert isinstance(frontier, SqliteFrontier)
    connection = frontier._file._connection
    assert connection is not None
    for name, statement in vars(sqlite_change.EXCHANGE).items():
        parameters = [1] * statement.count("?")
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
        scans = [step for step in plan if step.startswith("SCAN") and "INDEX" not in step]
        small = (
            ["SCAN crawl"],
            ["SCAN reason"],
        )  # one row; at most some two hundred, once for each kind that is new
        assert scans in ([], *small), (name, plan)
        assert not any("TEMP B-TREE" in step for step in plan), (name, plan)
    await backend.clean()


async def test_leases_that_expired_are_reclaimed_a_thousand_at_a_time(on_file: SqliteBackend) -> None:
    frontier = await begun(on_file)
    await frontier.exchange(entries(*range(2500)), 2500)
    on_file.advance(LEASE)
    assert len((await frontier.exchange(Outbox(), 2500)).leases) == 1000
    assert len((await frontier.exchange(Outbox(), 2500)).leases) == 1000
    assert len((await frontier.exchange(Outbox(), 2500)).leases) == 500


def test_a_file_that_is_gone_when_it_is_read_may_come_back(tmp_path: Path) -> None:
    with pytest.raises(FrontierUnavailable, match="cannot be read: No such file"):
        check_header(tmp_path / "frontier.sqlite")
