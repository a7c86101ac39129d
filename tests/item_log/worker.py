"""A worker that is killed: it makes items of several leases at once, and says each step to the frontier, which is its
parent, in a line before it takes the next.

    python -m tests.item_log.worker DIRECTORY FIRST_TOKEN REMEMBERED…

Lines are `leased TOKEN`, `logged TOKEN COUNT` (the frontier accepts it when it reads that) and `confirmed TOKEN`.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from scrapy_durable.item_log import ItemLog
from tests.item_log.logs import CODEC, CRAWL


def say(*words: object) -> None:
    """One line, at once; whether it was read is not known."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def lease(log: ItemLog, token: int) -> None:
    """The items of one lease, in up to three flushes; then it is acknowledged, or discarded."""
    dice = random.Random(token)
    say("leased", token)
    count = 0
    for _ in range(dice.randint(1, 3)):
        for _ in range(dice.randint(1, 5)):
            log.append(token, [token, count, "x" * dice.choice((10, 1000, 20_000))])
            count += 1
        await log.write()
    if dice.random() < 0.2:
        log.discard([token])
        return
    say("logged", token, count)
    log.accept([token])
    await log.write()
    for confirmed in log.confirmed():
        say("confirmed", confirmed)


async def main(directory: Path, first: int, remembered: list[int]) -> None:
    log = ItemLog(directory, CODEC, segment_bytes=100_000)
    found = log.open(CRAWL)
    log.accept(remembered)
    log.discard(set(found) - set(remembered))
    await log.write()
    for confirmed in log.confirmed():
        say("confirmed", confirmed)
    for token in range(first, first + 100_000, 4):
        await asyncio.gather(*(lease(log, other) for other in range(token, token + 4)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), [int(token) for token in sys.argv[3:]]))
