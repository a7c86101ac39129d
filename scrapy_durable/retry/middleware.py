"""What becomes of a request that failed: it waits in the frontier for another try, or becomes a dead letter."""

from __future__ import annotations

import logging
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from scrapy import signals
from scrapy.downloadermiddlewares.retry import RetryMiddleware as ScrapyRetryMiddleware
from scrapy.exceptions import DownloadCancelledError, IgnoreRequest

from scrapy_durable.config import Config
from scrapy_durable.engine import has_errback
from scrapy_durable.exceptions import InvalidAnswer
from scrapy_durable.retry.backoff import backoff, retry_after
from scrapy_durable.scheduler import FrontierScheduler, frontier_scheduler

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

logger = logging.getLogger(__name__)

_SNIPPET = 200
"""Bytes of a body that go into the reason of a dead letter."""
_UNUSABLE = frozenset(("undecodable", "too_large", "encoded_too_often"))
"""Flags of responses whose body could not be unpacked, of `responses.decompression`."""
_MAY_BE_CUT = frozenset(("partial", "dataloss"))
"""Scrapy's flags of responses whose end nobody has announced, and of those that are known to lack something."""
_PROXY_REFUSES = 407
"""Not the site's answer, but that of a proxy on the way to it, which may be another one at the next try."""


class RequestFailed(IgnoreRequest):
    """Raised to end a request's way through Scrapy; what becomes of it was said to the scheduler before."""


class RetryMiddleware(ScrapyRetryMiddleware):
    """Scrapy's retry, with a place to wait: the frontier, until a time that grows with every failure.

    `RETRY_ENABLED`, `RETRY_TIMES`, `RETRY_HTTP_CODES`, `RETRY_EXCEPTIONS`, and `dont_retry` and
    `max_retry_times` in `meta` mean what they mean to Scrapy. Beside those statuses and exceptions, bodies
    that cannot be unpacked are tried again, and what a proxy refused; with `DURABLE_RETRY_PARTIAL` those that may have
    been cut too. A `Retry-After` holds up the whole site, for every worker, for at most `DURABLE_MAX_RETRY_AFTER`
    seconds. After the last try the request becomes a dead letter, with the reason and the beginning of the body. A
    lease that a kill has ended is no try: `DURABLE_MAX_ATTEMPTS` limits those.

    Requests that are not leased (all under another scheduler) are retried the way Scrapy does it.

    Stats: `retry/count`, `retry/max_reached`.
    """

    _config: Config
    _faulty: frozenset[str]
    """Flags of responses that are tried again."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `NotConfigured` when `RETRY_ENABLED` is off, `ConfigurationError` for a refused setting."""
        middleware = super().from_crawler(crawler)
        middleware._config = Config.from_settings(crawler.settings)
        middleware._faulty = _UNUSABLE | _MAY_BE_CUT if middleware._config.retry_partial else _UNUSABLE
        middleware.exceptions_to_retry = (*middleware.exceptions_to_retry, DownloadCancelledError)
        return middleware

    def process_response(
        self, request: Request, response: Response, spider: Any = None
    ) -> Request | Response:
        """Retry by status or flag; raises `RequestFailed` once the scheduler knows what to do."""
        fault = self._fault(request, response)
        if fault is None or request.meta.get("dont_retry", False):
            return response
        scheduler = frontier_scheduler(self.crawler)
        if scheduler is None or not scheduler.outcomes.is_leased(request):
            return super().process_response(request, response)
        delay = self._asked_to_wait(response)
        if delay is not None:
            logger.warning("The site asks to wait for %.0f s (%s)", delay, fault)
            scheduler.sites.pause(request, delay, f"the site asks to wait (Retry-After, {fault})")
        if not self.try_later(scheduler, request, fault, response.body, delay or 0.0) and has_errback(
            self.crawler, request
        ):
            return response  # as in Scrapy: the errback is given it in an `HttpError`
        raise RequestFailed(fault)

    def process_exception(
        self, request: Request, exception: Exception, spider: Any = None
    ) -> Request | Response | None:
        """Retry by exception; raises `RequestFailed` once the scheduler knows what to do."""
        if not isinstance(exception, self.exceptions_to_retry) or request.meta.get("dont_retry", False):
            return None
        scheduler = frontier_scheduler(self.crawler)
        if scheduler is None or not scheduler.outcomes.is_leased(request):
            return super().process_exception(request, exception)
        reason = f"{type(exception).__name__}: {exception}"
        if not self.try_later(scheduler, request, reason) and has_errback(self.crawler, request):
            return None
        raise RequestFailed(reason) from exception

    def try_later(
        self,
        scheduler: FrontierScheduler,
        request: Request,
        reason: str,
        body: bytes = b"",
        at_least: float = 0.0,
    ) -> bool:
        """Have a leased request tried again after `at_least` seconds. False when it has failed too often: it becomes a
        dead letter then, unless it has an errback, which is left to deal with it.
        """
        tries = scheduler.outcomes.failures(request) + 1
        times = request.meta.get("max_retry_times", self.max_retry_times)
        if tries > times:
            logger.error("Gave up retrying %s (failed %d times): %s", request, tries, reason)
            self.crawler.stats.inc_value("retry/max_reached")
            if not has_errback(self.crawler, request):
                scheduler.outcomes.dead_letter(request, f"{reason}, {tries} tries{_snippet(body)}")
            return False
        wait = backoff(tries, random.random(), self._config.retry_base_delay, self._config.retry_max_delay)
        delay = max(at_least, wait)
        logger.info("Retrying %s in %.1f s (failed %d times): %s", request, delay, tries, reason)
        self.crawler.stats.inc_value("retry/count")
        scheduler.outcomes.retry(request, delay, reason)
        return True

    def _fault(self, request: Request, response: Response) -> str | None:
        """What is wrong with a response, by status and flags; None when it may be an answer."""
        if response.status in self.retry_http_codes or response.status == _PROXY_REFUSES:
            return f"status {response.status}"
        if response.flags and (flags := self._faulty.intersection(response.flags)):
            limit = f" ({request.meta.get('download_maxsize')} bytes at most)" if "too_large" in flags else ""
            return f"status {response.status}, but the body is {', '.join(sorted(flags))}{limit}"
        return None

    def _asked_to_wait(self, response: Response) -> float | None:
        header = response.headers.get("Retry-After")
        if not header:
            return None
        return retry_after(header.decode("latin-1"), datetime.now(UTC), self._config.max_retry_after)


