"""What a look at a crawl costs the Redis that its workers share: `python -m benchmarks.status [--queued 1000000]`.

Half of the requests are queued, half delayed, over a hundred sites, each with one in flight and some done. The time
is the server's own, of the script alone (`INFO commandstats`), so that nothing else on the machine counts. The exit
status is 1 when a look takes more than 50 ms, or more than three times as long as with a thousandth of the requests.
"""

from __future__ import annotations

import argparse
import sys

import redis
import redis.asyncio
import uvloop

from scrapy_durable.frontier.contract import Entry, Outbox, SlotLimit
from scrapy_durable.frontier.redis import RedisFrontier
from scrapy_durable.frontier.redis_server import RedisKeys
from tests.redis_server import RedisServer

MOST_MS = 50.0
MOST_GROWTH = 3.0
LOOKS = 20
SITES = 100
BATCH = 2000
_PAYLOAD = b'{"v":1,"url":"https://shop.example/products/%d","callback":"parse_product","meta":{"depth":3}}'


async def milliseconds(server: RedisServer, queued: int) -> float:
    """Of the server's time, for each of some looks at a crawl with so many requests."""
    with server.client() as client:
        client.flushall()
        frontier = RedisFrontier(
            RedisKeys(redis.asyncio.Redis(port=server.port), prefix="bench"),
            worker="w1",
            limits={},
            default_limit=SlotLimit(8),
        )
        await frontier.begin("crawl")
        for first in range(0, queued, BATCH):
            entries = [
                Entry(key, f"site{key % SITES}", "parse", _PAYLOAD % key, delay=1e6 if key % 2 else 0.0)
                for key in range(first, min(first + BATCH, queued))
            ]
            inbox = await frontier.exchange(Outbox(entries=entries), SITES)
            await frontier.exchange(Outbox(acks=[lease.held for lease in inbox.leases]), 0)
        await frontier.exchange(Outbox(), SITES)
        await frontier.status(5)
        client.config_resetstat()
        for _ in range(LOOKS):
            await frontier.status(5)
        spent = client.info("commandstats")["cmdstat_evalsha"]
        await frontier.close()
    return float(spent["usec"]) / LOOKS / 1000


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--queued", type=int, default=1_000_000)
    most = parser.parse_args().queued
    with RedisServer() as server:
        found = {number: uvloop.run(milliseconds(server, number)) for number in (most // 1000, most)}
    for number, spent in found.items():
        sys.stdout.write(f"{number:>12,} queued or delayed: {spent:.2f} ms of Redis' time for a look\n")
    few, many = found.values()
    return int(many > MOST_MS or many > MOST_GROWTH * few)


if __name__ == "__main__":
    sys.exit(main())
