"""The comparison of Scrapy's own tests with and without the add-on complains of what it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scrapys_own.results import STOCK_SCHEDULER, Results, complaints, read_replaced, read_results, stale
from tests.scrapys_own.source import HERE, pinned

OURS = "durable.scheduler.Scheduler"
STOCK = Results(
    {"t.crawl": "passed", "t.plain": "passed", "t.old": "failed"},
    {"t.crawl": [STOCK_SCHEDULER], "t.plain": []},
)
GOOD = Results(STOCK.outcomes, {"t.crawl": [OURS]})


def told(other: Results, replaced: dict[str, str] | None = None) -> list[str]:
    return list(complaints(STOCK, other, "durable", replaced or {}, mode="bare"))


def test_a_run_with_the_addon_in_which_the_same_tests_pass_is_right() -> None:
    assert told(GOOD) == []


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_a_test_that_passes_no_more_is_named_unless_it_tests_what_was_replaced(outcome: str) -> None:
    worse = Results({**STOCK.outcomes, "t.plain": outcome}, GOOD.schedulers)
    assert told(worse) == [f"bare: {outcome}: t.plain"]
    assert told(worse, {"t.pl*": "a reason"}) == []


def test_a_test_that_did_not_run_is_named() -> None:
    assert told(Results({"t.crawl": "passed"}, GOOD.schedulers)) == ["bare: missing: t.plain"]


def test_crawls_with_scrapys_own_scheduler_do_not_count() -> None:
    assert told(Results(STOCK.outcomes, STOCK.schedulers)) == [
        "bare: crawled with Scrapy's own scheduler: t.crawl",
        "bare: in no test has a scheduler of durable run",
    ]


def test_what_is_listed_as_replaced_and_does_not_fail_is_named() -> None:
    assert list(stale({"bare": GOOD}, {"t.plain": "a reason"})) == ["replaced.txt: does not fail: t.plain"]
    assert list(stale({"bare": GOOD}, {"t.old": "a reason"})) == []


def test_what_is_replaced_has_a_reason_and_is_not_much(tmp_path: Path) -> None:
    listed = tmp_path / "replaced.txt"
    listed.write_text("# a comment\nt.one  it asks for a queue on the disk\n")
    assert read_replaced(listed) == {"t.one": "it asks for a queue on the disk"}
    listed.write_text("t.one\n")
    with pytest.raises(ValueError, match=r"no reason is given for t\.one"):
        read_replaced(listed)
    listed.write_text("".join(f"t.test_{number}  a reason\n" for number in range(11)))
    with pytest.raises(ValueError, match="11 tests, 10 at most"):
        read_replaced(listed)


def test_the_list_in_the_repository_can_be_read_and_scrapy_is_pinned() -> None:
    read_replaced(HERE / "replaced.txt")
    version, hashes = pinned()
    assert version.count(".") == 2
    assert len(hashes) == 2


def test_outcomes_and_schedulers_are_of_the_same_tests(tmp_path: Path) -> None:
    junit, record = tmp_path / "run.xml", tmp_path / "run.jsonl"
    junit.write_text(
        '<testsuites><testsuite><testcase classname="tests.test_crawl.TestCrawl" name="test_delay[1]"/>'
        '<testcase classname="tests.test_crawl" name="test_other"><failure/></testcase></testsuite></testsuites>'
    )
    record.write_text('{"test": "tests/test_crawl.py::TestCrawl::test_delay[1]", "schedulers": ["a.B"]}\n')
    assert read_results(junit, record) == Results(
        {"tests.test_crawl.TestCrawl.test_delay[1]": "passed", "tests.test_crawl.test_other": "failed"},
        {"tests.test_crawl.TestCrawl.test_delay[1]": ["a.B"]},
    )
