"""Storages that are not files of this machine: one store of one whole file under one name, until it has succeeded."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.feeds.runs import BEGUN_AT, Killed, Runs, in_loop, numbered
from tests.feeds.storages import Bucket

STORAGES = {"FEED_STORAGES": {"s3": "tests.feeds.storages.Bucket", "folder": "tests.feeds.storages.Folder"}}
FEED: dict[Any, dict[str, Any]] = {"s3://user:secret@bucket/%(time)s/things.json": {"format": "json"}}
KEY = "/2026-11-20T10-15-00+00-00/things.json"
BATCHES: dict[Any, dict[str, Any]] = {
    "s3://bucket/%(batch_id)d-%(batch_time)s.json": {"format": "json", "batch_item_count": 3}
}


@pytest.fixture(autouse=True)
def bucket(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    monkeypatch.setattr(Bucket, "objects", {})
    monkeypatch.setattr(Bucket, "stored", [])
    monkeypatch.setattr(Bucket, "failures", 0)
    return Bucket.objects


def ids(data: bytes) -> list[int]:
    return [item["id"] for item in json.loads(data)]


def test_the_time_in_a_name_is_when_the_crawl_began(tmp_path: Path, bucket: dict[str, bytes]) -> None:
    async def crawl(runs: Runs) -> None:
        for number in range(3):
            await runs.accept(*numbered(number, 1))
            runs.kill()
        assert await runs.finish()

    in_loop(crawl(Runs(tmp_path, FEED, **STORAGES)))
    assert {key: ids(data) for key, data in bucket.items()} == {KEY: [0, 1, 2]}
    assert Bucket.stored == [KEY]


def test_a_store_that_fails_is_done_by_the_next_run(
    tmp_path: Path, bucket: dict[str, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 3))
        Bucket.failures = 1
        run = await runs.run()
        assert not await runs.finish()
        assert run.stat("feedexport/failed_count/Bucket") == 1
        assert not run.stat("feedexport/success_count/Bucket")
        assert not run.signals
        await runs.stop()
        run = await runs.run()
        assert await runs.finish()
        assert run.stat("feedexport/success_count/Bucket") == 1
        assert len(run.signals) == 1

    in_loop(crawl(Runs(tmp_path, FEED, **STORAGES)))
    assert ids(bucket[KEY]) == [0, 1, 2]
    [said] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "Error storing json feed (3 items) in: s3://***@bucket" in said.getMessage()
    assert "the bucket is away" in str(said.exc_info)


def test_one_that_is_stored_is_not_stored_again(tmp_path: Path) -> None:
    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 3))
        assert await runs.finish()
        assert await runs.finish()
        runs.kill()
        assert await runs.finish()
        assert not (await runs.run()).signals

    in_loop(crawl(Runs(tmp_path, FEED, **STORAGES)))
    assert Bucket.stored == [KEY]


def test_nothing_is_stored_of_a_crawl_that_is_not_complete(tmp_path: Path, bucket: dict[str, bytes]) -> None:
    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 2))
        assert not await runs.finish(complete=False)
        assert not bucket
        runs.kill()
        await runs.accept(*numbered(2, 1))
        assert await runs.finish()

    in_loop(crawl(Runs(tmp_path, FEED, **STORAGES)))
    assert ids(bucket[KEY]) == [0, 1, 2]


def test_no_password_is_noted(tmp_path: Path) -> None:
    runs = Runs(tmp_path, FEED, **STORAGES)
    in_loop(runs.accept(*numbered(0, 1)))
    noted = (runs.state_dir / "feeds.json").read_text()
    assert "bucket" in noted
    assert "secret" not in noted


def test_a_storage_that_keeps_its_file_gets_it_whole(tmp_path: Path) -> None:
    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 3))
        assert await runs.finish()

    in_loop(crawl(Runs(tmp_path, {f"folder://{tmp_path}/things.xml": {"format": "xml"}}, **STORAGES)))
    assert (tmp_path / "things.xml").read_text().endswith("</items>")


# Batches


def test_batches_are_stored_while_the_crawl_runs(tmp_path: Path, bucket: dict[str, bytes]) -> None:
    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 4))
        await runs.accept(*numbered(4, 4))
        await runs.consume()
        assert [ids(data) for data in bucket.values()] == [[0, 1, 2], [3, 4, 5]]
        run = await runs.run()
        assert not run.log.read(run.feeds.position, 10)[0].items[0]["id"] < 6
        assert await runs.finish()

    in_loop(crawl(Runs(tmp_path, BATCHES, **STORAGES)))
    assert [ids(data) for data in bucket.values()] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert len({key.partition("-")[2] for key in bucket}) == 3


def test_a_batch_that_is_killed_before_it_is_noted_is_stored_again_under_its_name(
    tmp_path: Path, bucket: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs(tmp_path, BATCHES, **STORAGES)
    store = Bucket._store_in_thread

    def store_and_die(self: Bucket, file: Any) -> None:
        store(self, file)
        runs.kills.at, runs.kills.moments = 0, []
        runs.kills.moment("stored")

    async def crawl() -> None:
        await runs.accept(*numbered(0, 4))
        with monkeypatch.context() as patch:
            patch.setattr(Bucket, "_store_in_thread", store_and_die)
            with pytest.raises(Killed):
                await runs.consume()
        runs.killed()
        assert await runs.finish()

    in_loop(crawl())
    assert [ids(data) for data in bucket.values()] == [[0, 1, 2], [3]]
    assert Bucket.stored[0] == Bucket.stored[1]


def test_a_batch_that_cannot_be_stored_is_tried_again(tmp_path: Path, bucket: dict[str, bytes]) -> None:
    async def crawl(runs: Runs) -> None:
        Bucket.failures = 2
        await runs.accept(*numbered(0, 7))
        await runs.consume()
        await runs.consume()  # too soon
        run = await runs.run()
        assert run.stat("feedexport/failed_count/Bucket") == 1
        assert not bucket
        assert not await runs.finish()
        assert not bucket
        assert await runs.finish()
        assert len(run.signals) == 3

    in_loop(crawl(Runs(tmp_path, BATCHES, **STORAGES)))
    assert [ids(data) for data in bucket.values()] == [[0, 1, 2], [3, 4, 5], [6]]


def test_the_last_batch_of_a_crawl_that_is_not_complete_waits(
    tmp_path: Path, bucket: dict[str, bytes]
) -> None:
    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 4))
        assert not await runs.finish(complete=False)
        assert [ids(data) for data in bucket.values()] == [[0, 1, 2]]
        runs.kill()
        await runs.accept(*numbered(4, 1))
        assert await runs.finish()

    in_loop(crawl(Runs(tmp_path, BATCHES, **STORAGES)))
    assert [ids(data) for data in bucket.values()] == [[0, 1, 2], [3, 4]]


def named(params: dict[str, Any], spider: Any) -> dict[str, Any]:
    CALLS.append(params)
    return {**params, "call": len(CALLS)}


CALLS: list[dict[str, Any]] = []


def test_what_an_own_function_has_answered_is_kept(tmp_path: Path, bucket: dict[str, bytes]) -> None:
    """Even one that answers something else each time."""
    CALLS.clear()
    feeds: dict[Any, dict[str, Any]] = {
        "s3://bucket/%(call)d-%(worker)s": {"format": "json", "uri_params": named}
    }

    async def crawl(runs: Runs) -> str:
        await runs.accept(*numbered(0, 1))
        name = (await runs.run()).log.name
        runs.kill()
        assert await runs.finish()
        return name

    worker = in_loop(crawl(Runs(tmp_path, feeds, **STORAGES)))
    assert list(bucket) == [f"/1-{worker}"]
    assert {call["time"] for call in CALLS} == {"2026-11-20T10-15-00+00-00"}
    assert {call["name"] for call in CALLS} == {"shop"}
    assert BEGUN_AT == 1_795_169_700


def once(item_filter_calls: list[int]) -> type:
    """A filter that lets everything pass once."""

    class Once:
        def __init__(self, options: Any) -> None:
            self.seen: set[int] = set()

        def accepts(self, item: Any) -> bool:
            item_filter_calls.append(item["id"])
            is_new = item["id"] not in self.seen
            self.seen.add(item["id"])
            return is_new

    return Once


def test_a_filter_with_a_memory_is_not_asked_twice(tmp_path: Path, bucket: dict[str, bytes]) -> None:
    asked: list[int] = []
    feeds: dict[Any, dict[str, Any]] = {
        "s3://bucket/things.json": {"format": "json", "item_filter": once(asked)},
        "s3://bucket/%(batch_id)d.json": {
            "format": "json",
            "batch_item_count": 2,
            "item_filter": once(asked),
        },
    }

    async def crawl(runs: Runs) -> None:
        Bucket.failures = 2
        await runs.accept(*numbered(0, 3), *numbered(1, 2), *numbered(3, 1))
        assert not await runs.finish()
        assert await runs.finish()

    in_loop(crawl(Runs(tmp_path, feeds, **STORAGES)))
    assert {key: ids(data) for key, data in bucket.items()} == {
        "/things.json": [0, 1, 2, 3],
        "/1.json": [0, 1],
        "/2.json": [2, 3],
    }
    assert sorted(asked) == sorted([0, 1, 2, 1, 2, 3] * 2)
