"""Of items that repeat each other in the logs of two workers, the feeds of both together have one, after any kill."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from scrapy_durable.exceptions import FrontierUnavailable, LogAbandoned
from scrapy_durable.feeds import firsts, shared_firsts
from tests.feeds.runs import Killed, Kills, Runs, in_loop, watch
from tests.feeds.test_firsts import FEEDS, LEASES, Keyed, ids, item, keyed

OTHERS = [
    [item(20, "e"), item(21, "b"), item(22, "f"), item(23, None)],
    [item(24, "a"), item(25, "f"), item(26, "d")],
    [item(27, "g"), item(28, "c"), item(29, None)],
]
"""What the other worker has: `a` to `e` are in both logs."""


class Owners:
    """What the frontier does: who asks first has it."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}
        self.asked: list[str] = []
        self.refusal: Exception | None = None

    async def claim(self, worker: str, keys: Sequence[str]) -> list[bool]:
        if self.refusal is not None:
            raise self.refusal
        self.asked += keys
        return [self.of.setdefault(key, worker) == worker for key in keys]


def worker(root: Path, owners: Owners, **feeds: dict[str, Any]) -> Runs:
    root.mkdir(parents=True)
    runs = keyed(root / "root", **feeds)

    async def claim(keys: Sequence[str]) -> list[bool]:
        runs.kills.moment("before claiming")
        claimed = await owners.claim(root.name, keys)
        runs.kills.moment("after claiming")
        return claimed

    runs.claim = claim
    return runs


def in_feeds(runs: Runs) -> dict[str, Counter[int]]:
    """The items of each feed, batches as one."""
    batches = sorted(runs.root.glob("part-*.json"))
    assert not list(runs.root.glob("*incomplete*"))
    found = {name: Counter(ids(runs.root / name)) for name in ("grows.jl", "replaced.jl", "end.json")}
    return {**found, "batches": Counter(number for path in batches for number in ids(path))}


def check(workers: Sequence[Runs]) -> None:
    """Each key once, and each item without one."""
    sku_of = {one["id"]: one["sku"] for runs in workers for one in runs.accepted}
    expected = Counter([*filter(None, set(sku_of.values())), *(key for key in sku_of if not sku_of[key])])
    feeds = [in_feeds(runs) for runs in workers]
    for name in feeds[0]:
        together = sum((one[name] for one in feeds), Counter[int]())
        assert Counter(sku_of[number] or number for number in together.elements()) == expected, name
    assert all(one == feed["end.json"] for feed in feeds for one in feed.values()), "all feeds have the same"


async def go_through(workers: Sequence[Runs]) -> None:
    """Both at once, a lease each by turns; a worker that is killed does its step again."""
    leases = {workers[0]: LEASES, workers[1]: OTHERS}
    for step in range(2 * len(LEASES) + 1):
        for runs in workers:
            for _ in range(2):
                try:
                    with pytest.MonkeyPatch.context() as patch:
                        watch(runs.kills, patch)
                        watch_firsts(runs.kills, patch)
                        await take_step(runs, leases[runs], step)
                    break
                except Killed:
                    runs.killed()


async def take_step(runs: Runs, leases: list[list[dict[str, Any]]], step: int) -> None:
    number, is_consumed = divmod(step, 2)
    if number < len(leases):
        await (runs.consume() if is_consumed else runs.accept(*leases[number]))
    elif step == 2 * len(LEASES):
        assert await runs.finish()


def watch_firsts(kills: Kills, patch: pytest.MonkeyPatch) -> None:
    save = firsts.Firsts.save

    def watched(self: firsts.Firsts) -> None:
        if self._waiting:
            kills.moment("before the firsts")
            save(self)
            kills.moment("after the firsts")

    patch.setattr(firsts.Firsts, "save", watched)


@pytest.mark.parametrize("killed", [0, 1])
def test_a_kill_at_any_moment_leaves_each_once_in_both_together(killed: int, tmp_path: Path) -> None:
    moment, moments = 0, 1
    while moment < moments:
        owners = Owners()
        workers = [worker(tmp_path / str(moment) / name, owners) for name in ("one", "two")]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shared_firsts, "_MOST", 2)
            workers[killed].kills.at = moment
            in_loop(go_through(workers))
            for runs in workers:
                runs.kill()
        check(workers)
        moments = max(moments, len(workers[killed].kills.moments))
        moment += 1
    assert moment > 20


def test_without_the_others_word_both_have_what_both_have_read(tmp_path: Path) -> None:
    """The counterpart."""
    workers = [worker(tmp_path / name, Owners()) for name in ("one", "two")]
    in_loop(go_through(workers))
    with pytest.raises(AssertionError, match=r"grows\.jl"):
        check(workers)


def test_feeds_wait_for_an_answer_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    owners = Owners()
    runs = worker(tmp_path / "one", owners, **{"grows.jl": FEEDS["grows.jl"], "end.json": FEEDS["end.json"]})
    in_loop(runs.accept(*LEASES[0]))
    in_loop(runs.consume())
    owners.refusal = FrontierUnavailable("Redis does not answer")
    in_loop(runs.accept(*LEASES[1]))
    in_loop(runs.consume())
    assert ids(runs.root / "grows.jl") == [0, 1, 3]
    assert not in_loop(runs.finish())
    in_loop(runs.stop())
    assert not (runs.root / "end.json").exists()
    owners.refusal = None
    assert in_loop(runs.finish())
    assert ids(runs.root / "grows.jl") == ids(runs.root / "end.json") == [0, 1, 3, 5]
    assert owners.asked == ["a", "b", "c"]


def test_a_log_that_was_given_up_ends_the_worker(tmp_path: Path) -> None:
    owners = Owners()
    runs = worker(tmp_path / "one", owners, **{"grows.jl": FEEDS["grows.jl"]})
    in_loop(runs.accept(*LEASES[0]))
    owners.refusal = LogAbandoned("one")
    with pytest.raises(LogAbandoned):
        in_loop(runs.consume())


def test_a_stopped_worker_leaves_what_grows_with_all_that_is_its_own(tmp_path: Path) -> None:
    owners = Owners()
    owners.of["b"] = "another"
    runs = worker(tmp_path / "one", owners, **{"grows.jl": FEEDS["grows.jl"]})
    in_loop(runs.accept(*LEASES[0]))
    in_loop(runs.stop())
    assert [json.loads(line)["id"] for line in (runs.root / "grows.jl").read_text().splitlines()] == [0, 3]


def test_items_without_a_key_ask_nobody(tmp_path: Path) -> None:
    owners = Owners()
    runs = worker(tmp_path / "one", owners, **{"grows.jl": FEEDS["grows.jl"]})
    assert runs.kind is Keyed
    owners.refusal = FrontierUnavailable("Redis does not answer")
    in_loop(runs.accept(item(0, None), item(1, None)))
    in_loop(runs.consume())
    assert ids(runs.root / "grows.jl") == [0, 1]
