"""Looks at a crawl, once or again and again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from scrapy_durable.config import Config
from scrapy_durable.frontier.build import is_shared, slot_limits
from scrapy_durable.status.rates import Window
from scrapy_durable.status.report import Report, report_of

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scrapy_durable.frontier.contract import Frontier


class Looker:
    """Reads what there is to see of a frontier, and compares it with what it has read before. Changes nothing."""

    def __init__(self, *, lease_seconds: float, configured: Mapping[str, str]) -> None:
        """`lease_seconds` and `configured`: of the workers, as far as whoever looks knows."""
        self._lease_seconds = lease_seconds
        self._configured = configured
        self._window = Window()

    async def look(self, frontier: Frontier, leases: int = 0) -> Report:
        """As it is now, with so many of the oldest leases. Raises `FrontierError`."""
        status = await frontier.status(leases)
        self._window.add(status)
        window = self._window
        return report_of(
            status,
            window.rates,
            self._lease_seconds,
            self._configured,
            recent=window.recent,
            before=window.before,
        )


def build_looker(settings: BaseSettings) -> Looker:
    """Raises `ConfigurationError` when a setting is refused."""
    return Looker(
        lease_seconds=Config.from_settings(settings).lease_seconds,
        configured=configured(settings),
    )


def configured(settings: BaseSettings) -> dict[str, str]:
    """What decides how fast a crawl of these settings is, in words."""
    config = Config.from_settings(settings)
    usual, others = slot_limits(settings)
    pace = f"one request in {usual.interval:g} s" if usual.interval else "no interval"
    cap = f"{usual.cap} requests" if usual.cap else "any number of requests"
    throttle = ", AutoThrottle" if settings.getbool("AUTOTHROTTLE_ENABLED") else ""
    own = f", {len(others)} sites with limits of their own" if others else ""
    return {
        "queue": "Redis" if is_shared(settings) else "a file in JOBDIR",
        "each site": f"{cap} in flight, {pace}{throttle}{own}",
        "each worker": f"{settings.getint('CONCURRENT_REQUESTS')} requests at once",
        "leases": f"{config.lease_seconds:g} s each, {config.max_attempts} attempts",
        "robots.txt": "obeyed" if settings.getbool("ROBOTSTXT_OBEY") else "not asked",
    }
