"""What a crawl keeps of each listing in memory, from its first page to `cars.json`: bytes, not a string in a set.

Two sizes are compared, so that what any crawl takes does not count, and what Python has allocated is, so that it is the
same in every run.
"""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

import orjson
import pytest

from carscraper.catalogue import ids
from carscraper.catalogue.ids import PackedIds
from carscraper.distinct import Distinct
from carscraper.items import Car, PageRead, Removal, Specification
from carscraper.monitoring.report import read_ledger
from carscraper.monitoring.verdict import needs_another_pass, reach_verdict
from carscraper.output import archive as archive_module
from carscraper.output.archive import Archive
from carscraper.stores.contract import unseen
from carscraper.stores.record import Records

FEW, MANY, PAGE = 4_000, 16_000, 100
MOST = 80
"""Bytes that a listing more may take. In a set it takes 90, in a dictionary of numbers 150, in each of them."""


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As small beside these catalogues as they are beside one of a million."""
    monkeypatch.setattr(ids, "_AT_ONCE", 2_000)
    monkeypatch.setattr(ids, "_IN_A_TEXT", 500)
    monkeypatch.setattr(archive_module, "_SEGMENT_BYTES", 50_000)


def listing(number: int) -> str:
    """None that Python keeps anyway."""
    return str(10_000_000 + 7 * number)


def crawled(output_dir: Path, listings: int, *, moves: bool) -> Archive:
    """A crawl that has read and kept all of them; if the catalogue `moves`, in two passes."""
    archive = Archive(output_dir, "crawl-1", "worker")
    archive.open(resumable=False)
    for pass_number in (1, 2) if moves else (1,):
        begin = PAGE // 2 if pass_number == 2 else 0
        offsets = [0, *range(begin, listings, PAGE)] if begin else range(0, listings, PAGE)
        for offset in offsets:
            numbers = range(offset, min(offset + PAGE, listings))
            page_ids = [listing(number) for number in numbers]
            # A total that changes between two pages is that of a catalogue that moves.
            total = listings + (1 if moves and offset == 0 else 0)
            last = offset + PAGE >= total
            archive.note(PageRead(pass_number, offset, PAGE, total, page_ids, 0, last=last))
            for listing_id in page_ids if pass_number == 1 else ():
                archive.keep(Car(listing_id, "", "2026-11-20T10:15:00.000Z", {}, []))
            if offset % (10 * PAGE) == 0:
                asyncio.run(archive.write())
    asyncio.run(archive.write())
    return archive


def finished(archive: Archive, listings: int) -> None:
    """All that the end of a crawl does with what was kept."""
    reading = read_ledger(archive)
    assert not needs_another_pass(reading, 4)
    kept = archive.kept()
    verdict = reach_verdict(reading, kept.listings, kept.without_specs, [])
    assert verdict.kept == listings
    assert not verdict.missing
    removal = Removal(kept.listings.texts, "2026-11-20T10:15:00Z", "2026-11-20T11:15:00Z")
    archive.keep_removal(removal)
    assert unseen([listing(0), "gone"], PackedIds.from_texts(removal.seen)) == ["gone"]
    archive.publish(kept, complete=True)


def peak(step: Callable[[], None]) -> int:
    """Bytes that Python has allocated more than before, at most, while it was done."""
    tracemalloc.start()
    try:
        step()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("moves", [False, True])
def test_the_end_of_a_crawl_takes_little_memory_for_a_listing_more(tmp_path: Path, moves: bool) -> None:
    peaks = []
    for listings in (FEW, MANY):
        archive = crawled(tmp_path / str(listings), listings, moves=moves)
        finished(archive, listings)  # what is made once, is made
        peaks.append(peak(partial(finished, archive, listings)))
        archive.close()
    assert peaks[1] - peaks[0] < MOST * (MANY - FEW)


def test_a_set_of_all_would_be_found() -> None:
    """The counterpart."""
    few, many = (peak(partial(set, map(listing, range(count)))) for count in (FEW, MANY))
    assert many - few > MOST * (MANY - FEW)


def test_what_is_kept_of_specifications_takes_about_as_much_as_it_is_said_to_weigh() -> None:
    """Also of those that tell little, and of one that tells much."""
    most = 1 << 20

    def made(number: int) -> bytes:
        told = {"Fuel type": f"Fuel {number}", "Engine size": f"{number}", "Driven wheels": f"all {number}"}
        much = {"Airbags": f"unknown {number}" * 20}
        attrs = [{"label": label, "value": value} for label, value in (told | much).items()]
        return orjson.dumps([{"title": str(number), "attrs": attrs[: number % 5]}])

    texts = [made(number) for number in range(5_000)]

    def come() -> None:
        records = Records(most)
        for text in texts:
            records.columns(Specification.of_json(text))

    come()  # what is kept of texts whatever they are part of, is kept
    assert most / 2 < peak(come) < most * 1.5


def test_the_texts_that_have_come_take_no_memory_of_pythons() -> None:
    def come(count: int) -> None:
        distinct = Distinct()
        for begin in range(0, count, PAGE):
            distinct.add([listing(number) for number in range(begin, begin + PAGE)])

    few, many = (peak(partial(come, count)) for count in (FEW, MANY))
    assert many - few < MANY - FEW
