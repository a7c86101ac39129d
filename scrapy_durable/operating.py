"""What `scrapy queue push`, `pause` and `resume` do to a crawl; each returns a line to be shown.

Each raises `OperationRefused`, `ConfigurationError` where the spider cannot be made, and what the frontier raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.spiderloader import get_spider_loader
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_durable.exceptions import CodecError, ConfigurationError, DurableError
from scrapy_durable.frontier import codec
from scrapy_durable.frontier.contract import Entry, Pause
from scrapy_durable.keys import Keys
from scrapy_durable.status.condition import BY_HAND
from scrapy_durable.status.life import key_of
from scrapy_durable.status.words import duration

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings

    from scrapy_durable.frontier.contract import Frontier, Key
    from scrapy_durable.frontier.views import Element, Listing

USUAL_PAUSE, LONGEST_PAUSE = 3600.0, 86_400.0
"""Seconds. A pause that is forgotten ends by itself, and before a crawl takes it for a damage of its queue."""
_NAMED = 10
"""Sites that are named where one is not known."""


class OperationRefused(DurableError):
    """Raised when what an operator has asked for cannot be done, and nothing has changed."""


async def push(
    frontier: Frontier, settings: BaseSettings, spider: str, url: str, *, callback: str | None, priority: int
) -> str:
    """Queue a `GET` of that address, for the spider's method of that name; None: `parse`."""
    if (await frontier.status()).crawl_id is None:
        raise OperationRefused("there is no crawl")
    entry = _entry(settings, spider, url, callback, priority)
    found = await frontier.find(entry.key)
    if found is not None and found.state in ("queued", "delayed") and found.callback != entry.callback:
        raise OperationRefused(
            f"{url} is queued already, for the method {found.callback}: nothing has changed"
        )
    if await frontier.push([entry]):
        raise OperationRefused(f"{url} was queued before, and is leased, done or dead: nothing has changed")
    return f"queued: {url}"


async def pause(frontier: Frontier, host: str, seconds: float) -> str:
    """Have no worker lease anything of the site for so long."""
    await _known(frontier, host)
    if not 0 < seconds <= LONGEST_PAUSE:
        raise OperationRefused(f"--for: more than 0 and at most {LONGEST_PAUSE:.0f} seconds, not {seconds:g}")
    await frontier.pause(host, Pause(seconds, BY_HAND))
    status = await frontier.status()
    wait = status.waits.get(host)
    said = f"{host} is paused for at least {duration(seconds)}"  # nothing of it is due, so that no pause is shown
    if wait is not None and wait.why == "pause" and wait.until is not None:
        left = wait.until - status.now
        if wait.reason != BY_HAND or left > seconds:
            said = f"{host} is paused for longer already, for {duration(left)}: {wait.reason or 'paused'}"
        else:
            said = f"{host} is paused for {duration(seconds)}"
    return f"{said}; what workers hold already is asked all the same"


async def resume(frontier: Frontier, host: str) -> str:
    """End what `pause` has begun. A site that has asked for a pause itself keeps it."""
    await _known(frontier, host)
    if await frontier.resume(host, BY_HAND):
        return f"{host} goes on"
    wait = (await frontier.status()).waits.get(host)
    if wait is not None and wait.why == "pause":
        raise OperationRefused(f"{host} was not paused by hand, and waits: {wait.reason or 'paused'}")
    raise OperationRefused(f"{host} is not paused")


async def find(frontier: Frontier, settings: BaseSettings, spider: str, named: str) -> Element:
    """The request of that key, or the one that a `GET` of that address is."""
    status = await frontier.status()
    if status.crawl_id is None:
        raise OperationRefused("there is no crawl")
    key = key_of(named)
    if key is None:
        crawler = _crawler(settings, spider)
        try:
            key = _key(crawler, Request(named))
        except ValueError as error:
            raise OperationRefused(f"neither a key nor an address: {named}") from error
    found = await frontier.find(key)
    if found is None:
        raise OperationRefused(
            f"no request of this crawl is a GET of {named}; one with a body, or with dont_filter, has another key, "
            "which status --json and dead --json tell"
        )
    return found


async def list_requests(frontier: Frontier, state: str, limit: int, slot: str, callback: str) -> Listing:
    """The first requests in that state, of a site and a method ("": of all)."""
    if slot:
        await _known(frontier, slot)
    if callback and callback not in (await frontier.status()).callbacks:
        raise OperationRefused(f"this crawl has no requests for the method {callback}")
    return await frontier.listing(state, limit, slot, callback)


async def _known(frontier: Frontier, host: str) -> None:
    """Raise `OperationRefused` for a site of which the crawl has no requests: a pause of it would do nothing."""
    status = await frontier.status()
    if status.crawl_id is None:
        raise OperationRefused("there is no crawl")
    if host not in status.slots:
        names = sorted(status.slots)
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        raise OperationRefused(
            f"this crawl has no requests to {host}; it has to: {', '.join(names[:_NAMED])}{more}"
        )


def _entry(settings: BaseSettings, name: str, url: str, callback: str | None, priority: int) -> Entry:
    """As the scheduler of the spider would have it."""
    if not _host(url):
        raise OperationRefused(f"not an address with a host: {url}")
    crawler = _crawler(settings, name)
    try:
        spider: Spider = crawler.spidercls.from_crawler(crawler)
    except Exception as error:  # whatever a project's own code may raise
        said = f"the spider {name} cannot be made without arguments: {type(error).__name__}: {error}"
        raise ConfigurationError(said) from error
    method = getattr(spider, callback or "parse", None)
    if not callable(method) or (callback or "").startswith("_"):
        raise OperationRefused(f"the spider {name} has no method {callback}")
    try:
        request = Request(url, callback=method if callback else None, priority=priority)
        payload = codec.encode(request, spider)
        codec.decode(payload, spider)
    except (CodecError, ValueError) as error:
        raise OperationRefused(f"the spider {name} does not take it: {error}") from error
    return Entry(
        key=_key(crawler, request),
        slot=_host(request.url),
        callback=callback or "parse",
        payload=payload,
        priority=priority,
    )


def _host(url: str) -> str:
    """Empty where there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _crawler(settings: BaseSettings, spider: str) -> Crawler:
    """With the settings of its crawl: also those of the spider and of all add-ons."""
    try:
        kind = get_spider_loader(settings).load(spider)
    except KeyError as error:
        raise ConfigurationError(f"this project has no spider {spider}") from error
    crawler = Crawler(kind, Settings(settings))
    try:
        crawler.addons.load_settings(crawler.settings)
    except ConfigurationError:
        raise
    except Exception as error:  # whatever a project's own code may raise
        raise ConfigurationError(f"an add-on cannot be used: {type(error).__name__}: {error}") from error
    return crawler


def _key(crawler: Crawler, request: Request) -> Key:
    """As the scheduler of the crawler would have it."""
    fingerprinter = build_from_crawler(load_object(crawler.settings["REQUEST_FINGERPRINTER_CLASS"]), crawler)
    return Keys(fingerprinter.fingerprint, "", derive=False).of(request)
