"""Somebody else has changed a growing file between two runs, or during one: said, and put right where it can be."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.feeds.runs import Killed, Runs, in_loop, numbered


def ids(path: Path) -> list[Any]:
    return [json.loads(line)["id"] for line in path.read_bytes().splitlines()]


def lines_of(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def keeps_the_log(root: Path) -> dict[Any, dict[str, Any]]:
    """The other feed needs the log until it is stored."""
    return {root / "things.jsonl": {"format": "jsonl"}, root / "things.json": {"format": "json"}}


def lets_go(root: Path) -> dict[Any, dict[str, Any]]:
    return {root / "things.jsonl": {"format": "jsonl"}}


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write('{"id": "theirs"}\n')


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def remove(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    path.unlink()
    path.write_text('{"id": "theirs"}\n' * 100)


async def crawl(runs: Runs, change: Callable[[Path], None], *, kill: bool, file: Path) -> bool:
    await runs.accept(*numbered(0, 4))
    await runs.consume()
    if kill:
        runs.kill()
    change(file)
    await runs.accept(*numbered(4, 2))
    await runs.consume()
    await runs.consume()
    runs.kill()
    await runs.accept(*numbered(6, 1))
    return await runs.finish()


@pytest.mark.parametrize("kill", [True, False], ids=["between runs", "during a run"])
@pytest.mark.parametrize("change", [truncate, empty, remove])
def test_it_is_written_anew_while_the_log_has_everything(
    tmp_path: Path, change: Callable[[Path], None], kill: bool, caplog: pytest.LogCaptureFixture
) -> None:
    runs, file = Runs(tmp_path, keeps_the_log(tmp_path)), tmp_path / "things.jsonl"
    assert in_loop(crawl(runs, change, kill=kill, file=file))
    assert ids(file) == list(range(7))
    [said] = lines_of(caplog, logging.WARNING)
    assert str(file) in said
    assert "written anew" in said


@pytest.mark.parametrize("kill", [True, False], ids=["between runs", "during a run"])
@pytest.mark.parametrize("change", [truncate, empty, remove, replace])
def test_it_is_said_when_items_are_lost(
    tmp_path: Path, change: Callable[[Path], None], kill: bool, caplog: pytest.LogCaptureFixture
) -> None:
    runs, file = Runs(tmp_path, lets_go(tmp_path)), tmp_path / "things.jsonl"
    assert not in_loop(crawl(runs, change, kill=kill, file=file))
    assert file.read_bytes().splitlines()[-3:] == [json.dumps(item).encode() for item in numbered(4, 3)]
    assert any("items that were in it are lost" in line for line in lines_of(caplog, logging.ERROR))


@pytest.mark.parametrize("kill", [True, False], ids=["between runs", "during a run"])
@pytest.mark.parametrize("feeds", [keeps_the_log, lets_go])
def test_what_others_have_appended_stays(
    tmp_path: Path, feeds: Callable[[Path], Any], kill: bool, caplog: pytest.LogCaptureFixture
) -> None:
    runs, file = Runs(tmp_path, feeds(tmp_path)), tmp_path / "things.jsonl"
    assert in_loop(crawl(runs, append, kill=kill, file=file))
    assert ids(file) == [0, 1, 2, 3, "theirs", 4, 5, 6]
    assert any("which stays" in line for line in lines_of(caplog, logging.WARNING))


def test_what_has_replaced_it_stays(tmp_path: Path) -> None:
    runs, file = Runs(tmp_path, keeps_the_log(tmp_path)), tmp_path / "things.jsonl"
    assert in_loop(crawl(runs, replace, kill=True, file=file))
    assert ids(file) == ["theirs"] * 100 + list(range(7))


@pytest.mark.parametrize("change", [truncate, empty, remove, replace, append])
def test_the_file_beside_the_name_is_the_crawls_own(tmp_path: Path, change: Callable[[Path], None]) -> None:
    feeds = keeps_the_log(tmp_path)
    feeds[tmp_path / "things.jsonl"]["overwrite"] = True
    (tmp_path / "things.jsonl").write_text("yesterday's\n")
    runs = Runs(tmp_path, feeds)
    assert in_loop(crawl(runs, change, kill=True, file=tmp_path / "things.incomplete.jsonl"))
    assert ids(tmp_path / "things.jsonl") == list(range(7))


def test_a_disk_that_is_full_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from scrapy_durable.feeds import growing_file

    def half(file: Any, data: bytes) -> None:
        file.write(data[: len(data) // 2])
        raise OSError(28, "No space left on device", "things.jsonl")

    async def steps(runs: Runs) -> None:
        await runs.accept(*numbered(0, 3))
        with monkeypatch.context() as patch:
            patch.setattr(growing_file, "write_all", half)
            await runs.consume()
            await runs.consume()
            assert not await runs.finish()
        await runs.accept(*numbered(3, 2))
        await runs.consume()
        assert ids(tmp_path / "things.jsonl") == list(range(5))
        assert await runs.finish()

    in_loop(steps(Runs(tmp_path, lets_go(tmp_path))))
    [said] = lines_of(caplog, logging.ERROR)
    assert "things.jsonl cannot be written for now: things.jsonl: No space left on device" in said


def test_nothing_is_written_that_cannot_be_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from scrapy_durable.feeds import notes

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    async def steps(runs: Runs) -> None:
        await runs.accept(*numbered(0, 3))
        position = (await runs.run()).feeds.position
        with monkeypatch.context() as patch:
            patch.setattr(notes, "write_atomically", full)
            await runs.consume()
            await runs.consume()
            assert not await runs.finish()
            assert (tmp_path / "things.jsonl").read_bytes() == b""
            assert (await runs.run()).feeds.position == position
        await runs.consume()
        assert ids(tmp_path / "things.jsonl") == list(range(3))
        assert await runs.finish()

    in_loop(steps(Runs(tmp_path, lets_go(tmp_path))))
    assert len(lines_of(caplog, logging.ERROR)) == 1


@pytest.mark.parametrize(
    "noted",
    [
        "",
        "[]",
        '{"version": 1}',
        '{"version": 1, "log": "LOG", "released": [0], "feeds": {}}',
        '{"version": 2}',
    ],
)
def test_notes_that_cannot_be_read_are_refused(tmp_path: Path, noted: str) -> None:
    from scrapy_durable.exceptions import ConfigurationError

    async def steps(runs: Runs) -> None:
        await runs.accept(*numbered(0, 3))
        name = (await runs.run()).log.name
        runs.kill()
        (runs.state_dir / "feeds.json").write_text(noted.replace("LOG", name))
        with pytest.raises(ConfigurationError, match=r"feeds\.json"):
            await runs.run()

    in_loop(steps(Runs(tmp_path, lets_go(tmp_path))))


def test_what_others_append_to_lines_that_are_not_noted_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the write and before it is noted: the lines are the crawl's, and what follows is not."""
    from scrapy_durable.feeds.growing_file import GrowingFile

    runs, file = Runs(tmp_path, lets_go(tmp_path)), tmp_path / "things.jsonl"

    def die(_: GrowingFile) -> None:
        runs.kills.at, runs.kills.moments = 0, []
        runs.kills.moment("written")

    async def steps() -> None:
        await runs.accept(*numbered(0, 3))
        with monkeypatch.context() as patch:
            patch.setattr(GrowingFile, "flush", die)
            with pytest.raises(Killed):
                await runs.consume()
        runs.killed()
        append(file)
        await runs.accept(*numbered(3, 2))
        assert await runs.finish()

    in_loop(steps())
    assert ids(file) == [0, 1, 2, "theirs", 3, 4]
