"""Requests that are known already are told as Scrapy tells them: by a stat, and by a signal with the request."""

from __future__ import annotations

import gc
import json
import subprocess
from pathlib import Path
from weakref import ref

import pytest
from scrapy import Request, Spider, signals
from scrapy.utils.test import get_crawler

from scrapy_durable.duplicates import Duplicates
from scrapy_durable.frontier.contract import Inbox, Outbox
from tests.any_project.project import PYTHON, environment

TWICE = """
import json
from pathlib import Path
import scrapy

class Twice(scrapy.Spider):
    name = "twice"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.dropped = []
        crawler.signals.connect(spider.note, scrapy.signals.request_dropped)
        crawler.signals.connect(spider.tell, scrapy.signals.spider_closed)
        return spider

    def note(self, request, spider):
        assert spider is self
        self.dropped.append(request)

    def tell(self):
        told = [request.meta["number"] for request in self.dropped]
        filtered = self.crawler.stats.get_value("dupefilter/filtered")
        Path("told.json").write_text(json.dumps([filtered, told, [request in self.asked for request in self.dropped]]))

    async def start(self):
        yield scrapy.Request("data:,page", meta={"number": 0})

    def parse(self, response):
        self.asked = [scrapy.Request("data:,page", meta={"number": number}) for number in (1, 2)]
        yield from self.asked
        yield {}
"""
"""While its first page is under way, it asks for that page two times more."""


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("-s", 'ADDONS={"scrapy_durable.Addon": 500}'),
        ("-s", 'ADDONS={"scrapy_durable.Addon": 500}', "-s", "JOBDIR=job"),
    ],
    ids=["stock", "memory", "jobdir"],
)
def test_who_listens_hears_of_each_duplicate_with_its_request_as_in_stock_scrapy(
    settings: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "twice.py").write_text(TWICE)
    done = subprocess.run(
        [PYTHON, "-m", "scrapy", "runspider", "twice.py", *settings],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "told.json").read_text()) == [2, [1, 2], [True, True]]


class Exchanged:
    """Duplicates as they are after one exchange. `dropped` has the requests that were told of."""

    def __init__(self, *, listens: bool) -> None:
        self.crawler = get_crawler(Spider)
        self.dropped: list[Request] = []
        if listens:
            self.crawler.signals.connect(self._note, signals.request_dropped)
        self.duplicates = Duplicates(self.crawler)

    def _note(self, request: Request) -> None:
        self.dropped.append(request)

    def exchange(self, refused: list[int]) -> None:
        outbox = Outbox()
        self.duplicates.say(outbox)
        self.duplicates.hear(
            outbox, Inbox([], refused=refused, stale=[], dead_lettered=[], unfinished=0, next_due=None, now=0)
        )

    @property
    def filtered(self) -> int:
        counted: int = self.crawler.stats.get_value("dupefilter/filtered", 0)
        return counted


def test_one_that_stands_in_an_outbox_twice_is_a_duplicate_once() -> None:
    here, first, second = Exchanged(listens=True), Request("data:,1"), Request("data:,1")
    for request in (first, second):
        here.duplicates.queued(1, request)
    here.exchange([])
    assert (here.filtered, here.dropped) == (1, [second])


def test_what_is_refused_of_others_is_no_duplicate() -> None:
    """An element of the core's own, such as that of `start()`, is refused too, and nobody has asked for it."""
    here, request = Exchanged(listens=True), Request("data:,1")
    here.duplicates.queued(1, request)
    here.exchange([2])
    assert (here.filtered, here.dropped) == (0, [])


def test_one_that_is_queued_while_an_exchange_is_under_way_waits_for_the_next() -> None:
    here, outbox = Exchanged(listens=True), Outbox()
    here.duplicates.say(outbox)
    here.duplicates.queued(1, Request("data:,1"))
    here.duplicates.hear(
        outbox, Inbox([], refused=[1], stale=[], dead_lettered=[], unfinished=0, next_due=None, now=0)
    )
    assert here.filtered == 0
    here.exchange([1])
    assert here.filtered == 1


@pytest.mark.parametrize("listens", [True, False])
def test_a_request_is_kept_only_where_somebody_listens_and_until_the_answer(listens: bool) -> None:
    here, request = Exchanged(listens=listens), Request("data:,1")
    here.duplicates.queued(1, request)
    kept = ref(request)
    del request
    gc.collect()
    assert (kept() is not None) == listens
    here.exchange([])
    gc.collect()
    assert kept() is None
