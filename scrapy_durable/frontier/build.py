"""Which frontier a crawl uses: Redis when `REDIS_URL` is set, a file when `JOBDIR` is, else memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from scrapy_durable.config import Config
from scrapy_durable.connection import redis_client
from scrapy_durable.exceptions import ConfigurationError, FrontierError
from scrapy_durable.frontier.contract import Frontier, SlotLimit
from scrapy_durable.frontier.sealed import Seal, SealedFrontier
from scrapy_durable.frontier.sqlite import SqliteFrontier

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scrapy_durable.frontier.redis import RedisFrontier


def is_shared(settings: BaseSettings) -> bool:
    """True when other processes may work on the same frontier at the same time."""
    return bool(settings.get("REDIS_URL"))


def is_resumable(settings: BaseSettings) -> bool:
    """True when the frontier outlives the process."""
    return is_shared(settings) or bool(settings.get("JOBDIR"))


def make_jobdir(settings: BaseSettings) -> Path | None:
    """The directory that `JOBDIR` names, made when missing; None when it is not set. Raises
    `ConfigurationError`.
    """
    if not settings.get("JOBDIR"):
        return None
    jobdir = Path(settings["JOBDIR"]).absolute()
    try:
        jobdir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"JOBDIR: {jobdir} cannot be made: {error.strerror or error}") from error
    return jobdir


def slot_limits(settings: BaseSettings) -> tuple[SlotLimit, dict[str, SlotLimit]]:
    """What Scrapy's settings say of a site, and of the slots that are named in `DOWNLOAD_SLOTS`."""
    usual = SlotLimit(
        settings.getint("CONCURRENT_REQUESTS_PER_IP") or settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN"),
        settings.getfloat("DOWNLOAD_DELAY"),
    )
    return usual, {
        slot: SlotLimit(int(own.get("concurrency", usual.cap)), float(own.get("delay", usual.interval)))
        for slot, own in settings.getdict("DOWNLOAD_SLOTS").items()
    }


async def check_frontier(settings: BaseSettings, *, spider: str) -> None:
    """See before anything starts that a Redis which is set is there, and fit.

    Raises `ConfigurationError`. A Redis that goes away later is waited for.
    """
    frontier = _plain_frontier(settings, "start", spider)
    try:
        if is_shared(settings):
            await cast("RedisFrontier", frontier).check()
    except (FrontierError, ConfigurationError) as error:
        raise ConfigurationError(f"REDIS_URL: {error}") from error
    finally:
        await frontier.close()


def build_frontier(settings: BaseSettings, worker: str, *, spider: str) -> Frontier:
    """The frontier of the spider of that name, not begun yet.

    On Redis, keys start with `SCHEDULER_QUEUE_KEY` (with `%(spider)s` filled in), by default with the
    spider's name. With `DURABLE_QUEUE_KEY`, what is queued is signed. Raises `ConfigurationError` when a setting is
    refused.
    """
    prefix = prefix_of(settings, spider)
    frontier = _plain_frontier(settings, worker, prefix)
    key = Config.from_settings(settings).queue_key
    return SealedFrontier(frontier, Seal(key, f"{spider}\0{prefix}")) if key else frontier


def prefix_of(settings: BaseSettings, spider: str) -> str:
    """What is in the braces that the keys on Redis begin with."""
    return (settings.get("SCHEDULER_QUEUE_KEY") or "%(spider)s") % {"spider": spider}


def _plain_frontier(settings: BaseSettings, worker: str, prefix: str) -> Frontier:
    config = Config.from_settings(settings)
    usual, limits = slot_limits(settings)
    client = redis_client(settings)
    if client is not None:
        from scrapy_durable.frontier.redis import RedisFrontier  # here: see `redis_client`
        from scrapy_durable.frontier.redis_server import RedisKeys

        return RedisFrontier(
            RedisKeys(client, prefix=prefix),
            worker=worker,
            lease_seconds=config.lease_seconds,
            max_attempts=config.max_attempts,
            limits=limits,
            default_limit=usual,
        )
    jobdir = make_jobdir(settings)
    return SqliteFrontier(
        jobdir / "frontier.sqlite" if jobdir else None,
        worker=worker,
        lease_seconds=config.lease_seconds,
        max_attempts=config.max_attempts,
        limits=limits,
        default_limit=usual,
    )
