"""Is the catalogue complete? A function of what was read, what was kept, and what was given up.

The catalogue moves while it is read: a listing added on top pushes the others down, so that some are seen
twice; one removed pulls them up, so that one may slip past between two pages. Two signs tell that nothing
slipped past:

- a *still* pass: every page named the same total, and the pages held that many different listings;
- *overlapping* pages, of any passes, from the top to the end. Newest come first and keep their order, so a
  page holds all that there was between its first row and its last; when each page shares a row with the next
  one, nothing that was there all the time can stand between them. Every second pass is read in pages that
  begin half a page later, so that its pages overlap those of the pass before.

A pass that is not still, without an overlap all the way, is followed by another, up to a bound. Featured
listings come out of their order; how many rows of a page are featured follows from its length, and an overlap
counts only when it has more rows than that.

A walk that had to be ended, because page after page brought nothing new or there were more listings than are believed,
is never complete, however well its pages fit together: nobody knows what the site still meant to show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from carscraper.api.deviations import Deviations, add, departures
from carscraper.catalogue.ids import Holders, lacking, numbered
from carscraper.catalogue.walk import idle_tail
from carscraper.items import OddSpec, PageRead, SetAside

if TYPE_CHECKING:
    from scrapy_durable.waiting import Undelivered

LEAST_LISTINGS, _LEAST_SPECS = 100, 20
"""There have to be so many before their share says anything. (One specification has five listings on average.)"""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A request that was given up: a dead letter, as the verdict shows it."""

    url: str
    reason: str
    listings: tuple[str, ...] = ()
    """Ids of the listings that waited for it."""
    kind: str = ""
    """`page`, `specification`, or empty for anything else."""
    spec: str = ""
    """The specification that it asked for, as `code/year`."""
    other_shape: bool = False
    """True when its answers were JSON of a shape that cannot be used."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How complete a crawl is, and what is missing by name."""

    complete: bool
    catalogue_complete: bool
    """Whether what was kept is a whole catalogue that can be believed, whatever a database lacks of it."""
    kept: int
    """Different listings kept."""
    expected: int
    """Listings that there were, as the API said at the beginning of the last pass; with a limit, or when it did
    not say or said less than it showed, those that the pages named.
    """
    without_specs: int
    """Listings kept whose specs the API does not have."""
    spec_missing: list[str]
    """Ids of listings kept whose specs could not be had."""
    passes: int
    missing: list[str]
    """Ids of listings that the API named but that were neither kept nor set aside."""
    set_aside: list[SetAside]
    given_up: list[GivenUp]
    spread: dict[str, int] = field(default_factory=dict)
    """Of a catalogue that lies in several directories: up to how many entries of each worker count."""
    unseen: list[str] = field(default_factory=list)  # workers that nobody knows enough of
    undelivered: dict[str, int] = field(default_factory=dict)
    """Database to how many records wait on disk for it; none that has them all."""
    deviations: dict[str, Any] = field(default_factory=dict)
    """Where the answers depart from their known shape; see `api/deviations.py`. It costs no record."""
    api_changed: bool = False
    """True when more than `CARS_MAX_DRIFT` of what there is cannot be used."""
    goes_on: bool = False
    """Somebody has stopped the crawl, and the same command goes on with it."""
    reasons: list[str] = field(default_factory=list)
    """Why it is not complete, a sentence each; empty when it is."""

    @property
    def may_replace(self) -> bool:
        """As for `cars.json`: what a database lacks is delivered later, and changes no feed."""
        return self.catalogue_complete


@dataclass(frozen=True, slots=True)
class Reading:
    """What the ledger of a crawl says."""

    pages: Sequence[PageRead]
    set_aside: Sequence[SetAside]
    odd_specs: Sequence[OddSpec] = ()

    @property
    def passes(self) -> int:
        """How many passes have begun; 0 before the first page was read."""
        return max((page.pass_number for page in self.pages), default=0)

    def pass_number(self, number: int) -> list[PageRead]:
        """The pages of one pass in the order of the catalogue; of a page read twice, the later reading."""
        pages = {page.offset: page for page in self.pages if page.pass_number == number}
        return [pages[offset] for offset in sorted(pages)]

    @property
    def deviations(self) -> Deviations:
        """Of each page and each specification once, sorted by path."""
        found: Deviations = {}
        pages = {(page.pass_number, page.offset): page.deviations for page in self.pages}
        specs = {spec.key: spec.deviations for spec in self.odd_specs}
        for _, deviations in (*sorted(pages.items()), *sorted(specs.items())):
            add(found, deviations)
        return dict(sorted(found.items()))


