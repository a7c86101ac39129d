"""Keys of requests: by fingerprint, and below a parent where the fingerprint does not count."""

from __future__ import annotations

import gc

from scrapy import Request
from scrapy.utils.request import fingerprint

from scrapy_durable.frontier.codec import PARENT_META
from scrapy_durable.keys import Keys

URL = "https://site.test/"
CRAWL = "20261122T102029Z-61b196"


def keys(worker: str = "worker", *, derive: bool = True) -> Keys:
    made = Keys(fingerprint, worker, derive=derive)
    made.begin(CRAWL)
    return made


def again(path: str = "") -> Request:
    return Request(URL + path, dont_filter=True)


def attempt(of: Keys, key: int = 7) -> Request:
    """The parent, as it was leased."""
    parent = Request(URL + "parent")
    of.leased(parent, key)
    return parent


def children(of: Keys, parent: Request, *requests: Request) -> list[int]:
    for request in requests:
        of.yielded(request, parent)
    return [of.of(request) for request in requests]


def test_a_request_is_known_by_its_fingerprint_whoever_asks_for_it() -> None:
    first, second = keys("a"), keys("b")
    child = Request(URL)
    first.yielded(child, attempt(first))
    assert first.of(child) == second.of(Request(URL)) == second.of(Request(URL))


def test_children_of_a_parent_that_is_done_again_have_the_same_keys() -> None:
    first, second = keys("a"), keys("b")
    one = children(first, attempt(first), again(), again(), again("x"))
    two = children(second, attempt(second), again(), again(), again("x"))
    assert one == two
    assert len(set(one)) == 3
    assert children(first, attempt(first), again()) == one[:1]


def test_children_of_another_parent_have_other_keys() -> None:
    made = keys()
    one = children(made, attempt(made, 7), again())
    two = children(made, attempt(made, 8), again())
    assert one != two


def test_the_place_counts_for_each_callback_alone() -> None:
    made = keys()

    def parse_other() -> None: ...

    other = again().replace(callback=parse_other)
    one = children(made, attempt(made), again(), other)
    two = children(made, attempt(made), other.copy(), again())
    assert one == two[::-1]


def test_a_chain_of_requests_to_the_same_address_never_meets_itself() -> None:
    made, found, key = keys(), set(), 7
    for _ in range(100):
        (key,) = children(made, attempt(made, key), again())
        found.add(key)
    assert len(found) == 100


def test_what_a_start_yields_has_the_same_keys_with_every_worker_of_the_crawl() -> None:
    found = []
    for worker, crawl in (("a", CRAWL), ("b", CRAWL), ("a", "20261123T102029Z-61b196")):
        made = keys(worker)
        made.begin(crawl)
        requests = [again(), again()]
        for request in requests:
            made.started(request)
        found.append([made.of(request) for request in requests])
    assert found[0] == found[1]
    assert len({*found[0], *found[2]}) == 4


def test_a_copy_of_a_leased_request_is_its_child() -> None:
    first, second = keys("a"), keys("b")
    parents = attempt(first), attempt(second)
    one = first.of(parents[0].replace(url=URL + "moved", dont_filter=True))
    two = second.of(parents[1].replace(url=URL + "moved", dont_filter=True))
    assert one == two
    copied = parents[0].copy()
    assert first.copied_from(copied) is parents[0]
    assert first.copied_from(Request(URL)) is None


def test_a_copy_of_what_nobody_has_any_more_has_a_key_of_its_own() -> None:
    """Or a copy that is kept and queued every hour would be queued once."""
    made = keys()
    parent = attempt(made)
    copy = parent.replace(dont_filter=True)
    first = made.of(copy)
    del parent
    gc.collect()
    assert made.copied_from(copy) is None
    assert len({first, *(made.of(copy.copy()) for _ in range(10))}) == 11


def test_a_request_of_nobody_has_a_key_that_no_other_worker_gives() -> None:
    first, second = keys("a"), keys("b")
    found = [made.of(again()) for made in (first, second) for _ in range(3)]
    assert len(set(found)) == 6


def test_a_forged_parent_is_nobody() -> None:
    made = keys()
    for forged in ("7", None, [7], True, 2**80):
        assert made.of(Request(URL, dont_filter=True, meta={PARENT_META: forged}))


def test_a_spider_that_declares_what_it_queues_has_nothing_in_its_meta() -> None:
    made = keys(derive=False)
    parent = attempt(made)
    assert parent.meta == {}
    assert len({*children(made, parent, again(), again()), *children(made, parent, again(), again())}) == 4
