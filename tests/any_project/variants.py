"""Where a crawl's state is kept: the add-on and stock Scrapy, in a directory and on Redis, with one worker or three."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Variant:
    """`settings` are added to a stock project's; `redis` says that they need a `REDIS_URL` too."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    workers: int = 1
    redis: bool = False

    @property
    def steady(self) -> Variant:
        """The same with leases that no worker loses because the machine stands still. Those of one that is killed are
        ended by `Project.end_leases`.
        """
        return replace(self, settings={**self.settings, "DURABLE_LEASE_SECONDS": STEADY})

    def __str__(self) -> str:
        return self.name


STEADY = 60
"""Seconds that a lease holds where it is counted how often something is asked for."""
_ADDON = {"ADDONS": {"scrapy_durable.Addon": 500}}
_SHARED = {**_ADDON, "DURABLE_LEASE_SECONDS": 2}
"""Short, so that the others need not wait long for what a killed worker has leased. What is leased by one that
stands still for as long is done twice.
"""

ALONE = Variant("jobdir", {**_ADDON, "JOBDIR": "job"})
SHARED = (
    Variant("redis-1", _SHARED, redis=True),
    Variant("redis-3", _SHARED, workers=3, redis=True),
)
DURABLE = [
    (spider, variant)
    for spider in ("products", "forms", "quotes", "pushed")
    for variant in (ALONE, *SHARED)
    if variant.redis or spider != "pushed"
]
"""Each spider with each variant; what is pushed to Redis is kept there."""

EXACT = [
    (spider, variant.steady) for spider, variant in DURABLE if variant.workers == (3 if variant.redis else 1)
]
"""Each spider alone, and with three workers, where it is counted how often something is asked for."""

STOCK_JOBDIR = Variant("stock-jobdir", {"JOBDIR": "job"})
STOCK_REDIS = Variant(
    "scrapy-redis",
    {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "SCHEDULER_PERSIST": True,
        "MAX_IDLE_TIME_BEFORE_CLOSE": 2,
    },
    redis=True,
)
STOCK = [(spider, STOCK_JOBDIR) for spider in ("products", "forms", "quotes")] + [("pushed", STOCK_REDIS)]
STOCK_OF = dict(STOCK)
"""How each spider is crawled by Scrapy as it comes."""