def needs_another_pass(reading: Reading, max_passes: int) -> bool:
    """True when listings may have slipped past and another walk over the pages can find them."""
    reading = _believed(reading)
    last = reading.pass_number(reading.passes)
    return (
        0 < reading.passes < max_passes
        and _covers_all(last)
        and _ended_early(last) is None
        and not _is_still(last)
        and not _overlaps_to_the_end(reading.pages)
    )


def reach_verdict(
    reading: Reading,
    kept: Collection[str],
    without_specs: int,
    given_up: Sequence[GivenUp],
    *,
    spec_missing: Sequence[str] = (),
    limit: int | None = None,
    most: int | None = None,
    unfinished: int = 0,
    dead_letters: int = 0,
    unserializable: int = 0,
    max_drift: float = 1.0,
    freeze: bool = False,
) -> Verdict:
    """The verdict on a crawl that has ended.

    `kept` holds ids, each once, `spec_missing` those kept without a specification that could not be had. `unfinished`
    counts requests that nobody has made yet, `dead_letters` those given up when `given_up` may lack some,
    `unserializable` those that were refused by the scheduler; any of them makes the crawl incomplete. No page was asked
    for at the place `most` or beyond. With a `limit`, what counts is that every listing named was kept. `max_drift` is
    the share of what cannot be used above which the API counts as changed; with `freeze`, nothing may depart from the
    known shape.
    """
    reading = _believed(reading)
    last = reading.pass_number(reading.passes)
    not_kept = lacking([page.ids for page in reading.pages], kept)
    aside = _still_aside(reading.set_aside, kept)
    aside_ids = {item.id for item in aside if item.id}
    missing = sorted(not_kept.difference(aside_ids))
    told = next((page.total for page in last if page.total is not None), None)
    expected = len(kept) + len(not_kept) if limit or told is None else told
    refused: dict[str, set[str | None]] = {}
    for item in reading.set_aside:
        if item.store:
            refused.setdefault(item.store, set()).add(item.id)
    reasons = []
    changed = api_change(reading, given_up, max_drift)
    if changed:
        reasons.append(f"api_changed: {changed}")
    deviations = reading.deviations
    if freeze and (departure := next(departures(deviations), "")):
        reasons.append(f"schema_changed: {departure}")
    if not reading.pages:
        reasons.append("no listing page was read")
    if unfinished:
        reasons.append(f"{unfinished} requests have not been made yet")
    if unserializable:
        reasons.append(f"{unserializable} requests could not be queued")
    if number := max(len(given_up), dead_letters):
        reasons.append(f"{number} requests were given up")
    if aside:
        reasons.append(f"{len(aside)} listings were set aside")
    if spec_missing:
        reasons.append(f"{len(spec_missing)} listings were kept without their specification")
    if missing:
        reasons.append(f"{len(missing)} listings that the API named were not kept")
    if last and not limit and not unfinished:
        if ended_early := _ended_early(last, most):
            reasons.append(ended_early)
        elif not _covers_all(last):
            reasons.append("not every listing page could be read")
        elif len(kept) + len(aside) < expected:
            end = max((page.offset for page in last if page.ids), default=0)
            reasons.append(
                f"{expected - len(kept) - len(aside)} listings of the API's total never turned up; the last page that "
                f"named any begins at offset {end}"
            )
        elif not _is_still(last) and not _overlaps_to_the_end(reading.pages):
            reasons.append(f"the catalogue moved too much in {reading.passes} passes to be sure")
    catalogue_complete = not reasons
    for store, ids in sorted(refused.items()):
        reasons.append(f"{len(ids)} listings were set aside by {store}")
    return Verdict(
        complete=not reasons,
        catalogue_complete=catalogue_complete,
        kept=len(kept),
        expected=expected,
        without_specs=without_specs,
        spec_missing=list(spec_missing),
        passes=reading.passes,
        missing=missing,
        set_aside=[*aside, *_different(item for item in reading.set_aside if item.store)],
        given_up=list(given_up),
        deviations=deviations,
        api_changed=changed is not None,
        reasons=reasons,
    )


