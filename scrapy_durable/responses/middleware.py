"""Between spider and network: what is stored is not asked for again, and nothing is asked for twice at once."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import CloseSpider, IgnoreRequest, NotConfigured
from scrapy.http import TextResponse

from scrapy_durable.config import Config
from scrapy_durable.engine import downloading
from scrapy_durable.exceptions import DurableError
from scrapy_durable.identity import crawl_clock, crawl_identity
from scrapy_durable.responses.build import build_response_store
from scrapy_durable.responses.contract import StoredResponse
from scrapy_durable.responses.keeping import Keeping, LastAnswers
from scrapy_durable.signals import request_shares_download, shared_download_failed

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_durable.responses.contract import ResponseStore

logger = logging.getLogger(__name__)

STORE_KEY = "store_key"
"""`meta` key: the key under which the answer is kept, and served to later requests."""
KEPT = "kept_for_crawl"
"""`meta` key: the answer is kept for the crawl to be parsed again from, and never served: each crawl asks anew."""
FETCHED_AT = "fetched_at"
"""`meta` key, set on the way back of an answer that is kept: when it came, in seconds since the epoch."""

_CLAIM = 10.0
"""Seconds that other workers wait for this one's download at most, or `DURABLE_LEASE_SECONDS` if that is less; then one
of them asks for itself.
"""
_POLL_INTERVAL = 0.1
"""Seconds between two look-ups in the store for another worker's answer."""
_DOUBT = 1.0
"""Seconds after which a request that waits for another's download looks whether that is still under way."""


class SharedDownloadFailed(IgnoreRequest):
    """Raised to end the way of a request that will be leased again, in its turn."""


