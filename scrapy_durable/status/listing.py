"""What `scrapy queue list` shows of the requests in one state; pure."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from scrapy_durable.frontier.views import Element, Listing
from scrapy_durable.status.life import key_text
from scrapy_durable.status.words import address

STATES = {"leased": "leased", "delayed": "delayed", "dead": "dead", "ready": "queued"}
"""As an operator names them, and as the frontier does."""


def listing_lines(listing: Listing, state: str, *, filtered: bool) -> Iterator[str]:
    """Two lines for each request, then how many more there are; `state` as the operator has named it."""
    for element in listing.elements:
        yield f"{key_text(element.key)} {address(element.payload)}"
        about = (
            f"{element.slot}  {element.callback}  priority {element.priority}  attempts {element.attempts}"
        )
        yield f"    {about}  {_when(element)}"
    if not listing.matched:
        yield f"no {state} requests" + (" that match" if filtered else "")
    is_whole, shown = listing.looked == listing.total, len(listing.elements)
    if filtered and not is_whole:
        known = "" if listing.total is None else f" of {listing.total}"
        yield f"only the first {listing.looked}{known} {state} requests were looked through"
    if filtered or listing.total is None:
        more = (
            f"{'' if is_whole else 'at least '}{listing.matched - shown}" if listing.matched > shown else ""
        )
    else:
        more = f"{listing.total - shown}" if listing.total > shown else ""
    if more:
        yield f"{more} more"
    elif not is_whole and not filtered:
        yield "and more"


def listing_document(listing: Listing, state: str) -> dict[str, Any]:
    """The same for machines; times are seconds since the epoch, None where they do not apply."""
    return {
        "state": state,
        "matched": listing.matched,
        "looked_through": listing.looked,
        "total": listing.total,
        "requests": [
            {
                "key": key_text(element.key),
                "url": address(element.payload),
                "slot": element.slot,
                "callback": element.callback,
                "priority": element.priority,
                "attempts": element.attempts,
                "failures": element.failures,
                "pushed_at": element.pushed_at,
                "due": element.due,
                "worker": element.worker or None,
                "since": element.since or None,
                "deadline": element.deadline or None,
                "died_at": element.died_at or None,
                "reason": element.reason or None,
            }
            for element in listing.elements
        ],
    }


def _when(element: Element) -> str:
    if element.state == "leased":
        return f"leased since {_at(element.since)} to {element.worker}, until {_at(element.deadline)}"
    if element.state == "dead":
        return f"died {_at(element.died_at)}: {element.reason}"
    if element.due is not None:
        return f"due {_at(element.due)}"
    return f"queued since {_at(element.pushed_at)}"


def _at(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))
