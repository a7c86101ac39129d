"""How a listing page is named in the response store: enough to know what it is without reading it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qsl, urlencode

_TEXT = re.compile(
    r"page/(?P<crawl>[^/]+)/(?P<pass_number>\d+)/(?P<offset>\d+)/(?P<time>\d+)/(?P<total>\d+|-)"
    r"\?(?P<query>[^#]*)(?:#(?P<origin>.*))?"
)


@dataclass(frozen=True, slots=True)
class PageName:
    """A listing page of a crawl. Names sort by pass, then by offset, then by time.

    A page that was fetched twice, as after a kill, is kept twice: the crawl may hold records of both.
    """

    crawl_id: str
    pass_number: int
    """Which walk over all pages it belongs to; 0: an address that somebody pushed."""
    offset: int
    """Position of its first listing in the catalogue, from 0 to 999,999,999."""
    fetched_at: float
    """Seconds since the epoch, exact to the microsecond."""
    total: int | None
    """How many listings there were in all, as the API said on it; None when it told no usable number."""
    arguments: dict[str, str]
    """What the crawl was asked to read: the spider's arguments."""
    origin: str = ""
    """Address of the API that the crawl asked; empty for a page of an earlier release, which did not note it."""

    @property
    def text(self) -> str:
        """The key in the response store."""
        time = round(self.fetched_at * 1e6)
        query = urlencode(sorted(self.arguments.items()))
        total = "-" if self.total is None else self.total
        origin = f"#{self.origin}" if self.origin else ""
        return f"page/{self.crawl_id}/{self.pass_number:03d}/{self.offset:09d}/{time:017d}/{total}?{query}{origin}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a key back. Raises `ValueError` for any other text."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"not the name of a listing page: {text!r}")
        return cls(
            found["crawl"],
            int(found["pass_number"]),
            int(found["offset"]),
            int(found["time"]) / 1e6,
            None if found["total"] == "-" else int(found["total"]),
            dict(parse_qsl(found["query"], keep_blank_values=True)),
            found["origin"] or "",
        )
