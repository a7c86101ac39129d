"""A pool of forward proxies: a site stays with one for as long as it works, and one that fails rests a while."""

from __future__ import annotations

import base64
import logging
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    NotConfigured,
)

from scrapy_durable.config import Config
from scrapy_durable.engine import site_of
from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.retry.middleware import RequestFailed
from scrapy_durable.scheduler import frontier_scheduler
from scrapy_durable.stopping import stop_crawl

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

logger = logging.getLogger(__name__)

POOL_KEY = "_pool_proxy"
"""`meta` key: which proxy of the pool a request went through; never written down."""
_REFUSALS = (401, 407)
"""401 too, since the API asks for no credentials, and tinyproxy says so when a password is wrong."""
_LONGEST = 600.0
"""Seconds that no proxy rests longer, however often it failed."""


class TunnelRefused(DownloadFailedError):
    """Raised when a proxy does not open a tunnel to the site."""


@dataclass(slots=True)
class Proxy:
    """A proxy of the pool, and how it has been doing."""

    address: str
    """Its URL without credentials."""
    authorization: str | None
    """The value of `Proxy-Authorization`; never logged."""
    failures: int = 0
    """In a row, until now."""
    rests_until: float = 0.0


class ProxyPool:
    """Which proxy a slot uses, given the time in seconds of any clock."""

    def __init__(self, proxies: Sequence[Proxy], cooldown: float) -> None:
        self.proxies = proxies
        self._cooldown = cooldown
        self._of_slot: dict[str, int] = {}

    def choose(self, slot: str, now: float) -> int | None:
        """The number of the slot's proxy: the same as before while it works, else the least used; None: all rest."""
        at = self._of_slot.get(slot)
        if at is not None and self.proxies[at].rests_until <= now:
            return at
        users = Counter(self._of_slot.values())
        ready = [i for i, proxy in enumerate(self.proxies) if proxy.rests_until <= now]
        if not ready:
            return None
        at = self._of_slot[slot] = min(ready, key=lambda i: (self.proxies[i].failures, users[i], i))
        return at

    def note_failure(self, at: int, now: float) -> float:
        """The proxy failed: it rests, twice as long each time in a row. Returns for how long; 0.0: it rests already.

        Requests that were under way when it failed say so one after another, and count once.
        """
        proxy = self.proxies[at]
        if now < proxy.rests_until:
            return 0.0
        proxy.failures += 1
        seconds = min(_LONGEST, self._cooldown * 2.0 ** min(proxy.failures - 1, 32))
        proxy.rests_until = now + seconds
        return seconds

    def note_success(self, at: int, now: float) -> None:
        """An answer came through the proxy; one from before it failed proves nothing."""
        if now >= self.proxies[at].rests_until:
            self.proxies[at].failures = 0

    def rest(self, now: float) -> float:
        """Seconds until the first proxy may be used again."""
        return max(0.0, min(proxy.rests_until for proxy in self.proxies) - now)


