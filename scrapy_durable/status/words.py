"""Numbers, times and addresses as people read them; pure."""

from __future__ import annotations

from scrapy_durable.frontier.codec import url_of as _url_of


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min`, `2 h`, `4 d`: of the largest unit that there are two of."""
    seconds = max(0.0, seconds)
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.1f} s" if 0 < seconds < 9.95 else f"{seconds:.0f} s"


def rate(number: float) -> str:
    """Of so many a second: `0.25`, `3.1`, `1,250`."""
    return f"{number:.2f}" if 0 < number < 1 else f"{number:.1f}" if number < 100 else f"{number:,.0f}"


def size(number: float) -> str:
    """Of so many bytes."""
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def address(payload: bytes) -> str:
    """Of a serialized request."""
    return _url_of(payload) or "(unreadable)"
