"""robots.txt as RFC 9309 has it: one that cannot be had forbids everything until it can."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from scrapy import Request, signals
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware as ScrapyRobotsTxtMiddleware
from scrapy.exceptions import CannotResolveHostError, DownloadConnectionRefusedError, StopDownload
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.misc import build_from_crawler

from carscraper.config import Config
from carscraper.responses.decompression import UNBOUNDED
from scrapy_durable.config import Config as CoreConfig
from scrapy_durable.exceptions import DurableError
from scrapy_durable.origins import origin_of
from scrapy_durable.retry.backoff import backoff
from scrapy_durable.retry.middleware import RequestFailed
from scrapy_durable.scheduler import frontier_scheduler
from scrapy_durable.stopping import is_stopping, stop_crawl

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.robotstxt import RobotParser

logger = logging.getLogger(__name__)

_REDIRECTS = 5
"""As many as RFC 9309 has a crawler follow; the allow-list lets none leave the API's host."""
_LONGEST = 500 * 1024
"""Bytes that are read, as many as RFC 9309 demands: asking the rules beyond for each request costs more than it."""

_NOBODY = DownloadConnectionRefusedError, CannotResolveHostError
_SSL_CONTEXT = re.compile(r" ssl:(default|<[^>]*>)")
"""What the downloader adds to the address that it could not reach."""


class RobotsUnavailable(DurableError):
    """Raised when nobody can say what robots.txt allows."""