def api_change(reading: Reading, given_up: Sequence[GivenUp], max_drift: float) -> str | None:
    """Why the API counts as changed: too large a share of the listings of the last walk, or of the specifications that
    they have, cannot be used. None when it does not.

    Each listing and specification counts once, however often it was tried; a page without listings to be read counts
    as many as a page has.
    """
    pages = reading.pass_number(reading.passes)
    lost_pages = sum(dead.kind == "page" and dead.other_shape for dead in given_up)
    if lost_pages and not pages:
        return "no listing page can be read"
    lost = lost_pages * max((page.limit for page in pages), default=0)
    rejected = lost + sum(page.rejected for page in pages)
    seen = lost + sum(len(page.ids) + page.unnamed for page in pages)
    if seen >= LEAST_LISTINGS and rejected > max_drift * seen:
        return f"{rejected} of {seen} listings cannot be used"
    named = {spec for page in reading.pages for spec in page.specs}
    unreadable = named.intersection(dead.spec for dead in given_up if dead.other_shape)
    if len(named) >= _LEAST_SPECS and len(unreadable) > max_drift * len(named):
        return f"{len(unreadable)} of {len(named)} specifications cannot be read"
    return None


def _still_aside(items: Iterable[SetAside], kept: Collection[str]) -> list[SetAside]:
    """Each listing set aside once, those left out that were kept after all, in a later reading of their page."""
    items = [item for item in items if not item.store]
    not_kept = lacking([[item.id for item in items if item.id]], kept) if items else ()
    return _different(item for item in items if not item.id or item.id in not_kept)


def _different(items: Iterable[SetAside]) -> list[SetAside]:
    return list({(item.store, item.id or (item.url, item.path)): item for item in items}.values())


def going_on(verdict: Verdict, unfinished: int) -> Verdict:
    """The verdict on a crawl that somebody has stopped and the same command goes on with: nothing is missing yet."""
    why = f"stopped with {unfinished} requests to make; the same command goes on with them"
    return replace(verdict, complete=False, catalogue_complete=False, goes_on=True, missing=[], reasons=[why])


def cut_short(verdict: Verdict) -> Verdict:
    """The verdict on a crawl that somebody has stopped and nothing goes on with: that comes first, the rest follows."""
    why = "stopped before its end; with JOBDIR, the same command would go on from here"
    return replace(verdict, complete=False, catalogue_complete=False, reasons=[why, *verdict.reasons])


def delivered(
    verdict: Verdict, undelivered: Mapping[str, int], elsewhere: Mapping[Undelivered, int] | None = None
) -> Verdict:
    """The verdict on a crawl whose databases still lack so many records, which wait on disk: by database on this
    worker's, and `elsewhere`, by database and worker.
    """
    waiting = Counter({store: count for store, count in sorted(undelivered.items()) if count})
    reasons = [f"{count} records wait on disk for {store}" for store, count in waiting.items()]
    for (store, worker), count in (elsewhere or {}).items():
        waiting[store] += count
        reasons.append(
            f"{count} records wait on disk for {store} where worker {worker} ran, which has left: `scrapy deliver` "
            "sends them from there"
        )
    if not waiting:
        return verdict
    return replace(verdict, complete=False, undelivered=dict(waiting), reasons=[*verdict.reasons, *reasons])


