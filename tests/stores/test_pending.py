"""Records that wait in memory are bounded by number and by bytes."""

from __future__ import annotations

from carscraper.items import Car, Removal
from carscraper.stores.pending import BATCH_BYTES, Pending
from carscraper.stores.record import Draft, Records

MB = 2**20


def draft(size: int) -> Draft:
    return Draft(Car("1", "", "2026-11-20T10:15:00.123Z", {"description": "x" * size}, []), Records())


def test_many_small_ones_are_counted() -> None:
    pending = Pending(batch_size=3)
    for number in range(12):
        assert pending.fills_batch is (number >= 3)
        assert pending.has_room
        pending.add(draft(10), float(number), number)
    assert not pending.has_room
    assert pending.oldest == 0.0
    assert [len(pending.next_batch()), len(pending)] == [3, 12]
    pending.drop_first()
    assert pending.has_room
    assert pending.oldest == 1.0


def test_few_large_ones_are_weighed() -> None:
    pending = Pending(batch_size=500)
    for _ in range(3):
        pending.add(draft(MB), 0.0, 1)
    assert not pending.fills_batch
    assert len(pending.next_batch()) == 3
    for _ in range(5):
        pending.add(draft(MB), 0.0, 1)
    assert pending.fills_batch
    assert not pending.has_room
    assert len(pending.next_batch()) == 3
    for _ in range(8):
        pending.drop_first()
    assert not pending
    assert pending.has_room


def test_one_that_is_larger_than_a_batch_is_a_batch() -> None:
    pending = Pending(batch_size=500)
    pending.add(draft(BATCH_BYTES), 0.0, 1)
    pending.add(Removal([], "", ""), 0.0, 2)
    assert len(pending.next_batch()) == 1
    pending.drop_first()
    assert len(pending.next_batch()) == 1
