"""Each moment at which a kill makes a difference, one by one: afterwards each feed has each item once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.feeds.formats import FORMATS
from tests.feeds.runs import Killed, Runs, in_loop, numbered, watch


async def finish(runs: Runs) -> None:
    assert await runs.finish()


STEPS: list[Callable[[Runs], Awaitable[None]]] = [
    lambda runs: runs.accept(*numbered(0, 3)),
    Runs.consume,
    lambda runs: runs.accept(*numbered(3, 2)),
    lambda runs: runs.accept(*numbered(5, 2)),
    Runs.consume,
    lambda runs: runs.accept(*numbered(7, 1)),
    finish,
]


async def go_through(runs: Runs) -> None:
    """The steps of a crawl to its end; what is killed is done again by the next run."""
    for step in STEPS:
        try:
            await step(runs)
        except Killed:
            runs.killed()
            await step(runs)


def killed_at_each_moment(
    tmp_path: Path, feeds: Callable[[Path], dict[Any, dict[str, Any]]], check: Callable[[Path], None]
) -> None:
    """Go through the steps as often as there are moments to be killed at, and check what is left each time."""
    moment, moments = 0, 1
    while moment < moments:
        root = tmp_path / str(moment)
        runs = Runs(root, feeds(root))
        with pytest.MonkeyPatch.context() as patch:
            watch(runs.kills, patch)
            runs.kills.at = moment
            in_loop(go_through(runs))
            runs.kill()
        try:
            check(root)
        except Exception as error:
            error.add_note(f"killed {runs.kills.moments[moment]}, which was moment {moment}")
            raise
        moments = max(moments, len(runs.kills.moments))
        moment += 1
    assert moment > 10


def files_in(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_file())


@pytest.mark.parametrize("overwrite", [False, True], ids=["-o", "-O"])
@pytest.mark.parametrize("name", FORMATS)
def test_each_item_is_there_once(tmp_path: Path, name: str, overwrite: bool) -> None:
    options, read = FORMATS[name]

    def check(root: Path) -> None:
        assert read((root / f"things.{name}").read_bytes()) == list(range(8))
        assert len(files_in(root)) == 1

    killed_at_each_moment(
        tmp_path, lambda root: {root / f"things.{name}": {**options, "overwrite": overwrite}}, check
    )


@pytest.mark.parametrize("name", ["jsonl", "csv", "json", "gz"])
def test_batches_are_whole_and_keep_their_names(tmp_path: Path, name: str) -> None:
    options, read = FORMATS[name]

    def check(root: Path) -> None:
        found = [read(path.read_bytes()) for path in files_in(root)]
        assert found == [[0, 1, 2], [3, 4, 5], [6, 7]]

    killed_at_each_moment(
        tmp_path,
        lambda root: {f"{root}/%(batch_id)02d-%(batch_time)s.{name}": {**options, "batch_item_count": 3}},
        check,
    )


def test_several_feeds_do_not_disturb_each_other(tmp_path: Path) -> None:
    def feeds(root: Path) -> dict[Any, dict[str, Any]]:
        return {root / f"things.{name}": FORMATS[name][0] for name in ("jsonl", "csv", "json")}

    def check(root: Path) -> None:
        for name in ("jsonl", "csv", "json"):
            assert FORMATS[name][1]((root / f"things.{name}").read_bytes()) == list(range(8))

    killed_at_each_moment(tmp_path, feeds, check)


def test_what_was_there_stays(tmp_path: Path) -> None:
    """`-o`: also a last line that somebody has not ended."""

    def feeds(root: Path) -> dict[Any, dict[str, Any]]:
        root.mkdir()
        (root / "things.jsonl").write_text('{"id": -2}\n{"id": -1}')
        (root / "things.csv").write_text("id,name\r\n-1,before\r\n")
        return {root / f"things.{name}": FORMATS[name][0] for name in ("jsonl", "csv")}

    def check(root: Path) -> None:
        for name, before in (("jsonl", [-2, -1]), ("csv", [-1])):
            assert FORMATS[name][1]((root / f"things.{name}").read_bytes()) == [*before, *range(8)]

    killed_at_each_moment(tmp_path, feeds, check)
