"""Whether the frontier gets slower or larger as it fills: `python -m benchmarks.cliff [--only queued|seen]`.

*Queued*: queues of several lengths stand on one Redis side by side and take turns, so that all are measured in the
same minutes. *Seen*: one seen set is filled step by step. What is beyond the first ten thousand is added by the
server itself. The times are Redis' own, of single scripts (`SLOWLOG`) and of the commands that they call
(`INFO commandstats`), and of them the median, with the spread of three runs: what else the machine does changes it
little. Sizes are what the server says (`used_memory`) before and after. The exit status is 1 when anything takes the
longest `MOST_GROWTH` times as long as the shortest, or a URL seen takes more than `MOST_BYTES_PER_SEEN`.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

import redis
import uvloop

from benchmarks.frontier import BATCH, Bench, fill, held_of, make_payload, see
from scrapy_durable.frontier.contract import Entry, Held, Outbox
from scrapy_durable.frontier.redis import RedisFrontier
from tests.redis_server import RedisServer

QUEUED = (10_000, 1_000_000, 10_000_000)
SEEN = (1_000_000, 10_000_000, 50_000_000, 100_000_000)
RUNS = 3
ROUNDS = 100
"""In each run."""
MOST_GROWTH = 1.5
MOST_BYTES_PER_SEEN = 10.0
SLOTS = 3
ADD, ACKNOWLEDGE_AND_LEASE = EXCHANGES = "add 64", "acknowledge 64, lease 64"
MOST_COMMANDS = 6
"""Those of a script that grow most, by name."""
BESIDE = {"evalsha", "config|resetstat", "config|set", "slowlog|reset", "slowlog|get", "info"}
"""Commands that are not a script's own."""
OPTIONS = {"maxmemory": "6gb", "slowlog-max-len": "4096"}
_MORE_QUEUED = """
math.randomseed(tonumber(ARGV[1]))
local samples = redis.call('HRANDFIELD', KEYS[1], 1000, 'WITHVALUES')
for i = 1, tonumber(ARGV[2]) do
    local value = samples[math.random(#samples / 2) * 2]
    local key = struct.pack('>I4I4', math.random(2 ^ 30), math.random(2 ^ 30))
    redis.call('HSET', KEYS[1], key, value)
    redis.call('ZADD', KEYS[2], 0, string.sub(value, 1, 16) .. key)
end
"""


