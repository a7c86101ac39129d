"""What counts as a failure of a site."""

from __future__ import annotations

from scrapy import Request
from scrapy.downloadermiddlewares.stats import DownloaderStats
from scrapy.exceptions import DownloadTimeoutError, IgnoreRequest
from scrapy.utils.test import get_crawler

from scrapy_durable.allow_list import NotAllowed
from scrapy_durable.answers import Answers
from scrapy_durable.crawl_numbers import FAILED


def test_a_request_that_was_not_sent_is_no_failure_of_its_site() -> None:
    crawler = get_crawler()
    counting, answers = DownloaderStats.from_crawler(crawler), Answers(crawler)
    for error in (IgnoreRequest(), NotAllowed(), DownloadTimeoutError(), TimeoutError()):
        counting.process_exception(Request("http://a/"), error)
    assert answers.numbers[FAILED] == 2
