"""With the add-on, a crawl that is stopped is kept: by one Ctrl-C, by a second one, by a limit of Scrapy's own."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.any_project.conftest import MakeProject
from tests.any_project.kills import (
    Whole,
    assert_nothing_was_done_twice,
    crawl_through,
    finish,
    wait_until_gone,
    wait_until_settled,
)
from tests.any_project.shop import Shop
from tests.any_project.variants import ALONE, SHARED, Variant

pytestmark = pytest.mark.usefixtures("addon")

ONE_WORKER = [ALONE.steady, SHARED[0].steady]
SPIDERS = ["products", "forms", "quotes"]
ALL = [(variant, spider, interrupts) for variant in ONE_WORKER for spider in SPIDERS for interrupts in (1, 2)]
PAIRS = [
    (variant, spider, 1 + (place + number) % 2)
    for place, variant in enumerate(ONE_WORKER)
    for number, spider in enumerate(SPIDERS)
]
"""Half of them: any two of variant, spider and number of interrupts come together in one."""


@pytest.mark.parametrize(
    ("variant", "spider", "interrupts"), ALL if "CRASH_SEEDS" in os.environ else PAIRS, ids=str
)
def test_a_crawl_that_was_interrupted_goes_on_where_it_was(
    interrupts: int,
    spider: str,
    variant: Variant,
    project: MakeProject,
    shop: Shop,
    whole: Callable[[str], Whole],
) -> None:
    """After one Ctrl-C what is in flight is waited for; after a second one it is asked for again, and nothing else."""
    expected = whole(spider)
    durable = project(spider, variant)
    shop.gate(20)
    run = durable.start()
    assert shop.wait_until_held(lambda: not run.running), run.log
    wait_until_settled(durable, shop)
    for _ in range(interrupts):
        run.interrupt()
    if interrupts == 1:
        shop.gate(None)
    assert run.wait() != 0, "a crawl that was stopped is not complete"
    wait_until_gone(shop, run)
    durable.end_leases(run)
    assert len(durable.items()) < len(expected.items)
    assert finish(crawl_through(durable, shop, []), shop) == [0]
    assert_nothing_was_done_twice(durable, shop, expected)


@pytest.mark.parametrize("variant", ONE_WORKER, ids=str)
def test_a_crawl_that_has_come_to_its_end_is_forgotten(
    variant: Variant, project: MakeProject, shop: Shop, whole: Callable[[str], Whole]
) -> None:
    """Tomorrow's run, by the same command, reads everything again."""
    expected = whole("products")
    durable = project("products", variant)
    for _ in range(2):
        assert finish(crawl_through(durable, shop, []), shop) == [0]
    assert durable.items() == sorted(expected.items * 2)


@pytest.mark.parametrize("variant", ONE_WORKER, ids=str)
def test_a_crawl_that_closespider_has_stopped_is_kept(
    variant: Variant, project: MakeProject, shop: Shop, whole: Callable[[str], Whole]
) -> None:
    expected = whole("products")
    durable = project("products", variant)
    limited = durable.start(arguments=["-s", "CLOSESPIDER_ITEMCOUNT=10"])
    assert limited.wait() != 0, "a crawl that was stopped is not complete"
    assert 10 <= len(durable.items()) < len(expected.items)
    durable.end_leases(limited)
    assert finish(crawl_through(durable, shop, []), shop) == [0]
    assert_nothing_was_done_twice(durable, shop, expected)


def test_who_asks_is_known_also_of_what_another_process_was_redirected_to(
    project: MakeProject, shop: Shop
) -> None:
    """Else the site would wait for a process that was killed, and another be the one that asks."""
    durable = project("products", SHARED[0].steady)
    killed = durable.start(0)
    shop.gate(0)
    while not (redirects := [entry for entry in shop.journal() if entry["status"] == 302]):
        shop.gate(1)
        assert shop.wait_until_held(lambda: not killed.running), killed.log
    wait_until_settled(durable, shop)
    killed.kill()
    wait_until_gone(shop, killed)
    durable.end_leases(killed)
    other = durable.start(1)
    assert finish([other], shop) == [0], other.log
    product = redirects[0]["target"].replace("/go/", "/product/")
    answered = [entry for entry in shop.journal() if entry["target"] == product and entry["status"] == 200]
    assert [entry["agent"] for entry in answered] == [other.agent]
