"""`make bench-frontier`: our queue and scrapy-redis' queue and duplicate filter, on one Redis, in one run.

Both get the same `Request` objects, with their fingerprints computed beforehand, and write and read them with
their own serializers. Memory is what the server says (`used_memory`) before and after. The exit status is 1
when a target that the project has set itself is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

import redis
import redis.asyncio
from scrapy import Request, Spider
from scrapy_redis.dupefilter import RFPDupeFilter
from scrapy_redis.queue import PriorityQueue

from carscraper.frontier.codec import decode, encode
from carscraper.frontier.contract import Entry, Held, Lease, Outbox, SlotLimit
from carscraper.frontier.redis import BUCKETS, RedisFrontier
from tests.redis_server import RedisServer

BATCH = 64
LEAST_SPEEDUP = 8.0
MOST_BYTES_PER_SEEN = 12.0
MOST_BYTES_PER_QUEUED = 470.0
MOST_GROWTH = 1.5
PAYLOAD_BYTES = 235


class CarSpider(Spider):
    """The spider that all requests of this benchmark belong to."""

    name = "cars"

    def parse_spec(self, response: object) -> None:
        """Never called."""


SPIDER = CarSpider()


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `missed` says which target was not met."""

    what: str
    ours: str
    theirs: str
    ratio: str
    target: str
    missed: bool


class KnownFingerprints(RFPDupeFilter):  # type: ignore[misc]
    """scrapy-redis' duplicate filter, spared the computing of fingerprints, as ours is."""

    def request_fingerprint(self, request: Request) -> str:
        """The fingerprint that the request was given beforehand: 40 hexadecimal digits."""
        return str(request.meta["fp"])


def make_requests(number: int, seed: int) -> list[tuple[int, Request]]:
    """Requests as the crawl makes them, and their keys of 64 bits."""
    source = random.Random(seed)
    requests = []
    for index in range(number):
        fingerprint = f"{source.getrandbits(160):040x}"
        request = Request(
            f"https://api.cars.test/v2/specs/{index:08d}/2020",
            callback=SPIDER.parse_spec,
            cb_kwargs={"waiting": [str(index), str(index + 1)]},
            meta={"fp": fingerprint, "depth": 2},
            priority=index % 3,
        )
        requests.append((int(fingerprint[:16], 16) - 2**63, request))
    return requests


