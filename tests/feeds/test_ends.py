"""How runs and crawls end: stopped, complete or not, and what the next one finds."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.feeds.formats import FORMATS
from tests.feeds.runs import Runs, in_loop, numbered

ALL = {name: options for name, (options, _) in FORMATS.items()}


def each(ids: list[int], names: Iterable[str] = ALL) -> dict[str, list[int]]:
    return {name: list(ids) for name in names}


def feeds(root: Path, **options: Any) -> dict[Any, dict[str, Any]]:
    return {root / f"things.{name}": {**chosen, **options} for name, chosen in ALL.items()}


def found(root: Path, infix: str = "") -> dict[str, list[int]]:
    return {
        name: FORMATS[name][1](path.read_bytes())
        for name in ALL
        if (path := root / f"things{infix}.{name}").exists()
    }


def test_a_complete_crawl_replaces_what_was_there(tmp_path: Path) -> None:
    for path in feeds(tmp_path):
        path.write_text("yesterday's")
        path.chmod(0o640)

    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 3))
        await runs.consume()
        assert {path.read_text() for path in feeds(tmp_path)} == {"yesterday's"}
        assert await runs.finish()
        assert len((await runs.run()).signals) == len(ALL)

    in_loop(crawl(Runs(tmp_path, feeds(tmp_path, overwrite=True))))
    assert found(tmp_path) == each([0, 1, 2])
    assert {path.stat().st_mode & 0o777 for path in feeds(tmp_path)} == {0o640}
    assert len(list(tmp_path.iterdir())) == len(ALL) + 1


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "things.json").symlink_to(tmp_path / "elsewhere" / "things.json")
    runs = Runs(tmp_path, {tmp_path / "things.json": {"format": "json", "overwrite": True}})
    assert in_loop(runs.finish())
    assert (tmp_path / "things.json").is_symlink()
    assert (tmp_path / "elsewhere" / "things.json").read_text().split() == ["[", "]"]


def test_one_that_is_not_complete_replaces_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for path in feeds(tmp_path):
        path.write_text("yesterday's")

    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 3))
        assert await runs.finish(complete=False)
        assert not (await runs.run()).signals
        assert {path.read_text() for path in feeds(tmp_path)} == {"yesterday's"}
        await runs.stop()

    in_loop(crawl(Runs(tmp_path, feeds(tmp_path, overwrite=True))))
    assert found(tmp_path, ".incomplete") == each([0, 1, 2])
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == len(ALL)
    assert all("is not complete" in line and ".incomplete." in line for line in said)


@pytest.mark.parametrize("overwrite", [False, True])
def test_one_that_is_not_complete_goes_on(tmp_path: Path, overwrite: bool) -> None:
    """Dead letters are done again, and bring more items."""

    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 3))
        assert await runs.finish(complete=False)
        await runs.stop()
        await runs.accept(*numbered(3, 2))
        assert await runs.finish(complete=False)
        runs.kill()
        await runs.accept(*numbered(5, 1))
        assert await runs.finish()

    in_loop(crawl(Runs(tmp_path, feeds(tmp_path, overwrite=overwrite))))
    assert found(tmp_path) == each(list(range(6)))
    assert not found(tmp_path, ".incomplete")


def test_a_stopped_run_leaves_what_grows_up_to_date(tmp_path: Path) -> None:
    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 3))
        run = await runs.stop()
        assert run.signals == [None]
        assert found(tmp_path) == {"jsonl": [0, 1, 2], "csv": [0, 1, 2]}
        assert not found(tmp_path, ".incomplete")
        await runs.accept(*numbered(3, 1))
        assert await runs.finish()

    in_loop(crawl(Runs(tmp_path, feeds(tmp_path))))
    assert found(tmp_path) == each(list(range(4)))


@pytest.mark.parametrize("overwrite", [False, True])
def test_the_next_crawl_begins_afresh(tmp_path: Path, overwrite: bool) -> None:
    growing = {
        tmp_path / f"things.{name}": {**ALL[name], "overwrite": overwrite} for name in ("jsonl", "csv")
    }

    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 2))
        assert await runs.finish()
        runs.begin_again()
        await runs.accept(*numbered(2, 2))
        assert await runs.finish()

    in_loop(crawl(Runs(tmp_path, growing)))
    expected = [2, 3] if overwrite else [0, 1, 2, 3]
    assert found(tmp_path) == {"jsonl": expected, "csv": expected}


def test_notes_of_an_earlier_crawl_that_were_left_say_nothing(tmp_path: Path) -> None:
    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 2))
        assert await runs.finish()
        noted = (runs.state_dir / "feeds.json").read_bytes()
        runs.begin_again()
        runs.state_dir.mkdir(parents=True)
        (runs.state_dir / "feeds.json").write_bytes(noted)
        await runs.accept(*numbered(2, 2))
        assert await runs.finish()

    in_loop(crawl(Runs(tmp_path, {tmp_path / "things.jsonl": {**ALL["jsonl"], "overwrite": True}})))
    assert found(tmp_path) == {"jsonl": [2, 3]}


def test_a_forgotten_crawl_leaves_no_notes(tmp_path: Path) -> None:
    async def crawl(runs: Runs) -> None:
        assert await runs.finish()
        run = await runs.run()
        run.feeds.forget()
        run.log.remove()
        await run.feeds.close_spider(run.spider)

    runs = Runs(tmp_path, feeds(tmp_path))
    in_loop(crawl(runs))
    assert not runs.state_dir.exists()


def test_items_that_come_after_the_end_are_not_lost_in_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 2))
        assert await runs.finish()
        await runs.accept(*numbered(2, 1))
        assert not await runs.finish()

    in_loop(crawl(Runs(tmp_path, feeds(tmp_path, overwrite=True))))
    assert sum("is stored already" in record.getMessage() for record in caplog.records) == len(ALL)


def test_what_appends_takes_what_comes_after_the_end(tmp_path: Path) -> None:
    batches = {f"{tmp_path}/%(batch_id)d.jsonl": {"format": "jsonl", "batch_item_count": 2}}

    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 3))
        assert await runs.finish()
        runs.kill()
        await runs.accept(*numbered(3, 1))
        assert await runs.finish()

    in_loop(crawl(Runs(tmp_path, {tmp_path / "things.jsonl": ALL["jsonl"], **batches})))
    assert found(tmp_path)["jsonl"] == [0, 1, 2, 3]
    assert [FORMATS["jsonl"][1]((tmp_path / f"{number}.jsonl").read_bytes()) for number in (1, 2, 3)] == [
        [0, 1],
        [2],
        [3],
    ]


def test_a_file_that_somebody_makes_meanwhile_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 2))
        (tmp_path / "things.json").write_text("theirs")
        assert not await runs.finish()

    in_loop(crawl(Runs(tmp_path, {tmp_path / "things.json": ALL["json"]})))
    assert (tmp_path / "things.json").read_text() == "theirs"
    assert len(json.loads((tmp_path / "things.incomplete.json").read_text())) == 2
    assert "somebody else" in caplog.text


def test_batches_go_behind_what_has_their_names(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"{number}.csv").write_text("id,name\r\n-1,before\r\n")
        (tmp_path / f"{number}.jsonl").write_text('{"id": -1}')
    batches = {
        f"{tmp_path}/%(batch_id)d.{name}": {**ALL[name], "batch_item_count": 2} for name in ("csv", "jsonl")
    }

    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 5))
        assert await runs.finish()

    in_loop(crawl(Runs(tmp_path, batches)))
    for name in ("csv", "jsonl"):
        assert [FORMATS[name][1]((tmp_path / f"{number}.{name}").read_bytes()) for number in (1, 2, 3)] == [
            [-1, 0, 1],
            [-1, 2, 3],
            [4],
        ]


def test_a_later_batch_that_cannot_be_appended_to_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "2.json").write_text("[]")
    batches = {f"{tmp_path}/%(batch_id)d.json": {"format": "json", "batch_item_count": 2}}

    async def crawl(runs: Runs) -> None:
        await runs.accept(*numbered(0, 3))
        await runs.consume()
        await runs.consume()
        assert not await runs.finish()
        (tmp_path / "2.json").unlink()
        assert await runs.finish()

    in_loop(crawl(Runs(tmp_path, batches)))
    assert [len(json.loads((tmp_path / f"{number}.json").read_text())) for number in (1, 2)] == [2, 1]
    assert sum("2.json: json cannot be appended to" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize("overwrite", [False, True])
def test_nothing_is_made_of_nothing_when_that_is_not_wanted(tmp_path: Path, overwrite: bool) -> None:
    async def crawl(runs: Runs) -> None:
        assert await runs.finish()
        runs.kill()
        assert await runs.finish()
        assert (await runs.stop()).signals == [None]

    in_loop(crawl(Runs(tmp_path, feeds(tmp_path, overwrite=overwrite, store_empty=False))))
    assert not found(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


def test_no_directory_is_made_for_batches_of_nothing(tmp_path: Path) -> None:
    async def crawl(runs: Runs) -> None:
        assert await runs.finish()
        assert (await runs.stop()).signals == [None]

    batches = {
        tmp_path / "made" / "%(batch_id)d.json": {
            "format": "json",
            "store_empty": False,
            "batch_item_count": 2,
        }
    }
    in_loop(crawl(Runs(tmp_path, batches)))
    assert not (tmp_path / "made").exists()


def test_the_log_is_let_go_of_as_far_as_every_feed_is(tmp_path: Path) -> None:
    async def crawl(runs: Runs) -> None:
        run = await runs.run()
        for number in range(20):
            await runs.accept(*numbered(number * 20, 20))
            await runs.consume()
        await run.log.write()
        assert run.log.size < 3 * 4096 + 4096
        assert await runs.finish()

    in_loop(
        crawl(Runs(tmp_path, {tmp_path / "things.jsonl": ALL["jsonl"], tmp_path / "things.csv": ALL["csv"]}))
    )
    assert found(tmp_path) == each(list(range(400)), ["jsonl", "csv"])