class Times:
    """What the server says that its scripts have taken."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._found: dict[str, list[int]] = {}
        self._commands: dict[str, list[dict[str, int]]] = {}

    async def of(self, name: str, action: Callable[[], Awaitable[Any]]) -> Any:
        """Do it, and note the microseconds of all its scripts together under that name."""
        self._client.config_set("slowlog-log-slower-than", 0)
        self._client.slowlog_reset()
        self._client.config_resetstat()
        result = await action()
        commands = self._client.info("commandstats").items()
        self._commands.setdefault(name, []).append(
            {command.removeprefix("cmdstat_"): stats["usec"] for command, stats in commands}
        )
        self._client.config_set("slowlog-log-slower-than", -1)
        scripts = [
            one["duration"]
            for one in self._client.slowlog_get(100)
            if one["command"].upper().startswith((b"EVALSHA", b"FCALL"))
        ]
        self._found.setdefault(name, []).append(sum(scripts))
        return result

    def medians(self) -> dict[str, list[float]]:
        """Microseconds, by name: that of each run."""
        return {
            name: [median(found[first : first + ROUNDS]) for first in range(0, len(found), ROUNDS)]
            for name, found in self._found.items()
        }

    def of_commands(self, name: str) -> dict[str, float]:
        """Microseconds of each command that the scripts of that name have called, all calls of one time together."""
        times = self._commands[name]
        commands = set().union(*times) - BESIDE
        return {command: median(one.get(command, 0) for one in times) for command in commands}


class Turns:
    """Asks one queue for the same things again and again: each time as many are added as are taken."""

    def __init__(
        self, frontier: RedisFrontier, client: redis.Redis, seed: int, *, with_looks: bool = True
    ) -> None:
        self.times = Times(client)
        self._with_looks = with_looks
        self._frontier = frontier
        self._source = random.Random(seed)
        self._held: list[Held] = []

    def _entries(self) -> list[Entry]:
        source = self._source
        return [
            Entry(
                source.getrandbits(64) - 2**63,
                f"site{index % SLOTS}",
                "parse_spec",
                make_payload(source),
                index % 3,
            )
            for index in range(BATCH)
        ]

    async def take(self) -> None:
        """One of each."""
        frontier = self._frontier
        added, done = Outbox(entries=self._entries()), Outbox(acks=self._held)
        await self.times.of(ADD, lambda: frontier.exchange(added, 0))
        inbox = await self.times.of(ACKNOWLEDGE_AND_LEASE, lambda: frontier.exchange(done, BATCH))
        self._held = held_of(inbox.leases)
        if not self._with_looks:
            return
        await self.times.of("scrapy queue status", lambda: frontier.status(5))
        await self.times.of("scrapy queue list", lambda: frontier.listing("queued", 100))


def _print(title: str, columns: list[str], rows: dict[str, list[str]]) -> None:
    sys.stdout.write(f"\n{title:<40}" + "".join(f"{column:>22}" for column in columns) + "\n")
    for name, cells in rows.items():
        sys.stdout.write(f"{name:<40}" + "".join(f"{cell:>22}" for cell in cells) + "\n")
    sys.stdout.flush()


def _print_times(title: str, numbers: list[int], times: list[dict[str, list[float]]]) -> bool:
    """A line for each thing that is asked for; says whether one takes the longest table too long."""
    rows = {
        f"{name} (µs)": [
            f"{median(of[name]):.0f} ({min(of[name]):.0f} to {max(of[name]):.0f})" for of in times
        ]
        for name in times[0]
    }
    _print(title, [f"{number:,}" for number in numbers], rows)
    first, *_, last = times
    growth = {name: [median(last[name]) / median(first[name])] for name in first}
    _print("", ["times as long"], {name: [f"{one:.2f}" for one in found] for name, found in growth.items()})
    return any(one > MOST_GROWTH for (one,) in growth.values())


def fill_up(client: redis.Redis, prefix: str, length: int) -> None:
    """Have the server itself make a queue as long: by requests like those that are in it, under other keys."""
    more_queued = client.register_script(_MORE_QUEUED)
    keys = [f"{{{prefix}}}:elements", f"{{{prefix}}}:ready"]
    while (missing := length - client.hlen(keys[0])) > 0:
        more_queued(keys, [missing, min(missing, 10_000)])


async def measure_queued(server: RedisServer, lengths: list[int]) -> bool:
    """Print a table of queues, and say whether one of its lines grows."""
    bench, turns, bytes_each = Bench(server), list[Turns](), list[str]()
    with server.client() as client:
        for index, length in enumerate(lengths):
            frontier = await bench.frontier(f"queue{index}", empty=False)
            before, started = bench.used_memory(), time.monotonic()
            await fill(frontier, min(length, QUEUED[0]), slots=SLOTS)
            fill_up(client, f"queue{index}", length)
            bytes_each.append(f"{(bench.used_memory() - before) / length:.1f}")
            sys.stderr.write(f"{length:,} queued after {time.monotonic() - started:.0f} s\n")
            turns.append(Turns(frontier, client, index + 2))
        for _ in range(RUNS * ROUNDS):
            for one in turns:
                await one.take()
    has_cliff = _print_times("queued", lengths, [one.times.medians() for one in turns])
    _print("", [""] * len(lengths), {"bytes per request of 235": bytes_each})
    for name in EXCHANGES:
        commands = [Counter(one.times.of_commands(name)) for one in turns]
        by_growth = sorted(commands[0], key=lambda command: commands[0][command] - commands[-1][command])
        growth = {
            command: [f"{found[command]:.0f}" for found in commands] for command in by_growth[:MOST_COMMANDS]
        }
        _print(f"{name}: commands (µs)", [f"{length:,}" for length in lengths], growth)
    return has_cliff


async def measure_seen(server: RedisServer, steps: list[int]) -> bool:
    """Print a table of seen sets, and say whether a URL takes too much or the time of an exchange grows."""
    bench, sizes, medians = Bench(server), list[float](), list[dict[str, list[float]]]()
    frontier = await bench.frontier("bench")
    await fill(frontier, QUEUED[0], slots=SLOTS)
    before, seen = bench.used_memory(), 0
    with server.client() as client:
        for step in steps:
            see(client, "bench", seen, step)
            seen = step
            sizes.append((bench.used_memory() - before) / seen)
            turns = Turns(frontier, client, step, with_looks=False)
            for _ in range(RUNS * ROUNDS):
                await turns.take()
            medians.append(turns.times.medians())
            sys.stderr.write(f"{step:,} seen\n")
    has_cliff = _print_times("seen", steps, medians)
    _print("", [""] * len(steps), {"bytes per URL": [f"{size:.1f}" for size in sizes]})
    return has_cliff or max(sizes) > MOST_BYTES_PER_SEEN


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(prog="benchmarks.cliff", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=("queued", "seen"))
    parser.add_argument("--queued", type=int, nargs="+", default=list(QUEUED), help="lengths, shortest first")
    parser.add_argument("--seen", type=int, nargs="+", default=list(SEEN), help="URLs, fewest first")
    options = parser.parse_args()
    has_cliff = False
    sys.stdout.write(f"load {os.getloadavg()[0]:.1f}\n")
    if options.only != "seen":
        with RedisServer(options=OPTIONS) as server:
            has_cliff |= uvloop.run(measure_queued(server, options.queued))
    if options.only != "queued":
        with RedisServer(options=OPTIONS) as server:
            has_cliff |= uvloop.run(measure_seen(server, options.seen))
    sys.stdout.write(f"load {os.getloadavg()[0]:.1f}\n")
    return int(has_cliff)


if __name__ == "__main__":
    sys.exit(main())
