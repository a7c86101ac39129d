"""A look at a crawl costs Redis the same whatever is queued, delayed, done or dead, and however long ago it came."""

from __future__ import annotations

from scrapy_durable.frontier.contract import DeadLettered, Outbox
from scrapy_durable.frontier.redis import STATUS
from scrapy_durable.frontier.redis_layout import FIXED_KEYS
from scrapy_durable.frontier.redis_scripts import Script
from tests.frontier.backends import RedisBackend, at_handed_time
from tests.frontier.test_contract import begun, entries, held

_COUNT = """
local server, touched = redis, 0
local redis = setmetatable({call = function(...)
    local reply = server.call(...)
    touched = touched + 1 + (type(reply) == 'table' and #reply or 0)
    return reply
end}, {__index = server})
"""


def counting(script: Script) -> str:
    """The script, but it returns how many commands it has called and how many elements it was given by them."""
    shebang, rest = at_handed_time(script).text.split("\n", 1)
    begins = "return {crawl_id, rows,"
    assert rest.count(begins) == 1
    return f"{shebang}\n{_COUNT}{rest.replace(begins, 'local _ = {crawl_id, rows,')}\nreturn touched\n"


async def touched(backend: RedisBackend, number: int) -> int:
    """By the status of a crawl with so many in each state, which came over as many seconds."""
    frontier = await begun(backend)
    for first in range(0, number, 100):
        at = range(first, first + 100)
        inbox = await frontier.exchange(entries(*(10 * key for key in at)), 100)
        letters = [DeadLettered(lease.held, "status 404") for lease in inbox.leases]
        await frontier.exchange(Outbox(dead_lettered=letters), 0)
        inbox = await frontier.exchange(entries(*(10 * key + 1 for key in at)), 100)
        await frontier.exchange(Outbox(acks=held(*inbox.leases)), 0)
    for key in range(number):
        backend.advance(1)
        await frontier.exchange(entries(10 * key + 2), 0)
        await frontier.exchange(entries(10 * key + 3, delay=1e6), 0)
    overdue = entries(*(10 * key + 4 for key in range(max(1000, number))), delay=1)
    await frontier.exchange(overdue, 0)
    backend.advance(2)
    status = await frontier.status(5)
    assert (status.total.dead, status.total.done) == (number, number)
    assert status.past_due == len(overdue.entries)
    text = counting(STATUS)
    keys = [f"{{test}}:{key}" for key in FIXED_KEYS]
    with backend.server.client() as client:
        found = client.eval(text, len(keys), *keys, str(round(backend.offset * 1e6)), "5")
    await backend.clean()
    return int(found)


async def test_a_look_touches_as_much_of_a_large_crawl_as_of_a_small_one(on_redis: RedisBackend) -> None:
    small = await touched(on_redis, 100)
    assert small > 1000, "it looks at what is due"
    assert await touched(on_redis, 2000) == small
