"""With an item log a feed has the bytes that Scrapy's own extension writes, whatever the options."""

from __future__ import annotations

import gzip
import io
import marshal
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import scrapy
from scrapy.extensions.feedexport import FeedExporter, ItemFilter
from scrapy.utils.test import get_crawler

from scrapy_durable.feeds import DurableFeeds
from tests.feeds.runs import Runs, ShopSpider, heard, in_loop


class Thing(scrapy.Item):
    id = scrapy.Field()
    name = scrapy.Field(serializer=str.upper)
    tags = scrapy.Field()


@dataclass
class Price:
    amount: Decimal = Decimal("9.90")
    seen: datetime = field(default_factory=lambda: datetime(2026, 11, 20, tzinfo=UTC))


class OnlyEven(ItemFilter):
    def accepts(self, item: Any) -> bool:
        return super().accepts(item) and (not isinstance(item, Thing) or item["id"] % 2 == 0)


GZIP = b"\x1f\x8b"


def things() -> list[Any]:
    made: list[Any] = [Thing(id=number, name=f"thing {number}", tags=["a", "ü"]) for number in range(5)]
    return [
        *made,
        Price(),
        Price(Decimal("0.1")),
        {"id": 7, "name": "a dictionary", "more": {"x": [1, None]}},
    ]


THING = f"{__name__}.Thing"
OPTIONS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "fields": {"fields": ["name", "id"]},
    "fields with other names": {"fields": {"id": "number", "name": "called"}},
    "item classes": {"item_classes": [THING]},
    "a filter": {"item_filter": OnlyEven},
    "both": {"item_filter": f"{__name__}.OnlyEven", "item_classes": [THING, f"{__name__}.Price"]},
    "nothing passes": {"item_classes": ["scrapy.Request"]},
    "nothing passes, nothing is wanted": {"item_classes": ["scrapy.Request"], "store_empty": False},
    "encoding": {"encoding": "latin-1", "item_classes": [THING]},
    "utf-16": {"encoding": "utf-16", "item_classes": [THING]},
    "indent": {"indent": 4},
    "gzip": {
        "postprocessing": ["scrapy.extensions.postprocessing.GzipPlugin"],
        "gzip_mtime": 0,
        "gzip_filename": "",
    },
    "batches": {"batch_item_count": 3},
    "batches that come out even": {"batch_item_count": 4},
    "empty batches": {"batch_item_count": 3, "item_classes": ["scrapy.Request"]},
}
OF_EXPORTERS: dict[str, dict[str, Any]] = {
    "csv": {"include_headers_line": False},
    "xml": {"root_element": "shop", "item_element": "thing"},
    "jsonlines": {"sort_keys": True},
    "json": {"sort_keys": True},
}
FORMATS = ["csv", "json", "jsonlines", "xml", "pickle", "marshal"]


def settings(root: Path, format_: str, options: dict[str, Any]) -> dict[Any, dict[str, Any]]:
    name = "%(batch_id)d-%(name)s" if options.get("batch_item_count") else "%(name)s"
    return {f"{root}/{name}.{format_}": {"format": format_, **options}}


async def stock(feeds: dict[Any, dict[str, Any]], items: list[Any]) -> tuple[list[str], dict[str, Any]]:
    """What Scrapy's own extension tells."""
    crawler = get_crawler(ShopSpider, {"FEEDS": feeds})
    crawler.spider = spider = crawler._create_spider()
    exporter = FeedExporter.from_crawler(crawler)
    told = heard(crawler)
    exporter.open_spider(spider)
    for item in items:
        exporter.item_scraped(item, spider)
    await exporter.close_spider(spider)
    return names_of(told), stats_of(crawler.stats)


async def ours(
    root: Path, feeds: dict[Any, dict[str, Any]], items: list[Any]
) -> tuple[list[str], dict[str, Any]]:
    runs = Runs(root, feeds)
    run = await runs.run()
    for number in range(0, len(items), 2):
        await runs.accept(*items[number : number + 2])
        await runs.consume()
    assert await runs.finish()
    await runs.stop()
    return names_of(run.signals), stats_of(run.crawler.stats)


def names_of(told: list[Any]) -> list[str]:
    """Batches are stored by Scrapy in whatever order."""
    closed = sorted(f"{Path(slot.uri).name}: {slot.itemcount}" for slot in told if slot is not None)
    return [*closed, *("all" for slot in told if slot is None)]


def stats_of(stats: Any) -> dict[str, Any]:
    return {name: value for name, value in stats.get_stats().items() if name.startswith("feed")}


def files(root: Path) -> dict[str, Any]:
    return {path.name: content(path) for path in root.iterdir() if path.is_file()}


def content(path: Path) -> Any:
    """The bytes; of marshal what they say, since equal objects that are one have other bytes than two."""
    data = path.read_bytes()
    if path.suffix != ".marshal":
        return data
    return content_of(gzip.decompress(data) if data.startswith(GZIP) else data)


def content_of(data: bytes) -> list[Any]:
    file, found = io.BytesIO(data), []
    while file.tell() < len(data):
        found.append(marshal.load(file))
    return found


def compare(tmp_path: Path, format_: str, options: dict[str, Any], items: Callable[[], list[Any]]) -> None:
    theirs, own = tmp_path / "theirs", tmp_path / "ours"
    expected = in_loop(stock(settings(theirs, format_, options), items()))
    found = in_loop(ours(own, settings(own, format_, options), items()))
    theirs.mkdir(exist_ok=True)
    assert files(own) == files(theirs)
    assert found == expected


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("format_", FORMATS)
def test_options_mean_the_same(tmp_path: Path, format_: str, options: str) -> None:
    chosen = OPTIONS[options]
    if "encoding" in chosen and format_ in ("pickle", "marshal"):
        pytest.skip("it has no encoding")
    takes_all = format_ != "marshal"  # which holds no Decimal
    compare(
        tmp_path, format_, chosen, lambda: [item for item in things() if takes_all or type(item) is not Price]
    )


@pytest.mark.parametrize("format_", OF_EXPORTERS)
def test_an_exporter_gets_its_own_options(tmp_path: Path, format_: str) -> None:
    options = {"item_export_kwargs": OF_EXPORTERS[format_], "item_classes": [THING]}
    compare(tmp_path, format_, options, things)


@pytest.mark.parametrize("overwrite", [False, True])
def test_jsonl_that_was_there(tmp_path: Path, overwrite: bool) -> None:
    for name in ("theirs", "ours"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "shop.jsonlines").write_text('{"id": -1}\n')
    compare(tmp_path, "jsonlines", {"overwrite": overwrite}, things)


def test_without_a_log_it_is_scrapys(tmp_path: Path) -> None:
    """`begin` is not called."""

    async def crawl() -> list[str]:
        crawler = get_crawler(ShopSpider, {"FEEDS": {tmp_path / "things.jsonl": {"format": "jsonlines"}}})
        crawler.spider = spider = crawler._create_spider()
        feeds = DurableFeeds.from_crawler(crawler)
        told = heard(crawler)
        feeds.open_spider(spider)
        await feeds.consume()
        feeds.item_scraped({"id": 1}, spider)
        assert await feeds.finish(True)
        await feeds.close()
        await feeds.close_spider(spider)
        return names_of(told)

    assert in_loop(crawl()) == ["things.jsonl: 1", "all"]
    assert (tmp_path / "things.jsonl").read_text() == '{"id": 1}\n'
