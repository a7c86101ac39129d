"""A listing page read: what is kept of it, and which pages follow; pure, for the crawl and for its rebuilding."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from carscraper.api.deviations import MISSING, Deviation, Deviations, note
from carscraper.api.endpoints import SpecKey, page_limit, page_offset
from carscraper.api.search_page import Listing, SearchPage, parse_search_page
from carscraper.api.specs import parse_specs
from carscraper.exceptions import ApiError
from carscraper.items import PageRead, SetAside, SpecGroups


@dataclass(frozen=True, slots=True)
class ListingPage:
    """A listing page as the crawl that asked for it sees it."""

    listings: list[Listing]
    """Those that are kept, each id once, the featured ones among them."""
    set_aside: list[SetAside]
    read: PageRead
    next: str | None
    """Address of the page after it; None on the last."""


def read_page(
    body: bytes, url: str, *, sweep: int, limit: int | None, left_out: Sequence[str] = ()
) -> ListingPage:
    """The page that was fetched from `url` in that sweep, by a crawl with that `limit`.

    Raises `ApiError` when the body is no listing page, or another than the one that was asked for.
    """
    page = parse_search_page(body)
    for path in [path for path in page.deviations if _is_left_out(path, page.deviations[path], left_out)]:
        del page.deviations[path]
    offset, further = page_offset(url), _readable_next(page)
    _check_place(page, offset, further)
    step = _step(page, offset, url, further)
    listings = page.listings
    total = page.meta.total
    if limit and (total is None or limit < total):
        # Featured ones make a page longer than its step; a limit counts steps.
        listings = listings[: max(0, min(step, limit - offset))]
    wanted = {listing.id: listing for listing in (*listings, *(() if limit else page.featured))}
    return ListingPage(
        list(wanted.values()),
        [
            SetAside(url, misfit.path, misfit.problem, misfit.id)
            for misfit in (*page.misfits, *page.featured_misfits)
        ],
        PageRead(
            sweep,
            offset,
            step,
            total,
            [listing.id for listing in listings] + [misfit.id for misfit in page.misfits if misfit.id],
            sum(misfit.id is None for misfit in page.misfits),
            last=further is None,
            rejected=len(page.misfits),
            specs=list({SpecKey(listing.code, listing.year).text: None for listing in wanted.values()}),
            deviations=page.deviations,
        ),
        further,
    )


def further_pages(
    read: PageRead, next_url: str | None, *, end: int | None, limit: int | None
) -> tuple[list[int], int]:
    """The offsets of the pages that follow from a page of a sweep: from the first all others, from the last of those
    whatever follows.

    `end` is where the pages that the first one announced end; None for the first one itself. It is returned for
    the others. Without a total, the first announces one page more, and each is followed by its `next`. A page of
    sweep 0 is followed by its `next` alone, which is no matter of this function.
    """
    following: list[int] = []
    if end is None:
        # Every second sweep is half a page off, so that its pages overlap those of the one before.
        second = read.limit if read.sweep % 2 else (read.limit + 1) // 2
        known = read.total if read.total is not None else (second + 1 if next_url else 0)
        following += range(second, min(known, limit or known), read.limit)
        end = following[-1] + read.limit if following else read.limit
    beyond = read.offset + read.limit
    if next_url and beyond >= end and not (limit and beyond >= limit):
        following.append(page_offset(next_url))
    return following, end


class Walks:
    """The pages that there are of a crawl, and those that should be there too."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._sweeps: dict[int, dict[int, tuple[PageRead, str | None]]] = {}
        self._pushed: dict[str, str | None] = {}

    def add(self, page: ListingPage, url: str) -> None:
        """Take in a page that was fetched from `url`; of a page fetched twice, the later one last."""
        if page.read.sweep == 0:
            self._pushed[url] = page.next
        else:
            self._sweeps.setdefault(page.read.sweep, {})[page.read.offset] = page.read, page.next

    def absent(self) -> list[str]:
        """The pages that the crawl must have asked for, as those that are there say, in a few words each."""
        gaps = [url for url in self._pushed.values() if url and url not in self._pushed]
        for sweep in range(1, max(self._sweeps, default=1) + 1):
            gaps += [
                f"sweep {sweep}, offset {offset}" for offset in self._absent_of(self._sweeps.get(sweep, {}))
            ]
        return gaps

    def _absent_of(self, pages: dict[int, tuple[PageRead, str | None]]) -> list[int]:
        if 0 not in pages:
            return [0]
        wanted, end = further_pages(*pages[0], end=None, limit=self._limit)
        for offset, page in pages.items():
            if offset:
                wanted += further_pages(*page, end=end, limit=self._limit)[0]
        return sorted(set(wanted).difference(pages))


def read_specs(status: int, body: bytes) -> tuple[SpecGroups, Deviations]:
    """What an answer says of a car's specification, nothing when the API has none (404), and where that departs from
    the known shape. Raises `ApiError`.
    """
    if status == 404:
        return SpecGroups(), {}
    specs = parse_specs(body)
    return SpecGroups(specs.groups), specs.deviations


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


def _check_place(page: SearchPage, offset: int, further: str | None) -> None:
    """Refuse another page than the one that was asked for: one whose next page is not further. A page that is only
    wrong about its own place is counted.
    """
    try:
        own = offset if page.links.self is None else page_offset(page.links.self)
    except ApiError:
        own = None
    beyond = offset + 1 if further is None else page_offset(further)
    if beyond <= offset and own not in (offset, None):
        raise ApiError("links.self", f"answers offset {own} instead of {offset}")
    if beyond <= offset:
        raise ApiError("links.next", f"leads back, from offset {offset} by {offset - beyond}")
    if own != offset:
        note(page.deviations, "links.self", page.links.self, "link to another page")


def _step(page: SearchPage, offset: int, url: str, further: str | None) -> int:
    """How far apart pages are: as the API itself counts, whatever page size it was asked for. Where it does not tell
    and the page is not the last by the total, as many as were asked for, if there are as many rows that are in order.
    """
    rows = len(page.listings) + len(page.misfits)
    if further is not None:
        return page_offset(further) - offset
    total = page.meta.total
    if total is None or offset + rows >= total:
        return max(rows, 1)
    promoted = {listing.id for listing in page.featured}
    in_order = rows - sum(listing.id in promoted for listing in page.listings)
    return max(1, min(page_limit(url) or in_order, in_order))
