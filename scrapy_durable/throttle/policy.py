"""How fast a site is asked: the delay between two requests, as a function of how it answered the last one.

Scrapy's AutoThrottle, with two differences. It is applied to the answers that all workers get, so that the
target is the site's load and not each process's. And an answer that says "too much" slows down however fast
it came.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

TOO_MUCH = frozenset({429, 503})
"""Statuses that ask for fewer requests."""

SLOWER = 2.0
"""Factor by which such an answer lengthens the delay."""
_LEAST_AFTER_TOO_MUCH = 0.5
"""Seconds that the delay is at least after such an answer, whatever it was before."""
_FASTER = 0.9
"""Factor below which one answer never shortens the delay, so that recovery takes dozens of good answers."""


class Answer(NamedTuple):
    """One answer of the site."""

    latency: float
    """Seconds from the request to the answer's headers."""
    status: int


@dataclass(frozen=True, slots=True)
class Policy:
    """What the delay aims at. All times in seconds."""

    target_concurrency: float
    """How many requests should be under way at the site on average, of all workers
    (`AUTOTHROTTLE_TARGET_CONCURRENCY`).
    """
    start_delay: float
    """The delay before anything is known (`AUTOTHROTTLE_START_DELAY`)."""
    min_delay: float
    """`DOWNLOAD_DELAY`, which throttling never goes below."""
    max_delay: float
    """`AUTOTHROTTLE_MAX_DELAY`."""


def next_delay(delay: float, answers: Iterable[Answer], policy: Policy) -> float:
    """The delay after some answers, in seconds.

    A site that takes `latency` seconds for an answer and shall have `target_concurrency` requests under way
    is asked every `latency / target_concurrency` seconds. The delay moves half-way there, up at once and down
    by a tenth at most. A failure never shortens it, since errors come faster than answers. Of several answers
    that say "too much", one doubles it: they were under way together.
    """
    doubled = False
    for latency, status in answers:
        if status in TOO_MUCH:
            if not doubled:
                delay = max(delay * SLOWER, _LEAST_AFTER_TOO_MUCH)
                doubled = True
            continue
        target = latency / policy.target_concurrency
        wanted = max(target, (delay + target) / 2, delay * _FASTER)
        if wanted > delay or status == 200:
            delay = wanted
    return min(max(delay, policy.min_delay), policy.max_delay)
