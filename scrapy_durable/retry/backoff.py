"""When a failed request is tried again: functions of their arguments, without clock and chance."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_LONGEST_DATE = 100
"""Characters; a date has 29."""


def backoff(tries: int, chance: float, base: float, longest: float) -> float:
    """Seconds to wait after so many tries have failed (1 after the first): exponential, with full jitter.

    `chance` is drawn evenly from [0, 1); `base` is the first upper bound in seconds, which doubles with each
    try and never exceeds `longest`. Full jitter spreads the retries of many workers over the whole interval,
    so they do not come back together; see Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture
    Blog, 2015.
    """
    return chance * min(longest, base * 2.0 ** min(tries - 1, 32))


def retry_after(header: str, now: datetime, longest: float) -> float | None:
    """Seconds that a `Retry-After` header asks for, at most `longest`; None when it says nothing usable.

    Either a number of seconds or an HTTP date (RFC 9110, section 10.2.3). Garbage and negative numbers are
    ignored; a date that has passed means now.
    """
    text = header.strip()
    if text.isascii() and text.isdecimal():
        return min(float(text[:18]), longest)
    if len(text) > _LONGEST_DATE:
        return None
    try:
        date = parsedate_to_datetime(text)
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        seconds = (date - now).total_seconds()
    except (ValueError, TypeError, LookupError, OverflowError):  # whatever the parser's arithmetic ends in
        return None
    return min(max(0.0, seconds), longest)
