"""The one line: `ADDONS = {"scrapy_durable.Addon": 500}` has any project's crawl survive what is killed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.settings import get_settings_priority
from scrapy.utils.misc import load_object

from scrapy_durable.config import Config
from scrapy_durable.exceptions import ConfigurationError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

SCHEDULER = "scrapy_durable.scheduler.FrontierScheduler"
_ASYNCIO = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
_REPLACED = {
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy.downloadermiddlewares.retry.RetryMiddleware": "scrapy_durable.retry.middleware.RetryMiddleware",
    },
    "EXTENSIONS": {
        "scrapy.extensions.throttle.AutoThrottle": "scrapy_durable.throttle.extension.Throttle",
        "scrapy.extensions.feedexport.FeedExporter": "scrapy_durable.feeds.DurableFeeds",
        "scrapy.extensions.spiderstate.SpiderState": "scrapy_durable.spider_state.SpiderState",
    },
}
"""Components of Scrapy's, and what stands in their place: at their place in the order, switched off where they are."""
_ADDED = {
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy_durable.turns.TurnsMiddleware": 5,
        "scrapy_durable.retry.middleware.LastWordMiddleware": 10,
    },
    "SPIDER_MIDDLEWARES": {
        "scrapy_durable.parents.ParentsMiddleware": 0,
        "scrapy_durable.retry.middleware.NoAnswerMiddleware": 100,
    },
    "EXTENSIONS": {
        "scrapy_durable.console.ConsoleLog": 0,
        "scrapy_durable.any_project.AnyProject": 200,
        "scrapy_durable.runs.extension.RunHistory": 210,
        "scrapy_durable.metrics.extension.Metrics": 220,
    },
}
"""Components beside Scrapy's, with their place in the order."""


class Addon:
    """Puts the core into a project: the scheduler, retry with a place to wait, one pace for all workers, the verdict.

    What the project has set itself stays as it is. An own `SCHEDULER` switches all of this off, and that is said. The
    state is kept in `JOBDIR`, or on Redis when `REDIS_URL` is set.
    """

    def update_settings(self, settings: BaseSettings) -> None:
        """Called by Scrapy before any component is built. Raises `ConfigurationError` for a setting that is refused."""
        if not self._has_scheduler(settings):
            return
        reactor = settings["TWISTED_REACTOR"]
        if reactor != _ASYNCIO or not settings.getbool("TWISTED_REACTOR_ENABLED", True):
            raise ConfigurationError(
                f"TWISTED_REACTOR: {_ASYNCIO} is needed (Scrapy's default), not {reactor}"
            )
        Config.from_settings(settings)
        for name, replaced in _REPLACED.items():
            for theirs, ours in replaced.items():
                _replace(settings, name, theirs, ours)
        for name, added in _ADDED.items():
            for component, order in added.items():
                settings[name].setdefault(component, order, "addon")

    @staticmethod
    def _has_scheduler(settings: BaseSettings) -> bool:
        """Put the scheduler in, unless the project has one of its own."""
        settings.set("SCHEDULER", SCHEDULER, "addon")
        own = settings["SCHEDULER"]
        if own != SCHEDULER and load_object(own) is not load_object(SCHEDULER):
            logger.warning(
                "This project sets SCHEDULER to %s, so its crawl does not survive being killed", own
            )
            return False
        return True


def _replace(settings: BaseSettings, name: str, theirs: str, ours: str) -> None:
    """One component for another, where the project has left it or put it; one that it has switched off stays off."""
    components = settings[name]
    found = load_object(theirs)
    written = next((key for key in components if load_object(key) is found), theirs)
    order = components[written] if written in components else settings[f"{name}_BASE"].get(theirs)
    if order is not None and ours not in components:
        priority = max(components.getpriority(written) or 0, get_settings_priority("addon"))
        components.set(written, None, priority)
        components.set(ours, order, priority)