refused_answer = object()
"""Signal: a callback has refused the response to `request` with the InvalidAnswer `error`."""
OTHER_SHAPE = "no answer of the known shape"
"""In the reason of a dead letter: its answer was JSON, but could not be used."""


class NoAnswerMiddleware:
    """A spider middleware: what a callback refuses with an `InvalidAnswer` is no answer, and asked for again.

    It is retried like a failed download, and becomes a dead letter after the last try, without the traceback
    that Scrapy logs for errors of callbacks. Every other exception is a bug and stays one. Under another
    scheduler than the frontier's it does nothing. Each is told by the signal `refused_answer`.

    Stat: `retry/no_answer`.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Never refuses."""
        return cls(crawler)

    def process_spider_exception(self, response: Response, exception: Exception) -> list[Any] | None:
        """Nothing comes of the response once the scheduler knows what to do with its request; None otherwise."""
        if not isinstance(exception, InvalidAnswer):
            return None
        request = response.request
        scheduler = frontier_scheduler(self._crawler)
        if request is None or scheduler is None or not scheduler.outcomes.is_leased(request):
            return None
        self._crawler.stats.inc_value("retry/no_answer")
        self._crawler.signals.send_catch_log(refused_answer, error=exception, request=request)
        reason = (
            f"status {response.status}, but {OTHER_SHAPE if exception.path else 'no answer'}: {exception}"
        )
        retry = self._crawler.get_downloader_middleware(RetryMiddleware)
        if retry is None or request.meta.get("dont_retry", False):
            logger.error("Gave up %s: %s", request, reason)
            scheduler.outcomes.dead_letter(request, f"{reason}{_snippet(response.body)}")
        elif not retry.try_later(scheduler, request, reason, response.body):
            scheduler.outcomes.dead_letter(
                request, f"{reason}{_snippet(response.body)}"
            )  # an errback hears of no callback's error
        return []


class LastWordMiddleware:
    """Nearest to the engine: a request that fails here has nobody else to catch it, so it becomes a dead
    letter.

    Scrapy drops such requests with a log line, or silently: a status that the callback does not want
    (`HttpErrorMiddleware` hides it), a redirect that is not followed, an `IgnoreRequest`, a download that
    failed for good. What the retry middleware has already put off stays put off. A request with an errback is
    left to it. A request that never comes past here was dropped by another middleware on the way back; the
    scheduler dead-letters it too.

    Where `DURABLE_DEAD_LETTER_DROPPED` is False, what Scrapy drops counts as done, and only downloads that failed for
    good become dead letters.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._strict = Config.from_settings(crawler.settings).dead_letter_dropped
        crawler.signals.connect(self._opened, signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Never refuses."""
        return cls(crawler)

    def process_response(self, request: Request, response: Response) -> Response:
        """Dead-letter what the callback will never see."""
        if self._scheduler is None:
            return response
        self._scheduler.outcomes.note_result(request)
        if 200 <= response.status < 300 or not self._strict:
            return response
        wanted = request.meta.get("handle_httpstatus_list", ())
        if response.status not in wanted and not has_errback(self._crawler, request):
            self._dead_letter(request, _refusal(response))
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Dead-letter what failed before or during the download, and is not put off."""
        if self._scheduler is None:
            return
        self._scheduler.outcomes.note_result(request)
        is_failure = self._strict or not isinstance(exception, IgnoreRequest)
        if is_failure and not has_errback(self._crawler, request):
            self._dead_letter(request, f"{type(exception).__name__}: {exception}")

    def _dead_letter(self, request: Request, reason: str) -> None:
        if self._scheduler and self._scheduler.outcomes.dead_letter(request, reason):
            logger.error("Gave up %s: %s", request, reason)

    _scheduler: FrontierScheduler | None = None

    def _opened(self) -> None:
        self._scheduler = frontier_scheduler(self._crawler)
        if self._scheduler and self._strict:
            self._scheduler.outcomes.expect_results()


def _refusal(response: Response) -> str:
    """A response that no callback wants, as the reason of a dead letter; a redirect names where to."""
    location = response.headers.get("Location")
    if 300 <= response.status < 400 and location:
        return (
            f"status {response.status}, a redirect to {_host(response.url, location)}, which is not followed"
        )
    return f"status {response.status}{_snippet(response.body)}"


def _host(url: str, location: bytes) -> str:
    try:
        target = urlsplit(urljoin(url, location.decode("latin-1")))
        return repr(f"{target.scheme}://{target.hostname or ''}"[:200])
    except ValueError:
        return "something that is no URL"


def _snippet(body: bytes) -> str:
    return f"; body begins {body[:_SNIPPET]!r}" if body else ""