def believable(verdict: Verdict, before: int, min_kept_share: float) -> Verdict:
    """The verdict on a whole catalogue, of which the last complete crawl found so many listings: one that has
    collapsed since is not believed.
    """
    if verdict.kept >= before * min_kept_share:
        return verdict
    reason = (
        f"only {verdict.kept} listings are left of the {before} in the last complete cars.json, a smaller share than "
        f"CARS_MIN_KEPT_SHARE ({min_kept_share:g}); to accept that, run once with CARS_MIN_KEPT_SHARE=0"
    )
    return replace(verdict, complete=False, catalogue_complete=False, reasons=[*verdict.reasons, reason])


def doubted(verdict: Verdict, own: Verdict) -> Verdict:
    """A complete verdict of another worker, if this one's `own`, on all that it sees or is told, agrees."""
    doubt = f"another worker's verdict says that {verdict.kept} listings were kept, and there are {own.kept}"
    if own.complete and own.kept == verdict.kept:
        return verdict
    return replace(verdict, complete=False, catalogue_complete=False, reasons=[doubt, *own.reasons])


def _believed(reading: Reading) -> Reading:
    """The same without the totals of a pass that has shown more listings than they say."""
    wrong = {
        page.pass_number
        for page in reading.pages
        if page.total is not None and page.ids and page.offset >= page.total
    }
    if not wrong:
        return reading
    pages = [replace(page, total=None) if page.pass_number in wrong else page for page in reading.pages]
    return replace(reading, pages=pages)


def _ended_early(pages: Sequence[PageRead], most: int | None = None) -> str | None:
    """Why a walk was ended, and at which page, when the site would have had it go on."""
    page = pages[-1]
    after, announced = page.offset + page.limit, pages[0].total or 0
    if page.last and after >= announced:
        return None
    where = f"the pages were read to offset {page.offset} and no further"
    though = (
        f"though the site announces {announced} listings" if page.last else "though that one names a next"
    )
    if idle := idle_tail(pages):
        return f"{where}: the last {idle} of them brought nothing new, {though}"
    if most is not None and after >= most:
        return f"{where}: CARS_MAX_LISTINGS is {most}, {though}"
    return None


def _covers_all(pages: Sequence[PageRead]) -> bool:
    """True when the pages leave no gap between the first listing and the total that was named last; without one, the
    end is a page that names no next one.
    """
    at = 0
    for page in pages:
        if page.offset > at:
            return False
        at = max(at, page.offset + page.limit)
    total = next((page.total for page in reversed(pages) if page.total is not None), None)
    return bool(pages) and (pages[-1].last if total is None else at >= total)


def _is_still(pages: Sequence[PageRead]) -> bool:
    """True when the catalogue did not move while the pages were read; without a total, nobody knows."""
    _, different = numbered([page.ids for page in pages])
    return {page.total for page in pages} == {different + sum(page.unnamed for page in pages)}


def _overlaps_to_the_end(pages: Sequence[PageRead]) -> bool:
    """True when overlapping pages lead from one that begins at the top to one that reaches the end.

    Pages of pass 0 are no part of the walk; they belong to whatever search somebody else asked for.
    """
    pages = [page for page in pages if page.pass_number and page.ids]
    out_of_order = [_featured(page, pages) for page in pages]
    holders = Holders([page.ids for page in pages])
    reached = {number for number, page in enumerate(pages) if page.offset == 0}
    waiting = list(reached)
    while waiting:
        number = waiting.pop()
        page = pages[number]
        if _reaches_end(page):
            return True
        shared = Counter(holders.sharing(number))
        for other, rows in shared.items():
            if other not in reached and rows > out_of_order[number] + out_of_order[other]:
                reached.add(other)
                waiting.append(other)
    return False


def _reaches_end(page: PageRead) -> bool:
    return page.last and (page.total is None or page.offset + page.limit >= page.total)


def _featured(page: PageRead, pages: Iterable[PageRead]) -> int:
    """How many rows of a page are out of their order: those above the number that its place has room for. Nobody
    knows how much room a last page without a total has: then one more than on any other page.
    """
    if page.total is not None:
        return max(0, len(page.ids) + page.unnamed - min(page.limit, page.total - page.offset))
    if page.last:
        return 1 + max((_featured(other, ()) for other in pages if not other.last), default=0)
    return max(0, len(page.ids) + page.unnamed - page.limit)