class ProxiesMiddleware:
    """Sends requests through the proxies of `DURABLE_PROXIES`; without that setting it is not there.

    A proxy that refuses the connection or the tunnel, or answers 401 or 407, rests for `DURABLE_PROXY_COOLDOWN` seconds
    and longer each time; its request goes back to the frontier, untried. A request that timed out counts for
    both. While all rest, nothing is asked; when each has failed more than `RETRY_TIMES` times in a row, the
    crawl stops with the finish reason `proxies_failed`. A request with a `proxy` of its own in `meta` is left
    alone.

    It stands between the response store, which has to hear of every failure, and retry, which must not count
    those of a proxy. Stats: `proxies/failed`.
    """

    def __init__(self, crawler: Crawler, pool: ProxyPool) -> None:
        self._crawler = crawler
        self._pool = pool
        self._times = crawler.settings.getint("RETRY_TIMES")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `NotConfigured` without a pool, `ConfigurationError` for a URL that is none."""
        for name, url in getproxies().items():
            if name in ("http", "https"):
                read_proxy(url if "://" in url else f"http://{url}", f"{name}_proxy")
        config = Config.from_settings(crawler.settings)
        if not config.proxies:
            raise NotConfigured
        proxies = [read_proxy(url, f"DURABLE_PROXIES[{at}]") for at, url in enumerate(config.proxies)]
        return cls(crawler, ProxyPool(proxies, config.proxy_cooldown))

    def process_request(self, request: Request) -> None:
        """Choose a proxy for the request, or put it off."""
        if "proxy" in request.meta:
            return
        now = time.monotonic()
        at = self._pool.choose(site_of(self._crawler, request), now)
        if at is None:
            self._release(request)
            raise RequestFailed("all proxies rest")
        proxy = self._pool.proxies[at]
        request.meta["proxy"] = proxy.address
        request.meta[POOL_KEY] = at
        if proxy.authorization:
            request.headers["Proxy-Authorization"] = proxy.authorization

    def process_response(self, request: Request, response: Response) -> Response:
        """Let the response pass; raises `RequestFailed` when it is the proxy's own refusal."""
        at = request.meta.get(POOL_KEY)
        if at is None or "stored" in response.flags:
            return response
        if response.status not in _REFUSALS:
            self._pool.note_success(at, time.monotonic())
            return response
        self._note_failure(at, f"it wants other credentials (status {response.status})")
        self._release(request)
        raise RequestFailed("a proxy refused")

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Let the exception pass; raises `RequestFailed` when the proxy alone is at fault."""
        at = request.meta.get(POOL_KEY)
        if at is None:
            return
        if isinstance(exception, DownloadTimeoutError):
            self._note_failure(at, "no answer in time")
        elif isinstance(exception, DownloadConnectionRefusedError | CannotResolveHostError):
            self._note_failure(at, "it cannot be reached")
        elif isinstance(exception, TunnelRefused):
            self._note_failure(at, f"no tunnel, {exception}")
        else:
            return
        if not isinstance(exception, DownloadTimeoutError):
            self._release(request)
            raise RequestFailed("a proxy failed")

    def _note_failure(self, at: int, problem: str) -> None:
        seconds = self._pool.note_failure(at, time.monotonic())
        if not seconds:
            return
        self._crawler.stats.inc_value("proxies/failed")
        proxies = self._pool.proxies
        logger.warning("The proxy %s rests for %.0f s: %s", proxies[at].address, seconds, problem)
        if all(proxy.failures > self._times for proxy in proxies):
            why = f"each proxy has failed at least {self._times + 1} times in a row; the last: {problem}"
            stop_crawl(self._crawler, "proxies_failed", why)

    def _release(self, request: Request) -> None:
        """Return a request untried, and let the site rest for as long as all proxies do."""
        scheduler = frontier_scheduler(self._crawler)
        if scheduler is None:
            return
        if scheduler.outcomes.is_leased(request):
            scheduler.outcomes.release(request)
        if (rest := self._pool.rest(time.monotonic())) > 0:
            scheduler.sites.pause(request, rest, "all proxies rest")


def read_proxy(url: str, name: str) -> Proxy:
    """A proxy from its URL, `http://user:password@host:port`, with what is odd in the credentials as `%XX`.

    Raises `ConfigurationError` that names the setting and never repeats its value.
    """
    problem = f"{name}: a proxy is written http://host:port or http://user:password@host:port"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigurationError(problem) from None
    host = parts.hostname
    plain = (
        re.fullmatch(r"[!-~]+", url) and parts.path in ("", "/") and not parts.query and not parts.fragment
    )
    if parts.scheme not in ("http", "https") or not host or port == 0 or not plain:
        raise ConfigurationError(problem)
    shown = f"[{host}]" if ":" in host else host
    address = f"{parts.scheme}://{shown}{f':{port}' if port else ''}"
    if parts.username is None:
        return Proxy(address, None)
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return Proxy(address, f"Basic {base64.b64encode(credentials).decode()}")
