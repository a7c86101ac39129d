"""Which listing pages follow from a page: a walk that ends, whatever a site announces; pure, but for what was seen.

A walk goes over the pages of one search, each a *stride* further down than the one before. The first page announces
how many listings there are. From then on, a page that brings something new calls for the pages up to `AHEAD` strides
further down, as far as the announced end; the page at that end, and every page where nothing was announced, is
followed by the one after it for as long as there is one.

So a walk is as long as what was announced, or what is there beyond it, but goes no further than `AHEAD` pages past the
last one that brought something new, and nowhere beyond `most` listings. What a page calls for follows from that page:
a page that is read again calls for the same ones, and one that cannot be had costs itself only, since its neighbours
call for the same ones as it would.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from carscraper.catalogue.ids import numbered
from carscraper.items import PageRead

AHEAD = 64
"""Pages that are asked for past the last one that brought something new: enough to keep 32 requests under way."""
_REMEMBERED = 1 << 17
"""Listings of which one process remembers where they were, about 150 bytes each; more than there are in a catalogue."""
_BARELY = 8
"""A next page that is nearer than this part of a page's rows leads nowhere."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the first page of a walk says of the others."""

    stride: int
    """Listings from a page to the next."""
    end: int
    """Listings that there are to be read by their places; what is beyond is found by following."""

    @property
    def as_list(self) -> list[int]:
        """As a request carries it."""
        return [self.stride, self.end]


def plan(first: PageRead, *, limit: int | None, most: int) -> Plan:
    """How the walk goes on from its first page. Without a total, to the second page, and from there by following."""
    known = first.total
    if known is None:
        known = 0 if first.last else _second(first.pass_number, first.limit) + 1
    return Plan(first.limit, min(known, limit or known, most))


def called_for(plan: Plan, pass_number: int, offset: int) -> range:
    """The pages that a page at that place calls for when it brings something new, or when it is the first one."""
    begin = offset + plan.stride if offset else _second(pass_number, plan.stride)
    return range(begin, min(plan.end, offset + AHEAD * plan.stride + 1), plan.stride)


def followed_by(plan: Plan, read: PageRead, *, limit: int | None, most: int) -> int | None:
    """The page after one at the end of what was announced, or beyond; None after the last, and after any other."""
    after = read.offset + read.limit
    begin = _second(read.pass_number, plan.stride)
    pages = -((begin - plan.end) // plan.stride) if plan.end > begin else 0
    end = begin + pages * plan.stride if pages else plan.stride
    if read.last or after < end or after >= min(most, limit or most):
        return None
    return after


def leads_on(rows: int, told: int, asked: int) -> bool:
    """Whether a next page that is `told` to be so far away is one: it does not lead back, nor barely on, nor past
    listings that no page would show.
    """
    return 0 < told <= max(rows, asked) and told * _BARELY >= rows


@dataclass(slots=True)
class _Queued:
    """The pages of a walk that one process has queued."""

    upto: int = -1
    """All up to here, but for those that are under way or left off."""
    under_way: set[int] = field(default_factory=set)
    left_off: set[int] = field(default_factory=set)
    """Whoever was at them has ended before they were queued."""

    def one(self, offset: int) -> Generator[int]:
        """That page, which is queued when the next one is asked for."""
        self.under_way.add(offset)
        self.left_off.add(offset)
        try:
            yield offset
            self.left_off.discard(offset)
            self.upto = max(self.upto, offset)
        finally:
            self.under_way.discard(offset)


class Seen:
    """Which listings the pages of a process have brought, and how far it has queued pages."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self._oldest: deque[int] = deque()
        """Their keys in the order in which they came: to look for a dict's first takes as long as it has lost many."""
        self._queued: dict[tuple[int, Plan], _Queued] = {}

    def brings_news(self, walk: str, read: PageRead) -> bool:
        """Whether a page holds a listing that no other page of that walk has brought; the same when asked again."""
        found = False
        for listing in read.ids:
            key = hash((walk, listing))
            place = self._places.get(key)
            if place is None:
                self._oldest.append(key)
                place = self._places[key] = read.offset
            found |= place == read.offset
        while len(self._oldest) > _REMEMBERED:
            del self._places[self._oldest.popleft()]
        return found

    def not_queued(self, plan: Plan, pass_number: int, offsets: range) -> Generator[int]:
        """Those of the pages that this process has not queued yet; each counts as queued once the next is asked for.

        Several may be at it at once, and share what is to be queued. Whoever comes to the end has seen that all of its
        pages are queued, by itself or another: what another is still at then, or has left off at, comes from it too.
        """
        queued = self._queued.setdefault((pass_number, plan), _Queued())
        others = []
        for offset in offsets:
            if offset in queued.under_way:
                others.append(offset)
            elif offset > queued.upto or offset in queued.left_off:
                yield from queued.one(offset)
        for offset in others:
            if offset in queued.under_way or offset in queued.left_off:
                yield from queued.one(offset)


def expected_pages(pages: Iterable[PageRead], *, limit: int | None, most: int) -> set[int]:
    """The places of the pages that a walk must have asked for, as those of its pages that are there tell."""
    read = {page.offset: page for page in pages}
    if 0 not in read:
        return {0}
    planned = plan(read[0], limit=limit, most=most)
    expected = set(called_for(planned, read[0].pass_number, 0))
    for page in _fresh(list(read.values())):
        if page.offset:
            expected.update(called_for(planned, page.pass_number, page.offset))
        after = followed_by(planned, page, limit=limit, most=most)
        if after is not None:
            expected.add(after)
    return expected


def idle_tail(pages: Sequence[PageRead]) -> int:
    """How many pages at the end of a walk, in the order of their places, hold no listing that none before them held."""
    numbers, count = numbered([page.ids for page in pages])
    before = bytearray(count)
    idle = 0
    for own in numbers:
        idle = idle + 1 if all(before[number] for number in own) else 0
        for number in own:
            before[number] = 1
    return idle


def _fresh(pages: list[PageRead]) -> Iterator[PageRead]:
    """Those with a listing that no other page holds, so that they brought something new in whatever order they came."""
    holders: dict[str, int] = {}
    for page in pages:
        for listing in set(page.ids):
            holders[listing] = holders.get(listing, 0) + 1
    return (page for page in pages if any(holders[listing] == 1 for listing in page.ids))


def _second(pass_number: int, stride: int) -> int:
    """Where the second page begins: every second pass is half a page off, so that its pages overlap those before."""
    return stride if pass_number % 2 else (stride + 1) // 2
