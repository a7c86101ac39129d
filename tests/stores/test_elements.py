"""Specifications kept as BSON in a file: what was put is had again as it was, or not at all."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from carscraper.stores.mongo.elements import Elements


@pytest.fixture(name="elements")
def elements_in_a_file_of_100_bytes() -> Iterator[Elements]:
    elements = Elements(largest=100, most=20)
    yield elements
    elements.clear()


def test_the_last_ones_are_kept_as_they_were(elements: Elements) -> None:
    """Also where the file begins again at its start."""
    drawn = random.Random(7)
    put: list[tuple[bytes, bytes, bool]] = []
    for number in range(500):
        one = str(number).encode(), drawn.randbytes(drawn.randint(1, 30)), drawn.random() < 0.5
        put.append(one)
        elements.put(*one)
        had = [elements.get(digest) for digest, _, _ in put]
        kept = next(place for place, found in enumerate(had) if found is not None)
        assert had == [None] * kept + [(element, mark) for _, element, mark in put[kept:]]
        # What is not used is the end of the file, which the next one did not fit in, and what the last one needed.
        assert kept == 0 or sum(len(element) for _, element, _ in put[kept - 1 :]) > 100 - 30


def test_no_more_are_known_of_than_memory_is_meant_for(elements: Elements) -> None:
    for number in range(50):
        elements.put(str(number).encode(), b"1", False)
    assert [number for number in range(50) if elements.get(str(number).encode())] == list(range(30, 50))


def test_one_that_is_larger_than_the_file_is_not_kept(elements: Elements) -> None:
    elements.put(b"small", b"1", True)
    elements.put(b"large", bytes(101), False)
    assert (elements.get(b"small"), elements.get(b"large")) == ((b"1", True), None)


def test_nothing_is_kept_where_no_file_can_be(
    elements: Elements, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    elements.put(b"first", b"1", False)
    assert elements.get(b"first") is None
    (tmp_path / "missing").mkdir()
    elements.put(b"first", b"1", False)
    assert elements.get(b"first") == (b"1", False)


def test_what_is_gone_from_the_file_is_put_again(elements: Elements) -> None:
    elements.put(b"first", b"123", False)
    assert elements._file is not None
    elements._file.truncate(1)
    assert elements.get(b"first") is None
    elements.put(b"first", b"123", False)
    assert elements.get(b"first") == (b"123", False)


def test_nothing_is_kept_after_the_end(elements: Elements) -> None:
    elements.put(b"first", b"1", False)
    file = elements._file
    elements.clear()
    assert elements.get(b"first") is None
    assert file is not None
    assert file.closed
    elements.put(b"first", b"2", True)
    assert elements.get(b"first") == (b"2", True)
