"""robots.txt as RFC 9309 has it: one that cannot be had forbids everything until it can."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from scrapy import Request, signals
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware as ScrapyRobotsTxtMiddleware
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    IgnoreRequest,
    StopDownload,
)
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.misc import build_from_crawler

from scrapy_durable.config import Config
from scrapy_durable.engine import has_errback
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

UNBOUNDED = "unbounded_download"
"""`meta` key: whoever asks stops the download by himself. Ignored with a callback, which what comes from a queue has;
what is unpacked is bounded all the same.
"""
_REDIRECTS = 5
"""As many as RFC 9309 has a crawler follow; where there is an allow-list, they have to pass it."""
_LONGEST = 500 * 1024
"""Bytes that are read, as many as RFC 9309 demands: asking the rules beyond for each request costs more than it."""

_NOBODY = DownloadConnectionRefusedError, CannotResolveHostError
_SSL_CONTEXT = re.compile(r" ssl:(default|<[^>]*>)")
"""What the downloader adds to the address that it could not reach."""


class RobotsUnavailable(DurableError):
    """Raised when nobody can say what robots.txt allows."""


class NotKnownToBeAllowed(IgnoreRequest):
    """Raised for a request to a site whose robots.txt could not be had, in as many tries as there are."""


@dataclass
class _Site:
    """What is known of one origin's robots.txt."""

    url: str
    is_known: bool = False
    parser: RobotParser | None = None
    """The rules; None where there are none, or before they are known."""
    failures: int = 0
    not_before: float = 0.0
    """When to ask again, by the monotonic clock."""
    given_up: str = ""
    """Why nothing may be asked any more; empty while there is hope."""
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)


