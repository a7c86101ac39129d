"""What becomes of a request that failed: it waits in the frontier for another try, or becomes a dead letter."""

from __future__ import annotations

import logging
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.downloadermiddlewares.retry import RetryMiddleware as ScrapyRetryMiddleware
from scrapy.exceptions import IgnoreRequest

from carscraper.exceptions import ApiError
from carscraper.retry.backoff import backoff, retry_after
from carscraper.scheduler import FrontierScheduler

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure

logger = logging.getLogger(__name__)

_SNIPPET = 200
"""Bytes of a body that go into the reason of a dead letter."""


class RequestFailed(IgnoreRequest):
    """Raised to end a request's way through Scrapy; what becomes of it was said to the scheduler before."""


def frontier_scheduler(crawler: Crawler) -> FrontierScheduler | None:
    """The running scheduler when it keeps leases; None under Scrapy's own."""
    scheduler = crawler.engine.scheduler
    return scheduler if isinstance(scheduler, FrontierScheduler) else None


class RetryMiddleware(ScrapyRetryMiddleware):
    """Scrapy's retry, with a place to wait: the frontier, until a time that grows with every try.

    `RETRY_ENABLED`, `RETRY_TIMES`, `RETRY_HTTP_CODES`, `RETRY_EXCEPTIONS`, and `dont_retry` and
    `max_retry_times` in `meta` mean what they mean to Scrapy. A `Retry-After` holds up the whole site, for
    every worker, for at most `CARS_MAX_RETRY_AFTER` seconds. An answer that is none (an `ApiError` from a
    callback) is retried like a failed download. After the last try the request becomes a dead letter, with
    the reason and the beginning of the body.

    Requests that are not leased (robots.txt, or all under another scheduler) are retried the way Scrapy does
    it.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `NotConfigured` when `RETRY_ENABLED` is off."""
        middleware = super().from_crawler(crawler)
        middleware._longest = crawler.settings.getfloat("CARS_MAX_RETRY_AFTER")
        crawler.signals.connect(middleware._on_spider_error, signals.spider_error)
        return middleware

    _longest: float

    def process_response(
        self, request: Request, response: Response, spider: Any = None
    ) -> Request | Response:
        """Retry by status; raises `RequestFailed` once the scheduler knows what to do."""
        if response.status not in self.retry_http_codes or request.meta.get("dont_retry", False):
            return response
        scheduler = frontier_scheduler(self.crawler)
        if scheduler is None or scheduler.attempt(request) is None:
            return super().process_response(request, response)
        delay = self._asked_to_wait(response)
        if delay is not None:
            scheduler.pause(request, delay)
        self._try_later(scheduler, request, f"status {response.status}", response.body, delay or 0.0)
        raise RequestFailed(f"status {response.status}")

    def process_exception(
        self, request: Request, exception: Exception, spider: Any = None
    ) -> Request | Response | None:
        """Retry by exception; raises `RequestFailed` once the scheduler knows what to do."""
        if not isinstance(exception, self.exceptions_to_retry) or request.meta.get("dont_retry", False):
            return None
        scheduler = frontier_scheduler(self.crawler)
        if scheduler is None or scheduler.attempt(request) is None:
            return super().process_exception(request, exception)
        reason = f"{type(exception).__name__}: {exception}"
        self._try_later(scheduler, request, reason, b"", 0.0)
        raise RequestFailed(reason) from exception

    def _on_spider_error(self, failure: Failure, response: Any) -> None:
        """A callback refused the answer: worth another try, unless the callback itself is at fault."""
        request = getattr(response, "request", None)
        scheduler = frontier_scheduler(self.crawler)
        if request is None or scheduler is None or not isinstance(failure.value, ApiError):
            return
        if scheduler.attempt(request) is not None:
            self._try_later(scheduler, request, f"no answer: {failure.value}", response.body, 0.0)

    def _try_later(
        self, scheduler: FrontierScheduler, request: Request, reason: str, body: bytes, at_least: float
    ) -> None:
        attempt = scheduler.attempt(request) or 1
        times = request.meta.get("max_retry_times", self.max_retry_times)
        if attempt > times:
            snippet = f"; body begins {body[:_SNIPPET]!r}" if body else ""
            logger.error("Gave up %s after %d tries: %s", request, attempt, reason)
            self.crawler.stats.inc_value("retry/max_reached")
            scheduler.bury(request, f"{reason}, {attempt} tries{snippet}")
            return
        delay = max(at_least, backoff(attempt, random.random()))
        logger.info("Trying %s again in %.1f s (try %d): %s", request, delay, attempt, reason)
        self.crawler.stats.inc_value("retry/count")
        scheduler.retry(request, delay, reason)

    def _asked_to_wait(self, response: Response) -> float | None:
        header = response.headers.get("Retry-After")
        return retry_after(header.decode("latin-1"), datetime.now(UTC), self._longest) if header else None


class LastWordMiddleware:
    """Nearest to the engine: a request that fails here has nobody else to catch it, so it becomes a dead
    letter.

    Scrapy drops such requests with a log line, or silently: a status that the callback does not want
    (`HttpErrorMiddleware` hides it), a redirect that is not followed, an `IgnoreRequest`, a download that
    failed for good. What the retry middleware has already put off stays put off. A request with an errback is
    left to it.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Never refuses."""
        return cls(crawler)

    def process_response(self, request: Request, response: Response) -> Response:
        """Bury what the callback will never see."""
        wanted = request.meta.get("handle_httpstatus_list", ())
        if not 200 <= response.status < 300 and response.status not in wanted and not request.errback:
            snippet = f"; body begins {response.body[:_SNIPPET]!r}" if response.body else ""
            self._bury(request, f"status {response.status}{snippet}")
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Bury what failed before or during the download, and is not put off."""
        if not request.errback:
            self._bury(request, f"{type(exception).__name__}: {exception}")

    def _bury(self, request: Request, reason: str) -> None:
        if scheduler := frontier_scheduler(self._crawler):
            scheduler.bury(request, reason)
