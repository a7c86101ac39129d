"""What waits for a database in all of a crawl, put together from what its workers have reported."""

from __future__ import annotations

from collections.abc import Collection

from scrapy_durable.waiting import Undelivered, as_seen_here, numbers, waiting_elsewhere


def report(**numbers: int) -> dict[str, int]:
    """Worker to how many records that it has written wait for PostgreSQL; a worker says other things, too."""
    return {"kept": 7} | {f"undelivered:PostgreSQL:{worker}": number for worker, number in numbers.items()}


def undelivered(**numbers: int) -> dict[Undelivered, int]:
    return {Undelivered("PostgreSQL", worker): number for worker, number in numbers.items()}


def test_what_a_worker_that_is_gone_has_left_waits_and_is_not_waited_for() -> None:
    assert waiting_elsewhere(here=[report(me=0)], gone=[report(other=45)], living=[]) == (
        undelivered(other=45),
        {},
    )


def test_what_one_that_lives_still_has_is_waited_for() -> None:
    assert waiting_elsewhere(here=[], gone=[], living=[report(other=3)]) == (
        undelivered(other=3),
        undelivered(other=3),
    )


def test_what_has_been_delivered_waits_nowhere() -> None:
    assert waiting_elsewhere(here=[], gone=[report(other=0)], living=[report(third=0)]) == ({}, {})


def test_of_several_who_had_the_same_records_the_one_counts_that_had_fewest_left() -> None:
    """They were taken over, twice, and only ever become fewer."""
    chain = [report(first=45), report(second=10, first=20), report(third=0, first=5, second=0)]
    assert waiting_elsewhere(here=[], gone=chain, living=[]) == (undelivered(first=5), {})
    assert waiting_elsewhere(here=[report(me=0, first=0)], gone=chain, living=[]) == ({}, {})


def test_what_this_worker_has_taken_over_is_its_own() -> None:
    assert waiting_elsewhere(here=[report(me=2, other=9)], gone=[report(other=45)], living=[]) == ({}, {})


def test_databases_are_counted_apart() -> None:
    gone = {"undelivered:MongoDB:other": 1, "undelivered:PostgreSQL:other": 2}
    elsewhere, _ = waiting_elsewhere(here=[{"undelivered:MongoDB:other": 0}], gone=[gone], living=[])
    assert elsewhere == {Undelivered("PostgreSQL", "other"): 2}


class Store:
    """What `as_seen_here` asks of a store: `left` names the workers whose records are on its disk."""

    name = "PostgreSQL"
    undelivered = 0

    def __init__(self, place: int, *left: str) -> None:
        self.place = place
        self.waiting = dict.fromkeys(left, 1)

    def has_backlog_of(self, worker: str) -> bool:
        return worker in self.waiting

    async def wait_until_delivered(self) -> None: ...

    def mark_removed(self, seen: Collection[str], begun_at: str, removed_at: str) -> None: ...


def test_what_is_not_on_this_disk_any_more_was_delivered_by_whomever() -> None:
    theirs = report(gone=45, stays=2)
    here, elsewhere = {**theirs, "place:PostgreSQL": 5}, {**theirs, "place:PostgreSQL": 6}
    assert as_seen_here(here, [Store(5, "stays")]) == {**here, "undelivered:PostgreSQL:gone": 0}
    assert as_seen_here(elsewhere, [Store(5, "stays")]) == elsewhere
    assert as_seen_here(here, []) == here
    assert as_seen_here(theirs, [Store(5)]) == theirs


def test_a_worker_reports_on_which_disk_its_records_wait_and_not_too_many_names() -> None:
    told = numbers(Store(5, *(f"worker-{number}" for number in range(40))))
    assert told["place:PostgreSQL"] == 5
    assert len(told) == 13
    assert told["undelivered:PostgreSQL:worker-39"] == 1
