"""What waits for a database in all of a crawl, put together from what its workers have reported."""

from __future__ import annotations

from carscraper.pipelines.waiting import Spooled, waiting_elsewhere


def report(**numbers: int) -> dict[str, int]:
    """Worker to how many records that it has written wait for PostgreSQL; a worker says other things, too."""
    return {"kept": 7} | {f"undelivered:PostgreSQL:{worker}": number for worker, number in numbers.items()}


def spooled(**numbers: int) -> dict[Spooled, int]:
    return {Spooled("PostgreSQL", worker): number for worker, number in numbers.items()}


def test_what_a_worker_that_is_gone_has_left_waits_and_is_not_waited_for() -> None:
    assert waiting_elsewhere(here=[report(me=0)], gone=[report(other=45)], living=[]) == (
        spooled(other=45),
        {},
    )


def test_what_one_that_lives_still_has_is_waited_for() -> None:
    assert waiting_elsewhere(here=[], gone=[], living=[report(other=3)]) == (
        spooled(other=3),
        spooled(other=3),
    )


def test_what_has_been_delivered_waits_nowhere() -> None:
    assert waiting_elsewhere(here=[], gone=[report(other=0)], living=[report(third=0)]) == ({}, {})


def test_of_several_who_had_the_same_records_the_one_counts_that_had_fewest_left() -> None:
    """They were taken over, twice, and only ever become fewer."""
    chain = [report(first=45), report(second=10, first=20), report(third=0, first=5, second=0)]
    assert waiting_elsewhere(here=[], gone=chain, living=[]) == (spooled(first=5), {})
    assert waiting_elsewhere(here=[report(me=0, first=0)], gone=chain, living=[]) == ({}, {})


def test_what_this_worker_has_taken_over_is_its_own() -> None:
    assert waiting_elsewhere(here=[report(me=2, other=9)], gone=[report(other=45)], living=[]) == ({}, {})


def test_databases_are_counted_apart() -> None:
    gone = {"undelivered:MongoDB:other": 1, "undelivered:PostgreSQL:other": 2}
    elsewhere, _ = waiting_elsewhere(here=[{"undelivered:MongoDB:other": 0}], gone=[gone], living=[])
    assert elsewhere == {Spooled("PostgreSQL", "other"): 2}
