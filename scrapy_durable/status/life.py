"""What is known of the life of one request, in the order in which it happened; pure."""

from __future__ import annotations

import time
from collections.abc import Iterator

from scrapy_durable.frontier.views import Element
from scrapy_durable.status.words import address, duration

_NO_HISTORY = "The queue keeps no history of single requests: of those attempts only their number is known."


def key_text(key: int) -> str:
    """As people and `scrapy queue show` know it: 16 hex digits."""
    return key.to_bytes(8, signed=True).hex()


def key_of(text: str) -> int | None:
    """The reverse; None for what is no key."""
    try:
        packed = bytes.fromhex(text) if len(text) == 16 else b""
    except ValueError:
        return None
    return int.from_bytes(packed, signed=True) if len(packed) == 8 else None


def life_lines(element: Element, now: float) -> Iterator[str]:
    """Queued, tried, and what it is now."""
    if element.state == "done":
        yield f"{key_text(element.key)} is done. Of what is done the queue keeps the key alone."
        return
    yield f"{key_text(element.key)} {address(element.payload)}"
    yield f"{_at(element.pushed_at)}  queued to {element.slot}, for {element.callback}, priority {element.priority}"
    earlier = element.attempts - (element.state == "leased")
    if earlier:
        failed = f"{element.failures} of these were tried again because of a failure"
        yield f"{'':<20}  leased {earlier} times before; {failed}"
        yield f"{'':<20}  {_NO_HISTORY}"
    if element.state == "leased":
        left = f"until {_at(element.deadline)} unless it is renewed"
        yield f"{_at(element.since)}  leased to {element.worker}, attempt {element.attempts}, {left}"
    elif element.state == "dead":
        yield f"{_at(element.died_at)}  dead: {element.reason}"
    elif element.due is not None:
        yield f"{_at(element.due)}  may be leased again, in {duration(element.due - now)}"
    else:
        yield f"{_at(now)}  waits to be leased"


def _at(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))
