"""What cannot be done is refused before the crawl begins, in one line that names the feed and the way out."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from scrapy.extensions.feedexport import StdoutFeedStorage

from scrapy_durable.exceptions import ConfigurationError
from tests.feeds.runs import Runs, in_loop, numbered


def refused(runs: Runs) -> str:
    with pytest.raises(ConfigurationError) as refusal:
        in_loop(runs.run())
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


@pytest.mark.parametrize("options", [{"format": "json"}, {"format": "xml"}, {"format": "pickle"}], ids=str)
def test_appending_to_what_is_written_in_one_go(tmp_path: Path, options: dict[str, Any]) -> None:
    (tmp_path / "things").write_text("before")
    line = refused(Runs(tmp_path, {tmp_path / "things": options}))
    assert str(tmp_path / "things") in line
    assert "-O" in line
    assert (tmp_path / "things").read_text() == "before"


def test_appending_to_compressed_lines(tmp_path: Path) -> None:
    (tmp_path / "things.gz").write_bytes(b"before")
    options = {"format": "jsonl", "postprocessing": ["scrapy.extensions.postprocessing.GzipPlugin"]}
    assert "-O" in refused(Runs(tmp_path, {tmp_path / "things.gz": options}))


def test_a_first_batch_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text("[]")
    options = {"format": "json", "batch_item_count": 2}
    assert "overwrite" in refused(Runs(tmp_path, {f"{tmp_path}/%(batch_id)d.json": options}))


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_that_is_empty_is_as_good_as_none(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "things.json").touch()
    runs = Runs(tmp_path, {tmp_path / "things.json": {"format": "json", "overwrite": overwrite}})
    assert in_loop(runs.finish())


@pytest.mark.parametrize(
    "names",
    [
        ("{root}/things.jsonl", "file://{root}/things.jsonl"),
        ("{root}/%(name)s.jsonl", "{root}/shop.jsonl"),
        ("{root}/link/things.json", "{root}/things.json"),
        ("{root}/things.json", "{root}/things.incomplete.json"),
        ("s3://bucket/%(name)s.json", "s3://user:secret@bucket/shop.json"),
    ],
    ids=str,
)
def test_two_feeds_at_one_address(tmp_path: Path, names: tuple[str, str]) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    feeds = {name.format(root=tmp_path): {"format": "jsonl"} for name in names}
    line = refused(Runs(tmp_path, feeds, FEED_STORAGES={"s3": "tests.feeds.storages.Bucket"}))
    assert "secret" not in line


def test_a_directory(tmp_path: Path) -> None:
    (tmp_path / "things.jsonl").mkdir()
    assert str(tmp_path / "things.jsonl") in refused(
        Runs(tmp_path, {tmp_path / "things.jsonl": {"format": "jsonl"}})
    )


def test_an_exporter_that_cannot_be_made(tmp_path: Path) -> None:
    options = {"format": "jsonl", "item_export_kwargs": {"no_such_option": 1}}
    assert "no_such_option" in refused(Runs(tmp_path, {tmp_path / "things.jsonl": options}))
    assert not (tmp_path / "things.jsonl").exists()


def test_parameters_that_nobody_knows(tmp_path: Path) -> None:
    assert "no_such" in refused(Runs(tmp_path, {f"{tmp_path}/%(no_such)s.jsonl": {"format": "jsonl"}}))


@pytest.mark.parametrize("format_", ["jsonl", "json"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_that_another_process_writes(tmp_path: Path, format_: str, overwrite: bool) -> None:
    feeds: dict[Any, Any] = {tmp_path / f"things.{format_}": {"format": format_, "overwrite": overwrite}}
    (tmp_path / "other").mkdir()
    first, second = Runs(tmp_path, feeds), Runs(tmp_path / "other", feeds)
    in_loop(first.accept(*numbered(0, 2)))
    assert "%(worker)s" in refused(second)
    assert in_loop(first.finish())


SHARED = {"REDIS_URL": "redis://127.0.0.1:1/0", "FEED_STORAGES": {"s3": "tests.feeds.storages.Bucket"}}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("s3://bucket/things.json", {"format": "json"}),
        ("{root}/%(batch_id)d.json", {"format": "json", "batch_item_count": 5}),
    ],
)
def test_one_address_for_all_workers(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    assert "%(worker)s" in refused(Runs(tmp_path, {name.format(root=tmp_path): options}, **SHARED))
    own = name.replace("things", "%(worker)s").replace("%(batch_id)d", "%(batch_id)d-%(worker)s")
    in_loop(Runs(tmp_path, {own.format(root=tmp_path): options}, **SHARED).run())


def by_worker(params: dict[str, Any], spider: Any) -> dict[str, Any]:
    return {"place": f"{params['worker']}/{params['name']}"}


def test_an_own_function_may_tell_workers_apart(tmp_path: Path) -> None:
    options = {"format": "json", "uri_params": f"{__name__}.by_worker"}
    in_loop(Runs(tmp_path, {"s3://bucket/%(place)s.json": options}, **SHARED).run())


def test_a_feed_that_comes_too_late(tmp_path: Path) -> None:
    """The log has let go of what is in the first one."""
    first = {tmp_path / "first.jsonl": {"format": "jsonl"}}
    second = {tmp_path / "second.json": {"format": "json"}}

    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 3))
        await runs.consume()
        runs.kill()

    runs = Runs(tmp_path, first)
    in_loop(crawl(runs))
    runs.feeds = {**first, **second}
    line = refused(runs)
    assert "second.json" in line
    assert "scrapy queue forget" in line
    runs.feeds = first
    assert in_loop(runs.finish())


def test_a_feed_that_comes_in_time(tmp_path: Path) -> None:
    """The log has everything: the first one is not written yet."""
    first = {tmp_path / "first.json": {"format": "json"}}
    second = {tmp_path / "second.jsonl": {"format": "jsonl"}}

    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 3))
        await runs.consume()
        runs.kill()
        runs.feeds = {**first, **second}
        assert await runs.finish()

    in_loop(crawl(Runs(tmp_path, first)))
    assert (tmp_path / "second.jsonl").read_bytes().count(b"\n") == 3


def test_what_is_done_as_scrapy_does_it_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(StdoutFeedStorage.__init__, "__defaults__", (written,))
    feeds = {
        "stdout:": {"format": "jsonl"},
        "ftp://user:secret@host/things.jsonl": {"format": "jsonl", "overwrite": False},
        tmp_path / "things.jsonl": {"format": "jsonl"},
    }

    async def crawl(runs: Runs) -> None:
        run = await runs.run()
        del run.feeds.slots[1]  # nobody is there
        for item in numbered(0, 3):
            run.feeds.item_scraped(item, run.spider)
        await runs.accept(*numbered(0, 3))
        assert await runs.finish()
        await runs.stop()

    in_loop(crawl(Runs(tmp_path, feeds)))
    said = [record.getMessage() for record in caplog.records if "as Scrapy does it" in record.getMessage()]
    assert [line.split(" ")[0] for line in said] == ["stdout:", "ftp://host/things.jsonl"]
    assert written.getvalue() == (tmp_path / "things.jsonl").read_bytes()


def test_a_log_without_durable_feeds_is_let_go_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StdoutFeedStorage.__init__, "__defaults__", (io.BytesIO(),))

    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 3))
        await runs.consume()
        run = await runs.run()
        assert not run.log.read(run.feeds.position, 10)
        assert await runs.finish()

    in_loop(crawl(Runs(tmp_path, {"stdout:": {"format": "jsonl"}})))