class RobotsTxtMiddleware(ScrapyRobotsTxtMiddleware):
    """Scrapy's own, which takes everything for allowed when robots.txt fails.

    Here a status of 4xx means that there is none, so all is allowed. Anything else than 2xx or 4xx, or no
    answer, means wait: requests go back to the frontier, untried, the site is left alone by all workers for a
    time that grows with each failure, and after `RETRY_TIMES` of them the crawl stops with the finish reason
    `robots_unavailable`. When nobody is there at all at the first try, this process stops at once, with
    `site_unreachable`: whoever has just started it wants to know, and nothing is lost. Under another scheduler
    than the frontier's, the requests are dropped. Of one that is longer than 500 KiB, the lines before that hold, and
    no more is read.

    Stat: `robotstxt/unavailable`.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._core = CoreConfig.from_settings(crawler.settings)
        self._times = crawler.settings.getint("RETRY_TIMES")
        self._failures = 0
        self._not_before = 0.0
        self._url = f"{origin_of(Config.from_settings(crawler.settings).api_url)}/robots.txt"
        self._known = False
        self._parser: RobotParser | None = None
        self._asking = asyncio.Lock()

    async def process_request(self, request: Request, spider: Any = None) -> None:
        """Let the request pass, or raise `IgnoreRequest`: forbidden, or put off.

        There is one robots.txt, since the allow-list lets nothing pass that goes anywhere but to the API.
        """
        if request.meta.get("dont_obey_robotstxt"):
            return
        if not self._known:
            async with self._asking:
                if not self._known:
                    await self._ask(request)
            self._give_back_if_spaced(request)
        self.process_request_2(self._parser, request)

    async def _ask(self, request: Request) -> None:
        """Learn what the site allows. Raises `RequestFailed` when it cannot be learned, or not yet."""
        if not is_stopping(self.crawler) and time.monotonic() >= self._not_before:
            try:
                self._parser = await self._fetch(self._url)
            except Exception as error:  # noqa: BLE001  whatever keeps it from being had is logged, and means wait
                self._note_failure(request, error)
            else:
                self._known = True
                self._slow_down(request)
                return
        scheduler = frontier_scheduler(self.crawler)
        if scheduler and scheduler.attempt(request) is not None:
            scheduler.give_back(request)
        raise RequestFailed("what robots.txt allows is not known")

    def _slow_down(self, request: Request) -> None:
        """Keep to a `Crawl-delay` that is meant for us, which RFC 9309 does not have and many sites do."""
        agent = self._robotstxt_useragent or request.headers.get("User-Agent") or self._default_useragent
        delay = self._parser.crawl_delay(agent) if self._parser is not None else None
        scheduler = frontier_scheduler(self.crawler)
        if delay and delay > 0 and scheduler is not None and scheduler.slow_to(delay):
            logger.info("robots.txt asks for %g s between two requests (Crawl-delay)", delay)

    def _give_back_if_spaced(self, request: Request) -> None:
        """robots.txt was asked in this request's time, or while it waited. Where sites are asked one request at a
        time, it has to get another: raises `RequestFailed` then.
        """
        scheduler = frontier_scheduler(self.crawler)
        if scheduler and scheduler.attempt(request) is not None and scheduler.interval(request) > 0:
            scheduler.give_back(request)
            raise RequestFailed("robots.txt was asked for in its time")

    async def _fetch(self, url: str) -> RobotParser | None:
        """The rules; None where there are none. Raises `RobotsUnavailable`, or what the downloader raises."""
        for _ in range(_REDIRECTS + 1):
            self._stats.inc_value("robotstxt/request_count")
            asked = Request(
                url,
                priority=self.DOWNLOAD_PRIORITY,
                meta={"dont_obey_robotstxt": True, "dont_retry": True, UNBOUNDED: True},
                headers={"Accept-Encoding": "identity"},  # what is packed cannot be cut
                callback=NO_CALLBACK,
            )
            response = await self._download(asked)
            self._stats.inc_value(f"robotstxt/response_status_count/{response.status}")
            if faults := [flag for flag in response.flags if flag != "download_stopped"]:
                raise RobotsUnavailable(f"its body is {', '.join(faults)}")
            if 200 <= response.status < 300:
                return build_from_crawler(self._parserimpl, self.crawler, _beginning(response.body))
            location = response.headers.get("Location")
            if 300 <= response.status < 400 and location:
                url = urljoin(url, location.decode("latin-1"))
            elif response.status == 401 and asked.meta.get("proxy"):
                raise RobotsUnavailable("status 401, which may be the proxy's")
            elif 400 <= response.status < 500 and response.status not in (407, 429):
                return None
            else:
                break
        raise RobotsUnavailable(f"status {response.status}")

    async def _download(self, asked: Request) -> Response:
        """The answer, of which no more is read than counts."""
        received = 0

        def stop_when_enough(data: bytes, request: Request) -> None:
            nonlocal received
            if request is asked:
                received += len(data)
                if received > _LONGEST:
                    raise StopDownload(fail=False)

        self.crawler.signals.connect(stop_when_enough, signals.bytes_received)
        try:
            return await self.crawler.engine.download_async(asked)
        finally:
            self.crawler.signals.disconnect(stop_when_enough, signals.bytes_received)

    def _note_failure(self, request: Request, error: Exception) -> None:
        """Let the site rest, or stop."""
        problem = f"{type(error).__name__}: {_SSL_CONTEXT.sub('', str(error))}"
        self._failures += 1
        self._stats.inc_value("robotstxt/unavailable")
        if self._failures == 1 and isinstance(error, _NOBODY) and not self._core.proxies:
            stop_crawl(self.crawler, "site_unreachable", f"nobody answers at {self._url}: {problem}")
            return
        if self._failures > self._times:
            why = f"robots.txt could not be had in {self._failures} tries, so nothing may be asked: {problem}"
            stop_crawl(self.crawler, "robots_unavailable", why)
            return
        base, longest = self._core.retry_base_delay, self._core.retry_max_delay
        delay = max(base, backoff(self._failures, random.random(), base, longest))
        self._not_before = time.monotonic() + delay
        logger.warning("robots.txt cannot be had; asking again in %.1f s: %s", delay, problem)
        scheduler = frontier_scheduler(self.crawler)
        if scheduler:
            scheduler.pause(request, delay)


def _beginning(body: bytes) -> bytes:
    """The lines that count. One that is cut in the middle would forbid more than it says."""
    if len(body) <= _LONGEST:
        return body
    logger.warning("robots.txt is longer than %d bytes; what is behind them does not count", _LONGEST)
    return body[:_LONGEST].rpartition(b"\n")[0]
