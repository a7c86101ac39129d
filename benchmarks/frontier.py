"""`make bench-frontier`: our queue and scrapy-redis' queue and duplicate filter, on one Redis, in one run.

Speed is measured three times. *As they come*: scrapy-redis' queue takes and gives `Request` objects and
pickles them, our frontier takes and gives bytes. *Both with requests*: ours with the codec, as the scheduler
uses it. *Both with bytes*: theirs spared the pickling. Ours runs on uvloop, as the crawl does. Fingerprints
are computed beforehand for all. Theirs has no acknowledgement: it forgets a request when it hands it out.
Memory is what the server says (`used_memory`) before and after. The exit status is 1 when a target that the
project has set itself is missed.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import median

import redis
import redis.asyncio
import uvloop
from scrapy import Request, Spider
from scrapy_redis.dupefilter import RFPDupeFilter
from scrapy_redis.queue import PriorityQueue

from benchmarks import contestants
from benchmarks.bench import static_copy
from scrapy_durable.frontier.codec import decode, encode
from scrapy_durable.frontier.contract import Entry, Held, Lease, Outbox, SlotLimit
from scrapy_durable.frontier.redis import RedisFrontier
from scrapy_durable.frontier.redis_layout import FIXED_KEYS
from scrapy_durable.frontier.redis_server import RedisKeys
from tests.redis_server import RedisServer

BATCH = 64
LEAST_SPEEDUP = 8.0
MOST_ROUND_TRIPS = 0.1
MOST_BYTES_PER_SEEN = 10.0
MOST_BYTES_PER_QUEUED = 470.0
MOST_GROWTH = 1.5
PAYLOAD_BYTES = 235
SEEN_AT_ONCE = 10_000
_MORE_SEEN = """
math.randomseed(tonumber(ARGV[1]))
local keys = {}
for i = 1, tonumber(ARGV[2]) do
    keys[i] = string.format('%.0f', math.floor(math.random() * 2 ^ 26) * 2 ^ 27 + math.floor(math.random() * 2 ^ 27))
end
note_seen(keys)
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `missed` says which target was not met."""

    what: str
    ours: str
    theirs: str
    ratio: str
    target: str
    missed: bool


@dataclass(frozen=True, slots=True)
class Speed:
    """Requests per second."""

    enqueued: float
    reserved_and_acked: float


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue to measure."""

    length: int
    slots: int
    name: str


class CarSpider(Spider):
    """The spider that all requests of this benchmark belong to."""

    name = "cars"

    def parse_spec(self, response: object) -> None:
        """Never called."""


SPIDER = CarSpider()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request with its fingerprint of 160 bits, and what our codec makes of it."""

    request: Request
    fingerprint: int
    payload: bytes

    @property
    def key(self) -> int:
        """The fingerprint that we keep: 64 bits."""
        return self.fingerprint % 2**64 - 2**63


class BytesQueue(PriorityQueue):  # type: ignore[misc]
    """scrapy-redis' queue, spared the pickling: the payload is in the request's `meta`."""

    def _encode_request(self, request: Request) -> bytes:
        payload: bytes = request.meta["payload"]
        return payload

    def _decode_request(self, encoded_request: bytes) -> bytes:
        return encoded_request


class PreparedFilter(RFPDupeFilter):  # type: ignore[misc]
    """scrapy-redis' duplicate filter, spared the computing of fingerprints, as ours is."""

    def request_fingerprint(self, request: Request) -> str:
        """40 hexadecimal digits, out of the request's flags, where they are not written down twice."""
        return request.flags[0]


def prepare(number: int, seed: int) -> list[Prepared]:
    """Different requests, much like those of the specifications, with three priorities."""
    source = random.Random(seed)
    prepared = []
    for index in range(number):
        request = Request(
            f"https://api.cars.co.za/fw/public/v2/specs/{source.getrandbits(80):020x}/2020",
            callback=SPIDER.parse_spec,
            cb_kwargs={"waiting": [{"id": f"{source.getrandbits(24):08d}", "price": source.getrandbits(20)}]},
            meta={"depth": 2},
            priority=index % 3,
        )
        prepared.append(Prepared(request, source.getrandbits(160), encode(request, SPIDER)))
    return prepared


