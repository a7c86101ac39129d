"""What workers apart have told each other is read at once, however far the frontier is."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from carscraper.monitoring.spread import ENTRIES, Spread, _stamp
from scrapy_durable.exceptions import FrontierDamaged, FrontierLost

PARTS = {f"worker-{number}": 9 for number in range(5)}
HEAD = orjson.dumps({"entries": 9, "pieces": 0, "before": 0})


class Frontier:
    """Answers once all have asked who are expected to ask at once."""

    def __init__(self, answer: bytes, number: int) -> None:
        self.asked = list[str]()
        self._answer = answer
        self._all_have_asked = asyncio.Barrier(number)

    async def workers(self) -> list[Any]:
        return [SimpleNamespace(worker=worker, report={ENTRIES: 9}, last_seen=0.0) for worker in PARTS]

    async def part(self, name: str) -> bytes:
        self.asked.append(name)
        await self._all_have_asked.wait()
        return self._answer


def scheduler_with(frontier: Frontier) -> Any:
    return SimpleNamespace(frontier=frontier, worker=SimpleNamespace(name="worker-0", lease_seconds=60))


def test_whether_the_others_have_published_is_asked_of_all_at_once() -> None:
    async def wait() -> None:
        frontier = Frontier(_stamp(PARTS), len(PARTS) - 1)
        spread = Spread(SimpleNamespace())  # type: ignore[arg-type]
        assert await spread.wait_for_publication(scheduler_with(frontier), PARTS) == []
        assert sorted(frontier.asked) == [f"published:{worker}" for worker in PARTS if worker != "worker-0"]

    asyncio.run(asyncio.wait_for(wait(), 60))


def test_the_heads_of_all_parts_are_read_at_once() -> None:
    async def read() -> None:
        frontier = Frontier(HEAD, len(PARTS))
        spread = Spread(SimpleNamespace())  # type: ignore[arg-type]
        with pytest.raises(FrontierLost, match="is not in the frontier"):
            await spread.read(scheduler_with(frontier), PARTS)
        assert frontier.asked == [f"kept:{worker}:9" for worker in PARTS]

    asyncio.run(asyncio.wait_for(read(), 60))


@pytest.mark.parametrize(
    "head",
    [b"[]", b"{", b'{"entries": 9, "pieces": 1}']
    + [
        orjson.dumps({**orjson.loads(HEAD), name: count})
        for name in ("entries", "pieces", "before")
        for count in (True, -1, 1.0, 100_000_001, "9", None)
    ],
)
def test_the_head_of_a_part_that_somebody_else_has_left_is_named(head: bytes) -> None:
    spread = Spread(SimpleNamespace())  # type: ignore[arg-type]
    with pytest.raises(FrontierDamaged, match="the part kept:worker-1:9 that somebody has left"):
        asyncio.run(spread.read(scheduler_with(Frontier(head, 1)), {"worker-1": 9}))
