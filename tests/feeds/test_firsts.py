"""Of items that have a key in common, each feed has the first that counts: after any kill, and at any pace."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.feeds import DurableFeeds, firsts
from scrapy_durable.feeds.firsts import NAME
from tests.feeds.runs import Killed, Runs, in_loop, watch


class Keyed(DurableFeeds):
    """Items of one `sku` repeat each other; those without any repeat none."""

    def item_key(self, item: Any) -> str | None:
        return item.get("sku")


class Odd:
    """Nothing that a log can keep on disk."""


def item(number: int, sku: str | None) -> dict[str, Any]:
    return {"id": number, "sku": sku}


LEASES = [
    [item(0, "a"), item(1, "b"), item(2, "a"), item(3, None)],
    [item(4, "b"), item(5, "c")],
    [item(6, None), item(7, "a"), item(8, "d"), item(9, "d")],
    [item(10, "c"), item(11, "e")],
]
FIRSTS = [0, 1, 3, 5, 6, 8, 11]
FEEDS: dict[str, dict[str, Any]] = {
    "grows.jl": {"format": "jsonlines"},
    "replaced.jl": {"format": "jsonlines", "overwrite": True},
    "end.json": {"format": "json"},
    "part-%(batch_id)d.json": {"format": "json", "batch_item_count": 2},
}


def keyed(root: Path, **feeds: dict[str, Any]) -> Runs:
    runs = Runs(root, {root / name: options for name, options in (feeds or FEEDS).items()})
    runs.kind = Keyed
    return runs


def ids(path: Path) -> list[int]:
    text = path.read_text()
    found = json.loads(text) if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]
    return [one["id"] for one in found]


def check(root: Path) -> None:
    for name in ("grows.jl", "replaced.jl", "end.json"):
        assert ids(root / name) == FIRSTS, name
    batches = sorted(root.glob("part-*.json"))
    assert [ids(path) for path in batches] == [FIRSTS[at : at + 2] for at in (0, 2, 4, 6)]
    assert not list(root.glob("*incomplete*"))


async def finish(runs: Runs) -> None:
    assert await runs.finish()


def accept(lease: list[dict[str, Any]]) -> Callable[[Runs], Awaitable[None]]:
    return lambda runs: runs.accept(*lease)


STEPS = [*(step for lease in LEASES for step in (accept(lease), Runs.consume)), finish]


async def go_through(runs: Runs) -> None:
    for step in STEPS:
        try:
            await step(runs)
        except Killed:
            runs.killed()
            await step(runs)


def test_a_kill_at_any_moment_changes_nothing_of_it(tmp_path: Path) -> None:
    moment, moments = 0, 1
    while moment < moments:
        root = tmp_path / str(moment)
        runs = keyed(root)
        with pytest.MonkeyPatch.context() as patch:
            watch(runs.kills, patch)
            save = firsts.Firsts.save

            def watched(self: firsts.Firsts, runs: Runs = runs) -> None:
                if self._waiting:
                    runs.kills.moment("before the firsts")
                    save(self)  # noqa: B023
                    runs.kills.moment("after the firsts")

            patch.setattr(firsts.Firsts, "save", watched)
            runs.kills.at = moment
            in_loop(go_through(runs))
            runs.kill()
        check(root)
        moments = max(moments, len(runs.kills.moments))
        moment += 1
    assert moment > 20


def test_firsts_that_are_saved_behind_the_notes_would_double_items(tmp_path: Path) -> None:
    """The counterpart: killed after the notes, without what they rest on."""
    runs = keyed(tmp_path / "root", **{"grows.jl": FEEDS["grows.jl"]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(firsts.Firsts, "save", lambda self: None)
        in_loop(runs.accept(*LEASES[0]))
        in_loop(runs.consume())
        runs.kill()
        in_loop(runs.accept(*LEASES[1]))
        in_loop(runs.consume())
        in_loop(runs.finish())
    assert ids(runs.root / "grows.jl") != [number for number in FIRSTS if number < 6]


def test_what_counts_in_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firsts, "_WAITING", 2)
    runs = keyed(tmp_path / "root", **{"end.json": FEEDS["end.json"]})
    for lease in LEASES:
        in_loop(runs.accept(*lease))
    in_loop(runs.finish())
    assert ids(runs.root / "end.json") == FIRSTS
    with sqlite3.connect(runs.state_dir / NAME) as db:
        assert db.execute("SELECT count(*) FROM first").fetchone() == (5,)


def test_an_item_that_is_lost_with_its_process_takes_no_other_along(tmp_path: Path) -> None:
    """Places are those of the log, where what is lost has one too."""
    runs = keyed(
        tmp_path / "root",
        **{"end.json": FEEDS["end.json"], "part-%(batch_id)d.json": FEEDS["part-%(batch_id)d.json"]},
    )
    in_loop(runs.accept({"odd": Odd()}, item(1, "b"), item(2, "c"), item(3, "b")))
    in_loop(runs.consume())
    runs.kill()
    in_loop(runs.accept(item(4, "c"), item(5, "d")))
    in_loop(runs.finish())
    assert ids(runs.root / "end.json") == [1, 2, 5]


def test_they_are_forgotten_with_the_crawl_and_are_of_one_log(tmp_path: Path) -> None:
    runs = keyed(tmp_path / "root", **{"grows.jl": {**FEEDS["grows.jl"], "overwrite": True}})
    in_loop(runs.accept(*LEASES[0]))
    in_loop(runs.consume())
    runs.kill()
    runs.crawl_id = "shop-2"  # what is left of a crawl whose log another one has taken
    in_loop(runs.accept(*LEASES[0]))
    in_loop(runs.finish())
    assert ids(runs.root / "grows.jl") == [0, 1, 3]
    run = in_loop(runs.run())
    run.feeds.forget()
    assert not list(runs.state_dir.glob(f"{NAME}*"))


@pytest.mark.parametrize("what", ["gone", "damaged"])
def test_a_feed_that_cannot_know_them_is_refused_in_one_line(tmp_path: Path, what: str) -> None:
    runs = keyed(tmp_path / "root", **{"grows.jl": FEEDS["grows.jl"]})
    in_loop(runs.accept(*LEASES[0]))
    in_loop(runs.consume())
    runs.kill()
    for path in runs.state_dir.glob(f"{NAME}*"):
        path.unlink()
    if what == "damaged":
        (runs.state_dir / NAME).write_bytes(b"no database" * 1000)
    with pytest.raises(ConfigurationError, match=f"{NAME} (is missing|cannot be read)"):
        in_loop(runs.run())


def test_a_disk_that_is_full_makes_the_feeds_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = keyed(tmp_path / "root", **{"grows.jl": FEEDS["grows.jl"]})
    save, is_full = firsts.Firsts.save, True

    def save_if_there_is_room(self: firsts.Firsts) -> None:
        if self._waiting and is_full:
            raise OSError(28, "No space left on device", str(self.path))
        save(self)

    monkeypatch.setattr(firsts.Firsts, "save", save_if_there_is_room)
    in_loop(runs.accept(*LEASES[0]))
    in_loop(runs.consume())
    assert not ids(runs.root / "grows.jl")
    is_full = False
    in_loop(runs.accept(*LEASES[1]))
    in_loop(runs.consume())
    assert ids(runs.root / "grows.jl") == [0, 1, 3, 5]
