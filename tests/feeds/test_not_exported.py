"""An item that an exporter or a filter fails on: left out whole, said once, counted; nothing else is lost by it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import scrapy

from tests.feeds.formats import FORMATS
from tests.feeds.runs import Runs, in_loop, numbered


class Picky:
    """Fails on some items, until it is mended."""

    fails_on: ClassVar[set[int]] = set()


def serialize(number: int) -> int:
    if number in Picky.fails_on:
        raise ValueError("picky")
    return number


class Thing(scrapy.Item):
    name = scrapy.Field()
    id = scrapy.Field(serializer=serialize)


class PickyFilter:
    def __init__(self, options: Any) -> None:
        pass

    def accepts(self, item: Any) -> bool:
        return bool(serialize(item["id"]) >= 0)


def things(first: int, count: int) -> list[Any]:
    return [Thing(name="<first>", id=item["id"]) for item in numbered(first, count)]


@pytest.fixture(autouse=True)
def picky(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    monkeypatch.setattr(Picky, "fails_on", {0, 2})
    return Picky.fails_on


def read(path: Path) -> list[int]:
    data = path.read_bytes()
    if path.suffix == ".csv":
        header, *rows = data.decode().splitlines()
        assert header in ("name,id", "id,name")
        return [int(row.strip("<first>,")) for row in rows]
    return FORMATS[path.suffix[1:]][1](data)


FAILING: dict[str, tuple[dict[str, Any], Callable[[int, int], list[Any]]]] = {
    "exporter": ({}, things),
    "filter": ({"item_filter": PickyFilter}, numbered),
}


@pytest.mark.parametrize("who", FAILING)
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["jsonl", "json", "xml", "gz", "csv"])
def test_the_others_are_there_and_the_next_run_brings_it(
    tmp_path: Path, name: str, overwrite: bool, who: str, picky: set[int], caplog: pytest.LogCaptureFixture
) -> None:
    """The log still has everything: the other feed is not stored either."""
    if name == "csv" and who == "filter":
        pytest.skip("as JSON Lines")
    options, items = FAILING[who]
    path = tmp_path / f"things.{name}"
    feeds: dict[Any, Any] = {
        path: {**FORMATS[name][0], **options, "overwrite": overwrite},
        tmp_path / "other.json": {"format": "json", **options},
    }
    grows_in_place = not overwrite and name in ("jsonl", "csv")
    is_at = path if grows_in_place else path.with_suffix(f".incomplete.{name}")

    async def crawl(runs: Runs) -> None:
        await runs.accept(*items(0, 3))
        await runs.consume()
        await runs.accept(*items(3, 2))
        assert not await runs.finish()
        run = await runs.run()
        assert run.stat("feeds/not_exported") == 4
        await runs.stop()
        assert read(is_at) == [1, 3, 4]
        assert is_at == path or not path.exists()
        picky.clear()
        assert await runs.finish()

    in_loop(crawl(Runs(tmp_path, feeds)))
    assert read(path) == [0, 1, 2, 3, 4]
    said = [record for record in caplog.records if record.exc_info and record.levelno == logging.ERROR]
    assert len(said) == 2
    assert all("picky" in str(record.exc_info) for record in said)


def test_one_that_the_log_has_let_go_of_stays_lost(tmp_path: Path, picky: set[int]) -> None:
    async def crawl(runs: Runs) -> None:
        await runs.accept(*things(0, 5))
        await runs.consume()
        assert not await runs.finish()
        runs.kill()
        picky.clear()
        assert not await runs.finish()

    in_loop(crawl(Runs(tmp_path, {tmp_path / "things.jsonl": {"format": "jsonl"}})))
    assert read(tmp_path / "things.jsonl") == [1, 3, 4]


def test_batches_are_stored_without_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def crawl(runs: Runs) -> None:
        await runs.accept(*things(0, 6))
        assert not await runs.finish()
        runs.kill()
        assert not await runs.finish()

    in_loop(crawl(Runs(tmp_path, {f"{tmp_path}/%(batch_id)d.xml": {"format": "xml", "batch_item_count": 2}})))
    assert [read(tmp_path / f"{number}.xml") for number in (1, 2)] == [[1, 3], [4, 5]]
    assert "2 items could not be written to its batches" in caplog.text


def test_half_an_item_is_no_item(tmp_path: Path, picky: set[int]) -> None:
    """XML is written piece by piece: `name` is there when `id` fails."""
    picky.clear()
    picky.add(1)

    async def crawl(runs: Runs) -> None:
        await runs.accept(*things(0, 3))
        assert not await runs.finish()

    in_loop(crawl(Runs(tmp_path, {tmp_path / "things.xml": {"format": "xml"}})))
    assert read(tmp_path / "things.incomplete.xml") == [0, 2]
    assert (tmp_path / "things.incomplete.xml").read_text().count("first") == 2
