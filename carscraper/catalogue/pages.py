"""A listing page read: what is kept of it, and which pages follow; pure, for the crawl and for `scrapy reparse`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from carscraper.api.deviations import MISSING, Deviation, Deviations, note
from carscraper.api.endpoints import SpecKey, page_limit, page_offset
from carscraper.api.search_page import Listing, SearchPage, parse_search_page
from carscraper.api.specs import parse_specs
from carscraper.catalogue.walk import expected_pages, leads_on
from carscraper.exceptions import ApiError
from carscraper.items import PageRead, SetAside, Specification


@dataclass(frozen=True, slots=True)
class ListingPage:
    """A listing page as the crawl that asked for it sees it."""

    listings: list[Listing]
    """Those that are kept, each id once, the featured ones among them."""
    set_aside: list[SetAside]
    read: PageRead
    next: str | None
    """Address of the page after it; None on the last, and where it leads astray."""
    astray: str | None
    """The address that was given for a next page and leads astray: back, far ahead, barely on, or nowhere."""


def read_page(
    body: bytes, url: str, *, pass_number: int, limit: int | None, left_out: Sequence[str] = ()
) -> ListingPage:
    """The page that was fetched from `url` in that pass, by a crawl with that `limit`.

    Raises `ApiError` when the body is no listing page, or another than the one that was asked for.
    """
    page = parse_search_page(body)
    for path in [path for path in page.deviations if _is_left_out(path, page.deviations[path], left_out)]:
        del page.deviations[path]
    offset, further = page_offset(url), _readable_next(page)
    told = None if further is None else page_offset(further) - offset
    _check_place(page, offset, told)
    rows = len(page.listings) + len(page.rejected)
    size = page_limit(url) or rows or 1
    follows = told is not None and leads_on(rows, told, size)
    step = told if told is not None and follows else _step(page, rows, offset, size)
    listings = page.listings
    total = page.meta.total
    if limit and (total is None or limit < total):
        # Featured ones make a page longer than its step; a limit counts steps.
        listings = listings[: max(0, min(step, limit - offset))]
    wanted = {listing.id: listing for listing in (*listings, *(() if limit else page.featured))}
    return ListingPage(
        list(wanted.values()),
        [
            SetAside(url, reject.path, reject.problem, reject.id)
            for reject in (*page.rejected, *page.featured_rejected)
        ],
        PageRead(
            pass_number,
            offset,
            step,
            total,
            [listing.id for listing in listings] + [reject.id for reject in page.rejected if reject.id],
            sum(reject.id is None for reject in page.rejected),
            last=page.links.is_last or (not follows and total is not None and offset + step >= total),
            rejected=len(page.rejected),
            specs=list({SpecKey(listing.code, listing.year).text: None for listing in wanted.values()}),
            deviations=page.deviations,
        ),
        further if follows else None,
        None if follows else page.links.next,
    )


class Walks:
    """The pages that there are of a crawl, and those that should be there too."""

    def __init__(self, *, limit: int | None, most: int) -> None:
        self._limit = limit
        self._most = most
        self._passes: dict[int, dict[int, PageRead]] = {}
        self._pushed: dict[str, str | None] = {}

    def add(self, page: ListingPage, url: str) -> None:
        """Take in a page that was fetched from `url`; of a page fetched twice, the later one last."""
        if page.read.pass_number == 0:
            self._pushed[url] = page.next if page.read.ids else None
        else:
            self._passes.setdefault(page.read.pass_number, {})[page.read.offset] = page.read

    def absent(self) -> list[str]:
        """The pages that the crawl must have asked for, as those that are there say, in a few words each."""
        gaps = [url for url in self._pushed.values() if url and url not in self._pushed]
        for pass_number in range(1, max(self._passes, default=1) + 1):
            pages = self._passes.get(pass_number, {})
            expected = expected_pages(pages.values(), limit=self._limit, most=self._most)
            gaps += [f"pass {pass_number}, offset {offset}" for offset in sorted(expected.difference(pages))]
        return gaps


def read_specs(status: int, body: bytes) -> tuple[Specification, Deviations]:
    """What an answer says of a car's specification, nothing when the API has none (404), and where that departs from
    the known shape. Raises `ApiError`.
    """
    if status == 404:
        return Specification([]), {}
    specs = parse_specs(body)
    return Specification(specs.groups), specs.deviations


def time_text(fetched_at: float) -> str:
    """A time in seconds since the epoch as `Car.scraped_at` has it: `2026-11-20T10:15:00.123Z`.

    Milliseconds, since a listing may be read twice within one second, and the newer reading counts.
    """
    milliseconds = int(fetched_at * 1000)
    second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds // 1000))
    return f"{second}.{milliseconds % 1000:03d}Z"


def _is_left_out(path: str, deviation: Deviation, patterns: Sequence[str]) -> bool:
    """Whether it is that an attribute is missing, of which we have seen to that ourselves."""
    holder, _, name = path.rpartition("[].attributes.")
    return bool(
        patterns
        and holder
        and deviation["types"].keys() == {MISSING}
        and any(fnmatchcase(name, pattern) for pattern in patterns)
    )


def _readable_next(page: SearchPage) -> str | None:
    """The link to the page after it; None when there is none, or one that leads to no page, which is counted."""
    link = page.links.next
    if link is None:
        return None
    try:
        page_offset(link)
    except ApiError:
        note(page.deviations, "links.next", link, "no link")
        return None
    return link


def _check_place(page: SearchPage, offset: int, told: int | None) -> None:
    """Refuse another page than the one that was asked for: one whose next page is not further. A page that is only
    wrong about its own place is counted.
    """
    try:
        own = offset if page.links.self is None else page_offset(page.links.self)
    except ApiError:
        own = None
    if told is not None and told <= 0 and own not in (offset, None):
        raise ApiError("links.self", f"answers offset {own} instead of {offset}")
    if own != offset:
        note(page.deviations, "links.self", page.links.self, "link to another page")


def _step(page: SearchPage, rows: int, offset: int, asked: int) -> int:
    """How far it is to the next page, where the API does not say so: as far as was asked for. From a first page that is
    not the last by the total, as far as there are rows that are in order, if those are fewer.
    """
    if offset or not rows:
        return asked
    total = page.meta.total
    if page.links.is_last and (total is None or rows >= total):
        return rows
    promoted = {listing.id for listing in page.featured}
    in_order = rows - sum(listing.id in promoted for listing in page.listings)
    return max(1, min(asked, in_order))