class ResponseStoreMiddleware:
    """Answers a request with `meta["store_key"]` from the response store, or has its answer kept there.

    Requests for the same key that are under way in any worker share one download: the later ones wait and
    are answered from the store. When the download failed, one of those that waited tries for itself: in its
    turn, if the scheduler has given its turn to another meanwhile, else at once. Of the answers
    with status 200 or 404, only those are kept that the spider's `is_answer(response)` accepts, when it has one, so
    that an error with status 200 is not served for as long as an answer is good. What its `derived_from(response)`
    makes of an answer, bytes in a form of its own, is kept beside it.

    A request with `meta["kept_for_crawl"]` always goes to the site. When `DURABLE_RESPONSES_KEEP` is not 0 its answer
    is kept for this crawl, with the time that its items have. A spider may name it, or refuse it with None:
    `name_kept(request, response, crawl_id, fetched_at)`; a name holds the crawl's id.

    Off without `DURABLE_RESPONSES_DIR`.

    Stats: `responses/hit`, `responses/shared` (waited for another's download), `responses/stored`,
    `responses/refused`, `responses/kept`, `responses/kept_lost`, `responses/not_signed`.
    """

    def __init__(self, crawler: Crawler, store: ResponseStore) -> None:
        self._crawler = crawler
        config = Config.from_settings(crawler.settings)
        self._max_age = config.responses_max_age
        self._clock = crawl_clock(crawler)
        self._claim = min(_CLAIM, config.lease_seconds)
        self._keeps = config.responses_keep > 0
        self._crawl_id = ""
        self.store = store
        self._under_way: dict[str, asyncio.Future[None]] = {}
        self._owners: dict[str, Request] = {}
        self._keeping = Keeping()
        self._last = LastAnswers()
        crawler.signals.connect(self._open, signals.spider_opened)
        crawler.signals.connect(self._close, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `NotConfigured` when nothing is to be stored, `ConfigurationError` when a setting is refused."""
        store = build_response_store(
            crawler.settings,
            spider=crawler.spidercls.name,
            clock=crawl_clock(crawler),
            on_not_signed=partial(crawler.stats.inc_value, "responses/not_signed"),
        )
        if store is None:
            raise NotConfigured
        return cls(crawler, store)

    @property
    def received(self) -> int:
        """Answers that have been on their way into the store so far; see `DurableStore`."""
        return self._keeping.received

    @property
    def durable(self) -> int:
        """Those that have got there, or are lost."""
        return self._keeping.durable

    async def flush(self) -> None:
        """Wait for those on their way."""
        await self._keeping.flush()

    async def process_request(self, request: Request) -> Response | None:
        """The stored response; None when the caller has to ask the site. Raises `SharedDownloadFailed`."""
        key = request.meta.get(STORE_KEY)
        if key is None:
            return None
        stat, gave_way = "responses/hit", False
        waits_until = math.inf
        while True:
            stored, is_owner, claimed = await self._look(key, request)
            if stored:
                self._crawler.stats.inc_value(stat)
                return TextResponse(
                    stored.url, status=stored.status, body=stored.body, flags=["stored"], request=request
                )
            stat = "responses/shared"
            if not is_owner:
                gave_way = gave_way or self._tell(request_shares_download, request)
                if (other := self._under_way.get(key)) and not (await asyncio.wait([other], timeout=_DOUBT))[
                    0
                ]:
                    self._let_others_go_on_if_dropped(key)
                continue
            if not claimed and time.monotonic() >= waits_until:
                return None
            if claimed:
                if not gave_way:
                    return None
                await self.store.disclaim(key)
                self._let_others_go_on(key, request)
                self._tell(shared_download_failed, request)
                raise SharedDownloadFailed("another's download of the same brought no answer")
            self._let_others_go_on(key, request)
            gave_way = gave_way or self._tell(request_shares_download, request)
            # A claim ends by itself, with an answer that can be read or without: one that does not is no worker's.
            waits_until = min(waits_until, time.monotonic() + 2 * self._claim)
            await asyncio.sleep(_POLL_INTERVAL)

    async def _look(self, key: str, request: Request) -> tuple[StoredResponse | None, bool, bool]:
        """What is stored; else whether this request is now the one that others here wait for, and whether it has the
        claim. Both are asked for at once: a store that is far away takes its time for each.
        """
        if (last := self._last.get(key, self._clock() - self._max_age)) is not None:
            return last, False, False
        if key in self._under_way:
            return await self.store.get(key, self._max_age), False, False
        self._under_way[key] = asyncio.get_running_loop().create_future()
        self._owners[key] = request
        stored, claimed = await asyncio.gather(
            self.store.get(key, self._max_age), self.store.claim(key, self._claim, self._max_age)
        )
        if stored:
            if claimed:
                await self.store.disclaim(key)
            self._let_others_go_on(key, request)
        return stored, True, claimed

    def _tell(self, signal: object, request: Request) -> bool:
        """Send the signal; True when somebody has taken care of the request."""
        return any(
            result is True
            for _, result in self._crawler.signals.send_catch_log(signal=signal, request=request)
        )

    async def process_response(self, request: Request, response: Response) -> Response:
        """Keep the response if it is an answer, and let those go on that wait for it."""
        if KEPT in request.meta:
            await self._keep(request, response)
            return response
        key = request.meta.get(STORE_KEY)
        if key is None or "stored" in response.flags:
            return response
        try:
            if response.flags or response.status not in (200, 404) or not self._is_answer(response):
                self._crawler.stats.inc_value("responses/refused")
                await self.store.disclaim(key)
            else:
                derived = self._derived(response)
                answer = StoredResponse(
                    key, response.status, response.url, self._clock(), response.body, derived
                )
                self._last.add(answer)
                await self._keeping.begin(self._put(answer))
        finally:
            self._let_others_go_on(key, request)
        return response

    async def _put(self, answer: StoredResponse) -> None:
        await self.store.put(
            answer.key,
            answer.status,
            answer.url,
            answer.body,
            fetched_at=answer.fetched_at,
            derived=answer.derived,
        )
        self._crawler.stats.inc_value("responses/stored")

    async def _keep(self, request: Request, response: Response) -> None:
        fetched_at = request.meta[FETCHED_AT] = self._clock()
        if not self._keeps or response.flags or response.status != 200:
            return
        self._crawl_id = self._crawl_id or crawl_identity(self._crawler).crawl_id
        name = self._name_kept(request, response, fetched_at)
        if name is None:
            return  # the callback says so too, and has it asked for again
        await self._keeping.begin(
            self._put_page(StoredResponse(name, 200, response.url, fetched_at, response.body))
        )

    async def _put_page(self, page: StoredResponse) -> None:
        kept = await self.store.put(
            page.key, 200, page.url, page.body, fetched_at=page.fetched_at, crawl_id=self._crawl_id
        )
        self._crawler.stats.inc_value("responses/kept" if kept else "responses/kept_lost")

    def _is_answer(self, response: Response) -> bool:
        judge: Callable[[Response], bool] | None = getattr(self._crawler.spider, "is_answer", None)
        return judge is None or judge(response)

    def _derived(self, response: Response) -> bytes:
        make: Callable[[Response], bytes] | None = getattr(self._crawler.spider, "derived_from", None)
        return b"" if make is None else make(response)

    def _name_kept(self, request: Request, response: Response, fetched_at: float) -> str | None:
        name: Callable[..., str | None] | None = getattr(self._crawler.spider, "name_kept", None)
        if name is not None:
            return name(request, response, self._crawl_id, fetched_at)
        return f"{self._crawl_id}/{round(fetched_at * 1e6):017d}/{response.url}"

    async def process_exception(self, request: Request, exception: Exception) -> None:
        """The download failed: one of those that wait may try for itself."""
        key = request.meta.get(STORE_KEY)
        if key is not None and self._owners.get(key) is request:
            self._let_others_go_on(key, request)
            await self.store.disclaim(key)

    def _let_others_go_on_if_dropped(self, key: str) -> None:
        """A middleware that raises on a response's way back tells nobody; then its request is under way no more."""
        owner = self._owners.get(key)
        if owner is not None and owner not in downloading(self._crawler):
            self._let_others_go_on(key, owner)

    def _let_others_go_on(self, key: str, request: Request) -> None:
        if self._owners.get(key) is request:
            del self._owners[key]
            self._under_way.pop(key).set_result(None)

    async def _open(self, **_: Any) -> None:
        try:
            await self.store.open()
        except DurableError as error:
            logger.critical("%s", error)
            raise CloseSpider("response_store_unusable") from error

    async def _close(self, **_: Any) -> None:
        await self.flush()
        await self.store.close()


def response_store(crawler: Crawler) -> ResponseStore:
    """The response store of a running crawl, for components that look up many keys at once."""
    middleware = crawler.get_downloader_middleware(ResponseStoreMiddleware)
    if middleware is None:
        raise RuntimeError(
            "there is no response store: DURABLE_RESPONSES_DIR is not set, or its middleware is missing"
        )
    return middleware.store
