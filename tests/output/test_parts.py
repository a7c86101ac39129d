"""What a process has kept, told to those that do not see its directory."""

from __future__ import annotations

import asyncio
import zlib
from array import array
from itertools import chain
from pathlib import Path

import pytest

from carscraper.catalogue.ids import PackedIds
from carscraper.items import Car, PageRead, Removal, SetAside
from carscraper.output.archive import HAS_SPECS, SPECS_MISSING, WITHOUT_SPECS, Archive, Kept
from carscraper.output.entries import encode
from carscraper.output.parts import Part, ledger_of, part_of, pieces_of, put_together, read_part
from scrapy_durable.exceptions import FrontierDamaged

EARLY, LATE = 1_795_083_300_000, 1_795_083_300_001
PAGE = PageRead(1, 0, 20, 2, ["1", "2"], 0, last=True)
Record = tuple[int, int]
"""What it has of a specification, and when it was read."""


def part_with(ledger: list[bytes], records: dict[str, Record]) -> Part:
    newest = array("Q", (time << 2 | specs for specs, time in records.values()))
    return Part(len(ledger) + len(records), ledger, PackedIds(records), newest)


def part(**records: Record) -> Part:
    return part_with([], {name.removeprefix("l"): record for name, record in records.items()})


def told(one: Part) -> tuple[int, list[bytes], list[str], list[int]]:
    return one.entries, one.ledger, list(one.listings), list(one.newest)


def kept_with(*files: list[str]) -> Kept:
    """A file of each list, with a record of each listing in it, all ten bytes long."""
    begins = [array("I", range(0, 10 * len(file), 10)) for file in files]
    paths = [Path(str(number)) for number in range(len(files))]
    return Kept(paths, begins, PackedIds(chain.from_iterable(files)), 0, [])


def test_a_part_is_read_as_it_was_left() -> None:
    aside = SetAside("https://site/?a=\n\u2028", "data[3]", "…", "7")
    records = {str(number): (number % 3, EARLY + number) for number in range(200_000)}
    left = part_with([encode(PAGE), encode(aside)], records)
    pieces = list(pieces_of(left))
    assert len(pieces) > 1
    assert told(part_of("w", 200_002, pieces)) == told(left)
    assert list(ledger_of({"w": left})) == [PAGE, aside]


def test_a_part_has_the_newest_record_of_each_listing_and_counts_all_entries(tmp_path: Path) -> None:
    archive = Archive(tmp_path, "crawl-1", "worker")
    archive.open(resumable=False)
    archive.keep(Car("1", "", "2026-11-20T10:15:00.001Z", {}, None))
    archive.keep(Car("1", "", "2026-11-20T10:15:00.000Z", {}, []))
    archive.keep(Car("2", "", "2026-11-20T10:15:00.123Z", {}, None))
    archive.keep_removal(Removal(["1"], "2026-11-20T10:15:00Z", "2026-11-20T10:15:01Z"))
    archive.note(PAGE)
    asyncio.run(archive.write())
    archive.close()
    found = read_part(archive.workers()["worker"])
    assert found.entries == archive.entries == 5
    assert found.ledger == [encode(PAGE)]
    second = 1_795_169_700_000
    assert dict(zip(found.listings, found.newest, strict=True)) == {
        "1": second << 2 | WITHOUT_SPECS,
        "2": second + 123 << 2 | SPECS_MISSING,
    }


@pytest.mark.parametrize(
    ("one", "other", "owner", "without", "missing"),
    [
        ((HAS_SPECS, LATE), (HAS_SPECS, EARLY), "one", False, False),
        ((HAS_SPECS, EARLY), (HAS_SPECS, LATE), "other", False, False),
        ((HAS_SPECS, EARLY), (HAS_SPECS, EARLY), "other", False, False),
        ((SPECS_MISSING, LATE), (HAS_SPECS, EARLY), "other", False, False),
        ((SPECS_MISSING, LATE), (WITHOUT_SPECS, EARLY), "other", True, False),
        ((WITHOUT_SPECS, LATE), (HAS_SPECS, EARLY), "one", True, False),
        ((SPECS_MISSING, LATE), (SPECS_MISSING, EARLY), "one", False, True),
        ((SPECS_MISSING, 0), (SPECS_MISSING, 0), "other", False, True),
    ],
)
def test_a_listing_that_two_have_read_stands_where_its_newest_record_is(
    one: Record, other: Record, owner: str, without: bool, missing: bool
) -> None:
    whole = put_together({"one": part(l1=one), "other": part(l1=other)})
    assert {name: list(owned) for name, owned in whole.owned.items() if owned} == {owner: ["1"]}
    assert list(whole.kept.listings) == ["1"]
    assert whole.kept.without_specs == without
    assert whole.kept.spec_missing == (["1"] if missing else [])


def test_each_listing_is_published_in_exactly_one_directory() -> None:
    early, late = (HAS_SPECS, EARLY), (HAS_SPECS, LATE)
    parts = {"a1": part(l1=late, l2=early), "a2": part(l3=early), "b": part(l1=early, l2=late)}
    whole = put_together(parts)
    here = whole.share(kept_with(["2", "1"], [], ["kept-after-that", "3"]), ["a1", "a2", "kept-nothing"])
    there = whole.share(kept_with(["1", "2"]), ["b"])
    assert (list(here.listings), [list(own) for own in here.begins]) == (["1", "3"], [[10], [], [10]])
    assert (list(there.listings), [list(own) for own in there.begins]) == (["2"], [[10]])


def test_a_listing_that_stands_twice_in_a_part_counts_once() -> None:
    twice = Part(2, [], PackedIds(["1", "1"]), array("Q", [EARLY << 2, EARLY << 2]))
    assert list(put_together({"w": twice}).kept.listings) == ["1"]


@pytest.mark.parametrize(
    "piece",
    [
        b"",
        b"no piece",
        zlib.compress(b"[1,2,3]"),
        zlib.compress(b'["1",true,5]'),
        zlib.compress(b'["1",3,5]'),
        zlib.compress(b'["1",-1,5]'),
        zlib.compress(b'["1",0,"x"]'),
        zlib.compress(b'["1",0,35184372088832]'),
        zlib.compress(b'["1 2",0,5]'),
        zlib.compress(b'["",0,5]'),
        zlib.compress(b'{"1":2}'),
        zlib.compress(b"7"),
        zlib.compress(b"[null]"),
        zlib.compress(b'["1",2]'),
        zlib.compress(b'["1",0,5]\n["2",0,5]'),
        zlib.compress(bytes(65 << 20)),
        zlib.compress(b'["1",0,5]')[:-1],
    ],
)
def test_what_no_worker_has_left_is_refused(piece: bytes) -> None:
    with pytest.raises(FrontierDamaged, match=r"worker w has kept cannot be read .*, so somebody else"):
        part_of("w", 1, [piece])


def test_a_ledger_that_is_none_is_refused() -> None:
    for entry in (b"nothing", b"null"):
        with pytest.raises(FrontierDamaged, match="the ledger of worker w "):
            list(ledger_of({"w": Part(1, [entry], PackedIds(), array("Q"))}))
