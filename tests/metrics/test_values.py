"""Metrics that follow from a look: bounded, whatever a site calls itself."""

from __future__ import annotations

from scrapy_durable.metrics import names
from scrapy_durable.metrics.exposition import exposition
from scrapy_durable.metrics.health import checks, health_document
from scrapy_durable.metrics.values import MOST, OTHER, Bounds, crawl_values, history_values, process_values
from scrapy_durable.status.report import nothing_seen, report_of
from tests.metrics.served import samples_in
from tests.status.made_up import LEASE, counts, look, worker


def report(**facts: object):  # type: ignore[no-untyped-def]
    return report_of(look(**facts), None, LEASE, {})


def test_more_sites_than_there_is_room_for_are_counted_together_and_keep_their_place() -> None:
    most = MOST["slot"]
    slots = {f"site{number:04}": counts(queued=1, done=2) for number in range(most + 20)}
    bounds = Bounds()
    first = crawl_values(report(slots=slots, total=counts(queued=most + 20)), bounds)[names.SLOT_REQUESTS]
    assert len({slot for slot, _ in first}) == most + 1
    assert (first[OTHER, "queued"], first[OTHER, "done"]) == (20, 40)
    slots["site0119"] = counts(queued=1000)
    again = crawl_values(report(slots=slots), bounds)[names.SLOT_REQUESTS]
    assert again.keys() == first.keys(), "who has a value of his own keeps it"
    assert again[OTHER, "queued"] == 1019
    other_crawl = crawl_values(report(slots=slots, crawl_id="next"), bounds)[names.SLOT_REQUESTS]
    assert other_crawl["site0119", "queued"] == 1000


def test_hostile_names_are_one_label_and_no_password_is_shown() -> None:
    reasons = {'status 503"} 1\nevil_total 7\x1b[31m': 3, "http://user:secret@site/": 1, "x" * 5000: 1}
    text = exposition([crawl_values(report(retried=reasons), Bounds())], process=False).decode()
    assert "\nevil_total" not in text
    assert "secret" not in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) < 300
    assert sum(value for name, value in samples_in(text).items() if "retries_total" in name) == 5


def test_workers_are_living_silent_or_gone_and_their_sums_are_added() -> None:
    told = {"crawl__answers": 3, "crawl__latency_ms": 1500, "crawl__behind:PostgreSQL": 4}
    workers = [
        worker("a", **told),
        worker("b", silent=LEASE * 2, **told),
        worker("c", silent=LEASE * 9, left=1, **told),
    ]
    found = crawl_values(report(workers=workers), Bounds())
    assert found[names.WORKERS] == {("living",): 1, ("silent",): 1, ("left",): 1}
    assert found[names.ANSWERS][()] == 9
    assert found[names.LATENCY][()] == 4.5
    assert found[names.STORE_BEHIND][("PostgreSQL",)] == 12
    assert found[names.WORKER_SILENT].keys() == {("a",), ("b",)}


def test_exactly_one_state_holds() -> None:
    for one in (nothing_seen(), report(total=counts(queued=3), workers=[]), report(total=counts(done=1))):
        assert sum(crawl_values(one, Bounds())[names.CRAWL_STATE].values()) == 1


def test_of_stats_only_statuses_and_levels_that_there_are_become_labels() -> None:
    stats = {
        "downloader/response_status_count/200": 3,
        "downloader/response_status_count/20000": 1,
        "log_count/WARNING": 2,
        "log_count/MADEUP": 1,
        "start_time": "yesterday",
    }
    found = process_values(stats)
    assert found[names.PROCESS_RESPONSES] == {("200",): 3}
    assert found[names.PROCESS_LOG] == {("WARNING",): 2, (OTHER,): 1}
    assert found[names.PROCESS_REQUESTS] == {(): 0}


def test_the_last_complete_run_counts() -> None:
    runs = [
        {"verdict": "complete", "ended": "2026-11-20T00:00:00Z"},
        {"verdict": "complete", "ended": "2026-11-21T00:00:00Z"},
        {"verdict": "complete", "ended": ["nonsense"]},
        {"verdict": "incomplete", "ended": "2026-11-22T00:00:00Z"},
        {"verdict": None},
    ]
    assert history_values(runs)[names.LAST_COMPLETE][()] == 1_795_219_200
    assert history_values([])[names.LAST_COMPLETE][()] == 0


def test_health_says_what_is_wrong_and_why() -> None:
    workers = [worker("a", silent=LEASE * 2, **{"crawl__behind:MongoDB": 10_001, "crawl__log_full": 1})]
    found = list(checks(report(workers=workers, total=counts(queued=2)), ""))
    document = health_document(found, "stalled")
    assert document["status"] == "failing"
    wrong = {name: check["why"] for name, check in document["checks"].items() if not check["ok"]}
    assert wrong == {
        "crawl": "stalled: no worker was heard of for 2 min, 2 requests wait",
        "workers": "1 workers are silent for longer than a lease holds",
        "stores": "MongoDB has not got 10001 records",
        "item_log": "the item log of 1 workers is full",
    }
    assert health_document(list(checks(nothing_seen(), "")), "nothing here")["status"] == "ok"
    assert [(check.name, check.why) for check in checks(None, "refused")] == [("frontier", "refused")]