def make_payload(source: random.Random) -> bytes:
    """`PAYLOAD_BYTES` bytes, much like those of the request of a specification."""
    code, listing, price = source.getrandbits(80), source.getrandbits(24), source.getrandbits(20)
    payload = (
        b'{"v":1,"url":"https://api.cars.co.za/fw/public/v2/specs/%020x/2020","callback":"parse_spec","priority":1,'
        b'"meta":{"depth":2},"cb_kwargs":{"waiting":[{"id":"%08d","price":%07d}]}}' % (code, listing, price)
    )
    return payload + b" " * (PAYLOAD_BYTES - len(payload))


class Bench:
    """Both queues on one server, which is emptied before each measurement."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._client = server.client()

    def used_memory(self) -> int:
        """Bytes that the server uses for its data and itself."""
        return int(self._client.info("memory")["used_memory"])

    async def frontier(self, name: str = "bench", *, empty: bool = True) -> RedisFrontier:
        """Ours, with nothing in it; on a server that is empty, or beside what is there."""
        if empty:
            self._client.flushall()
        frontier = RedisFrontier(
            RedisKeys(redis.asyncio.Redis(port=self._server.port), prefix=name),
            worker="w1",
            lease_seconds=3600,
            limits={},
            default_limit=SlotLimit(0),
        )
        await frontier.begin("bench")
        return frontier

    async def our_speed(self, prepared: list[Prepared], *, with_requests: bool) -> Speed:
        """Ours, in batches: of bytes, or of requests that are written and read by the codec."""
        frontier = await self.frontier()
        started = time.perf_counter()
        for first in range(0, len(prepared), BATCH):
            entries = [
                Entry(
                    one.key,
                    "cars",
                    "parse_spec",
                    encode(one.request, SPIDER) if with_requests else one.payload,
                    one.request.priority,
                )
                for one in prepared[first : first + BATCH]
            ]
            await frontier.exchange(Outbox(entries=entries), 0)
        enqueued = time.perf_counter()
        served, held = 0, list[Held]()
        while served < len(prepared) or held:
            inbox = await frontier.exchange(Outbox(acks=held), BATCH)
            if with_requests:
                for lease in inbox.leases:
                    decode(lease.payload, SPIDER)
            held = held_of(inbox.leases)
            served += len(held)
        ended = time.perf_counter()
        await frontier.close()
        return Speed(len(prepared) / (enqueued - started), len(prepared) / (ended - enqueued))

    def their_speed(self, prepared: list[Prepared], *, with_requests: bool) -> Speed:
        """Theirs, one by one: of requests that are pickled, or of bytes."""
        self._client.flushall()
        queue = (PriorityQueue if with_requests else BytesQueue)(self._client, SPIDER, "bench:requests")
        seen = PreparedFilter(self._client, "bench:dupefilter")
        requests = []
        for one in prepared:
            meta = one.request.meta if with_requests else {"payload": one.payload}
            requests.append(one.request.replace(meta=meta, flags=[f"{one.fingerprint:040x}"]))
        started = time.perf_counter()
        for request in requests:
            if not seen.request_seen(request):
                queue.push(request)
        enqueued = time.perf_counter()
        served = 0
        while queue.pop() is not None:
            served += 1
        ended = time.perf_counter()
        if served != len(prepared):
            raise RuntimeError(f"{served} of {len(prepared)} requests came back")
        return Speed(len(prepared) / (enqueued - started), len(prepared) / (ended - enqueued))

    async def our_seen(self, number: int) -> float:
        """Bytes per URL seen."""
        frontier = await self.frontier()
        before = self.used_memory()
        see(self._client, "bench", 0, number)
        size = (self.used_memory() - before) / number
        await frontier.close()
        return size

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
        before, source = self.used_memory(), random.Random(1)
        for _ in range(0, number, 1000):
            payloads = {make_payload(source): float(index % 3) for index in range(1000)}
            self._client.zadd("bench:requests", payloads)
        return (self.used_memory() - before) / number

    async def latencies(self, queues: list[Queue]) -> list[float]:
        """Microseconds to acknowledge a request and reserve the next, for each of these queues.

        All stand on the server side by side and take turns, so that they are measured in the same minutes.
        """
        self._client.flushall()
        frontiers = [await self.frontier(f"queue{index}", empty=False) for index in range(len(queues))]
        for frontier, queue in zip(frontiers, queues, strict=True):
            await fill(frontier, queue.length, slots=queue.slots)
        held = [list[Held]() for _ in queues]
        times = [list[float]() for _ in queues]
        for _ in range(100):
            for index, frontier in enumerate(frontiers):
                started = time.perf_counter()
                inbox = await frontier.exchange(Outbox(acks=held[index]), BATCH)
                times[index].append(time.perf_counter() - started)
                held[index] = held_of(inbox.leases)
        for frontier in frontiers:
            await frontier.close()
        return [median(one) / BATCH * 1e6 for one in times]


def held_of(leases: list[Lease]) -> list[Held]:
    """The leases, as messages name them."""
    return [lease.held for lease in leases]


def see(client: redis.Redis, prefix: str, before: int, number: int) -> None:
    """Have the server itself add random keys to what is seen, as acknowledgements would, until it has that number."""
    folder = files("scrapy_durable.frontier").joinpath("lua")
    pieces = (folder.joinpath(name).read_text("utf-8") for name in ("keys.lua", "seen.lua"))
    more_seen = client.register_script("\n".join([*pieces, _MORE_SEEN]))
    keys = [f"{{{prefix}}}:{name}" for name in FIXED_KEYS]
    for first in range(before, number, SEEN_AT_ONCE):
        more_seen(keys, [first, min(number - first, SEEN_AT_ONCE)])


async def fill(frontier: RedisFrontier, number: int, *, slots: int) -> None:
    """Add so many requests to the queue, spread over the slots."""
    source = random.Random(1)
    for start in range(0, number, 1000):
        entries = [
            Entry(
                source.getrandbits(64) - 2**63,
                f"site{index % slots}",
                "parse_spec",
                make_payload(source),
                index % 3,
            )
            for index in range(start, min(start + 1000, number))
        ]
        await frontier.exchange(Outbox(entries=entries), 0)


def measure(server: RedisServer, crawled: int, seen: int, queued: int, rounds: int) -> Iterator[Row]:
    """Each line of the table, as soon as it is known."""
    bench = Bench(server)
    yield crawl_row(server, crawled)
    yield from speed_rows(bench, rounds)
    yield bytes_row(
        f"bytes per URL seen ({seen:,})",
        uvloop.run(bench.our_seen(seen)),
        bench.their_seen(200_000),
        MOST_BYTES_PER_SEEN,
    )
    yield bytes_row(
        f"bytes per queued request of {PAYLOAD_BYTES}",
        uvloop.run(bench.our_queued(100_000)),
        bench.their_queued(100_000),
        MOST_BYTES_PER_QUEUED,
    )
    lengths = [length for length in (10_000, 100_000, 1_000_000) if length < queued] + [queued]
    yield from growth_rows(bench, [Queue(length, 3, f"{length:,} queued") for length in lengths])
    yield from growth_rows(
        bench, [Queue(100_000, slots, f"{slots:,} slots") for slots in (500, 5_000, 50_000)]
    )


def speed_rows(bench: Bench, rounds: int) -> Iterator[Row]:
    """Lines about speed; both sides take turns, and the median of the rounds counts."""
    ours: dict[bool, list[Speed]] = {False: [], True: []}
    theirs: dict[bool, list[Speed]] = {False: [], True: []}
    for index in range(rounds):
        many, some = prepare(20_000, seed=index), prepare(4_000, seed=index)
        for with_requests in (False, True):
            ours[with_requests].append(uvloop.run(bench.our_speed(many, with_requests=with_requests)))
            theirs[with_requests].append(bench.their_speed(some, with_requests=with_requests))
    for title, our_way, their_way, target in (
        ("as they come", False, True, LEAST_SPEEDUP),
        ("both with requests", True, True, None),
        ("both with bytes", False, False, None),
    ):
        for what in ("enqueued", "reserved_and_acked"):
            our = median(getattr(speed, what) for speed in ours[our_way])
            their = median(getattr(speed, what) for speed in theirs[their_way])
            yield Row(
                f"{what.replace('_', ' ')}/s, {title}",
                f"{our:,.0f}",
                f"{their:,.0f}",
                f"{our / their:.1f}",
                "" if target is None else f">= {target:g} times",
                target is not None and our < target * their,
            )


def crawl_row(server: RedisServer, listings: int) -> Row:
    """The line about a crawl: how often each asks its Redis for the queue's sake, per request that the site
    gets.

    An exchange is one script, so one round trip. scrapy-redis makes one for each SADD and ZADD, for each
    transaction that pops (EXEC), and for each ZCARD.
    """
    round_trips = {}
    for name, size, commands in (
        ("redis", listings, ("evalsha",)),
        ("scrapy-redis", 2_000, ("sadd", "zadd", "exec", "zcard")),
    ):
        client = redis.Redis.from_url(server.url)
        client.flushall()
        client.config_resetstat()
        with static_copy(size, 100) as url, tempfile.TemporaryDirectory() as directory:
            result = contestants.measure(name, url, 100, Path(directory), Path(directory, "log"), server.url)
        if not result.complete(size):
            raise RuntimeError(f"{name} kept {result.ids} of {size} listings, exit status {result.status}")
        stats = client.info("commandstats")
        calls = sum(stats.get(f"cmdstat_{command}", {}).get("calls", 0) for command in commands)
        round_trips[name] = calls / result.requests
    ours, theirs = round_trips["redis"], round_trips["scrapy-redis"]
    return Row(
        f"round trips per request, crawl of {listings:,}",
        f"{ours:.3f}",
        f"{theirs:.2f}",
        f"{ours / theirs:.3f}",
        f"<= {MOST_ROUND_TRIPS:g}",
        ours > MOST_ROUND_TRIPS,
    )


def bytes_row(what: str, ours: float, theirs: float, most: float) -> Row:
    """A line about memory."""
    return Row(what, f"{ours:.1f}", f"{theirs:.1f}", f"{ours / theirs:.2f}", f"<= {most:g}", ours > most)


def growth_rows(bench: Bench, queues: list[Queue]) -> Iterator[Row]:
    """Lines about how the latency grows, each against the first."""
    latencies = uvloop.run(bench.latencies(queues))
    for queue, latency in zip(queues, latencies, strict=True):
        yield Row(
            f"µs to ack one and reserve one, {queue.name}",
            f"{latency:.1f}",
            "",
            f"{latency / latencies[0]:.2f}",
            f"<= {MOST_GROWTH:g} times",
            latency > MOST_GROWTH * latencies[0],
        )


def main(arguments: list[str] | None = None, write: Callable[[str], object] = print) -> int:
    """Run everything and print the table; returns the exit status."""
    parser = argparse.ArgumentParser(prog="benchmarks.frontier", description=__doc__)
    parser.add_argument("--crawled", type=int, default=20_000, help="listings in our crawl (%(default)s)")
    parser.add_argument("--seen", type=int, default=10_000_000, help="URLs in our seen set (%(default)s)")
    parser.add_argument("--queued", type=int, default=5_000_000, help="longest queue (%(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=3, help="of each speed; the median counts (%(default)s)"
    )
    options = parser.parse_args(arguments)
    logging.getLogger("scrapy_durable.frontier.redis_server").setLevel(logging.ERROR)
    write(f"{'':<48}{'ours':>10}{'scrapy-redis':>14}{'ratio':>8}  target")
    missed = 0
    with RedisServer() as server:
        for row in measure(server, options.crawled, options.seen, options.queued, options.rounds):
            verdict = "  MISSED" if row.missed else ""
            write(f"{row.what:<48}{row.ours:>10}{row.theirs:>14}{row.ratio:>8}  {row.target}{verdict}")
            missed += row.missed
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