class RobotsTxtMiddleware(ScrapyRobotsTxtMiddleware):
    """Scrapy's own, which takes everything for allowed when robots.txt fails.

    Here a status of 4xx means that there is none, so all is allowed. Anything else than 2xx or 4xx, or no
    answer, means wait: requests go back to the frontier, untried, and the site is left alone by all workers for a
    time that grows with each failure. Each origin has its own robots.txt and its own failures.

    After `RETRY_TIMES` of them, each request to that site becomes a dead letter. When it is the only allowed origin
    (`DURABLE_ALLOWED_ORIGINS`), the crawl stops instead, with the finish reason `robots_unavailable`; and when nobody
    is there at all at the first try, this process stops at once, with `site_unreachable`: whoever has just started it
    wants to know, and nothing is lost. Under another scheduler than the frontier's, the requests are dropped.

    Of a robots.txt that is longer than 500 KiB, the lines before that hold, and no more is read.

    Stats: `robotstxt/unavailable`, `robotstxt/given_up`.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._config = Config.from_settings(crawler.settings)
        self._times = crawler.settings.getint("RETRY_TIMES")
        self._sites: dict[str, _Site] = {}

    async def process_request(self, request: Request, spider: Any = None) -> None:
        """Let the request pass, or raise `IgnoreRequest`: forbidden, put off, or given up."""
        site = self._site(request)
        if site is None:
            return
        if not site.is_known:
            async with site.asking:
                if not site.is_known:
                    await self._ask(site, request)
            self._release_if_spaced(request)
        self.process_request_2(site.parser, request)

    def _site(self, request: Request) -> _Site | None:
        """Whose robots.txt tells of the request; None when none does, or when the allow-list refuses it anyway."""
        if request.meta.get("dont_obey_robotstxt"):
            return None
        try:
            origin = origin_of(request.url)
        except ValueError:
            return None
        allowed = self._config.allowed_origins
        if allowed and origin not in allowed:
            return None
        return self._sites.setdefault(origin, _Site(f"{origin}/robots.txt"))

    async def _ask(self, site: _Site, request: Request) -> None:
        """Learn what the site allows. Raises `RequestFailed` when it is not learned yet, `NotKnownToBeAllowed` when
        it will not be.
        """
        if not (site.given_up or is_stopping(self.crawler)) and time.monotonic() >= site.not_before:
            try:
                site.parser = await self._fetch(site.url)
            except Exception as error:  # noqa: BLE001  whatever keeps it from being had is logged, and means wait
                self._note_failure(site, error)
            else:
                site.is_known = True
                await self._tell(site, request)
                return
        scheduler = frontier_scheduler(self.crawler)
        if site.given_up:
            # A drop, to Scrapy; but the request is lost like one whose download has failed for good.
            is_lost = not has_errback(self.crawler, request)
            if scheduler and is_lost and scheduler.outcomes.dead_letter(request, site.given_up):
                logger.error("Gave up %s: %s", request, site.given_up)
            raise NotKnownToBeAllowed(site.given_up)
        if scheduler and scheduler.outcomes.is_leased(request):
            scheduler.outcomes.release(request)
        self._pause(site, request)
        raise RequestFailed("what robots.txt allows is not known")

    async def _tell(self, site: _Site, request: Request) -> None:
        """Have everybody know the rules, and keep to a `Crawl-delay` that is meant for us, which RFC 9309 does not have
        and many sites do.
        """
        if site.parser is None:
            return
        await self.crawler.signals.send_catch_log_async(
            signal=signals.robots_parsed, robotparser=site.parser, request=request
        )
        agent = self._robotstxt_useragent or request.headers.get("User-Agent") or self._default_useragent
        delay = site.parser.crawl_delay(agent)
        scheduler = frontier_scheduler(self.crawler)
        if delay and delay > 0 and scheduler is not None and scheduler.sites.slow_to(request, delay):
            logger.info("%s asks for %g s between two requests (Crawl-delay)", site.url, delay)

    def _pause(self, site: _Site, request: Request) -> None:
        """Have no worker get a request for the site, whatever slot it is in, before robots.txt is asked for again."""
        seconds = site.not_before - time.monotonic()
        scheduler = frontier_scheduler(self.crawler)
        if scheduler and seconds > 0:
            scheduler.sites.pause(request, seconds, "robots.txt could not be read; it is asked for again")

    def _release_if_spaced(self, request: Request) -> None:
        """robots.txt was asked in this request's time, or while it waited. Where sites are asked one request at a
        time, it has to get another: raises `RequestFailed` then.
        """
        scheduler = frontier_scheduler(self.crawler)
        if scheduler and scheduler.outcomes.is_leased(request) and scheduler.sites.interval(request) > 0:
            scheduler.outcomes.release(request)
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
                return build_from_crawler(self._parserimpl, self.crawler, _beginning(response))
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

    def _note_failure(self, site: _Site, error: Exception) -> None:
        """Let the site rest; or give it up; or stop, where there is no other."""
        problem = f"{type(error).__name__}: {_SSL_CONTEXT.sub('', str(error))}"
        site.failures += 1
        self._stats.inc_value("robotstxt/unavailable")
        is_only = len(self._config.allowed_origins) == 1
        if is_only and site.failures == 1 and isinstance(error, _NOBODY) and not self._config.proxies:
            stop_crawl(self.crawler, "site_unreachable", f"nobody answers at {site.url}: {problem}")
            return
        if site.failures > self._times:
            why = f"could not be had in {site.failures} tries, so nothing may be asked: {problem}"
            if is_only:
                stop_crawl(self.crawler, "robots_unavailable", f"robots.txt {why}")
                return
            site.given_up = f"{site.url} {why}"
            self._stats.inc_value("robotstxt/given_up")
            logger.error("Giving up a site: %s", site.given_up)
            return
        base, longest = self._config.retry_base_delay, self._config.retry_max_delay
        delay = max(base, backoff(site.failures, random.random(), base, longest))
        site.not_before = time.monotonic() + delay
        logger.warning("%s cannot be had; asking again in %.1f s: %s", site.url, delay, problem)


def _beginning(response: Response) -> bytes:
    """The lines that count. One that is cut in the middle would forbid more than it says."""
    if len(response.body) <= _LONGEST:
        return response.body
    logger.warning("%s is longer than %d bytes; what is behind them does not count", response.url, _LONGEST)
    return response.body[:_LONGEST].rpartition(b"\n")[0]