class Bench:
    """Both queues on one server, which is emptied before each measurement."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._client = server.client()

    def used_memory(self) -> int:
        """Bytes that the server uses for its data and itself."""
        return int(self._client.info("memory")["used_memory"])

    async def frontier(self) -> RedisFrontier:
        """Ours, on a server that is empty."""
        self._client.flushall()
        frontier = RedisFrontier(
            redis.asyncio.Redis(port=self._server.port),
            prefix="bench",
            worker="w1",
            lease_seconds=3600,
            limits={},
            default_limit=SlotLimit(0),
        )
        await frontier.begin("bench")
        return frontier

    async def our_speed(self, number: int, seed: int) -> tuple[float, float]:
        """Requests enqueued, and requests reserved and acknowledged, per second."""
        frontier = await self.frontier()
        requests = make_requests(number, seed)
        started = time.perf_counter()
        for first in range(0, number, BATCH):
            entries = [
                Entry(key, "cars", "parse_spec", encode(request, SPIDER), request.priority)
                for key, request in requests[first : first + BATCH]
            ]
            await frontier.exchange(Outbox(entries=entries), 0)
        enqueued = time.perf_counter()
        served, held = 0, list[Held]()
        while served < number or held:
            inbox = await frontier.exchange(Outbox(acks=held), BATCH)
            served += sum(decode(lease.payload, SPIDER) is not None for lease in inbox.leases)
            held = held_of(inbox.leases)
        ended = time.perf_counter()
        await frontier.close()
        return number / (enqueued - started), number / (ended - enqueued)

    def their_speed(self, number: int, seed: int) -> tuple[float, float]:
        """Requests enqueued, and requests popped (there is no ack), per second."""
        self._client.flushall()
        queue = PriorityQueue(self._client, SPIDER, "bench:requests")
        seen = KnownFingerprints(self._client, "bench:dupefilter")
        requests = make_requests(number, seed)
        started = time.perf_counter()
        for _, request in requests:
            if not seen.request_seen(request):
                queue.push(request)
        enqueued = time.perf_counter()
        served = 0
        while queue.pop() is not None:
            served += 1
        ended = time.perf_counter()
        assert served == number
        return number / (enqueued - started), number / (ended - enqueued)

    def our_seen(self, number: int) -> float:
        """Bytes per URL seen, with the seen set as acks fill it."""
        self._client.flushall()
        before = self.used_memory()
        source = random.Random(1)
        buckets: list[list[int]] = [[] for _ in range(BUCKETS)]
        for _ in range(number):
            key = source.getrandbits(64) - 2**63
            buckets[key % BUCKETS].append(key)
        for first in range(0, BUCKETS, 512):
            with self._client.pipeline(transaction=False) as pipe:
                for bucket in range(first, first + 512):
                    if buckets[bucket]:
                        pipe.sadd(f"{{bench}}:seen:{bucket}", *buckets[bucket])
                pipe.execute()
        return (self.used_memory() - before) / number

    def their_seen(self, number: int) -> float:
        """Bytes per URL seen: 40 hexadecimal digits in one set."""
        self._client.flushall()
        before = self.used_memory()
        source = random.Random(1)
        for first in range(0, number, 1000):
            fingerprints = [
                f"{source.getrandbits(160):040x}" for _ in range(first, min(first + 1000, number))
            ]
            self._client.sadd("bench:dupefilter", *fingerprints)
        return (self.used_memory() - before) / number

    async def our_queued(self, number: int) -> float:
        """Bytes per queued request of `PAYLOAD_BYTES`."""
        frontier = await self.frontier()
        before = self.used_memory()
        await fill(frontier, number, slots=3)
        size = (self.used_memory() - before) / number
        await frontier.close()
        return size

    def their_queued(self, number: int) -> float:
        """Bytes per queued request of `PAYLOAD_BYTES`, without its fingerprint."""
        self._client.flushall()
        before = self.used_memory()
        for first in range(0, number, 1000):
            payloads = {b"%0*d" % (PAYLOAD_BYTES, first + index): float(index % 3) for index in range(1000)}
            self._client.zadd("bench:requests", payloads)
        return (self.used_memory() - before) / number

    async def latencies(self, sizes: list[int], slots: int) -> dict[int, float]:
        """Microseconds per request to acknowledge one and reserve the next, by how many are queued."""
        frontier = await self.frontier()
        found: dict[int, float] = {}
        filled = 0
        for size in sizes:
            await fill(frontier, size - filled, slots=slots, first=filled)
            filled = size
            times, held = [], list[Held]()
            for _ in range(150):
                started = time.perf_counter()
                inbox = await frontier.exchange(Outbox(returns=held), BATCH)
                times.append(time.perf_counter() - started)
                held = held_of(inbox.leases)
            await frontier.exchange(Outbox(returns=held), 0)
            found[size] = median(times) / BATCH * 1e6
        await frontier.close()
        return found


def held_of(leases: list[Lease]) -> list[Held]:
    """The leases, as messages name them."""
    return [Held(lease.key, lease.token) for lease in leases]


async def fill(frontier: RedisFrontier, number: int, *, slots: int, first: int = 0) -> None:
    """Add so many requests to the queue, spread over the slots."""
    source = random.Random(first + 1)
    for start in range(first, first + number, 1000):
        entries = [
            Entry(
                source.getrandbits(64) - 2**63,
                f"site{index % slots}",
                "parse_spec",
                b"%0*d" % (PAYLOAD_BYTES, index),
                index % 3,
            )
            for index in range(start, min(start + 1000, first + number))
        ]
        await frontier.exchange(Outbox(entries=entries), 0)


def measure(server: RedisServer, seen: int, queued: int, rounds: int) -> Iterator[Row]:
    """Each line of the table, as soon as it is known."""
    bench = Bench(server)
    ours = [(0.0, 0.0)] * rounds
    theirs = [(0.0, 0.0)] * rounds
    for index in range(rounds):
        ours[index] = asyncio.run(bench.our_speed(20_000, seed=index))
        theirs[index] = bench.their_speed(4_000, seed=index)
    for position, what in enumerate(("enqueued per second", "reserved and acked per second")):
        our, their = (median(speeds[position] for speeds in side) for side in (ours, theirs))
        yield Row(
            what,
            f"{our:,.0f}",
            f"{their:,.0f}",
            f"{our / their:.1f}",
            f">= {LEAST_SPEEDUP:g} times",
            our < LEAST_SPEEDUP * their,
        )
    yield bytes_row(
        f"bytes per URL seen ({seen:,})", bench.our_seen(seen), bench.their_seen(200_000), MOST_BYTES_PER_SEEN
    )
    yield bytes_row(
        f"bytes per queued request of {PAYLOAD_BYTES}",
        asyncio.run(bench.our_queued(100_000)),
        bench.their_queued(100_000),
        MOST_BYTES_PER_QUEUED,
    )
    sizes = [size for size in (10_000, 100_000, 1_000_000) if size < queued] + [queued]
    yield from growth_rows("queued", asyncio.run(bench.latencies(sizes, slots=3)))
    slots = {slots: asyncio.run(bench.latencies([100_000], slots=slots))[100_000] for slots in (100, 50_000)}
    yield from growth_rows("slots", slots)


def bytes_row(what: str, ours: float, theirs: float, most: float) -> Row:
    """A line about memory."""
    return Row(what, f"{ours:.1f}", f"{theirs:.1f}", f"{ours / theirs:.2f}", f"<= {most:g}", ours > most)


def growth_rows(of_what: str, latencies: dict[int, float]) -> Iterator[Row]:
    """Lines about how the latency grows, each against the first."""
    least = next(iter(latencies.values()))
    for number, latency in latencies.items():
        yield Row(
            f"µs to reserve one, {number:,} {of_what}",
            f"{latency:.1f}",
            "",
            f"{latency / least:.2f}",
            f"<= {MOST_GROWTH:g} times",
            latency > MOST_GROWTH * least,
        )


def main(arguments: list[str] | None = None, write: Callable[[str], object] = print) -> int:
    """Run everything and print the table; returns the exit status."""
    parser = argparse.ArgumentParser(prog="benchmarks.frontier", description=__doc__)
    parser.add_argument("--seen", type=int, default=10_000_000, help="URLs in our seen set (%(default)s)")
    parser.add_argument("--queued", type=int, default=5_000_000, help="longest queue (%(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=3, help="of each speed; the median counts (%(default)s)"
    )
    options = parser.parse_args(arguments)
    logging.getLogger("carscraper.frontier.redis").setLevel(logging.ERROR)
    write(f"{'':<44}{'ours':>10}{'scrapy-redis':>14}{'ratio':>8}  target")
    missed = 0
    with RedisServer() as server:
        for row in measure(server, options.seen, options.queued, options.rounds):
            verdict = "  MISSED" if row.missed else ""
            write(f"{row.what:<44}{row.ours:>10}{row.theirs:>14}{row.ratio:>8}  {row.target}{verdict}")
            missed += row.missed
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
