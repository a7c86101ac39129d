"""The extension that serves metrics in the process of a crawl."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import NotConfigured

from scrapy_durable.config import Config
from scrapy_durable.engine import is_at_a_command, is_closing
from scrapy_durable.exceptions import FrontierUnavailable, cause
from scrapy_durable.metrics.values import process_values
from scrapy_durable.scheduler import frontier_scheduler
from scrapy_durable.status.looking import build_looker

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler

    from scrapy_durable.metrics.values import Values
    from scrapy_durable.status.report import Report

logger = logging.getLogger(__name__)


class Metrics:
    """Serves the crawl's metrics and this process's own, at `DURABLE_METRICS_HOST` and `DURABLE_METRICS_PORT`.

    A port that is in use costs the metrics, not the crawl: of two workers on a machine with the same settings, the
    second has none of its own, and the first shows the crawl of both.
    """

    def __init__(self, crawler: Crawler, host: str, port: int) -> None:
        """Raises `ConfigurationError` when `prometheus_client` is not there."""
        from scrapy_durable.metrics.server import MetricsServer  # loads a web server, which few need

        self._crawler = crawler
        self._host = host
        self._port = port
        self._looker = build_looker(crawler.settings)
        self._last: Report | None = None
        self._server = MetricsServer(self._look, self._own, process=True)
        crawler.signals.connect(self._on_opened, signals.spider_opened)
        crawler.signals.connect(self._on_closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raises `NotConfigured` where no port is set, and for `scrapy fetch` and the like."""
        config = Config.from_settings(crawler.settings)
        if config.metrics_port is None or is_at_a_command(crawler):
            raise NotConfigured
        return cls(crawler, config.metrics_host, config.metrics_port)

    async def _on_opened(self) -> None:
        try:
            address = await self._server.start(self._host, self._port)
        except OSError as error:
            logger.warning("No metrics at %s:%d: %s", self._host, self._port, cause(error))
        else:
            logger.info("Metrics are at %s", address)

    async def _on_closed(self) -> None:
        await self._server.stop()

    async def _look(self) -> Report:
        """While the spider is being closed, what was seen last: the frontier may be closed by then."""
        scheduler = frontier_scheduler(self._crawler)
        if scheduler is not None and not is_closing(self._crawler):
            self._last = await self._looker.look(scheduler.frontier)
        if self._last is None:
            raise FrontierUnavailable("the crawl has not begun, or is over")
        return self._last

    def _own(self) -> Values:
        return process_values(self._crawler.stats.get_stats())
