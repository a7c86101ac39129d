"""Columns and header of CSV across runs, and what else a growing file keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scrapy.exporters import CsvItemExporter, JsonLinesItemExporter

from tests.feeds.runs import Runs, in_loop, numbered

ITEMS: list[dict[str, Any]] = [
    {"id": 0, "name": "ü"},
    {"name": "swapped", "id": 1, "more": "dropped"},
    {"more": "only"},
    {"id": 3},
]


def of_one_run(root: Path, options: dict[str, Any], items: list[Any]) -> bytes:
    root.mkdir()

    async def crawl(runs: Runs) -> None:
        await runs.accept(*items)
        assert await runs.finish()

    in_loop(crawl(Runs(root, {root / "things": options})))
    return (root / "things").read_bytes()


def of_many_runs(root: Path, options: dict[str, Any], items: list[Any]) -> bytes:
    root.mkdir()

    async def crawl(runs: Runs) -> None:
        for item in items:
            await runs.accept(item)
            await runs.consume()
            runs.kill()
        assert await runs.finish()

    in_loop(crawl(Runs(root, {root / "things": options})))
    return (root / "things").read_bytes()


CSV: dict[str, dict[str, Any]] = {
    "columns of the first item": {},
    "chosen columns": {"fields": ["more", "id"]},
    "renamed columns": {"fields": {"id": "number", "more": "other"}},
    "no header": {"item_export_kwargs": {"include_headers_line": False}, "fields": ["id", "name"]},
    "no header, no columns": {"item_export_kwargs": {"include_headers_line": False}},
    "line ends of Unix": {"item_export_kwargs": {"lineterminator": "\n"}},
    "a dialect": {"item_export_kwargs": {"delimiter": ";", "quoting": 1}},
    "utf-16, which marks its beginning": {"encoding": "utf-16"},
    "latin-1": {"encoding": "latin-1"},
}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", CSV)
def test_csv_is_the_same_in_one_run_and_in_many(tmp_path: Path, name: str, overwrite: bool) -> None:
    options = {"format": "csv", "overwrite": overwrite, **CSV[name]}
    assert of_many_runs(tmp_path / "many", options, ITEMS) == of_one_run(tmp_path / "one", options, ITEMS)


def test_csv_ends_its_lines_as_csv_does(tmp_path: Path) -> None:
    assert (
        of_many_runs(tmp_path / "many", {"format": "csv"}, ITEMS[:2])
        == "id,name\r\n0,ü\r\n1,swapped\r\n".encode()
    )


def test_the_warning_of_dropped_fields_is_scrapys(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    of_many_runs(tmp_path / "many", {"format": "csv"}, ITEMS[:2])
    assert "CSVExporter dropped fields ['more']" in caplog.text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"id,name\r\n-1,before\r\n", b"id,name\r\n-1,before\r\n0,\xc3\xbc\r\n"),
        (b"id,name\r\n-1,before", b"id,name\r\n-1,before\r\n0,\xc3\xbc\r\n"),
        (b"id,other\r\n-1,before\r\n", b"id,other\r\n-1,before\r\nid,name\r\n0,\xc3\xbc\r\n"),
        (b"id,name\r\n", b"id,name\r\n0,\xc3\xbc\r\n"),
    ],
)
def test_a_header_that_is_there_is_not_repeated(tmp_path: Path, before: bytes, after: bytes) -> None:
    (tmp_path / "things.csv").write_bytes(before)

    async def crawl(runs: Runs) -> None:
        await runs.run()
        runs.kill()
        await runs.accept(ITEMS[0])
        await runs.consume()
        runs.kill()
        assert await runs.finish()

    in_loop(crawl(Runs(tmp_path, {tmp_path / "things.csv": {"format": "csv"}})))
    assert (tmp_path / "things.csv").read_bytes() == after


class Numbered(JsonLinesItemExporter):
    """Grows by lines as its base does."""

    def export_item(self, item: Any) -> None:
        super().export_item({"line": item["id"]})


class Framed(CsvItemExporter):
    """Has an end of its own: not whole after each line."""

    def finish_exporting(self) -> None:
        self.stream.write("the end\r\n")
        super().finish_exporting()


def test_a_subclass_grows_too(tmp_path: Path) -> None:
    settings = {"FEED_EXPORTERS": {"own": Numbered}}

    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 2))
        await runs.consume()
        assert (tmp_path / "things.own").read_text() == '{"line": 0}\n{"line": 1}\n'

    in_loop(crawl(Runs(tmp_path, {tmp_path / "things.own": {"format": "own"}}, **settings)))


def test_one_with_an_end_of_its_own_is_written_at_the_end(tmp_path: Path) -> None:
    settings = {"FEED_EXPORTERS": {"own": Framed}}

    async def crawl(runs: Runs) -> None:
        for item in ITEMS[:2]:
            await runs.accept(item)
            await runs.consume()
            runs.kill()
        assert await runs.finish()

    in_loop(crawl(Runs(tmp_path, {tmp_path / "things.own": {"format": "own"}}, **settings)))
    assert (tmp_path / "things.own").read_text() == "id,name\n0,ü\n1,swapped\nthe end\n"


def test_more_than_is_written_at_once(tmp_path: Path) -> None:
    """Several rounds of announcing and writing in one call."""
    items = [{"id": number, "name": "x" * 20_000} for number in range(250)]

    async def crawl(runs: Runs) -> None:
        await runs.accept(*items[:120])
        await runs.accept(*items[120:])
        await runs.consume()
        assert (tmp_path / "things.jsonl").read_bytes().count(b"\n") == 250
        assert await runs.finish()

    in_loop(crawl(Runs(tmp_path, {tmp_path / "things.jsonl": {"format": "jsonl"}})))
